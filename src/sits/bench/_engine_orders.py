"""What a benchmark and its engine process say to each other: JSON, one message a line."""

import msgspec


class Setup(msgspec.Struct, frozen=True):
    """How the engine and what runs requests on it are made.

    Attributes:
        model: path of the file.
        sequences: requests at once.
        sequence_tokens: room of each, prompt and answer together.
        cells: room of the pool, in tokens; 0: for all sequences at their longest.
        batch_tokens: the most that one step takes; 0: as an instance has it.
        stall_us: how long a step may take while answers run; None: as an instance has it.
        threads: of the engine.
        fresh: no pool, but a context of its own for each request.
    """

    model: str
    sequences: int
    sequence_tokens: int
    cells: int = 0
    batch_tokens: int = 0
    stall_us: int | None = None
    threads: int = 2
    fresh: bool = False


class Hello(msgspec.Struct, frozen=True):
    """The engine is there.

    Attributes:
        end_tokens: ids of the tokens that end an answer.
    """

    end_tokens: tuple[int, ...]


class Work(msgspec.Struct, frozen=True):
    """A request for an answer of exactly so many tokens.

    Attributes:
        messages: (role, words) of the chat.
        tokens: how many; the tokens that end an answer are not drawn.
        after_s: when it arrives, from the beginning of its round.
    """

    messages: tuple[tuple[str, str], ...]
    tokens: int
    after_s: float = 0.0


class Done(msgspec.Struct, frozen=True):
    """What became of a request.

    Attributes:
        arrivals_s: when each of its tokens came, from the beginning of the round.
        cached_tokens: of the prompt's, those that were not computed for it.
    """

    arrivals_s: tuple[float, ...]
    text: str
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int
