"""How soon a model of a billion weights answers where nothing of it runs, beside peers.

What is hidden in a small model shows in a large one: whether a start reads or copies the weights,
and how much of it is the platform's own. The model is made in the run (`_made_model`) and deployed
as a file, so that it is prepared as any other is; what counts as a start of a tier: `_starts`.

Its answers mean nothing, and that is no matter: how long they take does not depend on it.
"""

import contextlib
import random
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from sits.bench._baselines import Baseline, run_baselines
from sits.bench._interface import Figure, Measured, Options, Samples, Tell
from sits.bench._made_model import ModelForm, make_model
from sits.bench._peer_places import LLAMA_SERVER
from sits.bench._peers import missing_words
from sits.bench._platform import engine_words, need_engine, run_platform
from sits.bench._starts import (
    NEW_WORDS,
    PREFIX_WORDS,
    SHORT_SYSTEM,
    SHORT_WORDS,
    StartCase,
    measure_round,
    peers_of,
    ratio_to_fastest,
)
from sits.bench._texts import draw_words
from sits.models import builtin_path

_TOKENIZER_OF = "smollm2-135m-instruct"
_FORM = ModelForm()
_RATIO = "cool_20_ratio"
_LONG = "cool_320"
_QUICK_WORDS = "300 tokens take a model of this size seconds; run it without --quick"


@dataclass(frozen=True)
class _Sizes:
    """How often each thing is measured: `starts` of each case in each round."""

    rounds: int
    starts: int
    cases: tuple[str, ...]


_QUICK = _Sizes(rounds=3, starts=2, cases=("cool_20", "warm_20"))
_WHOLE = _Sizes(rounds=6, starts=3, cases=("cool_20", "warm_20", _LONG))


@dataclass
class _Peers:
    """Of each round, the milliseconds of each peer, by the length of the prompt."""

    rounds: dict[str, list[dict[str, float]]] = field(default_factory=dict)

    def measure(self, cases: Mapping[str, StartCase], baselines: Mapping[str, Baseline]) -> None:
        """Ask all of them once for each length."""
        lengths = {name.partition("_")[2]: case for name, case in cases.items()}
        for tokens, case in lengths.items():
            messages = case.peer_messages()
            took_ms = {name: measure(messages) for name, measure in baselines.items()}
            self.rounds.setdefault(tokens, []).append(took_ms)

    def of(self, case: str) -> list[dict[str, float]]:
        """Return those of a case's length."""
        return self.rounds[case.partition("_")[2]]


class LargeModelBench:
    """See the module."""

    name = "large-model"
    kind = "measurement"
    meaning = "a first answer of a model with 1 B weights where nothing runs, beside peers"
    figures = (
        Figure("cool_20_ms_p50", "prompt of 20 tokens, no host", slack=0.2, floor=20.0),
        Figure("warm_20_ms_p50", "the same, no worker", slack=0.2, floor=20.0),
        Figure(f"{_LONG}_ms_p50", "300 known + 20 new, no host", slack=0.2, floor=20.0),
        Figure(
            _RATIO,
            "the fastest peer's time for 20 tokens, over ours with no host",
            target=1.0,
            slack=0.2,
            higher_is_better=True,
            ratio=True,
        ),
    )

    def run(self, options: Options, tell: Tell) -> Measured:
        """See `Bench.run`."""
        need_engine(self.name)
        sizes = _QUICK if options.quick else _WHOLE
        dice = random.Random(options.seed)  # noqa: S311 - draws words and an order, no secret
        with tempfile.TemporaryDirectory(prefix="sits-large-") as place:
            tell("making the model")
            path = Path(place, "made.gguf")
            weights = make_model(builtin_path(_TOKENIZER_OF), path, _FORM, options.seed)
            with _run_cases(path, sizes, dice, tell) as cases:
                measured = _measure(path.as_uri(), cases, sizes, dice, tell)
        setting = {**measured.setting, "weights": weights}
        left_out = {} if LLAMA_SERVER.find() else {_RATIO: missing_words(LLAMA_SERVER)}
        if _LONG not in sizes.cases:
            left_out[f"{_LONG}_ms_p50"] = _QUICK_WORDS
        samples, busy = measured.samples, measured.load_cpu_share
        return Measured(samples, setting, busy, measured.proof, left_out)


@contextmanager
def _run_cases(
    model: Path, sizes: _Sizes, dice: random.Random, tell: Tell
) -> Iterator[dict[str, StartCase]]:
    """Run a platform for each case, with its unit, until the block ends."""
    systems = {
        "20": (SHORT_SYSTEM, SHORT_WORDS),
        "320": (draw_words(dice, PREFIX_WORDS), NEW_WORDS),
    }
    cases = {}
    with contextlib.ExitStack() as stack:
        for name in sizes.cases:
            tell(f"a platform for {name}")
            tier, _, tokens = name.partition("_")
            # Not the person's own models: nothing of a made one is to be left there.
            platform = stack.enter_context(run_platform(str(model.with_name("models"))))
            cases[name] = StartCase(name, tier, *systems[tokens], platform, dice)
            cases[name].deploy(model.as_uri())
        for case in cases.values():
            case.wait_until_gone()
        yield cases


def _measure(
    model: str,
    cases: Mapping[str, StartCase],
    sizes: _Sizes,
    dice: random.Random,
    tell: Tell,
) -> Measured:
    file = cases["cool_20"].platform.model_file(model)
    peers = _Peers()
    began_s, began_cpu_s = time.perf_counter(), time.process_time()
    with run_baselines(file.path, tell, few=True) as baselines:
        for number in range(sizes.rounds):
            tell(f"round {number + 1} of {sizes.rounds}")
            measure_round(cases.values(), sizes.starts, dice)
            peers.measure(cases, baselines)
    busy = (time.process_time() - began_cpu_s) / (time.perf_counter() - began_s)
    samples = {
        f"{name}_ms_p50": Samples(case.all_ms, peers=peers_of(peers.of(name)))
        for name, case in cases.items()
    }
    samples[_RATIO] = ratio_to_fastest(cases["cool_20"].starts_ms, peers.of("cool_20"))
    setting = {
        "representation": file.representation,
        "file_mb": round(file.size_bytes / 1e6),
        "engine": engine_words(),
        "prompt_tokens": {case.name: case.prompt_tokens for case in cases.values()},
    }
    return Measured(samples, setting, busy, {name: case.proof for name, case in cases.items()})
