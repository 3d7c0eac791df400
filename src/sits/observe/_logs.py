"""One log format for every process.

Lines go to standard error; the node gives each process that it starts a file for that. Times
are UTC.
"""

import logging
import os
import re
import time
from pathlib import Path

_HEAD = re.compile(r"^\d{4}-\d\d-\d\dT\S+Z [A-Z]+ \S+ \S+: ")


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
    handler = _file_handler(path) if path else logging.StreamHandler()
    handler.setFormatter(formatter)
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)


def message_of(line: str) -> str:
    """Return a log line's message, without what stands before it; other lines as they are."""
    return _HEAD.sub("", line)


def _file_handler(path: Path) -> logging.Handler:
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
    return logging.FileHandler(path, encoding="utf-8")
