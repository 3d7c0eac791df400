"""A state as bytes: read whole and right, or not at all."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sits.runtime.kv import ImageError, KvImage, load_image, save_image

IMAGE = KvImage("engine 1", "model", "", (1, 2, 70000), b"state")
FITS = {"engine": "engine 1", "model": "model", "adapter": ""}


@given(st.lists(st.integers(0, 2**31 - 1)).map(tuple), st.binary(max_size=200))
def test_what_is_encoded_is_read_back(tokens: tuple[int, ...], state: bytes) -> None:
    image = KvImage("e", "m", "a", tokens, state)
    assert KvImage.decode(image.encode()) == image


@given(st.data())
def test_any_changed_byte_and_any_cut_is_refused(data: st.DataObject) -> None:
    encoded = bytearray(IMAGE.encode())
    at = data.draw(st.integers(0, len(encoded) - 1))
    cut = bytes(encoded[:at])
    encoded[at] ^= data.draw(st.integers(1, 255))
    for broken in (bytes(encoded), cut):
        with pytest.raises(ImageError):
            KvImage.decode(broken)


def test_a_file_is_read_by_whom_it_fits(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "er.kv"
    save_image(path, IMAGE)
    assert path.stat().st_mode & 0o777 == 0o600
    assert load_image(path, **FITS) == IMAGE
    for name in FITS:
        with pytest.raises(ImageError, match=f"of {name} .*expected 'other'"):
            load_image(path, **(FITS | {name: "other"}))


def test_a_full_disk_leaves_the_former_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.kv"
    save_image(path, IMAGE)

    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        save_image(path, KvImage("engine 1", "model", "", (9,), b"other"))
    assert load_image(path, **FITS) == IMAGE
    assert [file.name for file in tmp_path.iterdir()] == ["a.kv"]
