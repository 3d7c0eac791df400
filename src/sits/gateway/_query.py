"""`POST /iu/NAME/v1/query`: reading the request. Pure."""

from typing import Any

from sits.gateway._errors import ApiError
from sits.gateway._fields import Fields
from sits.gateway._job import Job, require_kind
from sits.gateway._render_query import QueryRenderer
from sits.gateway._sampling import MAX_BIASES, take_max_tokens, take_sampling, take_stop
from sits.wire import TemplatePrompt, UnitKind, UnitRoute


def read_query(body: dict[str, Any], unit: UnitRoute, *, max_biases: int = MAX_BIASES) -> Job:
    """Read a request to a unit's own endpoint.

    Args:
        body: the request's object: `inputs`, and optionally `stream`, `max_tokens`,
            `temperature`, `top_p`, `min_p`, `seed`, `stop`, `presence_penalty`,
            `frequency_penalty`, `logit_bias`, `response_format`.
        unit: the unit's route.
        max_biases: most tokens in `logit_bias` that are taken.

    Raises:
        ApiError: something in it cannot be taken; the message names the field.
    """
    require_kind(unit, UnitKind.CHAT)
    if unit.template is None:
        raise ApiError(
            400,
            "no_prompt_template",
            f"the unit {unit.name!r} has no prompt template to fill; call "
            "/v1/chat/completions, or give it a `prompt` and deploy it again",
        )
    fields = Fields(body)
    inputs = fields.mapping("inputs")
    if inputs is None:
        raise fields.missing("inputs", "an object with the values of the unit's prompt template")
    stream = fields.flag("stream")
    sampling = take_sampling(fields, max_biases=max_biases)
    max_tokens = take_max_tokens(fields, "max_tokens")
    stop = take_stop(fields)
    fields.finish()
    return Job(
        unit=unit,
        prompt=TemplatePrompt(unit.template, inputs, unit.system),
        sampling=sampling,
        stop=stop,
        max_tokens=max_tokens,
        stream=stream,
        make_renderer=QueryRenderer,
    )
