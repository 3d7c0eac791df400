"""Every decision of the platform, as pure functions of what is observed.

    decide_instances(state, observed, spec, now_s) -> Decision     how many instances a unit has
    decide_templates(uses, templates, memory, now_s) -> …          what else is kept warm
    pick_instance(candidates) -> candidate | None                  which takes the next request
    choose_share(request_id, shares) -> place | None               which adapter a request gets
    Backoff, after_failure, after_health                           when to try again

No clock, I/O, randomness or logging: `now_s` is given, state goes in and comes out. The same
functions run in the live loop and in a simulator.
"""

from sits.policy._backoff import (
    CRASH_LOOP_FAILURES,
    MAX_DELAY_S,
    Backoff,
    after_failure,
    after_health,
    backoff_due_s,
    is_crash_looping,
    is_failing,
    may_try,
)
from sits.policy._batch import choose_batch, least_batch, predict_p99_ms
from sits.policy._instances import (
    Decision,
    InstanceView,
    Observed,
    Phase,
    ScaleSpec,
    ScaleState,
    Start,
    Stop,
    decide_instances,
)
from sits.policy._route import Candidate, pick_instance
from sits.policy._share import WHOLE_PPM, choose_share
from sits.policy._templates import (
    Memory,
    TemplateDecision,
    TemplateKey,
    TemplateUse,
    TemplateView,
    decide_templates,
)

__all__ = [
    "CRASH_LOOP_FAILURES",
    "MAX_DELAY_S",
    "WHOLE_PPM",
    "Backoff",
    "Candidate",
    "Decision",
    "InstanceView",
    "Memory",
    "Observed",
    "Phase",
    "ScaleSpec",
    "ScaleState",
    "Start",
    "Stop",
    "TemplateDecision",
    "TemplateKey",
    "TemplateUse",
    "TemplateView",
    "after_failure",
    "after_health",
    "backoff_due_s",
    "choose_batch",
    "choose_share",
    "decide_instances",
    "decide_templates",
    "is_crash_looping",
    "is_failing",
    "least_batch",
    "may_try",
    "pick_instance",
    "predict_p99_ms",
]
