"""`sits bench` and `make headline`, without the time that a benchmark takes."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import headline
from sits import bench
from sits.bench import Options, Samples, run_bench
from sits.bench import _run as runs
from sits.cli._app import app
from tests.unit.bench.builders import FakeBench, make_fake

PAIR = Samples((20.0, 22.0, 24.0), (10.0, 11.0, 12.0))


@pytest.fixture(autouse=True)
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeBench:
    made = FakeBench({"list_ms": PAIR}, target=21.0)
    monkeypatch.setitem(runs.BENCHES, "fake", made)
    return made


def test_a_result_goes_to_standard_output_and_the_seed_to_the_other() -> None:
    done = CliRunner().invoke(app, ["bench", "fake", "--quick", "--seed", "9", "-o", "json"])
    assert done.exit_code == 0, done.output
    result = json.loads(done.stdout)
    assert (result["seed"], result["quick"]) == (9, True)
    assert result["figures"] == {"list_ms": 22.0}
    assert result["machine"]["cores"] >= 1
    assert "seed 9" in done.stderr


def test_people_are_shown_a_table_and_what_missed_its_target() -> None:
    done = CliRunner().invoke(app, ["bench", "fake"])
    columns, row = done.stdout.splitlines()
    assert columns.split() == ["FIGURE", "MEDIAN", "95", "%", "BASELINE", "RATIO", "TARGET"]
    assert row.split()[:5] == ["list_ms", "22", "20", "to", "24"]
    assert row.split()[5:] == ["11", "2", "(2", "to", "2)", "below", "21"]
    assert "list_ms is 22; its target is below 21" in done.stderr


def test_without_a_name_the_benchmarks_are_listed() -> None:
    assert "units" in CliRunner().invoke(app, ["bench"]).stdout


def test_a_benchmark_that_is_not_there_is_told_with_those_that_are() -> None:
    with pytest.raises(bench.BenchError, match=r"no benchmark 'unit'; there are .*fake.*units"):
        run_bench("unit", Options(), lambda _: None)


def judge(former: Any, latest: Any, made: FakeBench) -> tuple[int, list[str]]:
    said: list[str] = []
    status = headline.judge({"fake": made}, {"fake": former}, {"fake": latest}, said.append)
    return status, said


def test_headline_fails_when_a_figure_is_worse_than_the_last() -> None:
    made, former = make_fake((10.0,) * 6)
    _, latest = make_fake((15.0,) * 6)
    assert judge(former, latest, made) == (
        1,
        ["fake: list_ms 15 (last 10)", "WORSE fake: list_ms was 10 and is 15"],
    )
    assert judge(latest, former, made)[0] == 0


def test_headline_fails_when_a_target_is_missed() -> None:
    made, latest = make_fake((10.0,) * 6, target=10.0)
    status, said = judge(latest, latest, made)
    assert (status, said[1]) == (1, "MISSED fake: list_ms is to be below 10")


def test_a_first_result_is_no_failure_and_is_kept_as_it_was(tmp_path: Path) -> None:
    made, latest = make_fake((10.0,) * 6, (5.0,) * 6)
    assert judge(None, latest, made)[0] == 0
    path = tmp_path / "results" / "fake.json"
    assert headline.read_result(path) is None
    headline.write_result(path, latest)
    assert headline.read_result(path) == latest


def test_what_was_not_measured_is_said(fake: FakeBench) -> None:
    fake.left_out = {"list_ms": "its peer is not installed"}
    done = CliRunner().invoke(app, ["bench", "fake"])
    assert "list_ms was not measured: its peer is not installed" in done.stderr
    options = Options(quick=True)
    result = run_bench("fake", options, lambda _: None)
    assert judge(None, result, fake)[1] == [
        "NOT MEASURED fake: list_ms: its peer is not installed",
        "fake: there is no last result; `make headline ARGS=--save` keeps this one",
    ]


def test_peers_have_rows_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    samples = Samples((20.0,), peers={"llama-server": (40.0,)})
    made = FakeBench({"list_ms": samples}, target=21.0, higher_is_better=True)
    monkeypatch.setitem(runs.BENCHES, "fake", made)
    done = CliRunner().invoke(app, ["bench", "fake"])
    _, row, peer = done.stdout.splitlines()
    assert row.split()[-3:] == ["at", "least", "21"]
    assert peer.split() == ["llama-server", "40"]
