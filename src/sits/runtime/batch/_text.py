"""From the bytes of tokens to text that may be shown.

Invariants: what has been given out never has to be taken back. So an incomplete UTF-8
character is kept until its last byte comes (or the answer ends), and text that could still
become a stop string is kept until it cannot. Which stop string ends the answer does not depend
on how the bytes were cut: it is the one that is complete first (of two complete at the same
byte, the longer).
"""

import codecs
from collections.abc import Sequence

_decoder = codecs.getincrementaldecoder("utf-8")


class AnswerText:
    """The text of one answer, as far as it may be shown.

    Args:
        stop: texts at which the answer ends; none of them is shown. None may be empty.
    """

    def __init__(self, stop: Sequence[str] = ()) -> None:
        self._stop = tuple(stop)
        self._decode = _decoder("replace").decode
        self._kept = ""
        self.stopped = False

    def feed(self, data: bytes) -> str:
        """Take a token's bytes and return what may now be shown.

        Sets `stopped` when a stop string is complete; nothing is shown from then on.
        """
        return self._show(self._decode(data))

    def finish(self) -> str:
        """Return what was kept, at the end of the answer. Broken bytes become U+FFFD."""
        shown = self._show(self._decode(b"", final=True))
        if not self.stopped:
            shown += self._kept
        self._kept = ""
        return shown

    def _show(self, text: str) -> str:
        if self.stopped:
            return ""
        self._kept += text
        if not self._stop:
            keep = 0
        else:
            start = self._first_stop()
            if start is not None:
                self.stopped = True
                shown, self._kept = self._kept[:start], ""
                return shown
            keep = max(_overlap(self._kept, stop) for stop in self._stop)
        cut = len(self._kept) - keep
        shown, self._kept = self._kept[:cut], self._kept[cut:]
        return shown

    def _first_stop(self) -> int | None:
        """Return where the stop string that is complete first begins."""
        found = [(at + len(stop), at) for stop in self._stop if (at := self._kept.find(stop)) != -1]
        return min(found)[1] if found else None


def _overlap(text: str, stop: str) -> int:
    """Return the length of the longest end of `text` that `stop` begins with, but not all of it."""
    for size in range(min(len(text), len(stop) - 1), 0, -1):
        if text.endswith(stop[:size]):
            return size
    return 0
