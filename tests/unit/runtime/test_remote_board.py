"""Which endpoints are asked, and in which order."""

import logging

import pytest

from sits.runtime.remote._board import EndpointBoard
from sits.runtime.remote._errors import EndpointDown
from sits.wire import RemoteEndpoint

DOWN = EndpointDown("it answered 500")


def make_board(count: int = 2) -> EndpointBoard:
    return EndpointBoard([RemoteEndpoint(f"https://e{n}.example/v1", "m") for n in range(count)])


def fail(board: EndpointBoard, place: int, now_s: float, down: EndpointDown = DOWN) -> None:
    board.failed(place, down, began_s=now_s, now_s=now_s)


def test_all_are_tried_in_their_order() -> None:
    assert make_board(3).order(0.0) == [0, 1, 2]


def test_one_that_failed_is_left_out_for_half_a_second_then_for_one() -> None:
    board = make_board()
    fail(board, 0, 10.0)
    assert board.order(10.4) == [1]
    assert board.order(10.5) == [0, 1]
    fail(board, 0, 10.5)
    assert board.order(11.4) == [1]
    assert board.order(11.5) == [0, 1]


def test_one_that_answers_again_begins_anew() -> None:
    board = make_board()
    for now_s in (1.0, 2.0, 4.0):
        fail(board, 0, now_s)
    board.succeeded(0)
    assert board.order(4.0) == [0, 1]
    assert board.reasons() == ""
    fail(board, 0, 5.0)
    assert board.order(5.5) == [0, 1]


def test_where_all_are_left_out_they_are_tried_all_the_same_soonest_first() -> None:
    board = make_board()
    fail(board, 0, 1.0)
    fail(board, 0, 1.1)
    fail(board, 1, 1.2)
    assert board.order(1.3) == [1, 0]


def test_one_that_fails_again_and_again_is_left_out_while_there_is_another() -> None:
    board = make_board(2)
    for now_s in range(1, 6):
        fail(board, 0, float(now_s))
    assert board.order(6.0) == [1]
    assert board.order(34.9) == [1]
    assert board.order(35.0) == [0, 1]


def test_where_all_fail_again_and_again_each_is_tried_every_two_seconds() -> None:
    board = make_board(1)
    for now_s in range(1, 6):
        fail(board, 0, float(now_s))
    assert board.order(6.0) == []
    assert board.order(7.0) == [0]
    fail(board, 0, 7.0)
    assert board.order(8.9) == []
    assert board.order(9.0) == [0]


def test_calls_side_by_side_that_meet_one_fault_are_one_failure() -> None:
    board = make_board()
    for _ in range(64):
        board.failed(0, DOWN, began_s=1.0, now_s=2.0)
    assert board.order(2.49) == [1]
    assert board.order(2.5) == [0, 1]
    board.failed(0, DOWN, began_s=2.5, now_s=2.6)
    assert board.order(3.59) == [1]
    assert board.order(3.6) == [0, 1]


def test_an_endpoints_own_time_is_believed_within_bounds() -> None:
    board = make_board()
    fail(board, 0, 1.0, EndpointDown("429", throttled=True, retry_after_s=7))
    assert board.order(7.9) == [1]
    assert board.order(8.0) == [0, 1]
    fail(board, 1, 10.0, EndpointDown("429", throttled=True, retry_after_s=86400))
    assert board.order(69.9) == [0]
    assert board.order(70.0) == [0, 1]


def test_one_without_its_key_is_left_out_also_when_all_others_fail() -> None:
    board = make_board(3)
    board.note_key(0, "there is no secret 'k'", 0.0)
    assert board.order(0.0) == [1, 2]
    fail(board, 1, 1.0)
    fail(board, 2, 1.1)
    assert board.order(1.2) == [1, 2]
    assert "https://e0.example/v1: there is no secret 'k'; https://e1" in board.reasons()
    board.note_key(0, "", 1.3)
    assert board.order(1.3) == [0]
    assert "no secret" not in board.reasons()


def test_only_where_no_endpoint_has_its_key_is_that_why_none_answers() -> None:
    board = make_board()
    board.note_key(1, "there is no secret 'k'", 0.0)
    assert not board.lacks_all_keys()
    board.note_key(0, "there is no secret 'k'", 0.0)
    assert board.lacks_all_keys()
    assert board.order(0.0) == []


def test_a_missing_key_is_logged_once_a_minute_and_at_each_change(
    caplog: pytest.LogCaptureFixture,
) -> None:
    board = make_board(1)
    with caplog.at_level(logging.INFO):
        for now_s in (0.0, 1.0, 59.0, 60.0, 61.0):
            board.note_key(0, "there is no secret 'k'", now_s)
        board.note_key(0, "the file is of another", 62.0)
        board.note_key(0, "", 63.0)
        board.note_key(0, "", 64.0)
    levels = [record.levelname for record in caplog.records]
    assert levels == ["WARNING", "WARNING", "WARNING", "INFO"]
    assert "https://e0.example/v1" in caplog.messages[0]
    assert "no secret 'k'" in caplog.messages[0]


def test_each_line_names_the_unit_and_no_other_words_come_before_what_others_said(
    caplog: pytest.LogCaptureFixture,
) -> None:
    forged = "tenant=evil unit=other"
    remote = RemoteEndpoint(f"https://e.example/v1 {forged}\n{forged}", "m")
    board = EndpointBoard([remote], "tenant=acme unit=chat")
    with caplog.at_level(logging.INFO):
        board.note_key(0, f"no key {forged}", 0.0)
        board.note_key(0, "", 1.0)
        fail(board, 0, 2.0, EndpointDown(f"it says {forged}"))
        board.succeeded(0)
    assert len(caplog.messages) == 4
    for line in caplog.messages:
        words, _, _ = line.partition(" reason='")
        assert {"tenant=acme", "unit=chat"} <= set(words.split())
        assert {"tenant=evil", "unit=other"}.isdisjoint(words.split())
        assert "\n" not in line
