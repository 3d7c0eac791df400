"""Asks a model hub: what a repository holds, and the bytes of its files.

huggingface_hub does the talking: its client, its addresses, redirects, credentials and errors.
Not its downloads: these keep what has come only while one process lives, and lose up to 10 MB
each time a connection breaks (`docs/decisions/0012-hub-client.md`). It is imported here, and only
when the hub is asked.

Invariants: the token (environment `HF_TOKEN`) goes to the hub and to no host that it redirects
to, and is in no message. Every wait for bytes has a limit.
"""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any

from sits._version import __version__
from sits.models._choose import HubFile
from sits.models._errors import ModelError, ModelUnavailable
from sits.spec import ModelReference

_PART_BYTES = 64 << 10
_READ_TRIES = 3
# What a hub asks for is believed up to here.
_MAX_WAIT_S = 3600.0


@dataclass(frozen=True)
class HubSettings:
    """How the hub is asked.

    Attributes:
        endpoint: its address; empty: `HF_ENDPOINT`, or https://huggingface.co.
        connect_s: seconds to wait for a connection or for the beginning of an answer.
        pin_s: seconds for all that pinning one model asks.
        stall_s: seconds without a byte after which a download counts as stalled.
        tries: how often a download is tried again without getting further.
        pause_s: seconds before the second such try; each further one waits twice as long.
        busy_s: the longest that a pull waits, all together, because the hub says that it is busy.
    """

    endpoint: str = ""
    connect_s: float = 10.0
    pin_s: float = 20.0
    stall_s: float = 30.0
    tries: int = 4
    pause_s: float = 0.5
    busy_s: float = 300.0


@dataclass(frozen=True)
class Repository:
    """A repository at one commit."""

    id: str
    commit: str
    files: tuple[HubFile, ...]


@dataclass(frozen=True)
class HubBody:
    """An answer with bytes of a file.

    Attributes:
        start: the position in the file of the first byte.
        parts: the bytes, as they come.
    """

    start: int
    parts: Iterator[bytes]


class HubBusy(ModelUnavailable):
    """The hub answered 429: too many requests."""


class HubBroke(ModelUnavailable):
    """The connection broke, stalled, or the hub failed: worth another try now."""


class Hub:
    """A hub that speaks the API of huggingface.co.

    Args:
        settings: how it is asked.
    """

    def __init__(self, settings: HubSettings) -> None:
        import huggingface_hub  # noqa: PLC0415 - half a second that only asking is worth

        self._hf: Any = huggingface_hub
        self._settings = settings
        self._endpoint = settings.endpoint or None
        # False: nothing but the variable; a person's own log-in is not the platform's to use.
        self._token: str | bool = os.environ.get("HF_TOKEN") or False
        self._api = huggingface_hub.HfApi(
            endpoint=self._endpoint,
            token=self._token,
            library_name="sits",
            library_version=__version__,
        )

    def repository(self, reference: ModelReference) -> Repository:
        """Return what the repository of a reference holds.

        Raises:
            ModelError: there is no such repository or revision.
            ModelUnavailable: the hub cannot be asked now.
        """
        name = f"{reference.org}/{reference.name}" if reference.org else reference.name
        with self._errors(str(reference)):
            try:
                info = self._api.model_info(
                    name,
                    revision=reference.revision,
                    files_metadata=True,
                    timeout=self._settings.connect_s,
                )
            except self._hf.errors.RevisionNotFoundError as error:
                raise ModelError(
                    f"model '{reference}': its repository has no revision "
                    f"'{reference.revision}'; {self._revisions(name)}"
                ) from error
            except (TypeError, KeyError, AttributeError) as error:  # JSON of another shape
                raise ModelError(
                    f"model '{reference}': what answers is no model hub; is HF_ENDPOINT right?"
                ) from error
        files = tuple(_hub_file(sibling) for sibling in info.siblings or ())
        if not info.sha:
            raise ModelUnavailable(f"model '{reference}': the hub names no commit; try again")
        return Repository(info.id, info.sha, files)

    def _revisions(self, name: str) -> str:
        refs = self._api.list_repo_refs(name)
        names = [ref.name for ref in (*refs.branches, *refs.tags)]
        return f"it has {', '.join(names[:12])}: name one of them, or none for the newest"

    @contextmanager
    def body(
        self, repository: str, commit: str, file: str, span: tuple[int, int | None]
    ) -> Iterator[HubBody]:
        """Open a file of a commit at a position.

        Args:
            repository: its id.
            commit: of it, so that the file is always the same.
            file: its path in there.
            span: the first byte that is wanted, and the one after the last (None: to the end).

        Raises:
            ModelError: it is not there.
            HubBusy: too many requests, now or while it is read.
            HubBroke: the connection breaks or stalls, now or while it is read.
            ModelUnavailable: the hub cannot be asked now.
        """
        url = self._hf.hf_hub_url(repository, file, revision=commit, endpoint=self._endpoint)
        headers = self._hf.utils.build_hf_headers(
            token=self._token, library_name="sits", library_version=__version__
        )
        start, end = span
        headers["Range"] = f"bytes={start}-{'' if end is None else end - 1}"
        headers["Accept-Encoding"] = "identity"
        httpx2 = _httpx2()
        limits = httpx2.Timeout(self._settings.stall_s, connect=self._settings.connect_s)
        with (
            self._errors(f"{repository}/{file}"),
            self._hf.get_session().stream("GET", url, headers=headers, timeout=limits) as answer,
        ):
            self._hf.hf_raise_for_status(answer)
            yield HubBody(_start_of(answer), answer.iter_raw())

    @contextmanager
    def _errors(self, what: str) -> Iterator[None]:
        errors, httpx2 = self._hf.errors, _httpx2()
        try:
            yield
        except errors.OfflineModeIsEnabled as error:
            raise ModelUnavailable(
                f"'{what}' cannot be asked for: HF_HUB_OFFLINE is set; unset it, or use a model "
                "that is here (`sits models list`)"
            ) from error
        except errors.HFValidationError as error:
            raise ModelError(f"'{what}' is no name of a repository: {error}") from error
        except errors.GatedRepoError as error:
            raise ModelError(
                f"'{what}' is gated: accept its terms at the hub, and set HF_TOKEN to a token of "
                "that account"
            ) from error
        except (errors.RepositoryNotFoundError, errors.RemoteEntryNotFoundError) as error:
            raise ModelError(
                f"'{what}' is not at the hub, or not for this HF_TOKEN; expected "
                "huggingface://ORG/NAME of a repository that is there"
            ) from error
        except errors.HfHubHTTPError as error:
            raise _http_error(what, error.response) from error
        except ValueError as error:
            raise ModelError(
                f"'{what}': what answers is no model hub ({error}); is HF_ENDPOINT right?"
            ) from error
        except httpx2.TimeoutException as error:
            raise HubBroke(
                f"'{what}': no byte from the hub for {self._waited(error):g} s; is the network up?"
            ) from error
        except httpx2.HTTPError as error:
            raise HubBroke(f"'{what}': the connection to the hub broke off ({error})") from error

    def _waited(self, error: Exception) -> float:
        is_read = isinstance(error, _httpx2().ReadTimeout)
        return self._settings.stall_s if is_read else self._settings.connect_s


