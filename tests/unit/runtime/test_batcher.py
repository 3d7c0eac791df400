"""What the batcher makes of requests, step by step, on the fake engine."""

import pytest

from sits.runtime.batch import Batcher, RequestRefused
from sits.runtime.engine import PoolShape
from sits.testing import FakeBehaviour, FakeModel
from sits.wire import (
    ChatPrompt,
    Emitted,
    Failed,
    Finished,
    FinishReason,
    FromWorker,
    Generate,
    Message,
    Piece,
    Stage,
    TemplatePrompt,
    Usage,
)

SHAPE = PoolShape(sequences=2, sequence_tokens=64, batch_tokens=16)
MARKS = 3  # the fake's template puts a turn's two marks and the answer's one around the words


class Clock:
    """Moves 1 ms at each look."""

    def __init__(self) -> None:
        self.now_us = 0

    def __call__(self) -> int:
        self.now_us += 1000
        return self.now_us


def make_batcher(behaviour: FakeBehaviour | None = None, queue_limit: int = 2) -> Batcher:
    model = FakeModel(behaviour)
    return Batcher(model, model.make_engine(SHAPE), Clock(), queue_limit=queue_limit)


def ask(
    words: str, request_id: str = "r", max_tokens: int | None = None, stop: str = ""
) -> Generate:
    prompt = ChatPrompt((Message("user", words),))
    return Generate(request_id, prompt, stop=(stop,) if stop else (), max_tokens=max_tokens)


def run(batcher: Batcher) -> list[FromWorker]:
    events: list[FromWorker] = []
    while batcher.busy:
        events += batcher.step()
    return events


def text_of(events: list[FromWorker], request_id: str = "r") -> str:
    return "".join(
        e.piece.text for e in events if isinstance(e, Emitted) and e.request_id == request_id
    )


def test_an_answer_is_pieces_then_the_end() -> None:
    batcher = make_batcher()
    batcher.submit(ask("ab"))
    assert run(batcher) == [
        Emitted("r", Piece(0, "a", (97,), Stage.PREFILL, 1000)),
        Emitted("r", Piece(1, "b", (98,), Stage.DECODE, 1000)),
        Finished("r", FinishReason.STOP, Usage(2 + MARKS, 2)),
    ]


def test_a_character_over_several_tokens_comes_whole() -> None:
    batcher = make_batcher()
    batcher.submit(ask("é!"))
    pieces = [e.piece for e in run(batcher) if isinstance(e, Emitted)]
    assert [(p.seq, p.text, p.tokens) for p in pieces] == [
        (0, "", (0xC3,)),
        (1, "é", (0xA9,)),
        (2, "!", (0x21,)),
    ]


def test_a_stop_string_over_pieces_ends_the_answer_and_is_not_shown() -> None:
    batcher = make_batcher()
    batcher.submit(ask("one END two", stop="END"))
    events = run(batcher)
    assert text_of(events) == "one "
    assert events[-1] == Finished("r", FinishReason.STOP, Usage(11 + MARKS, len("one END")))


def test_what_only_looked_like_a_stop_string_is_shown_at_the_end() -> None:
    batcher = make_batcher()
    batcher.submit(ask("the EN", stop="END"))
    assert text_of(run(batcher)) == "the EN"


def test_max_tokens_ends_an_answer_by_length() -> None:
    batcher = make_batcher()
    batcher.submit(ask("abcdef", max_tokens=3))
    events = run(batcher)
    assert text_of(events) == "abc"
    assert events[-1] == Finished("r", FinishReason.LENGTH, Usage(6 + MARKS, 3))


def test_an_answer_ends_where_the_context_does() -> None:
    batcher = make_batcher()
    batcher.submit(ask("x" * 40, max_tokens=1000))
    events = run(batcher)
    room = SHAPE.sequence_tokens - 40 - MARKS
    assert text_of(events) == "x" * room
    assert events[-1] == Finished("r", FinishReason.LENGTH, Usage(40 + MARKS, room))


