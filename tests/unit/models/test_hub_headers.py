"""How long a 429 asks to wait. 1,800,000,000 s after 1970 is 2027-01-15 08:00:00 UTC."""

import pytest

from sits.models._hub import retry_after_s

NOW_S = 1_800_000_000.0


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"retry-after": "12"}, 12.0),
        ({"retry-after": "Fri, 15 Jan 2027 08:01:00 GMT"}, 60.0),
        ({"retry-after": "Fri, 15 Jan 2027 07:00:00 GMT"}, 0.0),
        ({"ratelimit": '"api";r=0;t=55'}, 55.0),
        ({"retry-after": "soon"}, None),
        ({}, None),
        ({"retry-after": "3600"}, 3600.0),
        ({"retry-after": "3601"}, 3600.0),
        ({"retry-after": "9" * 400}, 3600.0),
        ({"retry-after": "9" * 5000}, 3600.0),
        ({"retry-after": "Fri, 15 Jan 9999 08:01:00 GMT"}, 3600.0),
        ({"retry-after": "Fri, 15 Jan 99999999999999999999 08:01:00 GMT"}, None),
        ({"retry-after": "\u00b2"}, None),
        ({"retry-after": "\u0663"}, None),
        ({"ratelimit": "t=\u00b2"}, None),
        ({"ratelimit": "t=" + "9" * 400}, 3600.0),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "nan"}, None),
    ],
)
def test_retry_after(headers: dict[str, str], expected: float | None) -> None:
    assert retry_after_s(headers, NOW_S) == expected
