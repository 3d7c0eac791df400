"""Log lines as objects."""

from sits.cli._log_line import read_line


def test_a_request_has_its_fields_as_what_they_are() -> None:
    line = (
        "2026-12-01T18:26:22.545Z INFO gateway sits.gateway.requests: event=request id=req-1 "
        "method=POST status=200 unit=chat tier=warm ttft_ms=17.7 tokens=2"
    )
    read = read_line(line)
    assert read["time"] == "2026-12-01T18:26:22.545Z"
    assert (read["level"], read["process"], read["logger"]) == (
        "INFO",
        "gateway",
        "sits.gateway.requests",
    )
    assert (read["status"], read["ttft_ms"], read["tokens"]) == (200, 17.7, 2)
    assert (read["event"], read["id"], read["tier"]) == ("request", "req-1", "warm")


def test_quoted_words_are_one_value_and_a_message_is_the_message() -> None:
    line = (
        "2026-12-01T18:26:22.598Z INFO control sits.control._units: event=Starting unit=chat "
        "message='chat-1 starts: the first one'"
    )
    assert read_line(line)["message"] == "chat-1 starts: the first one"


def test_a_line_of_another_form_is_all_message() -> None:
    assert read_line("Traceback (most recent call last):") == {
        "message": "Traceback (most recent call last):"
    }
