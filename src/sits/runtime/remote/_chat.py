"""Chat completions of an endpoint: the request's body, and the answer's events. Pure.

Source: OpenAI's API reference for streamed chat completions. `min_p` is left out: few endpoints
know it, and those that do not refuse it.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from sits.runtime.remote._errors import CallerFault, EndpointDown
from sits.wire import FinishReason, Generate, Message, Usage

DONE = "[DONE]"
# Where an endpoint counts nothing itself: what a token of English is about.
_BYTES_A_TOKEN = 4


def chat_body(request: Generate, messages: Sequence[Message], model: str) -> dict[str, Any]:
    """Return the body that asks an endpoint for an answer."""
    sampling = request.sampling
    body: dict[str, Any] = {
        "model": model,
        "messages": [{"role": each.role, "content": each.content} for each in messages],
        "stream": True,
        "stream_options": {"include_usage": True},
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
    }
    if sampling.seed is not None:
        body["seed"] = sampling.seed
    if request.stop:
        body["stop"] = list(request.stop)
    if request.max_tokens is not None:
        body["max_tokens"] = request.max_tokens
    return body


@dataclass
class ChatAnswer:
    """What has come of one answer so far.

    Attributes:
        messages: what was asked, for counting where the endpoint does not.
        done: the endpoint has said that the answer is whole.
        reason: why it ended, as far as was said.
    """

    messages: Sequence[Message]
    done: bool = False
    reason: FinishReason = FinishReason.STOP
    _usage: Usage | None = None
    _pieces: int = 0
    _half: str = ""
    _filtered: bool = field(default=False)

    def take(self, data: str) -> str:
        """Take an event's data and return the text that it adds, whole characters only.

        Raises:
            EndpointDown: it is no event of an answer, or says that the endpoint failed.
            CallerFault: it says that the request is refused, or the answer withheld.
        """
        if data.strip() == DONE:
            return self._finish()
        event = _decode(data)
        if error := event.get("error"):
            raise failure_of(error)
        self._usage = _usage_of(event.get("usage")) or self._usage
        choices = event.get("choices")
        if not isinstance(choices, list) or not choices:
            return ""
        choice = choices[0] if isinstance(choices[0], dict) else {}
        self._note_reason(choice.get("finish_reason"))
        delta = choice.get("delta")
        content = delta.get("content") if isinstance(delta, dict) else None
        if not isinstance(content, str) or not content:
            return ""
        self._pieces += 1
        return self._join(content)

    def usage(self) -> Usage:
        """Return what the endpoint counted, else its pieces and an estimate of the prompt."""
        if self._usage is not None:
            return self._usage
        size = sum(len(each.content.encode("utf-8", "replace")) for each in self.messages)
        return Usage(-(-size // _BYTES_A_TOKEN), self._pieces)

    def _finish(self) -> str:
        self.done = True
        if self._filtered:
            raise CallerFault(
                "content_filtered",
                "the endpoint withheld the rest of the answer (content_filter); ask otherwise",
            )
        return "\ufffd" if self._half else ""

    def _note_reason(self, given: object) -> None:
        if given == "length":
            self.reason = FinishReason.LENGTH
        elif given == "content_filter":
            self._filtered = True

    def _join(self, content: str) -> str:
        """Return text without half characters: JSON escapes cut them where bytes would not be."""
        content = self._half + content
        self._half = ""
        if "\ud800" <= content[-1] <= "\udbff":
            content, self._half = content[:-1], content[-1]
        return content.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def failure_of(error: object) -> EndpointDown | CallerFault:
    """Return what an `error` object of an endpoint means."""
    fields = error if isinstance(error, dict) else {}
    message = str(fields.get("message") or error)
    if fields.get("code") == "context_length_exceeded":
        return CallerFault("context_length_exceeded", message)
    if fields.get("type") == "invalid_request_error":
        return CallerFault("invalid_request", message)
    return EndpointDown(f"it says: {message}")


def _decode(data: str) -> dict[str, Any]:
    try:
        event = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise EndpointDown("it sent an event that is not JSON") from error
    if not isinstance(event, dict):
        raise EndpointDown("it sent an event that is no JSON object")
    return event


def _usage_of(given: object) -> Usage | None:
    if not isinstance(given, dict):
        return None
    counts = [given.get(name) for name in ("prompt_tokens", "completion_tokens")]
    prompt, completion = (
        value if isinstance(value, int) and 0 <= value < 2**53 else 0 for value in counts
    )
    return Usage(prompt, completion)
