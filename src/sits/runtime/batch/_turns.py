"""Whose step it is: requests of one set of adapters share a step, and sets take turns.

Invariants: each set with running answers has one step in every round, so a stream waits for no
more steps than there are such sets, and one; sets that have nothing but prompts share that one
step of each round: it goes to the set of the unit that was given the fewest tokens, so that none
of them starves. A set that was away comes back with no claim to the steps it did not use.
"""

from collections.abc import Collection, Mapping

# What the sets with prompts alone are together; no digest.
_PROMPTS = "prompts"


class Turns:
    """The order in which sets had their steps."""

    def __init__(self) -> None:
        self._last: dict[str, int] = {}
        self._steps = 0

    @staticmethod
    def round_steps(answers: Collection[str], prompts: Collection[str]) -> int:
        """Return how many steps a round has: how long a stream of any set waits at most.

        Args:
            answers: digests of sets with running answers.
            prompts: of sets with prompts, perhaps among the former.
        """
        return len(answers) + any(adapter not in answers for adapter in prompts)

    def choose(self, answers: Collection[str], prompts: Mapping[str, float]) -> str:
        """Return the set whose step is next, and count that.

        Args:
            answers: digests of sets with running answers.
            prompts: how many tokens the least served unit was given, for each set with prompts.
        """
        alone = {adapter: served for adapter, served in prompts.items() if adapter not in answers}
        waiting = [*answers, *([_PROMPTS] if alone else [])]
        if len(waiting) == 1 and len(alone) <= 1:
            return next(iter(answers or alone))
        self._steps += 1
        # Prompts that wait for a moment come back to their old place, not to the first.
        kept = (*waiting, *alone, _PROMPTS)
        self._last = {each: self._last.get(each, 0) for each in kept}
        chosen = min(waiting, key=lambda each: (self._last[each], each))
        self._last[chosen] = self._steps
        if chosen == _PROMPTS:
            chosen = min(alone, key=lambda each: (alone[each], self._last[each], each))
            self._last[chosen] = self._steps
        return chosen
