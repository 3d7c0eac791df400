"""What holds for every test: its kind by folder, one event loop, and a home of its own."""

import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

_TESTS = Path(__file__).parent
# Whole processes start here, and a real model is loaded, on machines that are busy.
_E2E_TIMEOUT_S = 120

# Where interrupts are ignored (`nohup make test`, a job in the background of a script), processes
# that tests start, and then interrupt, would ignore them too.
signal.signal(signal.SIGINT, signal.default_int_handler)
# A deadline for each example measures the machine; the time limit of the test is the one.
hypothesis.settings.register_profile("sits", deadline=None, print_blob=True)
hypothesis.settings.load_profile("sits")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test with the folder it lies in: `-m "not e2e"` leaves those out."""
    for item in items:
        kind = item.path.relative_to(_TESTS).parts[0]
        if kind in {"integration", "e2e"}:
            item.add_marker(kind)
        if kind == "e2e" and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(_E2E_TIMEOUT_S))


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session", autouse=True)
def no_settings_of_the_person(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep the person's own settings and data out of the tests, and the tests out of them."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("SITS_")]:
            patch.delenv(name)
        patch.setenv("SITS_HOME", str(tmp_path_factory.mktemp("sits-home")))
        # Platforms that tests kill leave their sockets; a socket's path has to be short.
        with tempfile.TemporaryDirectory(prefix="s", dir="/tmp") as runtime:
            patch.setenv("XDG_RUNTIME_DIR", runtime)
            yield
