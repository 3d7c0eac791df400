"""What is said of a field that is not known: where it belongs, or what was meant by it."""

import re
from collections.abc import Mapping
from typing import Any

from sits.spec._keys import HOW_TO_GIVE
from sits.spec._unit import SECTIONS, field_names
from sits.spec._words import nearest

# What other platforms call it, without case and separators, and what it is here.
_ELSEWHERE: Mapping[str, str] = {
    "minreplicas": "scale.min_instances",
    "maxreplicas": "scale.max_instances",
    "minreplicacount": "scale.min_instances",
    "maxreplicacount": "scale.max_instances",
    "minscale": "scale.min_instances",
    "maxscale": "scale.max_instances",
    "replicas": "scale.min_instances",
    "cooldownperiod": "scale.idle",
    "scaledownwindow": "scale.idle",
    "keepalive": "scale.idle",
    "namespace": "tenant",
    "project": "tenant",
    "adapters": "lora",
    "loramodules": "lora",
    "gpu": "hardware.accelerator",
    "device": "hardware.accelerator",
    "gpus": "hardware.count",
    "numgpu": "hardware.count",
    "numthread": "hardware.threads",
    "resources": "hardware",
    "url": "engine.endpoints",
    "baseurl": "engine.endpoints",
    "apibase": "engine.endpoints",
    "slos": "slo",
    "objectives": "slo",
    "budgets": "budget",
    "template": "prompt.template",
    "system": "prompt.system",
    "systemprompt": "prompt.system",
    "systemmessage": "prompt.system",
    "instructions": "prompt.system",
    "annotations": "labels",
    "tags": "labels",
    "description": "labels",
    "from": "model",
    "basemodel": "model",
}
# What a person puts a key under.
_KEYS = frozenset(
    {
        "apikey",
        "key",
        "token",
        "apitoken",
        "accesstoken",
        "authtoken",
        "bearertoken",
        "secretkey",
        "password",
        "authorization",
        "credentials",
        "openaiapikey",
    }
)
# What a caller says with each request, and a unit never.
_OF_REQUESTS = frozenset(
    {
        "temperature",
        "maxtokens",
        "maxcompletiontokens",
        "topp",
        "topk",
        "minp",
        "seed",
        "stop",
        "stream",
        "n",
        "frequencypenalty",
        "presencepenalty",
        "repetitionpenalty",
        "logitbias",
        "logprobs",
        "responseformat",
        "tools",
        "toolchoice",
        "dimensions",
        "encodingformat",
    }
)


def field_hint(path: tuple[Any, ...]) -> str:
    """Return where the field at `path` belongs, or which one was meant; "" if nobody can say."""
    name, inside = str(path[-1]), [str(part) for part in path[:-1] if isinstance(part, str)]
    homes = [home for home in SECTIONS if name in SECTIONS[home].model_fields]
    if inside and name in field_names(()):
        return "it belongs at the top, without indentation; "
    if homes:
        return f"it belongs under `{homes[0]}`; "
    own = field_names(path[:-1])
    # What is a plural away (`budget.token`) is meant before all else.
    close = nearest(name, own, cutoff=0.9) if inside else None
    hint = (
        f"did you mean `{close}`? " if close else name_hint(name, in_session=inside == ["session"])
    )
    if hint:
        return hint
    if name in {"spec", "metadata"} and not inside:
        return (
            "write what is in it at the top, or the form of a cluster: apiVersion, kind, metadata "
            "and spec; "
        )
    near = nearest(name, own)
    if near:
        return f"did you mean `{near}`? "
    everywhere = {
        field: f"{home}.{field}" for home in SECTIONS for field in SECTIONS[home].model_fields
    } | {field: field for field in field_names(())}
    elsewhere = nearest(name, everywhere, cutoff=0.75)
    return f"did you mean `{everywhere[elsewhere]}`? " if elsewhere else ""


def name_hint(name: str, *, in_session: bool = False) -> str:
    """Return what is known of a name wherever it stands: keys, requests' fields, other words."""
    folded = re.sub(r"[-_.]", "", name[:64]).casefold()
    if folded in _KEYS:
        return f"a key is never in a unit: {HOW_TO_GIVE}; "
    if folded in _OF_REQUESTS and not (in_session and folded == "maxtokens"):
        return "it is given with each request, not in a unit's file; "
    known = _ELSEWHERE.get(folded)
    return f"it is called `{known}` here; " if known else ""
