"""Dominance rules: depths that the search may skip, as their storage can be moved along the stream.

If a layer is fast, words can wait before or after it without a change of the rate. Then a minimum has
all of these words in the cheapest FIFO, and minimum depth in every other FIFO. Two rules concern a
layer with the FIFO f before it, written by layer P, and the FIFO g after it, read by layer T:

- Backward. The layer can write a word in every cycle, so with 2 words in g it never delays T, which
  reads at most one word a cycle. `made` fewer words in g and `taken` more words in f change no event of
  P and T, if the wait of the read `taken` words later is for an event `made` words later.
- Forward. The layer can read a word in every cycle, so with 2 words in f it never delays P. `taken`
  fewer words in f and `made` more words in g change no event of P and T, if the layer is periodic in
  `taken` words read and `made` words written. Both are 1 if it drops words, such as a window of 1 by 1
  with a stride, and each read waits for at most one more write than the preceding read.

Neither rule holds for a FIFO whose writer is locked while a word is refused (`Lock`): 2 words are then
too few.

Proof: the layer affects others only by the longest paths between events of P and T through it. After
the exchange each of them is no longer than a path of the old depths, or than the order of events of P
or T. A backward exchange deepens all inputs together, a forward exchange all outputs. The opposite
exchange would couple their depths, so it is not used.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from planners.fifo.design import Design
from planners.fifo.timing.cluster import Cluster, EventSequence, WordPort, is_thinning, units
from planners.kernels.event_times import NONE

Alone = Callable[[int], Fraction]  # the period of a single layer without the others


@dataclass(frozen=True, slots=True, kw_only=True)
class DepthExchange:
    """`fewer` words of the FIFO `source` can be replaced by words of each target FIFO."""

    source: int
    fewer: int
    targets: tuple[tuple[int, int], ...]  # FIFO, additional words


@dataclass(frozen=True, slots=True, kw_only=True)
class Most:
    """For each FIFO a depth that some minimum does not exceed; None if there is no such depth.

    onward: for a FIFO with such a depth, the FIFOs that hold its excess words instead.
    """

    depths: tuple[int | None, ...]
    onward: Mapping[int, tuple[int, ...]]


class DepthExchanges:
    """All exchanges of a design, each across one layer."""

    def __init__(self, design: Design, alone: Alone) -> None:
        moves = list(_moves(design, alone))
        self.all = tuple(move for _, move in moves)
        self._directions = [
            {move.source: move for is_forward, move in moves if is_forward == forward}
            for forward in (True, False)
        ]

    def most_depths(
        self, weights: Sequence[int], floor: Sequence[int], known: Most | None = None
    ) -> Most:
        """Return the depths that some smallest depths do not exceed.

        weights: what a word of each FIFO costs, 0 for one whose depth is free; floor: the least depths
        that are allowed, from 2 on. known: what was returned where no depth was free; it is kept to.
        """
        bounds = known or Most(depths=(None,) * len(weights), onward={})
        depths, onward = list(bounds.depths), dict(bounds.onward)
        free = {
            number for number, end in enumerate(depths) if end is not None and not weights[number]
        }

        def reaches(start: int, end: int) -> bool:
            return start == end or any(reaches(target, end) for target in onward.get(start, ()))

        for source in sorted(range(len(depths)), key=lambda number: -weights[number]):
            if depths[source] is not None or not weights[source]:
                continue
            possible = (_cheapest(moves, weights, source, free) for moves in self._directions)
            for fewer, targets in sorted(move for move in possible if move is not None):
                # Storage may not move in a circle: then each FIFO of it would rely on the next to
                # hold the excess.
                if not any(reaches(target, source) for target in targets):
                    onward[source] = targets
                    # With `fewer` words above the floor one exchange is possible, so some smallest
                    # depths have less.
                    depths[source] = floor[source] + fewer - 1
                    break
        return Most(depths=tuple(depths), onward=onward)


def _cheapest(
    moves: Mapping[int, DepthExchange], weights: Sequence[int], source: int, shut: Collection[int]
) -> tuple[int, tuple[int, ...]] | None:
    """The fewest words of a FIFO that can be moved on at no more cost, and where to.

    shut: FIFOs that have to pass on at a cost what they are given; none stay there.
    """

    def moved(index: int, words: int) -> tuple[int, tuple[int, ...]] | None:
        """The least cost of this many words when they are moved on, and where they are then."""
        if index not in moves:
            return None
        # An exchange is only valid as a whole, so the number is rounded up.
        times = -(-words // moves[index].fewer)
        cost, where = 0, list[int]()
        for target, more in moves[index].targets:
            # The words may move on from the target as well; the cheapest end of the chain counts.
            moves_possible = [moved(target, times * more)]
            if target not in shut:
                moves_possible.append((times * more * weights[target], (target,)))
            possible = [
                move_possible for move_possible in moves_possible if move_possible is not None
            ]
            if not possible:
                return None
            minimum = min(possible)
            cost, where = cost + minimum[0], [*where, *minimum[1]]
        return cost, tuple(where)

    amount, index = 1, source
    # Candidates are the products along a chain of single targets, with which no exchange rounds up.
    amounts = [amount]
    while index in moves and len(moves[index].targets) == 1:
        amount *= moves[index].fewer
        index = moves[index].targets[0][0]
        amounts.append(amount)
    for fewer in amounts:
        reached = moved(source, fewer)
        if (
            reached is not None
            and source not in reached[1]
            and reached[0] <= weights[source] * fewer
        ):
            return fewer, reached[1]
    return None


def _moves(design: Design, alone: Alone) -> Iterator[tuple[bool, DepthExchange]]:
    """All moves over one layer, and whether they are forward."""
    before: list[list[int]] = [[] for _ in design.layers]
    followers: list[list[int]] = [[] for _ in design.layers]
    for number, fifo in enumerate(design.fifos):
        before[fifo.consumer].append(number)
        followers[fifo.producer].append(number)
    for number, (layer, inputs, outputs) in enumerate(
        zip(design.layers, before, followers, strict=True)
    ):
        cluster, period = layer.cluster, alone(number)
        if len(inputs) != len(cluster.inputs) or len(outputs) != len(cluster.outputs) or not inputs:
            continue  # the rest of its words come from outside or go there
        # A locked writer breaks the proof of both rules (see `Lock`).
        is_locked = any(output.lock is not None for output in cluster.outputs)
        is_written_freely = all(
            design.ports(design.fifos[number])[0].lock is None for number in (*inputs, *outputs)
        )
        writes_fast = len(outputs) == 1 and _is_fast(cluster, cluster.outputs[0], period)
        reads_fast = len(inputs) == 1 and _is_fast(cluster, cluster.inputs[0], period)
        # A layer that does the same for each unit of a frame has its rates per unit: smaller
        # exchanges are possible.
        parts = units(cluster) if writes_fast or reads_fast else 1
        consumed = [port.words // parts for port in cluster.inputs]
        produced = [port.words // parts for port in cluster.outputs]
        if writes_fast and not is_locked:
            fewer = _in_order(cluster)
            targets = tuple(
                (number, 1 if fewer else consumed[design.fifos[number].input]) for number in inputs
            )
            yield (
                False,
                DepthExchange(source=outputs[0], fewer=fewer or produced[0], targets=targets),
            )
        if reads_fast and outputs and is_written_freely:
            is_by_word = max(produced) > 1 and is_thinning(cluster)
            more = [1] if is_by_word else produced
            targets = tuple((number, more[design.fifos[number].output]) for number in outputs)
            yield (
                True,
                DepthExchange(
                    source=inputs[0], fewer=1 if is_by_word else consumed[0], targets=targets
                ),
            )


def _is_fast(cluster: Cluster, port: WordPort, period: Fraction) -> bool:
    """Whether a layer by itself passes a word at this port in every cycle."""
    return (
        port.events is None
        and cluster.sequences[port.sequence].events == port.words
        and _is_plain(cluster.sequences[port.sequence])
        and period == port.words
    )


def _is_plain(sequence: EventSequence) -> bool:
    """Whether nothing but the order holds its events apart: a cycle from each to the next."""
    return sequence.gap == 1 if sequence.gaps is None else bool((sequence.gaps == 1).all())


def _in_order(cluster: Cluster) -> int:
    """Minimum number of words written between the words of two neighbouring reads; 0 if unknown.

    Of a layer with one input, whose reads wait for nothing but its writes.
    """
    if len(cluster.sequences) != 2 or len(cluster.inputs) != 1:
        return 0
    read, written = cluster.inputs[0], cluster.outputs[0]
    if read.events is not None or not _is_plain(cluster.sequences[read.sequence]):
        return 0
    minimum = written.words
    for wait in cluster.waits:
        if wait.waiter == written.sequence and wait.source == read.sequence:
            continue
        if (
            wait.waiter != read.sequence
            or wait.source != written.sequence
            or wait.delays is not None
        ):
            return 0
        if (wait.events == NONE).any():
            return 0
        # The next frame follows without a gap: the step from its last read to the first read of the
        # next counts too.
        around = np.append(wait.events, wait.events[0] + written.words)
        minimum = min(minimum, int(np.diff(around).min()))
    return max(0, minimum)
