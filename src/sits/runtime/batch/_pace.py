"""How long a step takes, and how fast requests arrive, learnt from those so far.

A step costs something itself (the weights are read once) and something for each token. Both are
fitted by least squares, in which older steps count ever less; a guess stands in before the first.
"""

from dataclasses import dataclass

_DECAY = 0.97
# Before anything was measured: a small model on a slow core.
_FIXED_US, _TOKEN_US = 10_000.0, 3_000.0


@dataclass
class _Fit:
    """The weighted sums of a line through (tokens, microseconds)."""

    weight: float = 0.0
    x: float = 0.0
    y: float = 0.0
    xx: float = 0.0
    xy: float = 0.0

    def add(self, x: float, y: float, weight: float = 1.0) -> None:
        """Take a point in; former ones count less from now on."""
        self.weight = self.weight * _DECAY + weight
        self.x = self.x * _DECAY + weight * x
        self.y = self.y * _DECAY + weight * y
        self.xx = self.xx * _DECAY + weight * x * x
        self.xy = self.xy * _DECAY + weight * x * y

    def line(self) -> tuple[float, float]:
        """Return the line's value at 0, and its slope; neither is negative."""
        spread = self.weight * self.xx - self.x * self.x
        if spread <= 1e-9 * self.weight * self.xx:
            return 0.0, self.y / self.x
        slope = max(0.0, (self.weight * self.xy - self.x * self.y) / spread)
        fixed = (self.y - slope * self.x) / self.weight
        return (fixed, slope) if fixed > 0 else (0.0, self.y / self.x)


class Pace:
    """Step times by the number of tokens, for each number of threads."""

    def __init__(self) -> None:
        self._fits: dict[int, _Fit] = {}
        self._measured = False

    def learn(self, tokens: int, took_us: int, threads: int = 1) -> None:
        """Take a step's time in."""
        self._measured = True
        self._fit(threads).add(tokens, took_us)

    @property
    def is_learnt(self) -> bool:
        """Whether any step was measured."""
        return self._measured

    def predict_us(self, tokens: int, threads: int = 1) -> float:
        """Return how long a step of so many tokens is likely to take."""
        fixed, slope = self._fit(threads).line()
        return fixed + slope * tokens

    def tokens_within(self, limit_us: float, threads: int = 1) -> int:
        """Return the most tokens that a step likely does in a time; perhaps 0."""
        fixed, slope = self._fit(threads).line()
        return max(0, int((limit_us - fixed) / max(slope, 1e-3)))

    def _fit(self, threads: int) -> _Fit:
        fit = self._fits.get(threads)
        if fit is None:
            fit = self._fits[threads] = _Fit()
            for tokens in (1, 64):
                fit.add(tokens, _FIXED_US + tokens * _TOKEN_US, weight=0.1)
        return fit


class Rate:
    """How many requests arrive each second, of late: the newest intervals count most."""

    _NEWEST = 0.2

    def __init__(self) -> None:
        self._last_us: int | None = None
        self._interval_us = 0.0

    def arrive(self, now_us: int) -> None:
        """Count an arrival."""
        if self._last_us is not None:
            interval_us = max(0, now_us - self._last_us)
            if not self._interval_us:
                self._interval_us = float(interval_us)
            self._interval_us += self._NEWEST * (interval_us - self._interval_us)
        self._last_us = now_us

    @property
    def per_s(self) -> float:
        """The rate; 0 before there was any interval."""
        return 1e6 / self._interval_us if self._interval_us else 0.0
