"""Whole numbers drawn with a given mean and variance, within limits."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import isqrt
from random import Random

from csdf.errors import InvalidGraph

GRAIN = 2**20  # steps of a number drawn evenly from 0 to 1
ROUNDING = Fraction(1, 6)  # variance that rounding up or down by chance adds, on average
DEVIATIONS = 3  # from the mean to either end of the bell


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """How numbers vary: their mean and variance, and the least and the largest there may be.

    Where three standard deviations fit between the limits, numbers are drawn from a bell around the
    mean, the sum of three even ones. Where they do not, numbers on either side of the mean are drawn
    evenly, as far from it on one side as the limit allows, and on the other as the variance needs.
    Each is rounded up or down by chance, so that the mean stays; a variance below 1/6, which that
    brings by itself, counts as none.
    """

    mean: Fraction
    variance: Fraction = Fraction(0)
    least: int = 1
    most: int | None = None

    def __post_init__(self) -> None:
        if self.variance < 0:
            raise InvalidGraph(f"variance {self.variance}; expected at least 0")
        if self.mean < self.least or (self.most is not None and self.mean > self.most):
            most = "" if self.most is None else f" and at most {self.most}"
            raise InvalidGraph(f"mean {self.mean}; expected at least {self.least}{most}")
        if self._own_variance() and not self._fits_a_bell():
            _, _, is_possible = self._sides()
            if not is_possible:
                below = self.mean - self.least
                above = 0 if self.most is None else self.most - self.mean
                raise InvalidGraph(
                    f"variance {self.variance} around the mean {self.mean}; expected at most "
                    f"{below * above / 3 + ROUNDING} between these limits"
                )

    def draw(self, random: Random) -> int:
        """Return the next number; the same generator gives the same numbers everywhere."""
        return _rounded(random, self._exact(random))

    def _exact(self, random: Random) -> Fraction:
        variance = self._own_variance()
        if not variance:
            return self.mean
        if self._fits_a_bell():
            width = DEVIATIONS * _root(variance)
            together = _even(random) + _even(random) + _even(random)
            return self.mean + width * (together * Fraction(2, 3) - 1)
        below, above, _ = self._sides()
        if _even(random) * (below + above) < below:  # far sides are drawn less often
            return self.mean + above * _even(random)
        return self.mean - below * _even(random)

    def _own_variance(self) -> Fraction:
        """The variance before rounding."""
        return max(self.variance - ROUNDING, Fraction(0))

    def _fits_a_bell(self) -> bool:
        reach = DEVIATIONS**2 * self._own_variance()
        above = None if self.most is None else (self.most - self.mean) ** 2
        return reach <= (self.mean - self.least) ** 2 and (above is None or reach <= above)

    def _sides(self) -> tuple[Fraction, Fraction, bool]:
        """How far numbers reach below and above the mean, and whether the limits allow it.

        Even numbers over `below` and `above`, each as often as the other is long, have the mean 0 and
        the variance below * above / 3.
        """
        below = self.mean - self.least
        above = None if self.most is None else self.most - self.mean
        product = 3 * self._own_variance()
        if below and (above is None or below <= above):
            wanted = product / below
            return below, wanted, above is None or wanted <= above
        if not above:
            return Fraction(0), Fraction(0), False
        wanted = product / above
        return wanted, above, wanted <= below


def _even(random: Random) -> Fraction:
    return Fraction(random.randrange(GRAIN), GRAIN)


def _rounded(random: Random, value: Fraction) -> int:
    whole, rest = divmod(value, 1)
    return int(whole) + (_even(random) < rest)


def _root(value: Fraction) -> Fraction:
    """The square root, to six digits."""
    return Fraction(isqrt(value.numerator * GRAIN**2 // value.denominator), GRAIN)
