"""The API over a store and a world, without processes or sockets."""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from sits.control import SystemClock
from sits.control import _models as control_models
from sits.control._api import make_app
from sits.control._room import Room
from sits.control._units import Units
from sits.control._world import World
from sits.models import ModelPin, ModelUnavailable
from sits.spec import ModelReference
from sits.store import Store, open_store
from sits.testing import FakeModels
from tests.unit.control.builders import make_settings
from tests.unit.store.faults import fill, make_room

pytestmark = pytest.mark.anyio

CHAT = "name: chat\nmodel: builtin://small\n"
YAML = {"content-type": "application/yaml"}


class Models(FakeModels):
    """Has a bug for one model."""

    def pin(self, reference: ModelReference) -> ModelPin:
        if reference.name == "broken":
            raise RuntimeError("a bug")
        if reference.name == "busy":
            raise ModelUnavailable("the hub is busy", 119.5)
        return super().pin(reference)


async def settle() -> None:
    """There is no gateway that would have to take anything."""


@contextlib.asynccontextmanager
async def api_over(tmp_path: Path) -> AsyncIterator[tuple[httpx2.AsyncClient, Store]]:
    store = open_store(tmp_path / "sits.db")
    clock = SystemClock()
    models = control_models.Models(Models(), tmp_path, clock, lambda end: None)
    units = Units(store, World(), clock, models, Room(), make_settings(), lambda: None)
    (tmp_path / "logs").mkdir()
    app = make_app(units, lambda tenant: {"asked_by": tenant}, settle, log_dir=tmp_path / "logs")
    transport = httpx2.ASGITransport(app=app)
    async with httpx2.AsyncClient(
        transport=transport, base_url="http://control", headers={"x-sits-tenant": "default"}
    ) as client:
        yield client, store
    store.close()


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[httpx2.AsyncClient]:
    async with api_over(tmp_path) as (client, _store):
        yield client


async def post(
    api: httpx2.AsyncClient, text: str | bytes, query: str = "", **headers: str
) -> httpx2.Response:
    return await api.post(f"/api/v1/units{query}", content=text, headers={**YAML, **headers})


def error(answer: httpx2.Response) -> dict[str, Any]:
    body = answer.json()
    assert body.keys() == {"error"}
    assert body["error"].keys() == {"message", "type", "param", "code"}
    found: dict[str, Any] = body["error"]
    return found


async def test_a_new_unit_is_created_and_the_same_again_is_not(api: httpx2.AsyncClient) -> None:
    first, again = await post(api, CHAT), await post(api, CHAT)
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json() == again.json()
    assert first.json().keys() == {"name", "revision", "endpoint", "phase", "notes"}


async def test_yaml_and_json_of_the_same_unit_are_the_same_revision(
    api: httpx2.AsyncClient,
) -> None:
    one = await post(api, CHAT)
    other = await api.post("/api/v1/units", json={"name": "chat", "model": "builtin://small"})
    assert one.json()["revision"] == other.json()["revision"]


async def test_a_dry_run_answers_like_a_deploy_and_changes_nothing(
    api: httpx2.AsyncClient,
) -> None:
    dry = await post(api, CHAT, "?dry_run=true")
    assert (await api.get("/api/v1/units")).json() == {"units": []}
    assert dry.status_code == 200
    told = dry.json()
    assert (told.pop("phase"), told.pop("would")) == (None, "create")
    deployed = (await post(api, CHAT)).json()
    del deployed["phase"]
    assert told == deployed
    assert (await post(api, CHAT, "?dry_run=true")).json()["would"] == "update"


async def test_a_unit_is_shown_with_what_is_wanted_and_what_is(api: httpx2.AsyncClient) -> None:
    await post(api, CHAT + "labels: {team: a}\n")
    shown = (await api.get("/api/v1/units/chat")).json()
    assert shown["spec"]["labels"] == {"team": "a"}
    assert shown["status"]["phase"] == "Deploying"
    assert shown["endpoint"] == "http://127.0.0.1:7480/v1/chat/completions"
    assert (await api.get("/api/v1/units")).json() == {"units": [shown]}
    status = shown["status"]
    line = {name: status[name] for name in ("phase", "reason", "message", "tier", "starts")}
    line |= {name: shown[name] for name in ("name", "revision", "model")}
    line |= {"ready_instances": 0, "max_instances": 1}
    assert (await api.get("/api/v1/units?brief=true")).json() == {"units": [line]}


