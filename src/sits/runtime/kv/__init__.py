"""What was computed is kept, shared and moved: the KV pool above an engine's cells.

`KvPool` gives requests their sequences, each beginning with the longest prefix that any other
has, and keeps what ended ones leave. `KvImage` is a sequence's state as bytes, for memory and
for files. All of one tenant: nothing here is ever handed to another.
"""

from sits.runtime.kv._image import ImageError, KvImage, load_image, save_image
from sits.runtime.kv._pool import Entry, KvPool
from sits.runtime.kv._prefix import most_shared, shared_tokens
from sits.runtime.kv._shelf import Shelf

__all__ = [
    "Entry",
    "ImageError",
    "KvImage",
    "KvPool",
    "Shelf",
    "load_image",
    "most_shared",
    "save_image",
    "shared_tokens",
]
