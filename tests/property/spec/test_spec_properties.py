"""Whatever the text: a unit or a `SpecError`; and units come back from their own text."""

import json
import string
from collections.abc import Callable
from typing import Any, TypeVar

import jsonschema
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from sits.spec import (
    METRICS,
    And,
    Comparator,
    Comparison,
    Count,
    Held,
    Loaded,
    Money,
    Not,
    Or,
    Quantity,
    QuantityError,
    Rate,
    Share,
    Size,
    SpecError,
    Time,
    Trigger,
    TriggerError,
    canonical_json,
    cluster_form,
    load_unit,
    load_unit_json,
    parse_trigger,
    revision_id,
    unit_from_json,
    unit_schema,
)

# Not `1e5`, which another YAML writer leaves unquoted, and which is a number here.
names = st.from_regex(r"([a-z]|[0-9]+-)([a-z0-9-]{0,20}[a-z0-9])?", fullmatch=True).filter(
    lambda name: not name.endswith("-")
)
texts = st.text(
    st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufffe\uffff"),
    min_size=1,
    max_size=30,
)
VALIDATOR = jsonschema.Draft202012Validator(unit_schema())
Q = TypeVar("Q", bound=Quantity)
QUANTITIES = (Time, Size, Share, Rate, Count)


def amounts(kind: type[Q]) -> st.SearchStrategy[Q]:
    most = min(kind.KIND.most, 10**36)
    return st.one_of(st.integers(0, most), st.integers(0, min(most, 10_000))).map(kind)


times = amounts(Time).map(str)
shares = amounts(Share).map(str)
sizes = amounts(Size).map(str)
counts = st.integers(0, 10**27)
money = st.builds(Money, st.integers(0, 10**18), st.from_regex(r"[A-Z]{3}", fullmatch=True)).map(
    str
)
comparisons = st.sampled_from(sorted(METRICS)).flatmap(
    lambda name: st.builds(
        Comparison,
        st.integers(1, 99).map(lambda percent: name.replace("NN", str(percent))),
        st.sampled_from(Comparator),
        amounts(METRICS[name].kind),
    )
)


def two_of(kind: type[And] | type[Or], inner: st.SearchStrategy[Trigger]) -> Any:
    terms = st.lists(inner.filter(lambda term: not isinstance(term, kind)), min_size=2, max_size=3)
    return terms.map(lambda found: kind(tuple(found)))


triggers: st.SearchStrategy[Trigger] = st.recursive(
    comparisons,
    lambda inner: st.one_of(
        st.builds(Not, inner),
        st.builds(Held, inner, amounts(Time)),
        two_of(And, inner),
        two_of(Or, inner),
    ),
    max_leaves=6,
)
units = st.fixed_dictionaries(
    {"name": names, "model": names.map("builtin://{}".format)},
    optional={
        "prompt": st.one_of(
            texts, st.fixed_dictionaries({}, optional={"system": texts, "template": texts})
        ),
        "tenant": names,
        "trainer": st.from_regex(r"[a-z]{1,9}(\.[a-z]{1,9}){0,3}", fullmatch=True),
        "labels": st.dictionaries(texts, texts, max_size=3),
        "region": names,
        "lora": st.lists(names, max_size=3, unique=True).map(
            lambda found: [{"adapter": f"adapter://{name}", "weight": "33%"} for name in found]
        ),
        "slo": st.fixed_dictionaries(
            {}, optional={"ttft": times, "itl_p99": times, "availability": shares}
        ),
        "budget": st.fixed_dictionaries(
            {"money": money}, optional={"tokens": counts, "soft": shares, "memory_hours": sizes}
        ),
        "session": times,
        "hardware": st.fixed_dictionaries(
            {}, optional={"memory": sizes, "threads": st.integers(1, 64)}
        ),
        "scale": st.fixed_dictionaries(
            {"min_instances": st.integers(0, 9), "max_instances": st.integers(9, 99)},
            optional={"idle": times, "trigger": triggers.map(str)},
        ),
    },
)
quantity_like = st.text("0123456789.-+eE_,%usmhdKMGTiBkPEUSDR/ ", max_size=12)
yaml_like = st.text(string.ascii_lowercase + " \n:-[]{}&*!|>'\"#?%@`,<\t0123456789", max_size=80)


