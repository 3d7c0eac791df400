"""One log format for every process.

Lines go to standard error; the node gives each process that it starts a file for that. Times
are UTC.
"""

import logging
import os
import time
from pathlib import Path
from typing import TextIO


def configure_logging(service: str, path: Path | None = None) -> None:
    """Log as `TIME LEVEL service logger: message`. Replaces earlier handlers.

    Args:
        service: the name of this process's part.
        path: a file to log to, readable by its owner alone; standard error when None.
    """
    formatter = logging.Formatter(
        f"%(asctime)s.%(msecs)03dZ %(levelname)s {service} %(name)s: %(message)s",
        "%Y-%m-%dT%H:%M:%S",
    )
    formatter.converter = time.gmtime
    handler = logging.StreamHandler(_open_private(path) if path else None)
    handler.setFormatter(formatter)
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)


def _open_private(path: Path) -> TextIO:
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    return open(descriptor, "a", encoding="utf-8", buffering=1)
