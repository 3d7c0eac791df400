"""Every error: codes with their statuses, and classes with what their docstrings say.

`MEANINGS` has one sentence for each code that has no class of its own; a code without one, and a
sentence without its code, is an error here.
"""

import importlib
import pkgutil
import re
from collections.abc import Iterator, Mapping

import sits
from reference_pages._codes import find_codes
from reference_pages._markdown import MARK, first_paragraph, make_table
from sits._errors import SitsError
from sits.gateway._errors import _RETRY_AFTER_S

_HEAD = f"""# Errors

{MARK}

Every error has the form of OpenAI's API, as an HTTP answer and as the last event of a stream that
broke off: `{{"error": {{"message", "type", "param", "code"}}}}`. A `code` is stable; a message may
change, and says what was given, what was expected and what to do. *Again* means that a later try
may do better; the answer then has `Retry-After`.

## Answers of units' endpoints

| code | status | again | meaning |
|---|---|---|---|
"""

_CLASSES = """
## Error classes

All are `SitsError`s. The control API answers those of `spec`, `models`, `store` and `control` with
the code and status given here; the others end a command, a process's start, or become one of the
codes above.
"""

MEANINGS: Mapping[str, str] = {
    "body_timeout": "the body was not there in 30 s",
    "content_filtered": "an endpoint elsewhere withheld the answer",
    "context_length_exceeded": "the prompt does not fit; the message has both numbers",
    "control_unavailable": "the control plane is starting again; units that run go on serving",
    "draining": "the instance is ending, and no other could take over",
    "duplicate_request": "an instance was given one request id twice: a fault of ours",
    "endpoint_failed": "no endpoint elsewhere could answer; the message says why of each",
    "endpoint_lost": "an endpoint elsewhere broke off in the middle of its answer",
    "deadline_exceeded": "the answer was not whole in the time that its request gave it",
    "engine_error": "the engine failed; the log has the request's id",
    "header_timeout": "the headers were not there in 10 s",
    "header_too_large": "the headers are longer than 64 KiB",
    "hold_timeout": "no instance had room in time; the message has the unit's state",
    "instance_lost": "the instance ended before the answer did. A stream that has begun is never "
    "made again; an answer in one document is, at most twice",
    "internal_error": "a fault of ours; the log has the request's id",
    "invalid_api_key": "no key, or not one of this platform's",
    "invalid_http": "no HTTP/1.1 request, or a header twice that may be there once",
    "invalid_json": "the body is no JSON object",
    "invalid_prompt": "the template fails on these inputs, or there is nothing to work on",
    "invalid_request": "an endpoint elsewhere refused the request; the message is its own",
    "invalid_value": "a field's value; `param` names the field",
    "loop_detected": "a unit's endpoint elsewhere leads back to it: the request was passed on more "
    "than 4 times",
    "method_not_allowed": "the route takes another method, which `Allow` names",
    "misdirected_request": "the request's `Host` is not served here (setting `allowed_hosts`)",
    "missing_parameter": "a field is missing; `param` names it",
    "model_not_found": "no such unit for this key",
    "no_prompt_template": "the unit has no template to fill",
    "not_found": "no such route",
    "not_ready": "the gateway has just started and knows no units yet",
    "overloaded": "the instance, or every endpoint elsewhere, has too much to do",
    "queue_full": "too many requests wait for the unit already (setting `queue_limit`)",
    "request_too_large": "the body is longer than `max_body_bytes`",
    "secret_missing": "no endpoint elsewhere has its key; the message says where to put them",
    "server_shutting_down": "the platform is ending",
    "timeout": "the answer did not begin, or go on, in time",
    "too_many_connections": "too many connections are open (setting `max_connections`)",
    "unit_unavailable": "the unit cannot serve; the message says why",
    "unknown_parameter": "a field that is not known",
    "unsupported_dimensions": "the model's vectors have another length",
    "unsupported_parameter": "a field, or a kind of content, that cannot be honoured here yet",
    "wrong_endpoint": "the unit generates text and was asked for vectors, or the other way round",
}

# Entries of processes, what Alembic alone can import, and what needs the engine's library.
_NOT_IMPORTED = re.compile(r"__main__|_migrations|llama|runtime\.prepare\._")


def make_errors_page() -> str:
    """Return the whole document.

    Raises:
        ValueError: a code has no meaning, or a meaning no code; a class says nothing of itself.
    """
    codes = find_codes()
    if odd := sorted(codes.keys() ^ MEANINGS.keys()):
        raise ValueError(
            f"{odd} stand either in the code or in MEANINGS of reference_pages/_errors.py; "
            "expected each in both: write, or remove, their meaning"
        )
    rows = "".join(
        f"| `{code}` | {', '.join(map(str, sorted(statuses)))} "
        f"| {'yes' if statuses & _RETRY_AFTER_S.keys() else ''} | {MEANINGS[code]} |\n"
        for code, statuses in codes.items()
    )
    columns = ("class", "code", "status", "again", "meaning")
    return _HEAD + rows + _CLASSES + make_table(columns, _class_rows())


def find_classes() -> list[type[SitsError]]:
    """Return every class of error that there is, by package, each after its base."""
    for module in pkgutil.walk_packages(sits.__path__, "sits."):
        if not _NOT_IMPORTED.search(module.name):
            importlib.import_module(module.name)
    own = [each for each in _below(SitsError) if each.__module__.startswith("sits.")]
    return sorted(own, key=_package)


def _below(root: type[SitsError]) -> Iterator[type[SitsError]]:
    for each in sorted(root.__subclasses__(), key=lambda one: one.__name__):
        yield each
        yield from _below(each)


def _package(error: type[SitsError]) -> str:
    """Return the package that exports, or owns, a class: `runtime.remote`."""
    parts = error.__module__.split(".")[1:]
    return ".".join(part for part in parts if not part.startswith("_"))


def _class_rows() -> Iterator[tuple[str, ...]]:
    for error in find_classes():
        meaning = first_paragraph(error.__doc__)
        if not meaning:
            raise ValueError(f"{error.__module__}.{error.__name__} has no docstring: write one")
        package = f"{_package(error)}." if _package(error) else ""
        status, again = str(error.http_status), "yes" if error.retryable else ""
        name = f"`{package}{error.__name__}`"
        yield name, f"`{error.code}`", status, again, meaning.rstrip(".")
