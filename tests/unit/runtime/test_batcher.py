"""What the batcher makes of requests, step by step, on the fake engine."""

import msgspec
import pytest

from sits.runtime.batch import Batcher, BatchRules, RequestRefused
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
    Sampling,
    Stage,
    TemplatePrompt,
    TokenLogprob,
    Usage,
)
from tests.batchers import MARKS, SHAPE, SHARED, TimedEngine, ask, make_timed, run, text_of


def make_batcher(behaviour: FakeBehaviour | None = None, queue_limit: int = 2) -> Batcher:
    model = FakeModel(behaviour)
    engine = TimedEngine(model, SHAPE)
    rules = BatchRules(queue_limit=queue_limit)
    return Batcher(model, engine, lambda: engine.now_us, rules=rules)


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


# sharing, pieces, turns, deadlines, going on elsewhere


def test_a_prompt_that_was_computed_once_is_found() -> None:
    batcher, engine = make_timed(PoolShape(sequences=2, sequence_tokens=128, batch_tokens=64))
    words = "the same long beginning, then "
    batcher.submit(ask(words + "one"))
    first = run(batcher)[-1]
    assert isinstance(first, Finished)
    assert first.usage.cached_tokens == 0
    engine.steps.clear()
    batcher.submit(ask(words + "two"))
    second = run(batcher)
    assert text_of(second) == words + "two"
    assert isinstance(second[-1], Finished)
    # The user's mark, the words, and nothing of what follows them; "two" and "one" differ at once.
    assert second[-1].usage.cached_tokens == 1 + len(words)
    assert engine.steps[0] == [len("two") + 2]


def test_the_same_prompt_again_computes_one_token() -> None:
    batcher, engine = make_timed()
    batcher.submit(ask("a prompt to be said twice"))
    run(batcher)
    engine.steps.clear()
    batcher.submit(ask("a prompt to be said twice"))
    assert text_of(run(batcher)) == "a prompt to be said twice"
    assert engine.steps[0] == [1]


def test_a_running_answer_shares_its_prompt() -> None:
    batcher, engine = make_timed()
    batcher.submit(ask("shared while it runs", "a"))
    for _ in range(4):
        batcher.step()
    used = SHAPE.room - engine.free_cells
    batcher.submit(ask("shared while it runs", "b"))
    events = batcher.step()
    # One more token of the answer that runs, and the last one of the prompt.
    assert SHAPE.room - engine.free_cells == used + 2
    assert text_of(events + run(batcher), "b") == "shared while it runs"


def test_a_long_prompt_and_the_answers_that_run_take_turns() -> None:
    shape = PoolShape(sequences=2, sequence_tokens=512, batch_tokens=128)
    batcher, engine = make_timed(shape, BatchRules(stall_us=1))
    batcher.submit(ask("short and then on and on", "a"))
    batcher.step()
    batcher.submit(ask("x" * 200, "b"))
    engine.steps.clear()
    events = run(batcher)
    # As much time for the answer as the piece took: one step. What ends a prompt does not wait.
    assert engine.steps[:6] == [
        [1, 63],
        [1],
        [1, 63],
        [1],
        [1, 63],
        [1, 200 + MARKS - SHARED - 3 * 63],
    ]
    assert text_of(events, "b") == "x" * 200


def test_a_long_prompt_goes_in_every_step_where_that_is_fast_enough() -> None:
    shape = PoolShape(sequences=2, sequence_tokens=512, batch_tokens=64)
    batcher, engine = make_timed(shape, BatchRules(stall_us=10**9))
    batcher.submit(ask("short and then on and on", "a"))
    batcher.step()
    batcher.submit(ask("x" * 200, "b"))
    engine.steps.clear()
    run(batcher)
    assert engine.steps[:4] == [[1, 63], [1, 63], [1, 63], [1, 200 + MARKS - SHARED - 3 * 63]]


def test_a_short_prompt_does_not_wait_for_a_long_ones_turn() -> None:
    shape = PoolShape(sequences=3, sequence_tokens=512, batch_tokens=64)
    batcher, engine = make_timed(shape, BatchRules(stall_us=1))
    batcher.submit(ask("short and then on and on", "a"))
    batcher.step()
    batcher.submit(ask("x" * 200, "b"))
    batcher.step()
    batcher.submit(ask("brief", "c"))
    engine.steps.clear()
    run(batcher)
    assert engine.steps[:2] == [[1, len("brief") + MARKS - SHARED], [1, 1, 62]]


def test_pieces_are_small_where_an_objective_says_so() -> None:
    shape = PoolShape(sequences=2, sequence_tokens=512, batch_tokens=64)
    batcher, engine = make_timed(shape)
    batcher.submit(ask("short and then on and on", "a"), "u")
    batcher.step()
    batcher.submit(ask("x" * 100, "b"), "v")
    batcher.step()
    batcher.aim("u", 0.5)  # which no step keeps: each takes 1 ms
    engine.steps.clear()
    batcher.step()
    batcher.step()
    assert engine.steps == [[1, 4], [1, 4]]