async def test_a_deleted_unit_is_deleting_until_its_instances_are_gone(
    api: httpx2.AsyncClient,
) -> None:
    await post(api, CHAT)
    answer = await api.delete("/api/v1/units/chat")
    assert answer.json() == {"name": "chat", "phase": "Deleting"}
    assert (await api.get("/api/v1/units/chat")).json()["status"]["phase"] == "Deleting"
    assert (await post(api, CHAT)).status_code == 201


async def test_tenants_do_not_see_each_others_units(api: httpx2.AsyncClient) -> None:
    await post(api, CHAT, **{"x-sits-tenant": "one"})
    other = {"x-sits-tenant": "other"}
    assert (await api.get("/api/v1/units", headers=other)).json() == {"units": []}
    assert (await api.get("/api/v1/units/chat", headers=other)).status_code == 404
    assert (await api.delete("/api/v1/units/chat", headers=other)).status_code == 404
    assert (await api.get("/api/v1/units/chat", headers={"x-sits-tenant": "one"})).is_success


@pytest.mark.parametrize(
    ("text", "status", "code", "param", "words"),
    [
        ("name: chat\nmodle: x\n", 422, "invalid_unit", "modle", "did you mean `model`"),
        (b"\xff\xfe", 422, "invalid_unit", None, "UTF-8"),
        ("", 422, "invalid_unit", None, "is empty"),
        (CHAT + "prompt: {file: a.txt}\n", 422, "invalid_unit", "prompt.file", "iu deploy"),
        (
            "name: a\nmodel: huggingface://bert@v1\n",
            422,
            "model_unavailable",
            "model",
            "use builtin://small",
        ),
        (
            CHAT + 'prompt: "one\\n{{ question"\n',
            422,
            "invalid_unit",
            "prompt.template",
            "prompt.template: the unit's prompt template, line 2",
        ),
        (CHAT + "prompt: '{{ a | nope }}'\n", 422, "invalid_unit", "prompt.template", "nope"),
        (CHAT + "prompt: '{% if a %}'\n", 422, "invalid_unit", "prompt.template", "endif"),
        (
            CHAT + f"prompt: {'x' * (256 * 1024 + 1)}\n",
            422,
            "invalid_unit",
            None,
            "at most 262144",
        ),
        ("x" * (2 * 1024 * 1024 + 1), 413, "body_too_large", None, "send one unit"),
    ],
)
async def test_what_cannot_be_deployed_is_refused_with_what_to_do(
    api: httpx2.AsyncClient,
    text: str | bytes,
    status: int,
    code: str,
    param: str | None,
    words: str,
) -> None:
    for query in ("", "?dry_run=true"):
        answer = await post(api, text, query)
        assert answer.status_code == status
        found = error(answer)
        assert (found["code"], found["param"]) == (code, param)
        assert found["type"] == "invalid_request_error"
        assert words in found["message"]
    assert (await api.get("/api/v1/units")).json() == {"units": []}


async def test_errors_of_routes_and_methods_have_the_same_form(api: httpx2.AsyncClient) -> None:
    missing = await api.get("/api/v1/nothing")
    wrong = await api.patch("/api/v1/units")
    absent = await api.get("/api/v1/units/absent")
    bad = await api.post("/api/v1/units?dry_run=maybe", content=CHAT)
    tenant = await api.get("/api/v1/units", headers={"x-sits-tenant": "../x"})
    # No redirect: it would name the socket's own host, which no client can reach.
    slash = await api.get("/api/v1/units/")
    answers = (missing, wrong, absent, bad, tenant, slash)
    assert [answer.status_code for answer in answers] == [404, 405, 404, 400, 400, 404]
    assert [error(answer)["code"] for answer in answers] == [
        "not_found",
        "method_not_allowed",
        "unit_not_found",
        "invalid_request",
        "invalid_request",
        "not_found",
    ]


async def test_a_full_disk_is_said_and_nothing_of_the_deploy_is_kept(tmp_path: Path) -> None:
    async with api_over(tmp_path) as (api, store):
        fill(store)
        answer = await post(api, CHAT + f"prompt: {'x' * 100_000}\n")
        assert answer.status_code == 507
        assert error(answer)["code"] == "store_full"
        assert error(answer)["type"] == "server_error"
        assert "it has no room" in error(answer)["message"]
        # Where the records are is not for every tenant to know.
        assert str(tmp_path) not in error(answer)["message"]
        assert answer.headers["retry-after"] == "1"
        assert (await api.get("/api/v1/units")).json() == {"units": []}
        make_room(store)
        assert (await post(api, CHAT)).status_code == 201


