"""Logs: bounded, and read for the reason why something ended."""

import logging
from pathlib import Path

import pytest

from sits.node._process import bound_logs
from sits.observe import configure_logging, message_of


def test_a_log_over_its_bound_is_cut_and_its_writer_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "gateway.log"
    with path.open("ab", buffering=0) as writer:
        writer.write(b"old" * 10)
        bound_logs(tmp_path, max_bytes=20)
        writer.write(b"new")
        bound_logs(tmp_path, max_bytes=20)
    assert path.read_bytes() == b"new"
    assert (tmp_path / "gateway.log.1").read_bytes() == b"old" * 10


def test_a_log_is_its_owners_and_its_lines_give_their_message_back(tmp_path: Path) -> None:
    path = tmp_path / "node.log"
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    try:
        configure_logging("node", path)
        logging.getLogger("sits.test").warning("it %s: badly", "ended")
    finally:
        for handler in root.handlers:
            handler.close()
        root.handlers[:] = before
        root.setLevel(level)
    (line,) = path.read_text().splitlines()
    assert " WARNING node sits.test: it ended: badly" in line
    assert message_of(line) == "it ended: badly"
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("line", ["Traceback (most recent call last):", "", "ValueError: x: y"])
def test_other_lines_stay_as_they_are(line: str) -> None:
    assert message_of(line) == line
