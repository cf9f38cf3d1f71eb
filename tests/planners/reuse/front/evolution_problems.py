"""Small search problems whose fronts can be enumerated, as objects that travel between processes."""

import os
import signal
import time
from dataclasses import dataclass
from fractions import Fraction
from importlib import import_module
from itertools import product
from pathlib import Path

from csdf.errors import CsdfError
from csdf.time_limit import Stop
from planners.reuse.problem import ReuseProblem


def problem(*alleles, objectives=2, identity="test"):
    names = tuple(f"objective {number}" for number in range(objectives))
    return ReuseProblem(identity=identity, alleles=alleles, objectives=names)


none = Stop()


class Schaffer:
    """Schaffer's function of x, the sum of twelve genes: x^2 and (x - 6)^2.

    Source: Deb et al. 2002, table I, SCH, with 6 for 2.
    """

    problem = problem(*[tuple(range(-3, 4))] * 12)

    def __call__(self, chromosome):
        x = sum(chromosome)
        return (x * x, (x - 6) ** 2)


@dataclass(frozen=True)
class Knapsack:
    """Weight against missing value."""

    weights: tuple[int, ...] = (3, 5, 7, 11, 13, 17, 19, 23)
    values: tuple[int, ...] = (4, 3, 9, 8, 14, 13, 25, 20)
    pause: float = 0.0  # seconds

    @property
    def problem(self):
        return problem(*[(0, 1)] * len(self.weights))

    def __call__(self, chromosome):
        time.sleep(self.pause)
        weight = sum(w for w, taken in zip(self.weights, chromosome, strict=True) if taken)
        missing = sum(v for v, taken in zip(self.values, chromosome, strict=True) if not taken)
        return (weight, Fraction(missing, 3))


@dataclass(frozen=True)
class Deadly:
    """A knapsack of which one evaluation ends its process, the first time only."""

    marker: Path
    inner: Knapsack = Knapsack()

    def __call__(self, chromosome):
        if sum(chromosome) == 4 and not self.marker.exists():
            self.marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return self.inner(chromosome)


class Poison:
    """An evaluation that ends its process every time."""

    def __call__(self, chromosome):
        os.kill(os.getpid(), signal.SIGKILL)


class Hostile(CsdfError):
    """An error that cannot be built again from its message alone."""

    def __init__(self, gene, why):
        super().__init__(f"{gene} is {why}")


class Missing:
    """An evaluation that no other process can build."""

    def __reduce__(self):
        return import_module, ("a_module_that_is_not_there",)

    def __call__(self, chromosome):
        return (0, 0)


class Where:
    """An evaluation that says in which process it ran, a while later."""

    def __call__(self, chromosome):
        time.sleep(0.01)
        return (os.getpid(),)


class Wide:
    """An evaluation whose answer is long."""

    def __call__(self, chromosome):
        return (2**4000 + chromosome[0], len(chromosome))


class Refusing:
    """An evaluation that refuses every chromosome."""

    def __call__(self, chromosome):
        raise Hostile(chromosome[0], "refused")


def every_score(evaluate, alleles):
    return {chromosome: evaluate(chromosome) for chromosome in product(*alleles)}


def dominates(one, other):
    """Whether objectives `one` are nowhere above `other` and somewhere below."""
    return one != other and all(a <= b for a, b in zip(one, other, strict=True))


def true_front(evaluate, alleles):
    """The objectives no feasible chromosome dominates, by comparing all pairs."""
    feasible = set(every_score(evaluate, alleles).values())
    return {one for one in feasible if not any(dominates(other, one) for other in feasible)}


def front_of(front):
    """The front as plain values, to compare searches by."""
    return [(point.chromosome, point.score) for point in front.points]