class StartReader:
    """Reads a file at the hub from its start, in ranges that grow.

    Args:
        deadline_s: on `time.monotonic`, after which nothing more is asked.
    """

    def __init__(self, hub: Hub, repository: Repository, file: HubFile, deadline_s: float) -> None:
        self._hub = hub
        self._repository = repository
        self._file = file
        self._deadline_s = deadline_s
        self._buffer = bytearray()
        self._asked = 0

    def __call__(self, count: int) -> bytes:
        """Return the next `count` bytes; fewer at the end of the file.

        Raises:
            ModelUnavailable: the hub does not give them in time.
        """
        failures = 0
        while len(self._buffer) < count and self._asked < self._file.size_bytes:
            before = self._asked
            try:
                self._fill(count - len(self._buffer))
            except HubBroke:
                failures = failures + 1 if self._asked == before else 0
                if failures >= _READ_TRIES:
                    raise
        data = bytes(self._buffer[:count])
        del self._buffer[:count]
        return data

    def _fill(self, missing: int) -> None:
        start = self._asked
        wanted = max(missing, _PART_BYTES if start == 0 else min(start, 16 * _PART_BYTES))
        end = min(self._file.size_bytes, start + wanted)
        file, repository = self._file.name, self._repository
        with self._hub.body(repository.id, repository.commit, file, (start, end)) as body:
            if body.start != start:
                raise ModelUnavailable(f"{file}: the hub does not give parts of a file; try again")
            for part in body.parts:
                if time.monotonic() > self._deadline_s:
                    raise ModelUnavailable(f"{file}: the hub is too slow to say what it is")
                self._buffer += part
                self._asked += len(part)
                if self._asked >= end:
                    break


def _hub_file(sibling: Any) -> HubFile:
    lfs = sibling.lfs
    sha256 = lfs.sha256 if lfs else None
    return HubFile(sibling.rfilename, sibling.size or 0, sha256, sibling.blob_id)


def _http_error(what: str, answer: Any) -> ModelError:
    status = answer.status_code
    if status == 429:
        wait_s = retry_after_s(answer.headers, time.time())
        when = f"in {wait_s:g} s" if wait_s is not None else "later"
        return HubBusy(
            f"'{what}': the hub answers 429 (too many requests); try again {when}, or set HF_TOKEN",
            wait_s,
        )
    if status == 416 or status >= 500 or status == 408:
        return HubBroke(f"'{what}': the hub answers {status}; try again")
    if status in {401, 403}:
        return ModelError(f"'{what}': the hub answers {status}; set HF_TOKEN to one that may read")
    return ModelError(f"'{what}': the hub answers {status}; is it a hub (HF_ENDPOINT)?")


def retry_after_s(headers: Any, now_s: float) -> float | None:
    """Return how long a 429 asks to wait, an hour at most: `Retry-After` in seconds or as a date.

    Args:
        headers: the answer's.
        now_s: the time of day, in seconds since 1970.
    """
    text = str(headers.get("retry-after", "")).strip()
    if not text:
        limit = str(headers.get("ratelimit", ""))
        text = limit.partition("t=")[2].partition(";")[0].strip()
    if text.isascii() and text.isdigit():
        wait_s = float(text)  # infinite for hundreds of digits
    else:
        try:
            wait_s = max(0.0, parsedate_to_datetime(text).timestamp() - now_s)
        except (TypeError, ValueError, OverflowError, IndexError):
            return None
    return min(wait_s, _MAX_WAIT_S)


def _start_of(answer: Any) -> int:
    if answer.status_code != 206:
        return 0
    span = str(answer.headers.get("content-range", "")).removeprefix("bytes ").partition("-")[0]
    return int(span) if span.isascii() and span.isdigit() and len(span) < 19 else 0


def _httpx2() -> Any:
    import httpx2  # noqa: PLC0415 - imported with huggingface_hub, which is imported late

    return httpx2
