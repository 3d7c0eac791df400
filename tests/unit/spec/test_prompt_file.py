"""Prompts that lie in files of their own."""

from pathlib import PurePosixPath

import pytest

from sits.spec import SpecError, Unit, inline_prompt_file, load_unit


def make_unit(file: str) -> Unit:
    text = f"name: a\nmodel: builtin://x\nprompt: {{system: Hi, file: '{file}'}}\n"
    return load_unit(text, "a.yaml").unit


def refuse(path: PurePosixPath) -> str:
    raise AssertionError(f"{path} must not be read")


def test_the_file_becomes_the_template_and_the_rest_stays() -> None:
    unit = inline_prompt_file(make_unit("prompts/a.txt"), lambda path: f"text of {path}")
    assert unit.prompt is not None
    assert unit.prompt.template == "text of prompts/a.txt"
    assert (unit.prompt.system, unit.prompt.file) == ("Hi", None)


def test_a_unit_without_a_file_is_returned_as_it_is() -> None:
    unit = load_unit("name: a\nmodel: builtin://x\n", "a.yaml").unit
    assert inline_prompt_file(unit, refuse) is unit


@pytest.mark.parametrize("file", ["/etc/passwd", "../a.txt", "a/../../b.txt", "..", "a\\..\\b"])
def test_a_path_that_leaves_the_directory_is_refused_without_reading(file: str) -> None:
    with pytest.raises(SpecError, match="inside the directory") as caught:
        inline_prompt_file(make_unit(file), refuse, source="a.yaml")
    assert (caught.value.source, caught.value.field) == ("a.yaml", "prompt.file")


def test_a_file_that_is_not_there_is_named() -> None:
    def missing(path: PurePosixPath) -> str:
        raise FileNotFoundError(2, "No such file or directory", str(path))

    with pytest.raises(SpecError, match=r"'a\.txt' cannot be read: No such file"):
        inline_prompt_file(make_unit("a.txt"), missing)
