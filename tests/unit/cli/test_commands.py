"""The command: results on standard output, the rest on standard error, and its exit status."""

import json
from pathlib import Path

import httpx2
import pytest
from typer.testing import CliRunner, Result

from sits import SitsError, __version__
from sits.cli import _client
from sits.cli._app import app
from sits.cli._output import CliError, print_table
from sits.cli._unit_file import read_unit

UNIT = "name: chat\nmodel: builtin://smollm2-135m-instruct\n"


def sits(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments)


def test_tells_its_version() -> None:
    assert sits("--version").stdout == f"sits {__version__}\n"


@pytest.mark.parametrize(
    "arguments", [("--nothing",), ("nothing",), ("iu", "deploy"), ("iu", "list", "-o", "xml")]
)
def test_wrong_use_is_status_2(arguments: tuple[str, ...]) -> None:
    assert sits(*arguments).exit_code == 2


@pytest.mark.parametrize(
    "arguments", [("iu", "list"), ("iu", "get", "x"), ("iu", "delete", "x"), ("chat", "x", "hi")]
)
def test_without_a_platform_it_says_how_to_start_one(arguments: tuple[str, ...]) -> None:
    error = sits(*arguments).exception
    assert isinstance(error, SitsError)
    assert "sits up" in str(error)


@pytest.mark.parametrize(
    ("option", "value"), [("--input", "no-equals"), ("--input", "=x"), ("--json", "[1]")]
)
def test_inputs_that_are_none_are_wrong_use(option: str, value: str) -> None:
    assert sits("iu", "call", "x", option, value).exit_code == 2


def test_down_where_nothing_runs_is_done() -> None:
    result = sits("down", "-o", "json")
    assert (result.exit_code, json.loads(result.stdout)) == (0, {"ended": False})


def test_a_platform_elsewhere_is_named_by_url_and_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SITS_URL", "https://sits.example/")
    with pytest.raises(CliError, match="SITS_API_KEY"):
        _client.connect()
    monkeypatch.setenv("SITS_API_KEY", "sk-sits-x")
    with _client.connect() as api:
        assert api.url == "https://sits.example"


@pytest.mark.parametrize(
    ("lines", "ending"),
    [
        ('data: {"a": 1}\n\ndata: [DONE]\n\n', ""),
        ('data: {"a": 1}\n\n', "closed before its end"),
        ('data: {"a": 1}\n\ndata: {"error": {"message": "it broke"}}\n\n', "it broke"),
    ],
)
def test_a_stream_is_whole_only_with_its_end(lines: str, ending: str) -> None:
    def answer(_request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, text=lines, headers={"x-sits-tier": "warm"})

    seen: list[dict[str, int]] = []
    said = ""
    with _client.Api("http://x", "k", httpx2.MockTransport(answer)) as api:
        try:
            with api.stream("/v1/chat/completions", {}) as stream:
                assert stream.tier == "warm"
                for event in stream.events:
                    seen.append(event)  # noqa: PERF402 - what came before an error counts
        except CliError as error:
            said = str(error)
    assert seen == [{"a": 1}]
    assert ending in said
    assert bool(ending) == bool(said)


def test_a_server_that_is_no_platform_is_said() -> None:
    def answer(_request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, text="<html>")

    with (
        _client.Api("http://x", "k", httpx2.MockTransport(answer)) as api,
        pytest.raises(CliError, match="SITS_URL"),
    ):
        api.request("GET", "/api/v1/units")


def test_this_machines_key_is_not_for_another_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "key").write_text("sk-sits-local-secret")
    monkeypatch.setenv("SITS_HOME", str(tmp_path))
    monkeypatch.setenv("SITS_URL", "http://127.0.0.1:1")
    with pytest.raises(CliError, match="SITS_API_KEY"):
        _client.connect()


def test_a_key_file_that_holds_no_key_is_not_sent_and_not_shown(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("sk-sits-abcdefgh-x\r\nX-Evil: 1\r\n")
    with pytest.raises(CliError, match="does not hold a key") as caught:
        _client.local_key(tmp_path)
    assert "Evil" not in str(caught.value)


def test_a_key_that_would_end_its_header_is_refused_unseen() -> None:
    with pytest.raises(CliError, match="SITS_API_KEY") as caught:
        _client.Api("http://x", "sk\r\nX-Evil: 1")
    assert "Evil" not in str(caught.value)


def test_a_prompt_file_beside_the_unit_is_put_in(tmp_path: Path) -> None:
    (tmp_path / "unit.yaml").write_text(UNIT + "prompt:\n  file: words/ask.txt\n")
    (tmp_path / "words").mkdir()
    (tmp_path / "words" / "ask.txt").write_text("Dis: {{ quoi }}", encoding="utf-8")
    unit = read_unit(tmp_path / "unit.yaml")
    assert unit.values["prompt"] == {"template": "Dis: {{ quoi }}"}
    assert unit.notes == []


@pytest.mark.parametrize("path", ["../secret.txt", "/etc/hostname", "link.txt", "missing.txt"])
def test_a_prompt_file_elsewhere_is_refused(tmp_path: Path, path: str) -> None:
    (tmp_path / "secret.txt").write_text("secret")
    folder = tmp_path / "unit"
    folder.mkdir()
    (folder / "link.txt").symlink_to(tmp_path / "secret.txt")
    (folder / "unit.yaml").write_text(UNIT + f"prompt:\n  file: {path}\n")
    with pytest.raises(SitsError, match=r"prompt\.file"):
        read_unit(folder / "unit.yaml")


@pytest.mark.parametrize(
    ("data", "words"), [(None, "cannot be read"), (b"\xff\xfe", "UTF-8"), (b"nmae: x", "name")]
)
def test_a_units_file_that_is_none_is_refused(
    tmp_path: Path, data: bytes | None, words: str
) -> None:
    if data is not None:
        (tmp_path / "unit.yaml").write_bytes(data)
    with pytest.raises(SitsError, match=words):
        read_unit(tmp_path / "unit.yaml")


def test_tables_line_up(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("NAME", "N"), [("a", "1"), ("longer", "22")], "nothing")
    assert capsys.readouterr().out == "NAME    N\na       1\nlonger  22\n"
    print_table(("NAME",), [], "nothing there")
    assert capsys.readouterr() == ("", "nothing there\n")
