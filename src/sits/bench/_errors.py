"""What keeps a benchmark from giving a result.

Tree::

    SitsError
      +-- BenchError     a platform did not start, an answer was wrong, or there is no /proc
"""

from sits._errors import SitsError


class BenchError(SitsError):
    """A benchmark gave no result; the message says where it stopped."""

    code = "bench_failed"
    http_status = 500
