"""Installs the peers that `sits bench` measures against, each in an environment of its own.

Idempotent: what is there is left alone. Invariants: a peer's marker is written last, so what a
killed run leaves is made anew; one installation at a time, others wait; nothing is installed
into .venv. Names of peers may be given, to install only these.
"""

import argparse
import contextlib
import fcntl
import os
import shutil
import subprocess
import sys
import tarfile
import venv
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import engine_wheel
from sits.bench import LLAMA_CPP_PYTHON, LLAMA_SERVER, PEERS, XLLAMACPP, Peer
from sits.bench import PEER_MARKER as MARKER

Install = Callable[[Peer, Path], None]
_SOURCE = "vendor/llama.cpp"
_JOBS = "2"


class PeerError(Exception):
    """A peer could not be installed; the message says at what, and names the log."""


def main(arguments: Sequence[str]) -> int:
    """Install what is not there, and return the exit status."""
    parser = argparse.ArgumentParser(prog="bench_peers", description=__doc__)
    names = [peer.name for peer in PEERS]
    parser.add_argument("peers", nargs="*", metavar="PEER", help=f"of {', '.join(names)}")
    wanted = parser.parse_args(arguments).peers or names
    if unknown := sorted(set(wanted) - set(names)):
        parser.error(f"there is no peer {', '.join(unknown)}; there are {', '.join(names)}")
    failed = 0
    for peer in PEERS:
        if peer.name not in wanted:
            continue
        try:
            ensure(peer, INSTALLERS[peer.name], say)
        except PeerError as error:
            say(f"{peer.name}: {error}")
            failed = 1
    return failed


def ensure(
    peer: Peer,
    install: Install,
    tell: Callable[[str], None],
    environ: Mapping[str, str] = os.environ,
) -> Path:
    """Return a peer's folder, installing it when nobody has.

    Args:
        peer: which one.
        install: puts it into the empty folder that it is given.
        tell: shows a line to the person.
        environ: where the cache is looked up.

    Raises:
        PeerError: `install` raised it, or left no program.
    """
    folder = peer.folder(environ)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _lock(folder.parent / ".lock", tell):
        if peer.find(environ) is not None:
            tell(f"{peer.name} {peer.version} is there: {folder}")
            return folder
        # An environment knows its own path, so it is made in place and not renamed.
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        tell(f"{peer.name} {peer.version}: installing into {folder}")
        install(peer, folder)
        if not (folder / peer.program).exists():
            raise PeerError(f"the installation left no {folder / peer.program}; run it again")
        (folder / MARKER).write_text(f"{peer.version}\n", encoding="ascii")
    tell(f"{peer.name} {peer.version} is installed")
    return folder


def _install_llama_server(peer: Peer, folder: Path) -> None:
    """Build the server of the same source that the engine was built of; takes minutes."""
    if missing := [tool for tool in ("cmake", "c++") if shutil.which(tool) is None]:
        raise PeerError(f"{' and '.join(missing)} not found; install them, it is built from source")
    work = folder / "work"
    work.mkdir()
    version = f"llama-cpp-python=={peer.version}"
    download = [*_pip(), "download", "--no-binary", ":all:", "--no-deps", "--dest", str(work)]
    _run(folder, [*download, version])
    source = _unpack(work) / _SOURCE
    build = work / "build"
    _run(folder, ["cmake", "-S", str(source), "-B", str(build), *peer.flags])
    _run(folder, ["cmake", "--build", str(build), "--target", "llama-server", "-j", _JOBS])
    shutil.move(build / "bin" / "llama-server", folder / peer.program)
    shutil.rmtree(work)


def _unpack(work: Path) -> Path:
    archives = sorted(work.glob("*.tar.gz"))
    if len(archives) != 1:
        raise PeerError(
            f"{work} has {len(archives)} source archives after the download; expected 1"
        )
    with tarfile.open(archives[0]) as archive:
        archive.extractall(work, filter="data")
    return work / archives[0].name.removesuffix(".tar.gz")


def _install_xllamacpp(peer: Peer, folder: Path) -> None:
    _into_environment(folder, f"xllamacpp=={peer.version}")


def _install_llama_cpp_python(peer: Peer, folder: Path) -> None:
    """Install the wheel that the engine is installed from, with what its server needs beside."""
    recipe = engine_wheel.make_recipe(peer.version)
    wheel = engine_wheel.cached_wheel(engine_wheel.cache_folder(), recipe)
    if wheel is None:
        raise PeerError(
            f"the engine's wheel of llama-cpp-python {peer.version} is not built; run `make demo`, "
            "or `make test`, which build it"
        )
    _into_environment(folder, f"llama-cpp-python[server] @ {wheel.as_uri()}")


def _into_environment(folder: Path, requirement: str) -> None:
    venv.create(folder / "venv", with_pip=True)
    _run(folder, [str(folder / "venv/bin/python"), "-m", "pip", "install", requirement])


INSTALLERS: Mapping[str, Install] = {
    LLAMA_SERVER.name: _install_llama_server,
    XLLAMACPP.name: _install_xllamacpp,
    LLAMA_CPP_PYTHON.name: _install_llama_cpp_python,
}


def say(text: str) -> None:
    """Show a line to the person."""
    print(f"bench-peers: {text}", file=sys.stderr, flush=True)


def _pip() -> list[str]:
    return [sys.executable, "-m", "pip"]


def _run(folder: Path, command: list[str]) -> None:
    """Run a step of an installation, with its output in the folder's log."""
    log = folder / "log"
    with log.open("ab") as file:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT, check=False
        )
    if done.returncode:
        raise PeerError(
            f"`{' '.join(command[:4])} ...` failed (exit status {done.returncode}). The log is "
            f"{log}; it ends with:\n{engine_wheel.tail(log)}"
        )


@contextlib.contextmanager
def _lock(path: Path, tell: Callable[[str], None]) -> Iterator[None]:
    with path.open("a", encoding="ascii") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            tell("another one installs peers already: waiting for it")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
