"""Secrets by name: from where they are taken, and that they are shown to nobody."""

import os
from pathlib import Path

import pytest

from sits.runtime.remote import Secret, SecretError, read_secret

VALUE = "sk-not-for-anybody"


def write(root: Path, text: str = VALUE, name: str = "models", mode: int = 0o600) -> Path:
    folder = root / "acme"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(text)
    path.chmod(mode)
    return path


def read(root: Path, name: str = "models", tenant: str = "acme", **environment: str) -> Secret:
    return read_secret(name, tenant=tenant, directory=root, environment=environment)


def test_a_file_of_the_tenant_is_read_and_its_last_newline_is_not_the_keys(tmp_path: Path) -> None:
    write(tmp_path, VALUE + "\n")
    assert read(tmp_path).reveal() == VALUE


def test_the_local_tenant_may_have_it_in_the_environment(tmp_path: Path) -> None:
    found = read(tmp_path, "my-models", tenant="default", SITS_SECRET_MY_MODELS=VALUE)
    assert found.reveal() == VALUE


def test_no_other_tenant_is_served_from_the_environment(tmp_path: Path) -> None:
    with pytest.raises(SecretError, match="no secret 'models' of the tenant 'acme'") as caught:
        read(tmp_path, SITS_SECRET_MODELS=VALUE)
    assert "SITS_SECRET" not in str(caught.value)


def test_no_other_tenants_file_is_read(tmp_path: Path) -> None:
    write(tmp_path)
    with pytest.raises(SecretError, match="no secret"):
        read(tmp_path, tenant="other")


def test_a_file_that_others_can_read_is_refused_with_the_command(tmp_path: Path) -> None:
    for mode in (0o640, 0o604, 0o620, 0o666):
        path = write(tmp_path, mode=mode)
        with pytest.raises(SecretError, match=f"chmod 600 {path}"):
            read(tmp_path)


def test_a_file_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(SecretError, match=f"belongs to the user {os.getuid()}"):
        read(tmp_path)


@pytest.mark.parametrize("name", ["../acme/models", "a/b", "", ".", "..", "A", "x" * 64, "a\n"])
def test_a_name_leads_nowhere_else(tmp_path: Path, name: str) -> None:
    write(tmp_path)
    with pytest.raises(SecretError, match="DNS label"):
        read(tmp_path, name)
    with pytest.raises(SecretError, match="DNS label"):
        read(tmp_path, "models", tenant=name)


def test_links_are_not_followed(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text(VALUE)
    elsewhere.chmod(0o600)
    write(tmp_path, name="other")
    (tmp_path / "acme" / "models").symlink_to(elsewhere)
    with pytest.raises(SecretError, match="plain file"):
        read(tmp_path)
    (tmp_path / "linked").symlink_to(tmp_path / "acme")
    with pytest.raises(SecretError, match="plain"):
        read(tmp_path, "other", tenant="linked")


def test_what_is_no_file_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / "acme").mkdir()
    os.mkfifo(tmp_path / "acme" / "models", 0o600)
    with pytest.raises(SecretError, match="no plain file"):
        read(tmp_path)


@pytest.mark.parametrize("text", ["", "\n", "two\nlines", "a b", "clé", "x\r\nhost: evil", "\0"])
def test_what_no_header_may_hold_is_no_key(tmp_path: Path, text: str) -> None:
    write(tmp_path, text)
    with pytest.raises(SecretError, match="one line of printable ASCII") as caught:
        read(tmp_path)
    assert not text.strip() or text.strip() not in str(caught.value)


def test_a_missing_one_says_both_places(tmp_path: Path) -> None:
    with pytest.raises(SecretError) as caught:
        read(tmp_path, tenant="default")
    message = str(caught.value)
    assert str(tmp_path / "default" / "models") in message
    assert "SITS_SECRET_MODELS" in message
    assert "600" in message
    assert "deploy" not in message  # the next request looks again


def test_a_value_is_not_in_its_repr_and_is_hidden_in_what_others_say(tmp_path: Path) -> None:
    write(tmp_path)
    secret = read(tmp_path)
    assert VALUE not in f"{secret} {secret!r} {[secret]}"
    assert secret.hide_in(f"no such key: {VALUE}!") == "no such key: [secret]!"
