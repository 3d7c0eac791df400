"""Where peers lie, how they are installed once, and what is said where one is not."""

from pathlib import Path

import pytest

import bench_peers
from bench_peers import PeerError, ensure
from sits.bench import LLAMA_SERVER, PEER_MARKER, PEERS, BenchError, Peer
from sits.bench import _peer_places as places
from sits.bench._peers import PeerShape, run_peer

PEER = Peer("peer", "1.0", (), "bin/peer")


def in_cache(path: Path) -> dict[str, str]:
    return {"XDG_CACHE_HOME": str(path)}


def install(peer: Peer, folder: Path) -> None:
    (folder / "bin").mkdir()
    (folder / peer.program).write_text(peer.version)


def test_the_cache_is_the_users_or_the_one_named() -> None:
    assert places.peers_folder({"XDG_CACHE_HOME": "/x"}) == Path("/x/sits/peers")
    assert places.peers_folder({"SITS_CACHE": "/y", "XDG_CACHE_HOME": "/x"}) == Path("/y/peers")
    assert places.peers_folder({}) == Path.home() / ".cache/sits/peers"


def test_another_version_build_or_cpu_lies_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    found = {PEER.folder(), Peer("peer", "1.1", (), "bin/peer").folder()}
    found.add(Peer("peer", "1.0", ("-DNATIVE=ON",), "bin/peer").folder())
    monkeypatch.setattr(places, "_cpu", lambda: "avx512_of_another")
    found.add(PEER.folder())
    assert len(found) == 4


def test_a_peer_is_installed_once(tmp_path: Path) -> None:
    environ, said = in_cache(tmp_path), list[str]()
    assert PEER.find(environ) is None
    folder = ensure(PEER, install, said.append, environ)
    assert PEER.find(environ) == folder / "bin/peer"
    again = ensure(PEER, lambda *_: pytest.fail("installed twice"), said.append, environ)
    assert (again, said[-1]) == (folder, f"peer 1.0 is there: {folder}")


def test_a_half_of_a_peer_is_no_peer_and_is_made_anew(tmp_path: Path) -> None:
    environ = in_cache(tmp_path)

    def die(peer: Peer, folder: Path) -> None:
        install(peer, folder)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ensure(PEER, die, lambda _: None, environ)
    assert PEER.find(environ) is None
    folder = ensure(PEER, install, lambda _: None, environ)
    assert (folder / PEER_MARKER).exists()


def test_an_installation_that_leaves_no_program_is_told(tmp_path: Path) -> None:
    with pytest.raises(PeerError, match=r"left no .*/bin/peer"):
        ensure(PEER, lambda *_: None, lambda _: None, in_cache(tmp_path))
    assert PEER.find(in_cache(tmp_path)) is None


def test_a_failed_step_is_told_with_the_end_of_its_log(tmp_path: Path) -> None:
    with pytest.raises(PeerError, match=r"(?s)exit status 3.*no compiler"):
        bench_peers._run(tmp_path, ["sh", "-c", "echo no compiler; exit 3"])


def test_every_peer_can_be_installed_and_an_unknown_one_is_refused(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert set(bench_peers.INSTALLERS) == {peer.name for peer in PEERS}
    with pytest.raises(SystemExit):
        bench_peers.main(["vllm"])
    assert "no peer vllm; there are llama-server, xllamacpp" in capsys.readouterr().err


def test_a_peer_that_is_not_installed_is_named_with_what_installs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SITS_CACHE", str(tmp_path))
    with (
        pytest.raises(BenchError, match=r"llama-server .* is not installed.*make bench-peers"),
        run_peer(LLAMA_SERVER, PeerShape(tmp_path)),
    ):
        pytest.fail("it ran")
