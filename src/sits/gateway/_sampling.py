"""Reading how an answer is drawn, held to a form, and ended. Pure.

Source: OpenAI's API reference for chat completions; `min_p` is an extension of ours (and of
others). What is taken here is what `sits.wire.Sampling` can say: the worker does it, or a unit's
endpoint elsewhere.
"""

from sits.gateway._errors import invalid, shorten
from sits.gateway._fields import Fields
from sits.gateway._schema import take_schema
from sits.wire import Sampling

MAX_BIASES = 300
"""How many tokens a request may give a bias, where no setting says otherwise; as OpenAI's."""

_MAX_STOPS = 4
_MAX_STOP_CHARS = 256
_MIN_SEED, _MAX_SEED = -(2**63), 2**63 - 1
_MAX_TOKENS = 2**31 - 1
_MAX_TOKEN_ID = 2**31 - 1
_MAX_TOKEN_DIGITS = len(str(_MAX_TOKEN_ID))
_MAX_TOP_LOGPROBS = 20
_PENALTY = "a number from -2 to 2"
_BIAS = "a number from -100 to 100"


def take_sampling(fields: Fields, *, max_biases: int = MAX_BIASES) -> Sampling:
    """Read how tokens are drawn, but for what is told of them (`take_top_logprobs`)."""
    default = Sampling()
    temperature = fields.number("temperature", "a number from 0 to 2", 0.0, 2.0)
    top_p = fields.number("top_p", "a number above 0, at most 1", 5e-324, 1.0)
    min_p = fields.number("min_p", "a number from 0 to 1", 0.0, 1.0)
    return Sampling(
        temperature=default.temperature if temperature is None else temperature,
        top_p=default.top_p if top_p is None else top_p,
        min_p=default.min_p if min_p is None else min_p,
        seed=fields.integer("seed", "a 64-bit integer", _MIN_SEED, _MAX_SEED),
        presence_penalty=fields.number("presence_penalty", _PENALTY, -2.0, 2.0) or 0.0,
        frequency_penalty=fields.number("frequency_penalty", _PENALTY, -2.0, 2.0) or 0.0,
        logit_bias=_take_biases(fields, max_biases),
        json_schema=take_schema(fields),
    )


def take_top_logprobs(fields: Fields) -> int | None:
    """Read how many alternatives are told with each token; None: nothing is told of any."""
    expected = f"an integer from 0 to {_MAX_TOP_LOGPROBS}"
    asked = fields.flag("logprobs")
    top = fields.integer("top_logprobs", expected, 0, _MAX_TOP_LOGPROBS)
    if top and not asked:
        raise invalid(
            "top_logprobs", "'top_logprobs' is given without 'logprobs': true; give both or neither"
        )
    return (top or 0) if asked else None


def take_max_tokens(fields: Fields, *names: str) -> int | None:
    """Read the limit of an answer's tokens, by any of its names."""
    given = {
        name: value
        for name in names
        if (value := fields.integer(name, "an integer of at least 1", 1, _MAX_TOKENS)) is not None
    }
    if len(set(given.values())) > 1:
        told = " and ".join(f"{name} is {value}" for name, value in given.items())
        raise invalid(names[0], f"{told}; they mean the same: give one of them")
    return next(iter(given.values()), None)


def take_stop(fields: Fields) -> tuple[str, ...]:
    """Read the texts at which an answer ends."""
    expected = (
        f"a string or at most {_MAX_STOPS} strings, each of 1 to {_MAX_STOP_CHARS} characters"
    )
    value = fields.take("stop")
    if value is None:
        return ()
    stops = [value] if isinstance(value, str) else value
    if not isinstance(stops, list) or len(stops) > _MAX_STOPS:
        raise fields.wrong("stop", value, expected)
    for index, stop in enumerate(stops):
        if not isinstance(stop, str) or not 0 < len(stop) <= _MAX_STOP_CHARS:
            raise fields.wrong(f"stop[{index}]", stop, expected)
    return tuple(stops)


def _take_biases(fields: Fields, limit: int) -> tuple[tuple[int, float], ...]:
    given = fields.take("logit_bias")
    if given is None:
        return ()
    if not isinstance(given, dict):
        raise fields.wrong("logit_bias", given, "an object of token ids and numbers")
    if len(given) > limit:
        raise invalid(
            "logit_bias",
            f"'logit_bias' has {len(given)} tokens; at most {limit} are taken: leave some out",
        )
    biases = Fields(given, fields.path("logit_bias"))
    taken: list[tuple[int, float]] = []
    for name in given:
        token = _token_of(biases, name)
        bias = biases.number(name, _BIAS, -100.0, 100.0)
        if bias is not None:
            taken.append((token, bias))
    return tuple(taken)


def _token_of(biases: Fields, name: str) -> int:
    # Written in one way only: "7" and "07" would be one token twice.
    if name.isascii() and name.isdecimal() and len(name) <= _MAX_TOKEN_DIGITS:
        token = int(name)
        if str(token) == name and token <= _MAX_TOKEN_ID:
            return token
    path = biases.path(shorten(name))
    raise invalid(path, f"{path!r} is of no token; expected a token's id, such as '464'")
