"""A unit's template becomes a conversation, in a process of its own.

A template may take seconds, for which the host's one event loop would hold up every stream of
its tenant. A thread would not do: the walls around a render stand only in a process's main
thread, and the memory's would be around the streams as well. So a template that the kernel has
to end takes its own process with it, and nothing else. The first one waits for the process to
start, a few tenths of a second; later ones find it there.
"""

import anyio
import anyio.to_process

from sits.runtime.batch import prompt_messages
from sits.sandbox import Limits, SandboxError
from sits.wire import ChatPrompt, Message, TemplatePrompt

# For what no exception reaches, such as one operation that takes for ever.
_LIMITS = Limits(kill_s=3.0)
# With the wait for a process, when all are busy with templates that take long.
_LIMIT_S = 20.0


async def render(
    prompt: ChatPrompt | TemplatePrompt, processes: anyio.CapacityLimiter
) -> tuple[Message, ...]:
    """Return a prompt's conversation. Cancelling ends the process that renders it.

    Args:
        prompt: a conversation, or a unit's template with its inputs.
        processes: how many render at once.

    Raises:
        SandboxError: the unit's template fails on these inputs.
    """
    if isinstance(prompt, ChatPrompt):
        return prompt.messages
    try:
        with anyio.fail_after(_LIMIT_S):
            return await anyio.to_process.run_sync(
                prompt_messages, prompt, _LIMITS, cancellable=True, limiter=processes
            )
    except anyio.BrokenWorkerProcess as error:
        raise SandboxError(
            "the unit's prompt template: the process that rendered it was ended, as one is after "
            f"{_LIMITS.kill_s:g} s of one operation; make its loops and values smaller"
        ) from error
    except TimeoutError as error:
        raise SandboxError(
            f"the unit's prompt template: not done after {_LIMIT_S:g} s, with the wait for others "
            "that take long; make their loops shorter"
        ) from error
    except RecursionError as error:
        raise SandboxError(
            "the inputs of the unit's prompt template are nested too deeply; make them flatter"
        ) from error
