"""The home directory: one node on it, and nobody else's files."""

import os
import socket
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from sits.node import NodeError, RunningNode, running_node, shut_down
from sits.node._home import lock_home, make_run_dir, prepare_home
from sits.wire import Frames, Shutdown, ToNode


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    # Not tmp_path: sockets' directories are looked for under short paths only.
    with tempfile.TemporaryDirectory(prefix="s", dir="/tmp") as directory:
        monkeypatch.setenv("XDG_RUNTIME_DIR", directory)
        yield Path(directory)


def test_a_home_is_open_to_its_owner_alone(tmp_path: Path) -> None:
    logs = prepare_home(tmp_path / "a" / "home")
    assert logs.stat().st_mode & 0o777 == 0o700
    assert logs.parent.stat().st_mode & 0o777 == 0o700


def test_a_home_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(NodeError, match="SITS_HOME"):
        prepare_home(tmp_path / "file" / "home")


def test_a_second_node_is_refused_and_told_where_the_first_is(tmp_path: Path) -> None:
    with lock_home(tmp_path) as lock:
        lock.describe(RunningNode("http://127.0.0.1:1", "/run", ready=True))
        assert running_node(tmp_path) == RunningNode("http://127.0.0.1:1", "/run", ready=True)
        with (
            pytest.raises(NodeError, match=r"already running at http://127\.0\.0\.1:1"),
            lock_home(tmp_path),
        ):
            pass
    assert running_node(tmp_path) is None
    with lock_home(tmp_path):
        pass


def test_a_node_that_has_not_said_where_it_is_is_running_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "node.lock").write_text("half-writ")
    assert running_node(tmp_path) is None
    with lock_home(tmp_path):
        assert running_node(tmp_path) == RunningNode("", "")


def test_where_nothing_runs_nothing_is_ended(tmp_path: Path) -> None:
    assert running_node(tmp_path / "nowhere") is None
    assert shut_down(tmp_path) is False


def test_a_node_is_asked_over_its_socket_and_waited_for(tmp_path: Path) -> None:
    with (
        socket.socket(socket.AF_UNIX) as listener,
        tempfile.TemporaryDirectory(prefix="s", dir="/tmp") as run_dir,
    ):
        listener.bind(os.path.join(run_dir, "node.sock"))
        listener.listen()
        listener.settimeout(10)
        asked: list[ToNode] = []
        locked, ended = threading.Event(), threading.Event()

        def node() -> None:
            with lock_home(tmp_path) as lock:
                lock.describe(RunningNode("http://x", run_dir))
                locked.set()
                peer, _address = listener.accept()
                with peer:
                    asked.extend(Frames[ToNode](ToNode).feed(peer.recv(4096)))
            ended.set()

        thread = threading.Thread(target=node)
        thread.start()
        assert locked.wait(10)
        assert shut_down(tmp_path) is True
        assert ended.wait(10)
        thread.join()
    assert asked == [Shutdown()]


def test_sockets_lie_in_a_short_directory_of_the_owners_own(tmp_path: Path, runtime: Path) -> None:
    run_dir = make_run_dir(tmp_path)
    assert Path(run_dir).parent == runtime
    assert Path(run_dir).stat().st_mode & 0o777 == 0o700
    # With the longest name that a socket gets there, and its end.
    assert len(run_dir) + len("/i/" + "x" * 40 + ".sock") < 108
    (Path(run_dir) / "stale.sock").touch()
    assert make_run_dir(tmp_path) == run_dir
    assert not list(Path(run_dir).iterdir())
    assert make_run_dir(tmp_path / "other") != run_dir


@pytest.mark.parametrize("kind", ["open", "link"])
def test_a_directory_of_sockets_that_others_could_enter_is_refused(
    tmp_path: Path, runtime: Path, kind: str
) -> None:
    run_dir = Path(make_run_dir(tmp_path))
    if kind == "open":
        run_dir.chmod(0o755)
    else:
        run_dir.rmdir()
        run_dir.symlink_to(tmp_path)
    with pytest.raises(NodeError, match="XDG_RUNTIME_DIR"):
        make_run_dir(tmp_path)