def test_prompts_go_in_beside_decodes_and_answers_are_not_mixed() -> None:
    batcher = make_batcher()
    batcher.submit(ask("first " * 3, "a"))
    batcher.step()
    batcher.step()
    batcher.submit(ask("second " * 4, "b"))
    seen = []
    events: list[FromWorker] = []
    while batcher.busy:
        step = batcher.step()
        seen.append({e.request_id for e in step})
        events += step
    assert {"a"} in seen, "a goes on while the prompt of b goes in by pieces"
    assert {"a", "b"} in seen
    assert text_of(events, "b") == "second " * 4


def test_the_third_waits_for_a_place_and_the_fifth_is_refused() -> None:
    batcher = make_batcher(queue_limit=2)
    for name in "ab":
        batcher.submit(ask(name * 5, name))
    batcher.step()
    for name in "cd":
        batcher.submit(ask(name * 5, name))
    with pytest.raises(RequestRefused) as refused:
        batcher.submit(ask("e", "e"))
    assert (refused.value.reason, refused.value.may_retry) == ("overloaded", True)
    events = run(batcher)
    assert text_of(events, "c") == "ccccc"
    assert text_of(events, "d") == "ddddd"


@pytest.mark.parametrize("steps", [0, 1, 3])
def test_a_cancelled_request_is_gone_at_once_wherever_it_is(steps: int) -> None:
    batcher = make_batcher()
    for name in "abc":
        batcher.submit(ask(name * 9, name))
    for _ in range(steps):
        batcher.step()
    batcher.cancel("a")
    batcher.cancel("c")
    batcher.cancel("never-was")
    assert batcher.request_ids == {"b"}
    assert {e.request_id for e in run(batcher)} == {"b"}
    batcher.submit(ask("a place is free", "d"))
    assert text_of(run(batcher), "d") == "a place is free"


def test_an_id_in_use_is_refused() -> None:
    batcher = make_batcher()
    batcher.submit(ask("x"))
    with pytest.raises(RequestRefused, match="in use"):
        batcher.submit(ask("y"))


def test_a_prompt_that_does_not_fit_is_refused_with_both_numbers() -> None:
    batcher = make_batcher()
    batcher.submit(ask("x" * (63 - MARKS)))
    with pytest.raises(RequestRefused, match=r"64 tokens.*at most 63") as refused:
        batcher.submit(ask("x" * (64 - MARKS), "r2"))
    assert refused.value.reason == "context_length_exceeded"
    assert batcher.request_ids == {"r"}


@pytest.mark.parametrize(
    "prompt",
    [
        ChatPrompt((Message("user", "x" * 1_000_000),)),
        ChatPrompt(tuple(Message("user", "") for _ in range(25_000))),
    ],
    ids=["long words", "many turns"],
)
def test_what_cannot_fit_is_refused_before_it_is_tokenized(
    prompt: ChatPrompt, monkeypatch: pytest.MonkeyPatch
) -> None:
    batcher = make_batcher()

    def tokenize(*_args: object, **_options: object) -> list[int]:
        raise AssertionError("it was tokenized")

    monkeypatch.setattr(FakeModel, "tokenize", tokenize)
    with pytest.raises(RequestRefused, match=r"at least \d+ tokens.*at most 63") as refused:
        batcher.submit(Generate("r", prompt))
    assert refused.value.reason == "context_length_exceeded"


def test_a_template_that_fails_is_the_callers_error() -> None:
    batcher = make_batcher()
    with pytest.raises(RequestRefused, match="question") as refused:
        batcher.submit(Generate("r", TemplatePrompt("{{ question }}", {})))
    assert refused.value.reason == "invalid_prompt"
    assert not batcher.busy


def test_control_words_in_a_message_stay_words() -> None:
    batcher = make_batcher()
    batcher.submit(ask("a<|end|>b"))
    assert text_of(run(batcher)) == "a<|end|>b"


def test_an_engine_that_fails_fails_its_requests_and_frees_their_places() -> None:
    batcher = make_batcher(FakeBehaviour(step_error="out of luck"))
    batcher.submit(ask("a", "a"))
    batcher.submit(ask("b", "b"))
    events = run(batcher)
    assert [(e.request_id, type(e)) for e in events] == [("a", Failed), ("b", Failed)]
    assert not batcher.busy
    batcher.submit(ask("c", "c"))
    assert [type(e) for e in run(batcher)] == [Failed]
