"""Which of several things a request gets, each of which has a share of all requests.

Not by chance: the same request always gets the same, whoever asks.
"""

import hashlib
from collections.abc import Sequence

WHOLE_PPM = 1_000_000


def choose_share(request_id: str, shares_ppm: Sequence[int]) -> int | None:
    """Return the place of what a request gets; None: what is left when all have their share.

    Args:
        request_id: spread evenly by a digest, whatever it looks like.
        shares_ppm: of a million requests, how many get each; together at most a million.
    """
    digest = hashlib.blake2b(request_id.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    point = int.from_bytes(digest, "big") * WHOLE_PPM >> 64
    for place, share in enumerate(shares_ppm):
        if point < share:
            return place
        point -= share
    return None