def error_of(load: Callable[[str, str], Loaded], text: str) -> SpecError | None:
    """Return what was wrong with a text, if anything."""
    try:
        load(text, "any")
    except SpecError as error:
        return error
    return None


@given(units)
def test_a_unit_written_by_another_yaml_or_json_writer_loads_and_keeps_its_revision(
    values: dict[str, Any],
) -> None:
    from_yaml = load_unit(yaml.safe_dump(values, allow_unicode=True), "a.yaml").unit
    from_json = load_unit_json(json.dumps(values), "a.json").unit
    assert from_yaml == from_json
    assert from_yaml.name == values["name"]
    assert dict(from_yaml.labels) == values.get("labels", {})
    in_cluster = load_unit_json(json.dumps(cluster_form(from_yaml)), "cluster").unit
    assert in_cluster == from_yaml
    again = unit_from_json(canonical_json(from_yaml))
    assert again == from_yaml
    assert revision_id(again) == revision_id(from_json)


@given(units)
def test_the_schema_accepts_every_unit_that_loads(values: dict[str, Any]) -> None:
    unit = load_unit_json(json.dumps(values), "a.json").unit
    for form in (values, json.loads(canonical_json(unit)), cluster_form(unit)):
        assert [error.message for error in VALIDATOR.iter_errors(form)] == []


@given(st.one_of(st.text(), yaml_like))
def test_any_text_is_a_unit_or_a_spec_error(text: str) -> None:
    for load in (load_unit, load_unit_json):
        error = error_of(load, text)
        assert error is None or error.source == "any"


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=10,
    ),
    st.sampled_from(["name", "model", "prompt", "scale", "labels", "adapter", "other"]),
)
def test_any_value_in_any_field_is_taken_or_refused_by_name(value: Any, field: str) -> None:
    values = {"name": "a", "model": "builtin://x", field: value}
    error = error_of(load_unit_json, json.dumps(values))
    assert error is None or error.field.split(".")[0].split("[")[0] in {field, ""}


@given(st.one_of([amounts(kind) for kind in QUANTITIES]))
def test_a_quantity_comes_back_from_its_text(quantity: Quantity) -> None:
    assert type(quantity).parse(str(quantity)) == quantity


@given(money)
def test_money_comes_back_from_its_text(text: str) -> None:
    assert str(Money.parse(text)) == text


@given(st.sampled_from([*QUANTITIES, Money]), st.one_of(st.text(), quantity_like))
def test_any_text_is_a_quantity_or_refused(kind: Any, text: str) -> None:
    try:
        quantity = kind.parse(text)
    except QuantityError:
        return
    assert kind.parse(str(quantity)) == quantity


@given(st.integers(0, 10**6), st.sampled_from(["us", "ms", "s", "m", "h", "d"]))
def test_a_time_is_its_number_times_its_unit(number: int, unit: str) -> None:
    seconds = {"us": 1e-6, "ms": 1e-3, "s": 1, "m": 60, "h": 3600, "d": 86_400}[unit]
    if number * seconds <= 3650 * 86_400:
        assert Time.parse(f"{number}{unit}").base == pytest.approx(number * seconds)


@given(triggers)
def test_a_trigger_comes_back_from_its_text(trigger: Trigger) -> None:
    if len(str(trigger)) <= 1000:
        assert parse_trigger(str(trigger)) == trigger


@given(triggers, st.data())
def test_a_trigger_of_which_some_is_lost_is_one_or_says_where_it_is_wrong(
    trigger: Trigger, data: st.DataObject
) -> None:
    text = str(trigger)[:900]
    at = data.draw(st.integers(0, len(text)))
    text = (
        text[:at]
        + data.draw(st.sampled_from(["", "(", ")", "!", "&&", "for", "9", " "]))
        + text[at + data.draw(st.integers(0, 9)) :]
    )
    column, again = column_or_trigger(text)
    assert again or 1 <= column <= len(text) + 1
    assert again is None or parse_trigger(str(again)) == again


def column_or_trigger(text: str) -> tuple[int, Trigger | None]:
    """Return where a text is wrong, or what it means."""
    try:
        return 0, parse_trigger(text)
    except TriggerError as error:
        return error.column, None
