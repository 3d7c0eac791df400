"""Requests over real connections to endpoints that fail in every way: who is asked, and told."""

import ssl
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from sits.runtime.remote import Secret
from sits.runtime.remote import _embeddings as vectors
from sits.runtime.remote import _rendering as rendering
from sits.runtime.remote._caller import Caller
from sits.runtime.remote._http import Endpoint, Patience, make_client
from sits.sandbox import Limits
from sits.testing import FakeEndpointBehaviour, FakeOpenAI
from sits.wire import (
    ChatPrompt,
    Embed,
    Embedded,
    Failed,
    Finished,
    FinishReason,
    FromWorker,
    Generate,
    Message,
    RemoteEndpoint,
    TemplatePrompt,
    Usage,
)

pytestmark = pytest.mark.anyio

KEY = "sk-not-for-anybody"
CERTIFICATE = Path(__file__).parents[2] / "data" / "loopback.pem"
# Longer than a busy machine takes; short only where an endpoint is silent on purpose.
PATIENCE = Patience(connect_s=10.0, first_byte_s=10.0, idle_s=10.0)
IMPATIENT = Patience(connect_s=10.0, first_byte_s=0.3, idle_s=0.3)


def patience_with(behaviour: dict[str, Any]) -> Patience:
    return IMPATIENT if any(name.startswith("silent") for name in behaviour) else PATIENCE


class Asker:
    """A caller over endpoints, and what it has said so far."""

    def __init__(self, caller: Caller) -> None:
        self.caller = caller
        self.pieces: list[str] = []

    @property
    def text(self) -> str:
        return "".join(self.pieces)

    async def ask(self, words: str = "Grüße 😀", max_tokens: int | None = None) -> FromWorker:
        self.pieces.clear()
        prompt = ChatPrompt((Message("user", words),))
        request = Generate("r1", prompt, max_tokens=max_tokens)
        return await self.caller.answer(request, self.pieces.append)


@asynccontextmanager
async def asking(
    *urls: str,
    key: str = KEY,
    patience: Patience = PATIENCE,
    read_key: Callable[[], Secret] | None = None,
    tls: ssl.SSLContext | None = None,
) -> AsyncIterator[Asker]:
    async with make_client(tls or ssl.create_default_context(), patience, 4) as client:
        read = read_key or (lambda: Secret("models", key))
        endpoints = [Endpoint(client, RemoteEndpoint(url, "there", "models"), read) for url in urls]
        yield Asker(Caller(endpoints, patience))


@contextmanager
def fake(**behaviour: Any) -> Iterator[FakeOpenAI]:
    with FakeOpenAI(FakeEndpointBehaviour(**behaviour)) as endpoint:
        yield endpoint


async def until(seen: Callable[[], bool]) -> None:
    """Wait for what another thread does."""
    with anyio.fail_after(20):
        while not seen():  # noqa: ASYNC110 - it announces nothing
            await anyio.sleep(0.01)


def failed(answer: FromWorker) -> Failed:
    assert isinstance(answer, Failed)
    return answer


@pytest.mark.parametrize("chunk_bytes", [0, 1, 7])
async def test_an_answer_comes_whole_however_its_bytes_arrive(chunk_bytes: int) -> None:
    with fake(chunk_bytes=chunk_bytes) as endpoint:
        async with asking(endpoint.url) as it:
            answer = await it.ask()
    assert it.text == "Grüße 😀"
    # One token for each byte; the words have 12, and three marks stand around them.
    assert answer == Finished("r1", FinishReason.STOP, Usage(15, 12))
    assert len(it.pieces) == 7


async def test_what_is_sent_is_the_request_under_the_endpoints_name_with_its_key() -> None:
    with fake(key=KEY) as endpoint:
        async with asking(endpoint.url + "/") as it:
            answer = await it.ask("abc", max_tokens=2)
    (asked,) = endpoint.requests
    assert asked.path == "/v1/chat/completions"
    assert asked.headers["authorization"] == f"Bearer {KEY}"
    assert asked.headers["accept-encoding"] == "identity"
    assert asked.body["model"] == "there"
    assert asked.body["max_tokens"] == 2
    assert it.text == "ab"
    assert answer == Finished("r1", FinishReason.LENGTH, Usage(6, 2))


