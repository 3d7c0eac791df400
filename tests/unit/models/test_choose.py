"""Which file of a repository is meant."""

import pytest

from sits.models import ModelError
from sits.models._choose import HubFile, choose_file

REFERENCE = "huggingface://org/name"


def files(*names: str) -> list[HubFile]:
    return [HubFile(name, size) for size, name in enumerate(names, start=100)]


@pytest.mark.parametrize(
    ("names", "chosen"),
    [
        (("m-Q8_0.gguf", "m-Q4_K_M.gguf", "m-Q2_K.gguf", "README.md"), "m-Q4_K_M.gguf"),
        (("m.Q8_0.gguf", "m.Q6_K.gguf"), "m.Q6_K.gguf"),
        (("m-f16.gguf", "m-q8_0.gguf"), "m-q8_0.gguf"),
        (("m-F32.gguf", "m-BF16.gguf"), "m-BF16.gguf"),
        (("m-Q3_K_L.gguf", "m-Q2_K.gguf"), "m-Q3_K_L.gguf"),
        (("only.gguf", "mmproj-m-f16.gguf", "m.imatrix.gguf"), "only.gguf"),
        (("q4/m-Q4_K_M-00001-of-00002.gguf", "m-Q8_0.gguf"), "m-Q8_0.gguf"),
        (("b-Q4_0.gguf", "a-Q4_0.gguf"), "b-Q4_0.gguf"),
    ],
)
def test_the_preferred_single_file_is_chosen(names: tuple[str, ...], chosen: str) -> None:
    assert choose_file(files(*names), None, REFERENCE).name == chosen


def test_the_file_that_the_reference_names_is_taken() -> None:
    names = files("m-Q4_K_M.gguf", "m-Q2_K.gguf")
    assert choose_file(names, "m-Q2_K.gguf", REFERENCE).name == "m-Q2_K.gguf"


@pytest.mark.parametrize(
    ("names", "wanted", "words"),
    [
        (("config.json", "model.safetensors"), None, "no GGUF file.*weights are safetensors"),
        (("pytorch_model.bin",), None, "weights are PyTorch"),
        ((), None, "no GGUF file; use a repository with GGUF files of decoders"),
        (("m-00001-of-00002.gguf", "m-00002-of-00002.gguf"), None, "parts of split models"),
        (("a.gguf", "b.gguf"), "c.gguf", "no file c.gguf; use one of #a.gguf, #b.gguf"),
        (("m-00001-of-00002.gguf",), "m-00001-of-00002.gguf", "one part of a split model"),
    ],
)
def test_what_cannot_be_run_is_refused_with_what_can(
    names: tuple[str, ...], wanted: str | None, words: str
) -> None:
    with pytest.raises(ModelError, match=words) as caught:
        choose_file(files(*names), wanted, REFERENCE)
    assert REFERENCE in str(caught.value)
    assert not caught.value.retryable


def test_a_refusal_of_many_files_names_a_few() -> None:
    many = files(*(f"m{index:02}.gguf" for index in range(40)))
    with pytest.raises(ModelError, match="and 32 more"):
        choose_file(many, "none.gguf", REFERENCE)
