"""References to models."""

import pytest

from sits.spec import ModelScheme, parse_model_reference


def test_a_builtin_has_a_name() -> None:
    reference = parse_model_reference("builtin://smollm2-135m-instruct")
    assert (reference.scheme, reference.name) == (ModelScheme.BUILTIN, "smollm2-135m-instruct")


def test_a_file_has_an_absolute_path_with_escapes_undone() -> None:
    reference = parse_model_reference("file:///models/my%20model.gguf")
    assert (reference.scheme, reference.name) == (ModelScheme.FILE, "/models/my model.gguf")


@pytest.mark.parametrize(
    ("text", "org", "name", "revision", "file"),
    [
        ("huggingface://bert", None, "bert", None, None),
        ("huggingface://bert@v1", None, "bert", "v1", None),
        ("huggingface://google/bert", "google", "bert", None, None),
        ("huggingface://o/n@main#q/m.Q4_1.gguf", "o", "n", "main", "q/m.Q4_1.gguf"),
        ("huggingface://o/n#m.gguf", "o", "n", None, "m.gguf"),
    ],
)
def test_hugging_face_may_leave_out_organisation_revision_and_file(
    text: str, org: str | None, name: str, revision: str | None, file: str | None
) -> None:
    reference = parse_model_reference(text)
    assert (reference.org, reference.name) == (org, name)
    assert (reference.revision, reference.file) == (revision, file)
    assert str(reference) == text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("smollm2", "has no scheme"),
        ("", "has no scheme"),
        ("s3://bucket/x", "unknown scheme 's3'"),
        ("builtin://", "expected builtin://NAME"),
        ("builtin://../x", "expected builtin://NAME"),
        ("file://models/x.gguf", "three slashes"),
        ("file:///models/x.bin", "GGUF"),
        ("huggingface://a/b/c", "malformed"),
        ("huggingface://a@", "malformed"),
        ("huggingface://a@../b", "malformed"),
        ("huggingface://a#b.safetensors", "malformed"),
        ("huggingface://a\n", "malformed"),
    ],
)
def test_a_malformed_reference_is_refused_with_what_was_expected(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        parse_model_reference(text)