async def test_a_units_template_is_rendered_here() -> None:
    with fake() as endpoint:
        async with asking(endpoint.url) as it:
            prompt = TemplatePrompt("Q: {{ question }}", {"question": "why"}, "Be brief.")
            answer = await it.caller.answer(Generate("r1", prompt), it.pieces.append)
            bad = TemplatePrompt("{{ nobody }}", {})
            refused = await it.caller.answer(Generate("r2", bad), it.pieces.append)
    assert isinstance(answer, Finished)
    assert endpoint.requests[0].body["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Q: why"},
    ]
    assert failed(refused).code == "invalid_prompt"
    assert len(endpoint.requests) == 1


@pytest.mark.parametrize(
    ("limits", "said"),
    [(Limits(), "not done after 1 s"), (Limits(kill_s=0.2), "the process that rendered it")],
    ids=["ended-by-the-sandbox", "ended-by-the-kernel"],
)
async def test_a_template_that_takes_for_ever_ends_its_request_and_holds_up_no_other(
    limits: Limits, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rendering, "_LIMITS", limits)
    loops = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
    with fake() as endpoint:
        async with asking(endpoint.url) as it:
            answers: list[FromWorker] = []

            async def render() -> None:
                bad = Generate("bad", TemplatePrompt(loops, {}))
                answers.append(await it.caller.answer(bad, it.pieces.append))

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(render)
                longest_s = await longest_stall_s(lambda: bool(answers))
            good = Generate("good", TemplatePrompt("hello", {}))
            assert isinstance(await it.caller.answer(good, it.pieces.append), Finished)
    assert failed(answers[0]).code == "invalid_prompt"
    assert said in failed(answers[0]).message
    assert longest_s < 0.5


async def longest_stall_s(done: Callable[[], bool]) -> float:
    """Return for how long at most the event loop gave nobody a turn."""
    longest_s = 0.0
    with anyio.fail_after(15):
        while not done():
            before_s = anyio.current_time()
            await anyio.sleep(0.01)
            longest_s = max(longest_s, anyio.current_time() - before_s)
    return longest_s


async def test_an_answer_without_usage_is_counted() -> None:
    with fake(usage=False) as endpoint:
        async with asking(endpoint.url) as it:
            answer = await it.ask("four word prompt")
    # 16 bytes at 4 a token; 16 pieces.
    assert answer == Finished("r1", FinishReason.STOP, Usage(4, 16))


@pytest.mark.parametrize("status", [500, 502, 503, 429, 401, 403, 404, 408, 307])
async def test_an_endpoint_that_cannot_is_passed_over(status: int) -> None:
    with fake(status=status) as first, fake() as second:
        async with asking(first.url, second.url) as it:
            assert isinstance(await it.ask("hello"), Finished)
            assert it.text == "hello"
            # And left out of the next one.
            assert isinstance(await it.ask("again"), Finished)
    assert (len(first.requests), len(second.requests)) == (1, 2)


async def test_an_endpoint_that_is_not_there_is_passed_over() -> None:
    with fake() as gone:
        pass
    with fake() as second:
        async with asking(gone.url, second.url) as it:
            assert isinstance(await it.ask("hello"), Finished)
    assert it.text == "hello"


@pytest.mark.parametrize(
    "behaviour",
    [
        {"silent_s": 30},
        {"silent_after": 0},
        {"cut_after": 0},
        {"error_after": 0},
        {"raw": b"data: nonsense\n\n"},
        {"raw": b"data: \xff\n\n"},
        {"raw": b'data: {"choices":[]}\n\n'},
        {"raw": b"<html>", "headers": {"content-type": "text/html"}},
        {"raw": b"data: " + b"x" * 2_000_000},
    ],
    ids="-".join,
)
async def test_one_that_fails_before_its_first_piece_is_passed_over(behaviour: Any) -> None:
    with fake(**behaviour) as first, fake() as second:
        async with asking(first.url, second.url, patience=patience_with(behaviour)) as it:
            with anyio.fail_after(20):
                assert isinstance(await it.ask("hello"), Finished)
    assert it.text == "hello"
    assert len(first.requests) == 1


@pytest.mark.parametrize(
    "behaviour",
    [{"silent_after": 2}, {"cut_after": 2}, {"error_after": 2}],
    ids=lambda b: next(iter(b)),
)
async def test_after_the_first_piece_no_other_is_asked(behaviour: Any) -> None:
    with fake(**behaviour) as first, fake() as second:
        async with asking(first.url, second.url, patience=patience_with(behaviour)) as it:
            with anyio.fail_after(20):
                answer = failed(await it.ask("hello"))
    assert it.text == "he"
    assert (answer.code, answer.retryable) == ("endpoint_lost", True)
    assert first.url in answer.message
    assert second.requests == []


