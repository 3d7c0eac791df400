"""Rates into ratios to the best peer, and answers that are not what was asked for."""

import json
import random

import pytest

from sits.bench import BenchError
from sits.bench import _throughput as throughput
from sits.bench._client import Answer


def make_rounds(rates: dict[str, list[float]]) -> throughput._Rounds:
    return throughput._Rounds({}, random.Random(1), {"streams_8": rates})


def test_the_ratio_is_to_the_peer_that_is_the_best_in_all_rounds() -> None:
    rates = {"ours": [90.0, 30.0, 80.0], "a": [100.0, 60.0, 80.0], "b": [10.0, 90.0, 20.0]}
    samples = make_rounds(rates).samples()
    assert samples["streams_8"].own == (0.9, 0.5, 1.0)
    assert samples["streams_8_tokens_per_s"].peers == {
        "a": (100.0, 60.0, 80.0),
        "b": (10.0, 90.0, 20.0),
    }


def test_without_peers_there_is_no_ratio() -> None:
    assert list(make_rounds({"ours": [90.0]}).samples()) == ["streams_8_tokens_per_s"]


def answer(tokens: int, text: str) -> Answer:
    body = json.dumps(
        {"usage": {"completion_tokens": tokens}, "choices": [{"message": {"content": text}}]}
    ).encode()
    made = Answer()
    made.take(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body), 1.0)
    assert made.whole
    return made


@pytest.mark.parametrize(("tokens", "text"), [(7, "words"), (9, "words"), (8, "")])
def test_an_answer_of_another_length_or_without_a_text_is_an_error(tokens: int, text: str) -> None:
    throughput._check(answer(8, "words"), 8, stream=False)
    with pytest.raises(BenchError, match="expected 8 tokens and a text"):
        throughput._check(answer(tokens, text), 8, stream=False)
