"""The engine's wheel: built once for this machine's CPU and kept outside the checkout.

PyPI has llama-cpp-python only as source, and a build takes minutes. Invariants:

- A wheel is compiled for the CPU that it was built on (`GGML_NATIVE`) and dies with SIGILL on
  an older one; so the folder's name is a hash over version, flags, CPU features and platform.
- A folder with such a name holds a whole wheel: it is built beside it and renamed, so that
  one that was killed leaves only a `.build-*` folder, which the next build removes.
- One build at a time for each name (a file lock); others wait and use its result.

The wheel does not depend on the version of Python (it is reached through ctypes).
"""

import contextlib
import fcntl
import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from build_progress import BuildProgress, format_duration
from system_check import find_compilers

# No OpenMP: a child that is forked after its parent decoded with two OpenMP threads hangs.
CMAKE_FLAGS = (
    "-DGGML_NATIVE=ON",
    "-DGGML_OPENMP=OFF",
    "-DLLAMA_BUILD_TESTS=OFF",
    "-DLLAMA_BUILD_EXAMPLES=OFF",
)
# What a build took on two cores of a server CPU; only for telling how long it will take.
_BUILD_CPU_S = 560
_GIB = 1 << 30
_LOG_TAIL_LINES = 20

Say = Callable[[str], None]


class EngineBuildError(Exception):
    """The engine could not be built; the message names the log."""


