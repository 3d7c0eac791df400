"""Which peers there are to measure against, and where they lie when they are installed.

`make bench-peers` installs them, each in an environment of its own: nothing of them is imported
here. Invariants: a folder's name says what is in it: the version, and a hash over how it was
built and the CPU that it was built on; its marker is written last, so that a folder without one
is no peer.
"""

import hashlib
import os
import platform
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sits.models import read_machine

INSTALL = "make bench-peers"
MARKER = "installed"


@dataclass(frozen=True)
class Peer:
    """A program that serves the same model.

    Attributes:
        name: what it is called in results.
        version: which one is measured against; the vendored source's for what is built of it.
        flags: of its build; empty where it comes built.
        program: what is run, in its folder.
    """

    name: str
    version: str
    flags: tuple[str, ...]
    program: str

    def folder(self, environ: Mapping[str, str] = os.environ) -> Path:
        """Return where it lies, or would."""
        parts = (*self.flags, sys.version.split()[0], platform.machine(), "-".join(_libc()), _cpu())
        digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]
        return peers_folder(environ) / f"{self.name}-{self.version}-{digest}"

    def find(self, environ: Mapping[str, str] = os.environ) -> Path | None:
        """Return its program; None where it is not installed."""
        folder = self.folder(environ)
        return folder / self.program if (folder / MARKER).exists() else None


_PYTHON = "venv/bin/python"
# OpenMP as its own build has it; no web page in it, which would need npm and the network.
LLAMA_SERVER = Peer(
    "llama-server",
    "0.3.36",
    (
        "-DCMAKE_BUILD_TYPE=Release",
        "-DGGML_NATIVE=ON",
        "-DBUILD_SHARED_LIBS=OFF",
        "-DLLAMA_CURL=OFF",
        "-DLLAMA_OPENSSL=OFF",
        "-DLLAMA_BUILD_TESTS=OFF",
        "-DLLAMA_BUILD_EXAMPLES=OFF",
        "-DLLAMA_BUILD_UI=OFF",
        "-DLLAMA_USE_PREBUILT_UI=OFF",
    ),
    "llama-server",
)
XLLAMACPP = Peer("xllamacpp", "2026.10.11549", (), _PYTHON)
LLAMA_CPP_PYTHON = Peer("llama-cpp-python", "0.3.36", (), _PYTHON)
PEERS = (LLAMA_SERVER, XLLAMACPP, LLAMA_CPP_PYTHON)


def peers_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Return where peers are kept: `$SITS_CACHE`, or the user's cache directory."""
    if environ.get("SITS_CACHE"):
        return Path(environ["SITS_CACHE"]).expanduser().absolute() / "peers"
    base = environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser().absolute() / "sits" / "peers"


def _libc() -> tuple[str, str]:
    return platform.libc_ver()


def _cpu() -> str:
    return " ".join(sorted(read_machine(Path("/")).flags))
