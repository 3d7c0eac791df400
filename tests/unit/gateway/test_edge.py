"""What holds for every request: keys, hosts, ids, limits, the form of errors, the log line."""

import json
import logging
from pathlib import Path
from typing import Any

import anyio
import pytest

from sits import trust
from sits.wire import serve
from tests.unit.gateway.support import KEY, Client, hangs, make_route, running, says, serving

pytestmark = pytest.mark.anyio

CHAT = "/v1/chat/completions"


@pytest.mark.parametrize(
    "headers",
    [
        {"authorization": ""},
        {"authorization": "Bearer"},
        {"authorization": "Bearer "},
        {"authorization": f"Basic {KEY.text}"},
        {"authorization": "Bearer sk-sits-aaaaaaaa-nonsense"},
        {"authorization": f"Bearer {KEY.text}x"},
        {"authorization": f"Bearer {trust.make_key().text}"},
        {"authorization": "", "x-api-key": "wrong"},
    ],
)
@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", CHAT), ("GET", "/v1/models"), ("GET", "/api/v1/units"), ("GET", "/nowhere")],
)
async def test_without_a_good_key_nothing_is_answered_but_401(
    tmp_path: Path, headers: dict[str, str], method: str, path: str
) -> None:
    async with running(tmp_path) as it:
        it.table(make_route())
        answer = await it.client(method, path, headers=headers)
    assert (answer.status, answer.error["code"]) == (401, "invalid_api_key")
    assert answer.error["type"] == "invalid_request_error"
    assert answer.headers["www-authenticate"].startswith("Bearer")
    assert KEY.text not in answer.body.decode()


@pytest.mark.parametrize(
    "headers",
    [{"authorization": f"bearer {KEY.text}"}, {"authorization": "", "x-api-key": KEY.text}],
)
async def test_a_key_is_taken_from_either_header(tmp_path: Path, headers: dict[str, str]) -> None:
    async with running(tmp_path) as it:
        it.table(make_route())
        assert (await it.client("GET", "/v1/models", headers=headers)).status == 200


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("LOCALHOST.", 200),
        ("localhost:1", 200),
        ("127.0.0.1:7480", 200),
        ("[::1]:7480", 200),
        ("[::1]", 200),
        ("evil.example", 421),
        ("localhost.evil.example", 421),
        ("evil.example:7480", 421),
        ("[::2]", 421),
        ("", 421),
    ],
)
async def test_only_requests_for_our_own_names_are_served(
    tmp_path: Path, host: str, status: int
) -> None:
    async with running(tmp_path) as it:
        it.table(make_route())
        answer = await it.client("GET", "/v1/models", headers={"host": host})
    assert answer.status == status


@pytest.mark.parametrize(
    ("allowed", "host", "status"),
    [
        (("sits.example:443",), "sits.example:443", 200),
        (("sits.example:443",), "sits.example", 421),
        (("Sits.Example",), "sits.example:8443", 200),
        (("*",), "whatever:1", 200),
    ],
)
async def test_the_names_that_are_served_can_be_set(
    tmp_path: Path, allowed: tuple[str, ...], host: str, status: int
) -> None:
    async with running(tmp_path, allowed_hosts=allowed) as it:
        it.table(make_route())
        answer = await it.client("GET", "/v1/models", headers={"host": host})
    assert answer.status == status


@pytest.mark.parametrize("name", ["host", "authorization", "x-api-key"])
@pytest.mark.parametrize("path", ["/v1/models", "/livez"])
async def test_a_header_that_decides_who_asks_whom_may_be_there_once(
    tmp_path: Path, name: str, path: str
) -> None:
    given = {"host": "localhost", "authorization": f"Bearer {KEY.text}", "x-api-key": KEY.text}
    headers = [(key.encode(), value.encode()) for key, value in given.items()]
    async with running(tmp_path) as it:
        it.table(make_route())
        once = await it.client("GET", path, headers=headers)
        twice = await it.client("GET", path, headers=[*headers, (name.encode(), b"evil.example")])
        same = await it.client("GET", path, headers=[*headers, *headers])
    assert once.status == 200
    assert [twice.status, same.status] == [400, 400]
    assert twice.error["code"] == "invalid_http"
    assert repr(name) in twice.error["message"]


