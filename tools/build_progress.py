"""Tells a person how far a long compilation is: a bar on a terminal, plain lines elsewhere.

Reads the `[done/total]` marks that ninja writes; knows nothing of what is built.
"""

import re
from collections.abc import Callable
from typing import TextIO

_STEP = re.compile(r"^\s*\[(\d+)/(\d+)\] ")
_BAR_CELLS = 24
_PLAIN_EVERY_PERCENT = 10


def parse_percent(line: str) -> int | None:
    """Return how many percent of the steps are done after a line of ninja's, else None."""
    match = _STEP.match(line)
    if match is None or int(match[2]) == 0:
        return None
    return min(100, int(match[1]) * 100 // int(match[2]))


def format_duration(seconds: float) -> str:
    """Render a duration as a person says it: `40 s`, `5 min`."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    return f"{round(seconds / 60)} min"


class BuildProgress:
    """Shows the progress of one build; `feed` it every line of the build's output."""

    def __init__(self, stream: TextIO, clock: Callable[[], float]) -> None:
        self._stream = stream
        self._clock = clock
        self._started_s = clock()
        self._shown_percent = 0
        self._is_terminal = stream.isatty()

    def feed(self, line: str) -> None:
        """Take a line of output; show something when it moved the build on."""
        percent = parse_percent(line)
        if percent is None or percent <= self._shown_percent:
            return
        if self._is_terminal:
            self._show_bar(percent)
        elif percent // _PLAIN_EVERY_PERCENT > self._shown_percent // _PLAIN_EVERY_PERCENT:
            self._stream.write(f"sits:   {percent}% built, {self._time_left(percent)}\n")
            self._stream.flush()
        else:
            return
        self._shown_percent = percent

    def close(self) -> None:
        """Leave the line of the bar, if there is one."""
        if self._is_terminal and self._shown_percent:
            self._stream.write("\n")
            self._stream.flush()

    def _show_bar(self, percent: int) -> None:
        full = percent * _BAR_CELLS // 100
        bar = "#" * full + "." * (_BAR_CELLS - full)
        # The trailing blanks cover what a longer text left behind.
        self._stream.write(f"\r  [{bar}] {percent:3d}%  {self._time_left(percent)}    ")
        self._stream.flush()

    def _time_left(self, percent: int) -> str:
        elapsed_s = self._clock() - self._started_s
        return f"about {format_duration(elapsed_s / percent * (100 - percent))} left"
