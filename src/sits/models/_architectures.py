"""What the engine can run, by the architecture that a GGUF file names.

The list is what llama.cpp of the pinned version knows, so that a model is refused when its unit is
deployed and not when somebody asks it something; a test asks the engine itself about each. What
it knows but cannot serve as one of a batch of independent texts is refused with the reason.
"""

from sits.models._errors import ModelError
from sits.models._gguf import GgufHeader
from sits.models._types import ModelKind

ENCODERS = frozenset(
    """
    bert eurobert gemma-embedding jina-bert-v2 jina-bert-v3 llama-embed modern-bert neo-bert
    nomic-bert nomic-bert-moe
    """.split()  # noqa: SIM905 - a list of this length reads better as text
)
DECODERS = frozenset(
    """
    afmoe apertus arcee arctic arwkv7 baichuan bailingmoe bailingmoe2 bitnet bloom chameleon
    chatglm codeshell cogvlm cohere2 command-r dbrx deci deepseek deepseek2 deepseek2-ocr
    dots1 ernie4_5 ernie4_5-moe exaone exaone-moe exaone4 falcon falcon-h1 gemma gemma2 gemma3
    gemma3n gemma4 glm-dsa glm4 glm4moe gpt-oss gpt2 gptj gptneox granite granitehybrid
    granitemoe grok grovemoe hunyuan-dense hunyuan-moe hunyuan_vl internlm2 jais jais2 jamba
    kimi-linear lfm2 lfm2moe llama llama4 maincoder mamba mamba2 mimo2 minicpm minicpm3
    minimax-m2 mistral3 mistral4 mpt nemotron nemotron_h nemotron_h_moe olmo olmo2 olmoe
    openelm orion paddleocr pangu-embedded phi2 phi3 phimoe plamo plamo2 plamo3 plm qwen qwen2
    qwen2moe qwen2vl qwen3 qwen35 qwen35moe qwen3moe qwen3next qwen3vl qwen3vlmoe refact rwkv6
    rwkv6qwen2 rwkv7 seed_oss smallthinker smollm3 stablelm starcoder starcoder2 step35 xverse
    """.split()  # noqa: SIM905 - a list of this length reads better as text
)
_DIFFUSION = "it makes text by diffusion, not token by token"
_ENCODER_DECODER = "it is an encoder with a decoder (T5)"
REFUSED = {
    "clip": "it turns images into what a language model reads, and is none itself",
    "dream": _DIFFUSION,
    "llada": _DIFFUSION,
    "llada-moe": _DIFFUSION,
    "rnd1": _DIFFUSION,
    "t5": _ENCODER_DECODER,
    "t5encoder": _ENCODER_DECODER,
    "wavtokenizer-dec": "it makes sound",
}
_RANK = 4
CAN_BE_USED = (
    "GGUF files of decoders (llama, qwen3, gemma3, phi3 and so on) for chat, and of encoders "
    "(bert, nomic-bert, modern-bert and so on) for embeddings"
)


def kind_of(header: GgufHeader, reference: str) -> ModelKind:
    """Return what a model makes of its input.

    Raises:
        ModelError: the engine cannot run it; the message says what it can.
    """
    architecture = header.architecture
    if header.adapter:
        raise ModelError(
            f"model '{reference}' is an adapter ({header.adapter}), which changes a model and is "
            "none itself; name the model that it was trained on, and the adapter as `lora`"
        )
    if header.splits > 1:
        raise ModelError(
            f"model '{reference}' is one of {header.splits} parts of a split GGUF file; expected "
            "a single file: join them with llama.cpp's llama-gguf-split --merge"
        )
    if architecture in REFUSED:
        raise _refusal(reference, architecture, REFUSED[architecture])
    if architecture not in ENCODERS | DECODERS:
        raise _refusal(reference, architecture, "the engine does not know it")
    if header.pooling == _RANK:
        raise _refusal(reference, architecture, "the file is of a reranker")
    if architecture in ENCODERS or header.pooling:
        return ModelKind.EMBEDDING
    return ModelKind.CHAT


def _refusal(reference: str, architecture: str, why: str) -> ModelError:
    return ModelError(
        f"model '{reference}' has the architecture '{architecture[:64]}', which cannot be run: "
        f"{why}; use one of {CAN_BE_USED}"
    )
