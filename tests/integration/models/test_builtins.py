"""The builtins, as they come out of the store: what the converter wrote, against BERT in numpy."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sits.models import ModelKind, ModelStore, builtin_path
from sits.spec import parse_model_reference

pytestmark = pytest.mark.model
MINILM = "builtin://all-minilm-l6-v2"
TEXTS = (
    "The capital of France is Paris.",
    "how do i reset my password?",
    "Unbelievably, antidisestablishmentarianism was tokenized into pieces!",
    "Café naïve über 東京 12,345",
    "short",
    " ".join(["a long text about serverless intelligence units and their budgets"] * 20),
)
Array = Any


def layer_norm(x: Array, weight: Array, bias: Array) -> Array:
    mean = x.mean(-1, keepdims=True)
    return (x - mean) / np.sqrt(((x - mean) ** 2).mean(-1, keepdims=True) + 1e-12) * weight + bias


def softmax(x: Array) -> Array:
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def gelu(x: Array) -> Array:
    """The exact form, with the error function from its table in the standard library."""
    from math import erf  # noqa: PLC0415

    return x * 0.5 * (1 + np.vectorize(erf)(x / np.sqrt(2)))


def embed(weights: dict[str, Array], tokens: list[int]) -> Array:
    """BERT as its paper has it: 6 layers of 12 heads, mean of the last states, length 1."""
    t = weights
    x = t["embeddings.word_embeddings.weight"][tokens]
    x = x + t["embeddings.position_embeddings.weight"][: len(tokens)]
    x = x + t["embeddings.token_type_embeddings.weight"][0]
    x = layer_norm(x, t["embeddings.LayerNorm.weight"], t["embeddings.LayerNorm.bias"])
    for layer in range(6):
        name = f"encoder.layer.{layer}"

        def linear(part: str, value: Array, name: str = name) -> Array:
            return value @ t[f"{name}.{part}.weight"].T + t[f"{name}.{part}.bias"]

        def norm(part: str, value: Array, name: str = name) -> Array:
            return layer_norm(value, t[f"{name}.{part}.weight"], t[f"{name}.{part}.bias"])

        q, k, v = (
            linear(f"attention.self.{part}", x).reshape(len(tokens), 12, 32).transpose(1, 0, 2)
            for part in ("query", "key", "value")
        )
        mixed = softmax(q @ k.transpose(0, 2, 1) / np.sqrt(32)) @ v
        mixed = mixed.transpose(1, 0, 2).reshape(len(tokens), 384)
        x = norm("attention.output.LayerNorm", x + linear("attention.output.dense", mixed))
        inner = gelu(linear("intermediate.dense", x))
        x = norm("output.LayerNorm", x + linear("output.dense", inner))
    mean = x.mean(0)
    return mean / np.linalg.norm(mean)


def make_tokenize(tokenizer_json: Path) -> Callable[[str], list[int]]:
    """WordPiece as BERT's reference has it: lower case, no accents, longest piece first."""
    import unicodedata  # noqa: PLC0415

    vocabulary = json.loads(tokenizer_json.read_text("utf-8"))["model"]["vocab"]

    def words(text: str) -> list[str]:
        plain = unicodedata.normalize("NFD", text.lower())
        spaced = ""
        for char in plain:
            category = unicodedata.category(char)
            if category == "Mn":
                continue
            alone = category.startswith(("P", "S")) or "\u4e00" <= char <= "\u9fff"
            spaced += f" {char} " if alone else char
        return spaced.split()

    def pieces(word: str) -> list[int]:
        found, at = [], 0
        while at < len(word):
            for end in range(len(word), at, -1):
                piece = ("##" if at else "") + word[at:end]
                if piece in vocabulary:
                    found.append(vocabulary[piece])
                    at = end
                    break
            else:
                return [vocabulary["[UNK]"]]
        return found

    def tokenize(text: str) -> list[int]:
        inner = [piece for word in words(text) for piece in pieces(word)]
        return [vocabulary["[CLS]"], *inner, vocabulary["[SEP]"]]

    return tokenize


@pytest.mark.timeout(120)
def test_minilm_embeds_as_its_weights_do_in_numpy(tmp_path: Path) -> None:
    import llama_cpp  # noqa: PLC0415 - the engine is not installed everywhere
    from safetensors.numpy import load_file  # noqa: PLC0415

    store = ModelStore(tmp_path, prepare=None)
    pin = store.pin(parse_model_reference(MINILM))
    file = store.pull(pin, lambda _progress: None)
    assert (pin.kind, file.kind) == (ModelKind.EMBEDDING, ModelKind.EMBEDDING)
    assert 40_000_000 < file.size_bytes < 50_000_000
    weights = load_file(builtin_path("all-minilm-l6-v2"))
    tokenize = make_tokenize(builtin_path("all-minilm-l6-v2").with_name("tokenizer.json"))
    llama = llama_cpp.Llama(str(file.path), embedding=True, n_ctx=512, n_threads=1, verbose=False)
    try:
        for text in TEXTS:
            tokens = tokenize(text)
            assert llama.tokenize(text.encode(), special=False) == tokens, text
            served = np.array(llama.embed(text, normalize=True))
            assert float(served @ embed(weights, tokens)) > 0.9999, text
    finally:
        llama.close()


def test_a_converted_builtin_is_the_same_file_each_time(tmp_path: Path) -> None:
    files = []
    for name in "ab":
        store = ModelStore(tmp_path / name, prepare=None)
        file = store.pull(store.pin(parse_model_reference(MINILM)), lambda _progress: None)
        files.append(file.path.read_bytes())
    assert files[0] == files[1]


@pytest.mark.timeout(120)
def test_smollm2_is_prepared_once_and_found_at_once(tmp_path: Path) -> None:
    store = ModelStore(tmp_path)
    pin = store.pin(parse_model_reference("builtin://smollm2-135m-instruct"))
    states: list[str] = []
    file = store.pull(pin, lambda progress: states.append(progress.state))
    assert states == ["preparing", "done"]
    assert store.find(pin) == file
    states.clear()
    assert store.pull(pin, lambda progress: states.append(progress.state)) == file
    assert states == ["done"]
    [listed] = store.list_models()
    assert (listed.representation, listed.state) == (file.representation, "ready")