async def test_a_connection_that_ends_before_the_end_is_said_is_no_end() -> None:
    """All pieces and the reason are there; only `[DONE]` is not."""
    with fake(cut_after=7) as endpoint:
        async with asking(endpoint.url) as it:
            answer = failed(await it.ask("hello"))
    assert it.text == "hello"
    assert answer.code == "endpoint_lost"


async def test_a_slow_endpoint_that_goes_on_is_not_cut() -> None:
    with fake(pause_s=0.15) as endpoint:
        async with asking(endpoint.url, patience=Patience(10.0, 0.5, 0.5)) as it:
            assert isinstance(await it.ask("hello"), Finished)


@pytest.mark.parametrize("status", [400, 422])
async def test_what_the_caller_did_wrong_is_told_and_no_other_is_asked(status: int) -> None:
    error = {"message": f"no: {KEY} is\r\n\x1b[31m bad", "type": "invalid_request_error"}
    with fake(status=status, error=error) as first, fake() as second:
        async with asking(first.url, second.url) as it:
            answer = failed(await it.ask())
            assert isinstance(await it.ask(), Failed)
    assert (answer.code, answer.retryable) == ("invalid_request", False)
    assert answer.message == "no: [secret] is ?[31m bad"
    assert (len(first.requests), len(second.requests)) == (2, 0)


async def test_too_long_a_prompt_is_told_with_the_endpoints_numbers() -> None:
    with fake(context_tokens=10) as endpoint:
        async with asking(endpoint.url) as it:
            answer = failed(await it.ask("x" * 20))
    assert answer.code == "context_length_exceeded"
    assert "23 tokens are over the 10" in answer.message


