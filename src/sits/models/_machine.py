"""What of this machine decides which form of a model is fastest here."""

import functools
import hashlib
import importlib.metadata
import os
import platform
import shutil
from collections.abc import Sequence
from pathlib import Path

from sits.models._representation import Machine

# Raise it when what is prepared changes in a way that the engine's version does not tell.
_FORMAT = 1
_ENGINE_PACKAGE = "llama-cpp-python"


@functools.cache
def cpu_flags() -> frozenset[str]:
    """Return the CPU's features, as the kernel names them; empty where it does not say."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return frozenset()
    for line in text.splitlines():
        name, _, value = line.partition(":")
        if name.strip() in {"flags", "Features"}:
            return frozenset(value.split())
    return frozenset()


def read_machine(directory: Path) -> Machine:
    """Return what there is: the CPU's features, memory, and room beside `directory`."""
    pages, page_bytes = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    return Machine(cpu_flags(), pages * page_bytes, shutil.disk_usage(directory).free)


def preparation_key(prepare: Sequence[str]) -> str:
    """Return a name for all that a preparation depends on beside the file.

    Args:
        prepare: the command that prepares; which Python runs it does not matter.
    """
    return _key(tuple(prepare[1:]))


@functools.cache
def _key(arguments: tuple[str, ...]) -> str:
    try:
        engine = importlib.metadata.version(_ENGINE_PACKAGE)
    except importlib.metadata.PackageNotFoundError:
        engine = "none"
    parts = [str(_FORMAT), engine, platform.machine(), *sorted(cpu_flags()), *arguments]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