def test_a_prompt_alone_goes_in_by_whole_batches() -> None:
    shape = PoolShape(sequences=2, sequence_tokens=512, batch_tokens=64)
    batcher, engine = make_timed(shape, BatchRules(stall_us=1))
    batcher.submit(ask("x" * 100))
    run(batcher)
    assert engine.steps[:2] == [[64], [100 + MARKS - 64]]


def test_units_take_turns_however_much_one_asks() -> None:
    batcher, _engine = make_timed(PoolShape(sequences=1, sequence_tokens=64, batch_tokens=64))
    for number in range(4):
        batcher.submit(ask("greedy words", f"a{number}"), "greedy")
    batcher.submit(ask("modest", "b"), "modest")
    order = [event.request_id for event in run(batcher) if isinstance(event, Finished)]
    assert order.index("b") == 1


def test_a_deadline_ends_a_request_that_waits_and_one_that_runs() -> None:
    batcher, engine = make_timed(PoolShape(sequences=1, sequence_tokens=64, batch_tokens=64))
    limited = msgspec.structs.replace(ask("a longer answer", "run"), timeout_ms=5)
    batcher.submit(limited)
    batcher.submit(msgspec.structs.replace(ask("waits", "wait"), timeout_ms=3))
    events = run(batcher)
    failed = [event for event in events if isinstance(event, Failed)]
    assert [(event.request_id, event.code) for event in failed] == [
        ("wait", "deadline_exceeded"),
        ("run", "deadline_exceeded"),
    ]
    assert text_of(events, "run") == "a lon"
    assert engine.now_us == 5000
    assert not batcher.request_ids


@pytest.mark.parametrize("done", range(12))
def test_an_answer_goes_on_behind_what_its_client_has(done: int) -> None:
    words = "héllo wörld"
    whole = make_batcher()
    whole.submit(ask(words, stop="never"))
    pieces = [event.piece for event in run(whole) if isinstance(event, Emitted)]
    given, rest = pieces[:done], pieces[done:]
    accepted = tuple(token for piece in given for token in piece.tokens)
    other = make_batcher()
    request = ask(words, stop="never")
    other.submit(msgspec.structs.replace(request, accepted=accepted, next_seq=done))
    events = run(other)
    found = [event.piece for event in events if isinstance(event, Emitted)]
    assert [(p.seq, p.text, p.tokens) for p in found] == [(p.seq, p.text, p.tokens) for p in rest]
    assert isinstance(events[-1], Finished)
    assert events[-1].usage.completion_tokens == len(words.encode())


def test_an_answer_of_which_only_the_end_was_lost_just_ends() -> None:
    batcher = make_batcher()
    request = ask("abcdef", max_tokens=3)
    batcher.submit(msgspec.structs.replace(request, accepted=tuple(b"abc"), next_seq=3))
    assert run(batcher) == [Finished("r", FinishReason.LENGTH, Usage(6 + MARKS, 3))]


def test_a_full_pool_parks_the_newest_answer_and_brings_it_back() -> None:
    shape = PoolShape(sequences=3, sequence_tokens=64, batch_tokens=32, kept=0, cells=96)
    batcher, engine = make_timed(shape)
    words = {name: name * 28 for name in "abc"}
    for name, said in words.items():
        batcher.submit(ask(said, name))
    events = run(batcher)
    assert {name: text_of(events, name) for name in words} == words
    assert [e.request_id for e in events if isinstance(e, Finished)] == ["a", "b", "c"]
    assert engine.free_cells == shape.room


def test_a_schema_that_makes_no_grammar_is_refused() -> None:
    batcher = make_batcher()
    with pytest.raises(RequestRefused, match="makes no grammar") as caught:
        batcher.submit(Generate("r", ask("x").prompt, Sampling(json_schema="{")))
    assert caught.value.reason == "invalid_request"
    assert not batcher.busy


def test_logprobs_are_told_with_each_token_where_asked() -> None:
    batcher = make_batcher()
    batcher.submit(Generate("r", ask("hi").prompt, Sampling(top_logprobs=1)))
    pieces = [event.piece for event in run(batcher) if isinstance(event, Emitted)]
    assert [piece.logprobs for piece in pieces] == [
        (TokenLogprob(104, b"h", 0.0, ((b"h", 0.0),)),),
        (TokenLogprob(105, b"i", 0.0, ((b"i", 0.0),)),),
    ]


def test_an_objective_bounds_how_many_run_together() -> None:
    shape = PoolShape(sequences=4, sequence_tokens=64, batch_tokens=64)
    batcher, engine = make_timed(shape)
    # The fake takes 1 ms a step whatever is in it; before it is known, a step is thought to
    # take 10 ms, and 3 more for each token.
    batcher.aim("strict", 17.0)
    for number in range(4):
        batcher.submit(ask("words", f"r{number}"), "strict")
    batcher.step()
    assert len(engine.steps[0]) == 2
    events = run(batcher)
    assert [text_of(events, f"r{number}") for number in (2, 3)] == ["words", "words"]


def test_without_an_objective_all_run_together() -> None:
    batcher, engine = make_timed(PoolShape(sequences=4, sequence_tokens=64, batch_tokens=64))
    for number in range(4):
        batcher.submit(ask("words", f"r{number}"), "relaxed")
    batcher.step()
    assert len(engine.steps[0]) == 4