async def test_when_none_can_all_reasons_are_told_and_no_key(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with fake(status=500) as first, fake(key="another") as second:
        async with asking(first.url, second.url) as it:
            answer = failed(await it.ask())
    assert (answer.code, answer.retryable) == ("endpoint_failed", True)
    assert f"{first.url}: it answered 500" in answer.message
    assert f"{second.url}: it refuses the secret 'models' (401)" in answer.message
    for text in (answer.message, caplog.text, repr(it.caller)):
        assert KEY not in text
    assert second.url in caplog.text


async def test_when_all_have_too_much_to_do_the_caller_may_come_back() -> None:
    with fake(status=429, headers={"retry-after": "3"}) as endpoint:
        async with asking(endpoint.url) as it:
            answer = failed(await it.ask())
    assert (answer.code, answer.retryable) == ("overloaded", True)


async def test_one_that_failed_five_times_is_not_waited_for_by_everybody() -> None:
    with fake(silent_s=30) as endpoint:
        async with asking(endpoint.url, patience=Patience(2.0, 0.05, 0.05)) as it:
            for _ in range(5):
                assert failed(await it.ask()).code == "endpoint_failed"
            assert failed(await it.ask()).code == "endpoint_failed"
    assert len(endpoint.requests) == 5


async def test_a_key_that_was_replaced_is_read_again() -> None:
    keys = [Secret("models", "old"), Secret("models", "new")]
    with fake(key="new") as endpoint:
        async with asking(endpoint.url, read_key=lambda: keys.pop(0)) as it:
            assert isinstance(await it.ask(), Failed)
            assert isinstance(await it.ask(), Finished)


async def test_a_redirect_is_not_followed_with_the_key() -> None:
    with fake() as elsewhere:
        headers = {"location": f"{elsewhere.url}/chat/completions"}
        with fake(status=307, headers=headers) as first:
            async with asking(first.url) as it:
                assert "redirects" in failed(await it.ask()).message
    assert elsewhere.requests == []


async def test_proxies_of_the_environment_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    with fake() as endpoint:
        async with asking(endpoint.url) as it:
            assert isinstance(await it.ask(), Finished)


@pytest.mark.parametrize("behaviour", [{"silent_s": 30}, {"silent_after": 1}])
async def test_a_cancel_closes_the_connection_at_once(behaviour: Any) -> None:
    with fake(**behaviour) as endpoint:
        async with asking(endpoint.url, patience=Patience(2.0, 20.0, 20.0)) as it:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(it.ask)
                await until(lambda: bool(endpoint.requests))
                await until(lambda: bool(it.pieces) or "silent_s" in behaviour)
                tasks.cancel_scope.cancel()
            await until(lambda: endpoint.left == 1)
    assert endpoint.open == 0


async def test_a_connection_is_used_again() -> None:
    with fake() as endpoint:
        async with asking(endpoint.url) as it:
            await it.ask()
            await it.ask()
            (pool,) = [it.caller._endpoints[0]._client._transport._pool]  # type: ignore[attr-defined]
            assert len(pool.connections) == 1


@pytest.mark.parametrize("hops", [0, 3])
async def test_each_call_says_how_many_times_the_request_was_passed_on(hops: int) -> None:
    prompt = ChatPrompt((Message("user", "hello"),))
    with fake() as endpoint:
        async with asking(endpoint.url) as it:
            await it.caller.answer(Generate("r1", prompt, hops=hops), it.pieces.append)
            await it.caller.answer(Embed("e", ("a",), hops=hops), it.pieces.append)
    assert [asked.headers["x-sits-hops"] for asked in endpoint.requests] == [str(hops + 1)] * 2


async def test_a_loop_is_told_and_no_other_endpoint_is_led_into_it() -> None:
    error = {"message": "it comes back", "type": "server_error", "code": "loop_detected"}
    with fake(status=508, error=error) as first, fake() as second:
        async with asking(first.url, second.url) as it:
            answer = failed(await it.ask())
    assert (answer.code, answer.retryable) == ("loop_detected", False)
    assert answer.message == "it comes back"
    assert second.requests == []


async def test_a_508_that_means_something_else_is_a_failure_like_any_other() -> None:
    with fake(status=508, error="resource limit is reached") as first, fake() as second:
        async with asking(first.url, second.url) as it:
            assert isinstance(await it.ask(), Finished)
    assert len(second.requests) == 1


async def test_vectors_are_those_of_the_endpoint() -> None:
    with fake() as endpoint:
        async with asking(endpoint.url) as it:
            answer = await it.caller.answer(Embed("e", ("a", (97, 97)), 8), it.pieces.append)
    assert isinstance(answer, Embedded)
    assert answer.vectors[0] == answer.vectors[1]
    assert answer.usage == Usage(1 + 2 + 2, 0)
    assert endpoint.requests[0].path == "/v1/embeddings"
    assert endpoint.requests[0].body == {
        "model": "there",
        "input": ["a", [97, 97]],
        "encoding_format": "float",
        "dimensions": 8,
    }


async def test_a_caller_who_asks_too_much_has_no_endpoint_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(vectors, "_MAX_BODY_BYTES", 300)
    monkeypatch.setattr(vectors, "_BODY_BYTES", 300)
    with fake() as endpoint:
        async with asking(endpoint.url) as it:
            for _ in range(6):
                answer = await it.caller.answer(Embed("e", ("a",) * 20), it.pieces.append)
                assert (failed(answer).code, failed(answer).retryable) == ("invalid_prompt", False)
                answer = await it.caller.answer(Embed("e", ("a",), 9999), it.pieces.append)
                assert failed(answer).code == "unsupported_dimensions"
            assert isinstance(await it.ask("hello"), Finished)
    assert len(endpoint.requests) == 13


async def test_an_endpoint_whose_answer_does_not_end_is_passed_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(vectors, "_BODY_BYTES", 1000)
    monkeypatch.setattr(vectors, "_BODY_BYTES_AN_INPUT", 0)
    with fake(headers={"content-length": "99999999"}) as first, fake() as second:
        async with asking(first.url, second.url) as it:
            answer = await it.caller.answer(Embed("e", ("a",) * 3), it.pieces.append)
    assert isinstance(answer, Embedded)


async def test_for_vectors_too_the_next_endpoint_is_tried() -> None:
    with fake(status=503) as first, fake() as second:
        async with asking(first.url, second.url) as it:
            answer = await it.caller.answer(Embed("e", ("a",)), it.pieces.append)
    assert isinstance(answer, Embedded)


async def test_an_endpoint_whose_certificate_nobody_vouches_for_is_not_given_the_key() -> None:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(CERTIFICATE)
    with FakeOpenAI(tls=tls) as endpoint:
        async with asking(endpoint.url) as it:
            assert "CERTIFICATE_VERIFY_FAILED" in failed(await it.ask()).message
        trusting = ssl.create_default_context(cafile=CERTIFICATE)
        async with asking(endpoint.url, tls=trusting) as it:
            assert isinstance(await it.ask(), Finished)
    assert len(endpoint.requests) == 1
