"""A unit's file: every field, quantity and metric, from `sits.spec`."""

import json
from collections.abc import Iterator
from typing import Any

from reference_pages._markdown import MARK, make_row
from sits.spec import (
    API_VERSION,
    KIND,
    MAX_UNIT_BYTES,
    METRICS,
    Count,
    Quantity,
    Rate,
    Share,
    Size,
    Time,
    Unit,
    is_acted_on,
)
from sits.spec._idle import WAITING, WAITING_ADAPTERS
from sits.spec._unit import SECTIONS

_HEAD = f"""# A unit's file

{MARK}

One YAML file (or a JSON document) of at most {MAX_UNIT_BYTES // 1024} KiB. `name` and `model`
are needed; everything else has a default. [How to write a unit](../howto/write-a-unit.md) goes
through it by example, and `sits iu schema` prints all this as JSON Schema 2020-12 for your editor.

A file is read strictly ([why](../decisions/0010-strict-yaml.md)): an unknown field, a field that
is given twice, an anchor, a tag or a value of another type is an error, which names the file, the
line, what was given, what was expected, and what to write.

Fields marked *not yet* are read, checked and kept, and not acted on by this version; `sits iu
deploy` tells you so for each one that you use.
"""

_QUANTITIES = """
## Quantities

A number and its unit, without a space, a sign or an exponent: `800ms`, `1.5h`, `8GiB`. What is
compared is the amount, not the spelling: `60s` and `1m` are the same, and shown as `1m`. A number
without a unit is an error wherever it could mean two things.

| | written as | steps | at most |
|---|---|---|---|
"""

_TRIGGERS = """
## Triggers

    latency_p95 > 800ms || gpu_util > 85% for 60s

A metric, a comparison (`<`, `<=`, `>`, `>=`, `==`, `!=`) and a quantity that fits the metric.
What binds strongest comes first; `for` belongs to one comparison, or to parentheses.

| | |
|---|---|
| `latency_p95 > 800ms` | a comparison |
| `gpu_util > 85% for 60s` | what is right before it has held for so long without a break |
| `!` | not: `!gpu_util > 85% for 60s` is `!(gpu_util > 85% for 60s)` |
| `&&` | both |
| `\\|\\|` | at least one |
| `( )` | first of all: `(queue_depth > 10 \\|\\| ttft_p95 > 1s) for 30s` |

| metric | compared with | what it measures |
|---|---|---|
"""

_CLUSTER = f"""
NN is a percentile from 1 to 99, also with one decimal: `latency_p99.9`.

## On a cluster

The same unit as a Kubernetes object. Both forms load to equal units; `metadata.namespace` is the
`tenant`, and what the cluster writes by itself (`status`, `metadata.uid` …) is left out.

```yaml
apiVersion: {API_VERSION}
kind: {KIND}
metadata:
  name: chat
  labels:
    purpose: demo
spec:
  model: builtin://smollm2-135m-instruct
  scale:
    max_instances: 2
```

## Forms that are mended

`bert-base-uncasedv2.4.1` (for `model`) and `clickstream-preprocessor-v3` (for `adapter`) have lost
their `@` on the way. They are read as `huggingface://bert-base-uncased@v2.4.1` and
`dataflow://clickstream-preprocessor@v3`, with a note.
"""


def make_units_page() -> str:
    """Return the whole document."""
    parts = [_HEAD, "\n## Fields\n", _fields("", Unit.model_fields)]
    for home, section in SECTIONS.items():
        sentence = (section.__doc__ or "").strip().splitlines()[0]
        parts.append(f"\n### `{home}`\n\n{sentence}\n")
        parts.append(_fields(f"{home}.", section.model_fields))
    parts += ["\n", _waiting(), _QUANTITIES, *_quantities(), _TRIGGERS, *_metrics(), _CLUSTER]
    return "".join(parts)


def _fields(prefix: str, fields: dict[str, Any]) -> str:
    head = "\n| field | expected | default | | meaning | example |\n|---|---|---|---|---|---|\n"
    return head + "".join(
        make_row(_field_cells(prefix, name, field)) for name, field in fields.items()
    )


def _field_cells(prefix: str, name: str, field: Any) -> Iterator[str]:
    path = f"{prefix}{name}"
    yield f"`{path}`"
    yield field.description
    yield "needed" if field.is_required() else _default(field.default)
    yield "" if is_acted_on(path) else "*not yet*"
    yield field.title
    yield f"`{_inline(field.examples[0])}`"


def _default(value: Any) -> str:
    is_plain = isinstance(value, str | int) and value != ""
    return f"`{value}`" if is_plain else ""


def _inline(example: Any) -> str:
    """Return an example as flow YAML: JSON without the quotes that YAML does not need."""
    if isinstance(example, dict):
        inner = ", ".join(f"{key}: {_inline(part)}" for key, part in example.items())
        return f"{{{inner}}}"
    if isinstance(example, list):
        return f"[{', '.join(map(_inline, example))}]"
    needs_quotes = isinstance(example, str) and example.startswith(("{", "["))
    return json.dumps(example) if needs_quotes else str(example)


def _waiting() -> str:
    waiting = dict(WAITING)
    waiting |= {f"lora: {scheme}://…": why for scheme, why in WAITING_ADAPTERS.items()}
    rows = "".join(make_row((f"`{path}`", why)) for path, why in waiting.items())
    return "## What is not acted on yet\n\n| field | because |\n|---|---|\n" + rows


def _quantities() -> Iterator[str]:
    for kind in (Time, Size, Share, Rate, Count):
        words = kind.KIND
        yield make_row((words.noun, words.form, words.finest, words.most_text))
    yield make_row(
        ("an amount of money", "a number and a currency's three letters, such as 20USD", "", "")
    )
    yield "\n`Ki`, `Mi`, `Gi` and `Ti` are short for `KiB` and so on, as on Kubernetes.\n"


def _metrics() -> Iterator[str]:
    for metric in METRICS.values():
        kind: type[Quantity] = metric.kind
        compared = f"{kind.KIND.noun}, such as `{metric.example}`"
        yield make_row((f"`{metric.name}`", compared, metric.meaning))
