"""What every engine owes with adapters. The fake runs the same suite as llama.cpp."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from sits.runtime.engine import (
    LLAMACPP,
    AdapterFile,
    AdapterLoadError,
    AdapterSet,
    Engine,
    EngineError,
    Feed,
    Model,
    PoolShape,
    Sampled,
    load_model,
)
from sits.testing import tiny_adapter, tiny_gguf
from sits.wire import Sampling
from tests.lora import draw_factors, write_adapter, write_models
from tests.models import smollm2_path

SHAPE = PoolShape(sequences=3, sequence_tokens=128, batch_tokens=64, kept=0)


@dataclass(frozen=True)
class Case:
    """A model, two adapters for it, and files that are none for it with what is said of them."""

    model: Model
    one: AdapterSet
    two: AdapterSet
    wrong: tuple[tuple[str, str], ...]


def set_of(path: str, digest: str, scale: float = 1.0) -> AdapterSet:
    return AdapterSet((AdapterFile(path, digest, scale),))


def fake_case(folder: Path) -> Case:
    for name, data in (
        ("one", tiny_adapter("[one] ")),
        ("two", tiny_adapter("[two] ")),
        ("other", tiny_adapter("[other] ", architecture="bert")),
        ("model", tiny_gguf()),
    ):
        (folder / name).write_bytes(data)
    wrong = (("other", "architecture 'bert'"), ("model", "no LoRA adapter"))
    return Case(
        load_model("sits.testing:load_fake", "unused"),
        set_of(str(folder / "one"), "1"),
        set_of(str(folder / "two"), "2"),
        tuple((str(folder / name), words) for name, words in wrong),
    )


def real_case(folder: Path) -> Case:
    factors = draw_factors(7)
    wrong = (
        (write_adapter(folder / "arch", factors, architecture="qwen2"), "arch mismatch"),
        (write_adapter(folder / "kind", factors, kind="soft"), "expect adapter.type to be 'lora'"),
        (write_adapter(folder / "shape", draw_factors(7, outputs=64)), "incorrect shape"),
        (smollm2_path(), "expect general.type to be 'adapter'"),
    )
    return Case(
        load_model(LLAMACPP, smollm2_path()),
        set_of(write_adapter(folder / "one", factors), "1"),
        set_of(write_adapter(folder / "two", draw_factors(8)), "2"),
        wrong,
    )


@pytest.fixture(scope="module", params=["fake", "llamacpp"])
def case(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Case]:
    make = real_case if request.param == "llamacpp" else fake_case
    made = make(tmp_path_factory.mktemp("adapters"))
    yield made
    made.model.close()


@pytest.fixture
def engine(case: Case) -> Iterator[Engine]:
    engine = case.model.make_engine(SHAPE)
    yield engine
    engine.shutdown()


def words_of(model: Model) -> list[int]:
    start, end = {
        True: ("<|im_start|>user\n", "<|im_end|>\n<|im_start|>assistant\n"),
        False: ("<|user|>", "<|end|><|assistant|>"),
    }["<|im_start|>" in model.info.control_texts]
    return model.tokenize(f"{start}Say hello to me.{end}", parse_special=True)


def feed(engine: Engine, sequence: int, tokens: list[int], start: int = 0) -> Sampled:
    """Feed tokens and return the next token with ten logprobs, exact to the bit."""
    sampler = engine.make_sampler(Sampling(temperature=0, top_logprobs=10))
    (drawn,) = engine.step([Feed(sequence, start, tokens, sampler)])
    sampler.close()
    return drawn


def next_after(engine: Engine, model: Model, adapters: str) -> Sampled:
    """Return what follows on a prompt in a sequence of its own."""
    engine.open(0, adapters)
    drawn = feed(engine, 0, words_of(model))
    engine.close(0)
    return drawn


def test_adapters_change_the_answer_each_in_its_own_way(case: Case, engine: Engine) -> None:
    engine.load_adapters(case.one)
    engine.load_adapters(case.two)
    plain = next_after(engine, case.model, "")
    one = next_after(engine, case.model, case.one.digest)
    two = next_after(engine, case.model, case.two.digest)
    assert plain != one
    assert plain != two
    assert next_after(engine, case.model, case.one.digest) == one


def test_what_is_loaded_is_not_read_again(case: Case, engine: Engine, tmp_path: Path) -> None:
    path = tmp_path / "copy"
    path.write_bytes(Path(case.one.files[0].path).read_bytes())
    engine.load_adapters(set_of(str(path), "copied"))
    path.unlink()
    copied = set_of(str(path), "copied")
    engine.load_adapters(copied)
    engine.load_adapters(case.one)
    one = next_after(engine, case.model, case.one.digest)
    assert next_after(engine, case.model, copied.digest) == one


def test_without_it_again_the_model_is_as_if_it_had_never_been(case: Case, engine: Engine) -> None:
    engine.open(1)
    feed(engine, 1, words_of(case.model))
    before = next_after(engine, case.model, "")
    engine.load_adapters(case.one)
    next_after(engine, case.model, case.one.digest)
    assert next_after(engine, case.model, "") == before
    untouched = case.model.make_engine(SHAPE)
    untouched.open(1)
    feed(untouched, 1, words_of(case.model))
    assert next_after(untouched, case.model, "") == before
    assert feed(engine, 1, [5], len(words_of(case.model))) == feed(
        untouched, 1, [5], len(words_of(case.model))
    )
    untouched.shutdown()


def test_running_sequences_of_two_sets_take_turns_without_touching_each_other(
    case: Case, engine: Engine
) -> None:
    engine.load_adapters(case.one)
    words = words_of(case.model)
    alone = {}
    for adapters in ("", case.one.digest):
        engine.open(0, adapters)
        alone[adapters] = [feed(engine, 0, words)]
        alone[adapters] += [feed(engine, 0, [7], len(words) + at) for at in range(3)]
        engine.close(0)
    engine.open(0)
    engine.open(1, case.one.digest)
    both = {"": [feed(engine, 0, words)], case.one.digest: [feed(engine, 1, words)]}
    for at in range(3):
        both[""].append(feed(engine, 0, [7], len(words) + at))
        both[case.one.digest].append(feed(engine, 1, [7], len(words) + at))
    assert [drawn.token for drawn in both[""]] == [drawn.token for drawn in alone[""]]
    for adapters, together in both.items():
        assert together[0] == alone[adapters][0]
        for drawn, expected in zip(together, alone[adapters], strict=True):
            assert drawn.logprob == pytest.approx(expected.logprob, abs=0.05)


def test_refuses_files_that_are_no_adapters_for_the_model(
    case: Case, engine: Engine, tmp_path: Path
) -> None:
    (tmp_path / "text").write_text("hello\n", encoding="utf-8")
    missing = str(tmp_path / "missing")
    for path, words in (*case.wrong, (str(tmp_path / "text"), "GGUF"), (missing, "No such file")):
        with pytest.raises(AdapterLoadError) as raised:
            engine.load_adapters(set_of(path, "bad"))
        assert path in str(raised.value)
        assert words in str(raised.value)
    engine.load_adapters(case.one)
    assert next_after(engine, case.model, case.one.digest)


def test_refuses_sets_that_are_not_loaded(case: Case, engine: Engine) -> None:
    engine.open(0, case.one.digest)
    with pytest.raises(EngineError, match="not loaded"):
        feed(engine, 0, words_of(case.model))
    engine.load_adapters(case.one)
    assert feed(engine, 0, words_of(case.model))


def test_refuses_two_sets_in_one_batch_or_one_sequence(case: Case, engine: Engine) -> None:
    engine.load_adapters(case.one)
    engine.open(0)
    engine.open(1, case.one.digest)
    with pytest.raises(EngineError, match="2 sets of adapters in one batch"):
        engine.step([Feed(0, 0, [5]), Feed(1, 0, [5])])
    feed(engine, 0, words_of(case.model))
    with pytest.raises(EngineError, match="different sets of adapters"):
        engine.copy(0, 1, 4)
    engine.open(2, case.one.digest)
    feed(engine, 1, words_of(case.model))
    engine.copy(1, 2, 4)


def test_a_set_is_known_by_files_and_scales() -> None:
    one, other = AdapterFile("/one", "1"), AdapterFile("/other", "2")
    digests = {
        AdapterSet(files).digest
        for files in (
            (),
            (one,),
            (other,),
            (one, other),
            (other, one),
            (AdapterFile("/one", "1", 0.5),),
        )
    }
    assert len(digests) == 6
    assert AdapterSet().digest == ""
    assert AdapterSet((AdapterFile("/moved", "1"),)).digest == AdapterSet((one,)).digest


@pytest.mark.parametrize("scale", [float("nan"), float("inf")])
def test_refuses_a_scale_that_is_no_number(scale: float) -> None:
    with pytest.raises(EngineError, match="a number"):
        AdapterFile("/one", "1", scale)


@pytest.mark.timeout(60)
def test_an_adapter_is_the_low_rank_product_in_the_weights(tmp_path: Path) -> None:
    factors, scale = draw_factors(7), 0.7
    merged, plain = tmp_path / "merged.gguf", tmp_path / "plain.gguf"
    write_models(smollm2_path(), {merged: (factors, scale), plain: (factors, 0.0)})
    adapters = set_of(write_adapter(tmp_path / "one", factors), "1", scale)
    found = {}
    for name, path in (("merged", merged), ("plain", plain)):
        model = load_model(LLAMACPP, str(path))
        engine = model.make_engine(SHAPE)
        found[name] = dict(next_after(engine, model, "").top)
        if name == "plain":
            engine.load_adapters(adapters)
            found["adapted"] = dict(next_after(engine, model, adapters.digest).top)
        engine.shutdown()
        model.close()
    far = max(abs(found["plain"].get(token, 0.0) - at) for token, at in found["merged"].items())
    assert far > 0.2
    for token, logprob in list(found["merged"].items())[:8]:
        assert found["adapted"][token] == pytest.approx(logprob, abs=0.01)