async def test_probes_need_neither_key_nor_host_and_ready_means_a_table(tmp_path: Path) -> None:
    bare = {"authorization": "", "host": "10.0.0.7:1"}
    async with running(tmp_path) as it:
        live = await it.client("GET", "/livez", headers=bare)
        before = await it.client("GET", "/readyz", headers=bare)
        early = await it.client.chat()
        it.table()
        after = await it.client("GET", "/readyz", headers=bare)
        pointer = await it.client("GET", "/", headers=bare)
    assert [live.status, before.status, after.status] == [200, 503, 200]
    assert (early.status, early.error["code"]) == (503, "not_ready")
    assert pointer.json["openai"] == "/v1"


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("abc-DEF_1.2", True),
        ("x" * 128, True),
        ("x" * 129, False),
        ("a b", False),
        ("a\tb", False),
        ("", False),
    ],
)
async def test_a_callers_id_is_kept_when_it_is_harmless(
    tmp_path: Path, given: str, kept: bool
) -> None:
    async with running(tmp_path) as it:
        answer = await it.client("GET", "/livez", headers={"x-request-id": given})
    assert (answer.headers["x-request-id"] == given) == kept
    assert answer.headers["x-request-id"]


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/v1/nothing", 404, "not_found"),
        ("GET", "/v1/models/", 404, "model_not_found"),
        ("GET", "/v1/models/none", 404, "model_not_found"),
        ("GET", CHAT, 405, "method_not_allowed"),
        ("DELETE", "/v1/models", 405, "method_not_allowed"),
        ("POST", "/v1/chat/completions/", 404, "not_found"),
        ("POST", "/iu/none/v1/query", 404, "model_not_found"),
    ],
)
async def test_errors_of_routes_have_the_same_form(
    tmp_path: Path, method: str, path: str, status: int, code: str
) -> None:
    async with running(tmp_path) as it:
        it.table(make_route())
        answer = await it.client(method, path, {})
    assert (answer.status, answer.error["code"]) == (status, code)
    assert set(answer.error) == {"message", "type", "param", "code"}
    assert ("allow" in answer.headers) == (status == 405)


async def test_units_are_listed_also_at_zero_instances(tmp_path: Path) -> None:
    async with running(tmp_path) as it:
        it.table(make_route(), make_route(name="other"), make_route(name="x", tenant="other"))
        listed = await it.client("GET", "/v1/models")
        card = await it.client("GET", "/v1/models/chat")
    expected = {
        "id": "chat",
        "created": 1_700_000_000,
        "owned_by": "default",
        "object": "model",
    }
    assert listed.json["object"] == "list"
    assert [each["id"] for each in listed.json["data"]] == ["chat", "other"]
    assert listed.json["data"][0] == card.json == expected


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"nonsense",
        b"[]",
        b"3",
        b'{"model": NaN}',
        b'{"model": "chat", "messages": [1e999]}',
        b'{"seed": ' + b"9" * 5000 + b"}",
        b'{"model": "\xff"}',
        b'{"model": "\\ud800 and more text behind it"}',
        b'{"model": "\\udc00 and more text behind it"}',
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b"\xef\xbb\xbf{}",
        b"\x00\x01",
    ],
)
@pytest.mark.parametrize("path", [CHAT, "/iu/chat/v1/query"])
async def test_a_body_that_is_no_json_object_is_a_400(
    tmp_path: Path, body: bytes, path: str
) -> None:
    async with running(tmp_path) as it:
        it.table(make_route())
        answer = await it.client("POST", path, body)
    assert answer.status == 400
    assert set(answer.error) == {"message", "type", "param", "code"}


@pytest.mark.parametrize("declared", [True, False])
async def test_a_body_over_the_limit_is_a_413_declared_or_not(
    tmp_path: Path, declared: bool
) -> None:
    headers = {"content-length": "1001"} if declared else {}
    async with running(tmp_path, max_body_bytes=1000) as it:
        it.table(make_route())
        answer = await it.client("POST", CHAT, b"x" * 1001, headers=headers)
    assert (answer.status, answer.error["code"]) == (413, "request_too_large")
    assert answer.headers["connection"] == "close"


async def test_a_body_that_does_not_come_is_a_408(tmp_path: Path) -> None:
    async with running(tmp_path, body_s=0.01) as it:
        it.table(make_route())
        sent: list[Any] = []

        async def receive() -> dict[str, Any]:
            await anyio.sleep_forever()
            raise AssertionError

        async def send(event: Any) -> None:
            sent.append(event)

        await it.gateway.app(it.client._scope("POST", CHAT, {}), receive, send)
    assert sent[0]["status"] == 408


async def test_a_bug_is_a_500_that_names_the_request_and_nothing_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError("secret detail")

    answers: list[Any] = []
    async with running(tmp_path) as it:
        it.table(make_route())
        monkeypatch.setattr("sits.gateway._endpoints.read_chat", fail)

        def keep(event: Any) -> None:
            answers.append(event)

        with pytest.raises(RuntimeError):
            await it.client("POST", CHAT, {}, headers={"x-request-id": "id-7"}, on_send=keep)
    assert answers[0]["status"] == 500
    error = json.loads(answers[1]["body"])["error"]
    assert error["code"] == "internal_error"
    assert "id-7" in error["message"]
    assert "secret" not in error["message"]


