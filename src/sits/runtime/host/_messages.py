"""What a base host, its templates and their workers say to each other.

Events go up as the `wire` messages that control gets; only the order to fork adds the tier,
which the base host alone knows.
"""

import msgspec

from sits.wire import (
    InstanceGone,
    InstanceReady,
    PrefixTaught,
    StartInstance,
    StopInstance,
    TeachPrefix,
    TemplateFailed,
    TemplateReady,
    Tier,
)


class StartWorker(msgspec.Struct, frozen=True, tag="start_worker"):
    """Base host to template: fork a worker; `tier` is how warm its start is."""

    order: StartInstance
    tier: Tier


ToTemplate = StartWorker | StopInstance | TeachPrefix
FromTemplate = TemplateReady | TemplateFailed | InstanceReady | InstanceGone | PrefixTaught
FromForkedWorker = InstanceReady | InstanceGone
FromTeacher = InstanceGone  # says nothing: its end is the word