async def test_a_deploy_that_gateways_could_not_be_told_of_is_refused(
    api: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sits.control._room.MAX_TABLE_BYTES", 10_000)
    large = {"name": "b", "model": "builtin://small", "prompt": {"system": "x" * 6000}}
    assert (await api.post("/api/v1/units", json={**large, "name": "a"})).status_code == 201
    for query in ("", "?dry_run=true"):
        refused = await api.post(f"/api/v1/units{query}", json=large)
        assert (refused.status_code, error(refused)["code"]) == (507, "platform_full")
        assert "at most 10000: delete units" in error(refused)["message"]
        assert "retry-after" not in refused.headers
    assert len((await api.get("/api/v1/units")).json()["units"]) == 1
    await api.delete("/api/v1/units/a")
    assert (await api.post("/api/v1/units", json=large)).status_code == 201


async def test_a_prompt_may_be_made_shorter_while_the_platform_is_too_full(
    api: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    unit = {"name": "a", "model": "builtin://small"}
    await api.post("/api/v1/units", json={**unit, "prompt": {"system": "x" * 6000}})
    monkeypatch.setattr("sits.control._room.MAX_TABLE_BYTES", 1000)
    shorter = await api.post("/api/v1/units", json={**unit, "prompt": {"system": "x" * 5000}})
    assert shorter.status_code == 200


async def test_a_bug_is_answered_without_its_details(api: httpx2.AsyncClient) -> None:
    answer = await post(api, "name: a\nmodel: builtin://broken\n")
    assert answer.status_code == 500
    assert error(answer)["code"] == "internal_error"
    assert "bug near" not in answer.text


async def test_the_api_describes_itself(api: httpx2.AsyncClient) -> None:
    paths = (await api.get("/api/v1/openapi.json")).json()["paths"]
    unit = "/api/v1/units/{name}"
    assert paths.keys() == {
        "/api/v1/units",
        unit,
        f"{unit}/rollback",
        f"{unit}/history",
        f"{unit}/revisions/{{revision}}",
        f"{unit}/events",
        f"{unit}/logs",
        "/api/v1/status",
    }
    assert (await api.get("/api/v1/status")).json()["units"] == 0


async def test_a_request_that_does_not_say_whose_it_is_gets_nothing(
    api: httpx2.AsyncClient,
) -> None:
    await post(api, CHAT)
    del api.headers["x-sits-tenant"]
    for method, path in (
        ("GET", "/api/v1/units"),
        ("POST", "/api/v1/units"),
        ("GET", "/api/v1/units/chat"),
        ("DELETE", "/api/v1/units/chat"),
        ("GET", "/api/v1/status"),
    ):
        answer = await api.request(method, path)
        assert (answer.status_code, error(answer)["code"]) == (403, "tenant_missing")
        assert "with a key" in error(answer)["message"]


async def test_the_gateways_own_header_is_not_in_the_description(api: httpx2.AsyncClient) -> None:
    assert "tenant" not in (await api.get("/api/v1/openapi.json")).text.replace("the tenant's", "")


async def test_the_status_is_asked_for_one_tenant(api: httpx2.AsyncClient) -> None:
    await post(api, CHAT)
    other = (await api.get("/api/v1/status", headers={"x-sits-tenant": "other"})).json()
    assert (other["units"], other["asked_by"]) == (0, "other")


async def test_a_rollback_wants_an_earlier_revision_again(api: httpx2.AsyncClient) -> None:
    first = (await post(api, CHAT)).json()["revision"]
    second = (await post(api, CHAT + "prompt: new\n")).json()["revision"]
    answer = await api.post(f"/api/v1/units/chat/rollback?to={first[:5]}")
    assert (answer.status_code, answer.json()["revision"]) == (200, first)
    history = (await api.get("/api/v1/units/chat/history")).json()
    assert (history["wanted"], history["serving"], history["routes"]) == (first, None, [])
    assert {each["revision"] for each in history["revisions"]} == {first, second}
    spec = (await api.get(f"/api/v1/units/chat/revisions/{second}")).json()
    assert spec["prompt"] == {"template": "new"}


async def test_a_rollback_to_nowhere_is_refused_with_where_to_look(
    api: httpx2.AsyncClient,
) -> None:
    await post(api, CHAT)
    answer = await api.post("/api/v1/units/chat/rollback?to=nope")
    assert (answer.status_code, error(answer)["code"]) == (404, "revision_not_found")
    assert "sits iu history chat" in error(answer)["message"]
    missing = await api.post("/api/v1/units/other/rollback")
    assert (missing.status_code, error(missing)["code"]) == (404, "unit_not_found")


async def test_events_go_on_after_the_last_that_was_seen(api: httpx2.AsyncClient) -> None:
    await post(api, CHAT)
    events = (await api.get("/api/v1/units/chat/events")).json()["events"]
    assert [event["reason"] for event in events] == ["Deployed"]
    await api.delete("/api/v1/units/chat")
    later = (await api.get(f"/api/v1/units/chat/events?after={events[-1]['seq']}")).json()
    assert [event["reason"] for event in later["events"]] == ["Deleting"]
    strange = await api.get("/api/v1/units/chat/events", headers={"x-sits-tenant": "other"})
    assert strange.status_code == 404


async def test_logs_are_a_units_own_and_go_on_from_a_cursor(
    api: httpx2.AsyncClient, tmp_path: Path
) -> None:
    await post(api, CHAT)

    def write(file: str, second: int, words: str) -> None:
        with (tmp_path / "logs" / file).open("a") as log:
            log.write(f"2026-01-01T00:00:{second:02d}.000Z INFO x y: {words}\n")

    write("gateway.log", 2, "event=request tenant=default unit=chat status=200")
    write("gateway.log", 3, "event=request tenant=other unit=chat status=200")
    write("control.log", 1, "event=Started tenant=default unit=chat")
    write("control.log", 4, "event=Started tenant=default unit=chat-2")
    write("h.log", 4, "event=failed tenant=other unit=far reason='x tenant=default unit=chat y'")
    page = (await api.get("/api/v1/units/chat/logs")).json()
    assert [line[17:19] for line in page["lines"]] == ["01", "02"]
    write("control.log", 5, "event=Stopped tenant=default unit=chat")
    query = {"cursor": page["cursor"]}
    page = (await api.get("/api/v1/units/chat/logs", params=query)).json()
    assert [line[17:19] for line in page["lines"]] == ["05"]
    (tmp_path / "logs" / "control.log").write_text("")  # cut, since it grew long
    write("control.log", 6, "event=Stopped tenant=default unit=chat")
    query = {"cursor": page["cursor"]}
    page = (await api.get("/api/v1/units/chat/logs", params=query)).json()
    assert [line[17:19] for line in page["lines"]] == ["06"]
    bad = await api.get("/api/v1/units/chat/logs", params={"cursor": "[1]"})
    assert (bad.status_code, error(bad)["code"]) == (400, "invalid_request")


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("chat/events?after=99999999999999999999999", 400, "invalid_request"),
        ("chat/events?after=3000000000", 400, "invalid_request"),
        ("chat/logs?cursor=" + "[" * 5000, 400, "invalid_request"),
        ("a%00b/events", 404, "unit_not_found"),
        ("A%20B", 404, "unit_not_found"),
        ("chat/revisions/%00", 404, "revision_not_found"),
    ],
)
async def test_what_a_caller_makes_up_is_answered_without_a_bug(
    api: httpx2.AsyncClient, path: str, status: int, code: str
) -> None:
    await post(api, CHAT)
    answer = await api.get(f"/api/v1/units/{path}")
    assert (answer.status_code, error(answer)["code"]) == (status, code)


async def test_a_dry_run_that_is_asked_for_twice_is_refused(api: httpx2.AsyncClient) -> None:
    answer = await post(api, CHAT, "?dry_run=true&dry_run=false")
    assert (answer.status_code, error(answer)["code"]) == (400, "invalid_request")
    assert (await api.get("/api/v1/units")).json() == {"units": []}


async def test_a_bug_is_answered_and_not_raised_again(
    api: httpx2.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    answer = await post(api, "name: chat\nmodel: builtin://broken\n")
    assert (answer.status_code, error(answer)["code"]) == (500, "internal_error")
    assert "a bug" in caplog.text


async def test_a_hub_that_is_busy_says_for_how_long(api: httpx2.AsyncClient) -> None:
    answer = await post(api, "name: chat\nmodel: builtin://busy\n")
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "120")
