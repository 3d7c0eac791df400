"""Server-sent events, from bytes in pieces of any size. Pure.

Source: the HTML standard, "Server-sent events", as far as OpenAI's API uses it: lines end with
LF, CRLF or CR; a line that begins with a colon is a comment; `data` lines of one event belong
together. Invariants: what is kept is bounded; text is decoded by whole lines, so a character
that arrives in two pieces is whole.
"""

from sits.runtime.remote._errors import EndpointDown

MAX_EVENT_BYTES = 1024 * 1024


class EventReader:
    """Turns the bytes of one stream into the data of its events."""

    def __init__(self) -> None:
        self._line: list[bytes] = []
        self._line_bytes = 0
        self._data: list[str] = []
        self._data_bytes = 0
        self._after_cr = False
        self._begun = False

    def feed(self, piece: bytes) -> list[str]:
        """Take the next bytes and return the data of the events that they complete.

        Raises:
            EndpointDown: an event is too long, or not UTF-8.
        """
        if self._after_cr and piece.startswith(b"\n"):
            piece = piece[1:]
            self._after_cr = False
        if not piece:
            return []
        self._after_cr = piece.endswith(b"\r")
        *lines, rest = piece.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        events = []
        for line in lines:
            self._keep(line)
            whole = b"".join(self._line)
            self._line, self._line_bytes = [], 0
            if (event := self._take(whole)) is not None:
                events.append(event)
        self._keep(rest)
        return events

    def _keep(self, part: bytes) -> None:
        self._line_bytes += len(part)
        if self._line_bytes + self._data_bytes > MAX_EVENT_BYTES:
            raise EndpointDown(f"it sent an event of more than {MAX_EVENT_BYTES} bytes")
        if part:
            self._line.append(part)

    def _take(self, line: bytes) -> str | None:
        """Take a whole line; return the event's data when it ends one that has some."""
        if not self._begun:
            line = line.removeprefix(b"\xef\xbb\xbf")
            self._begun = True
        if not line:
            data, self._data, self._data_bytes = self._data, [], 0
            return "\n".join(data) if data else None
        name, _, value = line.partition(b":")
        if name == b"data":
            try:
                self._data.append(value.removeprefix(b" ").decode("utf-8"))
            except UnicodeDecodeError as error:
                raise EndpointDown("it sent an event that is not UTF-8") from error
            self._data_bytes += len(line)
        return None