@dataclass(frozen=True)
class Recipe:
    """Everything that a wheel depends on."""

    version: str
    flags: tuple[str, ...]
    cpu: str
    platform: str

    @property
    def key(self) -> str:
        """The name of the folder that holds this wheel: a hash over all fields."""
        text = json.dumps(asdict(self), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def make_recipe(version: str) -> Recipe:
    """Return the recipe for a version of llama-cpp-python on this machine."""
    try:
        cpu = parse_cpu_features(Path("/proc/cpuinfo").read_text(encoding="utf-8"))
    except OSError:
        cpu = platform.processor()
    libc = "-".join(platform.libc_ver())
    where = f"{platform.system()} {platform.machine()} {libc}"
    return Recipe(version=version, flags=CMAKE_FLAGS, cpu=cpu, platform=where)


def parse_cpu_features(cpuinfo: str) -> str:
    """Return the first processor's features from `/proc/cpuinfo`, sorted.

    Args:
        cpuinfo: the file's text; `flags` is x86's line, `Features` Arm's.
    """
    for line in cpuinfo.splitlines():
        name, _, value = line.partition(":")
        if name.strip() in {"flags", "Features", "isa"}:
            return " ".join(sorted(value.split()))
    return ""


def cache_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Return where built engines are kept: `$SITS_CACHE`, or the user's cache directory."""
    if environ.get("SITS_CACHE"):
        return Path(environ["SITS_CACHE"]).expanduser().absolute() / "engine"
    base = environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser().absolute() / "sits" / "engine"


def cached_wheel(folder: Path, recipe: Recipe) -> Path | None:
    """Return the wheel that is already there, if any."""
    return next(iter(sorted((folder / recipe.key).glob("*.whl"))), None)


def ensure_wheel(folder: Path, recipe: Recipe, build: Callable[[Path], None], say: Say) -> Path:
    """Return the wheel for `recipe`, building it when nobody has.

    Args:
        folder: the cache (`cache_folder`); made when it is not there.
        recipe: what to build.
        build: puts the wheel into the `wheel` folder of the empty folder that it is given.
        say: shows a line to the person.

    Raises:
        EngineBuildError: `build` raised it, or left no whole wheel.
    """
    if wheel := cached_wheel(folder, recipe):
        return wheel
    folder.mkdir(parents=True, exist_ok=True)
    with _lock(folder / f"{recipe.key}.lock", say):
        if wheel := cached_wheel(folder, recipe):
            return wheel
        for left_over in folder.glob(f".build-{recipe.key}-*"):
            shutil.rmtree(left_over, ignore_errors=True)
        workplace = folder / f".build-{recipe.key}-{os.getpid()}"
        try:
            (workplace / "wheel").mkdir(parents=True)
            build(workplace)
            return _publish(workplace / "wheel", folder, recipe)
        finally:
            shutil.rmtree(workplace, ignore_errors=True)


def _publish(built: Path, folder: Path, recipe: Recipe) -> Path:
    wheels = list(built.glob("*.whl"))
    if len(wheels) != 1 or not zipfile.is_zipfile(wheels[0]):
        names = sorted(path.name for path in built.iterdir())
        raise EngineBuildError(f"the build left {names}, expected one wheel; run make again")
    (built / "recipe.json").write_text(json.dumps(asdict(recipe), indent=2), encoding="utf-8")
    for path in built.iterdir():
        with path.open("rb") as file:
            os.fsync(file.fileno())
    # A folder of this name without a wheel is somebody's half-done clean-up.
    shutil.rmtree(folder / recipe.key, ignore_errors=True)
    built.rename(folder / recipe.key)
    return folder / recipe.key / wheels[0].name


@contextlib.contextmanager
def _lock(path: Path, say: Say) -> Iterator[None]:
    with path.open("a", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another make builds the engine already: waiting for it")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def build_jobs() -> int:
    """Return how many compilers may run at once: one a core, and one a GiB of memory."""
    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    memory_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return max(1, min(cores, memory_bytes // _GIB))


def build_with_pip(workplace: Path, recipe: Recipe, pip_wheel: list[str], say: Say) -> None:
    """Build the wheel with pip into `workplace / "wheel"`, showing the progress.

    Args:
        workplace: an empty folder for everything that the build writes, but for the log of a
            failed build, which stays beside it.
        recipe: what to build.
        pip_wheel: the command line of `pip wheel`, with options that are not the engine's.
        say: shows a line to the person.

    Raises:
        EngineBuildError: pip failed.
    """
    jobs = build_jobs()
    say(
        f"building the engine (llama-cpp-python {recipe.version}) for this CPU, once: "
        f"about {format_duration(_BUILD_CPU_S / jobs)} on {jobs} cores"
    )
    started_s = time.monotonic()
    log = workplace.parent / f"{recipe.key}.log"
    scratch = workplace / "tmp"
    scratch.mkdir()
    environ = (
        os.environ
        | find_compilers()
        | {
            "CMAKE_ARGS": " ".join(recipe.flags),
            "CMAKE_BUILD_PARALLEL_LEVEL": str(jobs),
            "TMPDIR": str(scratch),
        }
    )
    # pip's own cache of wheels knows neither the flags nor the CPU: neither read nor fed.
    command = [*pip_wheel, "-v", "--no-deps", "--no-cache-dir"]
    command += ["--no-binary", "llama-cpp-python", "--wheel-dir", str(workplace / "wheel")]
    command += [f"llama-cpp-python=={recipe.version}"]
    status = _run_logged(command, environ, log)
    if status != 0:
        raise EngineBuildError(
            f"building the engine failed (pip's exit status {status}). "
            f"The log is {log}; it ends with:\n{tail(log)}"
        )
    log.unlink()
    say(f"engine built in {format_duration(time.monotonic() - started_s)}")


def _run_logged(command: list[str], environ: Mapping[str, str], log: Path) -> int:
    progress = BuildProgress(sys.stderr, time.monotonic)
    with (
        log.open("w", encoding="utf-8") as file,
        subprocess.Popen(
            command,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        ) as process,
    ):
        assert process.stdout is not None
        try:
            for line in process.stdout:
                file.write(line)
                progress.feed(line)
        except BaseException:
            process.kill()
            raise
        finally:
            progress.close()
    return process.returncode


def tail(log: Path) -> str:
    """Return the last lines of a log, indented, as part of a message."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    return "\n".join(f"    {line[:300]}" for line in lines[-_LOG_TAIL_LINES:])
