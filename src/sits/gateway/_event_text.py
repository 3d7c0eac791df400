"""Text as JSON inside an event stream. Pure.

JSON may hold U+0085, U+2028 and U+2029 as they are, and an event stream's lines end at CR and
LF only; but many clients split lines at whatever Unicode calls a line's end (Python's
`str.splitlines`, and with it several HTTP libraries), and would cut an event in two.
"""

import msgspec

_encode = msgspec.json.Encoder().encode
_LINE_ENDS = tuple((char.encode(), b"\\u%04x" % ord(char)) for char in "\u0085\u2028\u2029")


def encode_text(text: str) -> bytes:
    """Return a text as a JSON string that no client takes for more than one line."""
    encoded = _encode(text)
    return encoded if text.isascii() else _escape(encoded)


def encode_value(value: object) -> bytes:
    """Return a value as JSON that no client takes for more than one line."""
    encoded = _encode(value)
    return encoded if encoded.isascii() else _escape(encoded)


def _escape(encoded: bytes) -> bytes:
    # Beyond ASCII there are only the texts in it.
    for raw, escaped in _LINE_ENDS:
        encoded = encoded.replace(raw, escaped)
    return encoded