async def test_the_log_has_one_line_for_a_request_and_neither_prompt_nor_key(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "sits.gateway.requests")
    async with serving(tmp_path, says("an answer", "!")) as (it, _):
        await it.client.chat(messages=[{"role": "user", "content": "a prompt"}], stream=True)
        await it.client("GET", f"/v1/models/%0anone?key={KEY.text}")
    chat, models = [
        record.getMessage() for record in caplog.records if "event=request" in record.getMessage()
    ]
    for part in (
        "method=POST",
        "path=/v1/chat/completions",
        "status=200",
        "tenant=default",
        "unit=chat",
        "tier=hot",
        "tokens=3",
        "ttft_ms=",
        "duration_ms=",
    ):
        assert part in chat.split() or part in chat
    assert "status=404" in models
    assert "error=model_not_found" in models
    assert "path=/v1/models/%0anone" in models
    for secret in ("prompt", "answer", KEY.text, "key="):
        assert secret not in chat + models


async def test_a_client_that_left_is_logged_as_499(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "sits.gateway.requests")
    leave = anyio.Event()
    async with serving(tmp_path, hangs) as (it, worker), anyio.create_task_group() as group:
        group.start_soon(it.client.chat, leave)
        await worker.until(lambda: len(worker.requests) == 1)
        leave.set()
    assert "status=499" in caplog.text


async def test_control_that_is_away_is_a_503_that_says_so(tmp_path: Path) -> None:
    async with running(tmp_path) as it:
        it.table(make_route())
        answer = await it.client("GET", "/api/v1/units")
    assert (answer.status, answer.error["code"]) == (503, "control_unavailable")
    assert answer.headers["retry-after"] == "1"


@pytest.mark.parametrize(
    ("query", "header"), [("x=\u00ff", "text/plain"), ("x=\t", "text/plain"), ("", "a\x00b")]
)
async def test_what_cannot_be_handed_on_to_control_is_a_400_and_no_503(
    tmp_path: Path, query: str, header: str
) -> None:
    async with running(tmp_path) as it:
        it.table(make_route())
        async with anyio.create_task_group() as group:
            await group.start(serve, str(tmp_path / "api"), bytes, lambda _: anyio.sleep_forever())
            path = f"/api/v1/units?{query}"
            answer = await it.client("GET", path, headers={"content-type": header})
            group.cancel_scope.cancel()
    assert (answer.status, answer.error["code"]) == (400, "invalid_http")
    assert "percent-encode" in answer.error["message"]


async def test_only_http_is_served(tmp_path: Path) -> None:
    async with running(tmp_path) as it:
        with pytest.raises(RuntimeError, match="websocket"):
            await Client(it.gateway.app).app({"type": "websocket"}, None, None)


@pytest.mark.parametrize(("given", "hops"), [(None, 0), ("0", 0), ("4", 4), ("none", 0), ("-1", 0)])
async def test_how_often_a_request_was_passed_on_goes_with_it(
    tmp_path: Path, given: str | None, hops: int
) -> None:
    headers = {} if given is None else {"x-sits-hops": given}
    async with serving(tmp_path, says("a")) as (it, worker):
        body = {"model": "chat", "messages": [{"role": "user", "content": "hi"}]}
        assert (await it.client("POST", CHAT, body, headers=headers)).status == 200
    assert [order.hops for order in worker.orders] == [hops]


@pytest.mark.parametrize("given", ["5", "6", "1" * 5000])
async def test_a_request_that_was_passed_on_too_often_is_in_a_loop(
    tmp_path: Path, given: str
) -> None:
    chat = {"model": "chat", "messages": [{"role": "user", "content": "hi"}]}
    async with serving(tmp_path, says("a")) as (it, worker):
        for path, body in ((CHAT, chat), ("/iu/chat/v1/query", {"inputs": {"question": "why"}})):
            answer = await it.client("POST", path, body, headers={"x-sits-hops": given})
            assert (answer.status, answer.error["code"]) == (508, "loop_detected")
            assert "'chat'" in answer.error["message"]
            assert "retry-after" not in answer.headers
    assert worker.orders == []


async def test_a_request_says_once_how_often_it_was_passed_on(tmp_path: Path) -> None:
    key = f"Bearer {KEY.text}".encode()
    usual = [(b"host", b"127.0.0.1"), (b"authorization", key)]
    twice = [(b"x-sits-hops", b"0"), (b"x-sits-hops", b"9")]
    async with running(tmp_path) as it:
        it.table(make_route())
        answer = await it.client("GET", "/v1/models", headers=[*usual, *twice])
    assert (answer.status, answer.error["code"]) == (400, "invalid_http")
