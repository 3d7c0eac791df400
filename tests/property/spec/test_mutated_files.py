"""Ten thousand files that once were good: each loads or is a `SpecError`, and soon."""

import random
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from sits.spec import Loaded, SpecError, canonical_json, load_unit_bytes, load_unit_json

GOOD = sorted((Path(__file__).parents[2] / "corpus" / "units" / "good").glob("*.yaml"))
FILES = 10_000
MOST_S = 0.1
# What mutations put in: what YAML, quantities and triggers are sensitive to.
TOKENS = [
    *(
        b"\n",
        b" ",
        b"  ",
        b"\t",
        b":",
        b": ",
        b"-",
        b"- ",
        b"#",
        b"'",
        b'"',
        b"{",
        b"}",
        b"[",
        b"]",
    ),
    *(
        b"&a ",
        b"*a",
        b"!!str ",
        b"<<: ",
        b"|",
        b">",
        b"%",
        b"@",
        b"---\n",
        b"\x00",
        b"\xff",
        b"\xc3",
    ),
    *(
        b"0",
        b"-1",
        b"1e400",
        b"NaN",
        b"null",
        b"true",
        b"9" * 30,
        b"(",
        b"((",
        b"&&",
        b"||",
        b"for ",
    ),
    *(b"name: b\n", b"  scale: {}\n", b"kind: x\n", b"\xef\xbb\xbf", "\u2028\u00e4".encode()),
]

Mutation = Callable[[random.Random, bytes], bytes]


def flip(source: random.Random, data: bytes) -> bytes:
    at = source.randrange(len(data))
    return data[:at] + bytes([data[at] ^ (1 << source.randrange(8))]) + data[at + 1 :]


def cut(source: random.Random, data: bytes) -> bytes:
    start, end = sorted(source.randrange(len(data) + 1) for _ in range(2))
    return data[:start] + data[min(end, start + 40) :]


def repeat(source: random.Random, data: bytes) -> bytes:
    start, end = sorted(source.randrange(len(data) + 1) for _ in range(2))
    return data[:end] + data[start:end] * source.choice((1, 1, 2, 50)) + data[end:]


def insert(source: random.Random, data: bytes) -> bytes:
    at = source.randrange(len(data) + 1)
    return data[:at] + source.choice(TOKENS) * source.choice((1, 1, 1, 3, 100)) + data[at:]


def splice(source: random.Random, data: bytes) -> bytes:
    other = source.choice(GOOD).read_bytes()
    at, there = source.randrange(len(data) + 1), source.randrange(len(other) + 1)
    return data[:at] + other[there:]


def move_line(source: random.Random, data: bytes) -> bytes:
    lines = data.splitlines(keepends=True)
    line = lines.pop(source.randrange(len(lines)))
    lines.insert(source.randrange(len(lines) + 1), source.choice((b"", b"  ")) + line)
    return b"".join(lines)


MUTATIONS: tuple[Mutation, ...] = (flip, cut, repeat, insert, splice, move_line)


def mutated(source: random.Random, data: bytes) -> bytes:
    for _ in range(source.choice((1, 1, 2, 5))):
        if data:
            data = source.choice(MUTATIONS)(source, data)
    return data


def load_as_json(data: bytes, name: str) -> Loaded:
    return load_unit_json(data.decode("utf-8", "surrogateescape"), name)


def error_of(load: Callable[[bytes, str], Loaded], data: bytes) -> SpecError | None:
    try:
        load(data, "m.yaml")
    except SpecError as error:
        return error
    return None


def is_good(load: Callable[[bytes, str], Loaded], data: bytes) -> bool:
    error = error_of(load, data)
    assert error is None or (error.source == "m.yaml" and str(error).isprintable()), data
    return error is None


def least_cpu_s(run: Callable[[], object], enough_s: float) -> float:
    """Return the CPU time of a run: the least of some, when the first was not quick."""
    least_s = float("inf")
    for _ in range(5):
        start_s = time.process_time()
        run()
        least_s = min(least_s, time.process_time() - start_s)
        if least_s < enough_s:
            break
    return least_s


@pytest.mark.timeout(60)
@pytest.mark.parametrize("part", range(4))
def test_a_mutated_file_loads_or_is_a_spec_error_and_none_takes_long(part: int) -> None:
    source = random.Random(f"sits-{part}")
    load_unit_bytes(GOOD[0].read_bytes(), "first")  # which builds the grammar of triggers
    good = 0
    for _ in range(FILES // 4):
        data = mutated(source, source.choice(GOOD).read_bytes())
        taken_s = least_cpu_s(partial(is_good, load_unit_bytes, data), MOST_S)
        assert taken_s < MOST_S, data
        good += is_good(load_unit_bytes, data)
    assert 0.05 < good / (FILES // 4) < 0.8, "mutations that break all, or nothing, test nothing"


def test_mutated_json_loads_or_is_a_spec_error() -> None:
    source = random.Random("json")
    units = [load_unit_bytes(path.read_bytes(), path.name).unit for path in GOOD]
    texts = [canonical_json(unit).encode() for unit in units]
    good = sum(is_good(load_as_json, mutated(source, source.choice(texts))) for _ in range(2000))
    assert good > 20


LONG = 250_000
HOSTILE = {
    "a list of texts": b"name: a\nmodel: builtin://x\nlora: [" + b"a," * (LONG // 2) + b"]\n",
    "labels": b"name: a\nmodel: builtin://x\nlabels: {" + b"a: 1," * (LONG // 6) + b"}\n",
    "fields": b"".join(b"k%d: 1\n" % number for number in range(LONG // 10)),
    "a long name": b"name: " + b"A " * (LONG // 2),
    "a long field": b"k" * LONG + b": 1\n",
    "a long reference": b"name: a\nmodel: " + b"v1" * (LONG // 2),
    "a long adapter": b"name: a\nmodel: builtin://x\nadapter: " + b"-v1" * (LONG // 3),
    "a long quantity": b"name: a\nmodel: builtin://x\nsession: " + b"1h" * (LONG // 2),
    "a long number": b"name: a\nmodel: builtin://x\nbudget: {tokens: " + b"9" * LONG + b"}",
    "a long trigger": b"name: a\nmodel: builtin://x\nscale: {trigger: '"
    + b"!(" * (LONG // 2)
    + b"'}",
    "a deep trigger": b"name: a\nmodel: builtin://x\nscale: {trigger: '" + b"!(" * 450 + b"'}",
    "a wide trigger": b"name: a\nmodel: builtin://x\nscale:\n  trigger: "
    + b" && ".join([b"gpu_util > 1%"] * 58),
    "depth": b"[" * LONG,
    "anchors": b"a: &a [x]\n" * (LONG // 10),
    "quotes": b"name: '" + b"''" * (LONG // 2) + b"'",
    "escapes": b'name: "' + rb"\x41" * (LONG // 4) + b'"',
    "comments": b"#\n" * (LONG // 2),
    "blanks": b" " * LONG + b"name: a",
    "documents": b"---\n" * (LONG // 4),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_file_that_is_made_to_take_long_does_not(kind: str) -> None:
    load_unit_bytes(GOOD[0].read_bytes(), "first")
    taken_s = least_cpu_s(partial(is_good, load_unit_bytes, HOSTILE[kind]), MOST_S)
    assert taken_s < MOST_S
