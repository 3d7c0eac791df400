"""Timing that ends in seconds, however large a model is: what is left over is reckoned.

A model of a billion weights takes seconds for 64 tokens, and four forms of it are timed, each
twice: minutes, in which nothing new is learnt after the first piece. The time of a prompt goes with
its tokens, as its weights are what is computed with.
"""

from collections.abc import Callable, Sequence

ENOUGH_S = 2.0
"""Once a prompt, or steps, took so long in all, no more of them are run."""


def time_prompt(
    pieces: Sequence[int], run: Callable[[int, int], None], clock: Callable[[], float]
) -> tuple[float, bool]:
    """Run the pieces of a prompt, or the first of them that take `ENOUGH_S`.

    Args:
        pieces: tokens of each.
        run: given where a piece starts and its tokens, computes it.
        clock: seconds.

    Returns:
        Seconds that all pieces take, or would, and whether there was time left.
    """
    began_s, done, took_s = clock(), 0, 0.0
    for piece in pieces:
        run(done, piece)
        done += piece
        took_s = clock() - began_s
        if took_s >= ENOUGH_S:
            return took_s * sum(pieces) / done, False
    return took_s, True


def time_steps(count: int, run: Callable[[int], None], clock: Callable[[], float]) -> float:
    """Return the seconds of the fastest of so many steps, or of the first that take `ENOUGH_S`.

    Args:
        count: of steps, beside a first one that also takes what the next ones find taken.
        run: given its number, computes one.
        clock: seconds.
    """
    run(0)
    began_s, best_s = clock(), float("inf")
    at_s = began_s
    for number in range(1, count + 1):
        run(number)
        now_s = clock()
        best_s = min(best_s, now_s - at_s)
        at_s = now_s
        if at_s - began_s >= ENOUGH_S:
            break
    return best_s
