"""Sufficient depths by greedy growth: the cheapest FIFO on the critical cycle gets deeper."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from planners.fifo.design import LEAST_DEPTH, Fifo
from planners.fifo.evaluator import DesignEvaluator

Depths = tuple[int, ...]

SHARES = (1, 2, 4, 8, 16, 32)  # of the words of a FIFO that are moved elsewhere at once


def least_depths(evaluator: DesignEvaluator) -> Depths:
    """Return for each FIFO the least depth that does if all others have no bound."""
    return tuple(
        least_depth(evaluator, number) for number in range(len(evaluator.system.design.fifos))
    )


def least_depth(evaluator: DesignEvaluator, number: int) -> int:
    """Return the least depth of one FIFO that does if all others have no bound."""
    unbounded: list[int | None] = [None] * len(evaluator.system.design.fifos)
    return _least(evaluator, unbounded, number, LEAST_DEPTH - 1)


def grown(
    evaluator: DesignEvaluator,
    start: Sequence[int],
    most: Sequence[int | None],
    *,
    is_hurried: bool = False,
) -> Iterator[tuple[Depths, bool]]:
    """Yield ever larger depths, and whether they suffice: the last ones do.

    Where FIFOs are too small together, that one grows whose words hold the fewest bits of a frame:
    there a word waits cheapest. most: what each need not exceed, None for no end; those without are
    taken first. is_hurried: take the first depth that does.
    """
    current, fifos = list(start), evaluator.system.design.fifos
    while groups := _groups(evaluator, current):
        for group in groups:
            in_turn = sorted(
                group, key=lambda one: (most[one] is not None, _frame_bits(fifos[one]))
            )
            for _ in _repair(evaluator, current, in_turn, is_hurried=is_hurried):
                yield tuple(current), False
    yield tuple(current), True


def _groups(evaluator: DesignEvaluator, current: Sequence[int]) -> list[tuple[int, ...]]:
    """Groups without a FIFO in common, of circuits that hold these depths back."""
    trial: list[int | None] = list(current)
    found = []
    while (circuit := evaluator.circuit(trial)) is not None:
        found.append(circuit.fifos)
        for place in circuit.fifos:
            trial[place] = None
    return found


def _repair(
    evaluator: DesignEvaluator, current: list[int], group: Sequence[int], *, is_hurried: bool
) -> Iterator[None]:
    """Let the first FIFOs of a group grow until it suffices, all others unbounded."""
    trial: list[int | None] = [None] * len(current)
    for place in group:
        trial[place] = current[place]
    grow = []
    for place in group:
        grow.append(place)
        trial[place] = None
        if evaluator.circuit(trial) is None:
            break
    for place in reversed(grow):
        enough = evaluator.enough(trial, place)
        if is_hurried and enough is not None:
            enough = _coarse(
                evaluator, trial, place, (current[place], enough // 64, enough // 8, enough)
            )
        else:
            enough = _least(evaluator, trial, place, current[place] - 1, enough)
        trial[place] = current[place] = max(enough, current[place])
        yield


def _coarse(
    evaluator: DesignEvaluator, trial: Sequence[int | None], place: int, depths: Sequence[int]
) -> int:
    """The first of ever larger depths of one FIFO that does; the last is known to do."""
    own = list(trial)
    for depth in sorted(depths)[:-1]:
        own[place] = depth
        if depth >= LEAST_DEPTH and evaluator.circuit(own) is None:
            return depth
    return max(depths)


def _frame_bits(fifo: Fifo) -> int:
    return fifo.bits * fifo.words


def _least(
    evaluator: DesignEvaluator,
    trial: Sequence[int | None],
    place: int,
    below: int,
    enough: int | None = None,
) -> int:
    """The least depth above `below` of one FIFO that does, the others being as in the trial."""
    own = list(trial)

    def does(depth: int) -> bool:
        own[place] = depth
        return evaluator.circuit(own) is None

    if does(below + 1):
        return below + 1
    low, high = below + 1, enough
    if high is None or high <= low or not does(high):
        step = 1
        while not does(low + step):
            low, step = low + step, 2 * step
        high = low + step
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if does(middle) else (middle, high)
    return high


def narrowed(
    evaluator: DesignEvaluator, depths: Depths, least: Depths, weights: Sequence[int]
) -> Iterator[Depths]:
    """Yield ever smaller depths that suffice; in the last no single one can be less."""
    current = list(depths)
    for place in sorted(range(len(depths)), key=lambda one: -weights[one]):
        low, high = least[place] - 1, current[place]
        while high - low > 1:
            middle = high - 1 if high == current[place] == depths[place] else (low + high) // 2
            current[place] = middle
            if evaluator.circuit(current) is None:
                high = middle
                yield tuple(current)
            else:
                low = middle
        current[place] = high
    yield tuple(current)


def exchanged(
    evaluator: DesignEvaluator,
    depths: Depths,
    least: Depths,
    most: Sequence[int | None],
    weights: Sequence[int],
) -> Iterator[Depths]:
    """Yield after each attempt the cheapest depths so far: words of a FIFO go, and another one grows.

    First all words above the least of a FIFO, the most expensive first, then half of them, and so on.
    """
    current = depths
    for share in SHARES:
        for place in sorted(
            range(len(depths)), key=lambda one: (least[one] - current[one]) * weights[one]
        ):
            fewer = -(-(current[place] - least[place]) // share)
            while 0 < fewer <= current[place] - least[place]:
                found = _exchange(evaluator, current, place, fewer, most, weights)
                current = found or current
                yield current
                if found is None:
                    break


def _exchange(
    evaluator: DesignEvaluator,
    depths: Depths,
    place: int,
    fewer: int,
    most: Sequence[int | None],
    weights: Sequence[int],
) -> Depths | None:
    """Cheaper depths with so many words fewer in one FIFO and more in one other, if there are any."""
    trial = list(depths)
    trial[place] -= fewer
    circuit = evaluator.circuit(trial)
    for other in () if circuit is None else circuit.fifos:
        more = (fewer * weights[place] - 1) // weights[other]
        if other == place or most[other] is not None or more < 1:
            continue
        own = list(trial)
        own[other] += more
        if evaluator.circuit(own) is None:
            own[other] = _least(evaluator, trial, other, trial[other], own[other])
            return tuple(own)
    return None if circuit is not None else tuple(trial)
