"""The links of control, where a peer does not do its part."""

from typing import Any

import anyio
import pytest

from sits.control import _links

pytestmark = pytest.mark.anyio


async def test_a_peer_that_takes_no_connection_is_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tries: list[str] = []

    async def hang_once(path: str, _types: Any) -> Any:
        tries.append(path)
        if len(tries) == 1:
            await anyio.sleep_forever()
        return "link"

    monkeypatch.setattr(_links, "connect", hang_once)
    monkeypatch.setattr(_links, "_CONNECT_S", 0.001)
    with anyio.fail_after(5.0):
        assert str(await _links._connect("/run/h.sock", None)) == "link"
    assert tries == ["/run/h.sock"] * 2
