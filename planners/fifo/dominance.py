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

For example, a threshold layer reads and writes a word in every cycle, f before it has 8-bit words, g
after it has 2-bit words: a word less in f and a word more in g is cheaper, so f needs 2 words only.

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
from typing import NamedTuple

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
class DepthLimits:
    """For each FIFO a depth that some minimum does not exceed; None if there is no such depth.

    moved_to: for a FIFO with a limit, the FIFOs that hold its excess words instead.
    """

    depths: tuple[int | None, ...]
    moved_to: Mapping[int, tuple[int, ...]]


class WordMove(NamedTuple):
    """Words of a FIFO after they are moved: their cost, and the FIFOs that hold them."""

    cost: int
    fifos: tuple[int, ...]


class DepthExchanges:
    """All exchanges of a design, each across one layer."""

    def __init__(self, design: Design, alone: Alone) -> None:
        exchanges = list(_exchanges(design, alone))
        self.all = tuple(exchange for _, exchange in exchanges)
        # A chain of exchanges has one direction: by source FIFO, first forwards, then backwards.
        self._directions = [
            {
                exchange.source: exchange
                for is_forward, exchange in exchanges
                if is_forward == forward
            }
            for forward in (True, False)
        ]

    def depth_limits(
        self, weights: Sequence[int], floor: Sequence[int], known: DepthLimits | None = None
    ) -> DepthLimits:
        """Return the depths that some cheapest depths do not exceed.

        weights: cost of a word in each FIFO, 0 where depth is free. floor: the minimum depths that are
        allowed, from 2 on. known: limits without free depth; these limits stay valid.
        """
        limits = known or DepthLimits(depths=(None,) * len(weights), moved_to={})
        depths, moved_to = list(limits.depths), dict(limits.moved_to)
        # A free FIFO with a limit holds no excess words: these move on to its own targets.
        passing = {
            fifo for fifo, limit in enumerate(depths) if limit is not None and not weights[fifo]
        }

        def leads_to(start: int, end: int) -> bool:
            return start == end or any(leads_to(target, end) for target in moved_to.get(start, ()))

        for source in sorted(range(len(depths)), key=lambda fifo: -weights[fifo]):
            if depths[source] is not None or not weights[source]:
                continue
            possible = (
                _fewest_moved(exchanges, weights, source, passing) for exchanges in self._directions
            )
            for fewer, targets in sorted(move for move in possible if move is not None):
                # No circle of moves: each FIFO of it would rely on the next to hold the excess.
                if not any(leads_to(target, source) for target in targets):
                    moved_to[source] = targets
                    # With `fewer` words above the floor an exchange is possible.
                    depths[source] = floor[source] + fewer - 1
                    break
        return DepthLimits(depths=tuple(depths), moved_to=moved_to)


def _fewest_moved(
    exchanges: Mapping[int, DepthExchange],
    weights: Sequence[int],
    source: int,
    passing: Collection[int],
) -> tuple[int, tuple[int, ...]] | None:
    """Return the fewest words of a FIFO that can move at no extra cost, and the FIFOs they move to.

    exchanges: by source FIFO, in one direction. passing: FIFOs that hold no moved words.
    """
    # Along a chain of single targets no exchange rounds these numbers of words up.
    numbers, fifo = [1], source
    while fifo in exchanges and len(exchanges[fifo].targets) == 1:
        numbers.append(numbers[-1] * exchanges[fifo].fewer)
        ((fifo, _),) = exchanges[fifo].targets
    for words in numbers:
        move = _cheapest_move(exchanges, weights, source, words, passing)
        if move is not None and source not in move.fifos and move.cost <= weights[source] * words:
            return words, move.fifos
    return None


def _cheapest_move(
    exchanges: Mapping[int, DepthExchange],
    weights: Sequence[int],
    source: int,
    words: int,
    passing: Collection[int],
) -> WordMove | None:
    """Return the cheapest move of this many words out of a FIFO; None if no exchange moves them."""
    if source not in exchanges:
        return None
    exchange, cost, fifos = exchanges[source], 0, list[int]()
    # An exchange is only valid as a whole, so the number is rounded up.
    times = -(-words // exchange.fewer)
    for target, more in exchange.targets:
        # The words stay in the target, or move on from there.
        onward = _cheapest_move(exchanges, weights, target, times * more, passing)
        moves = [] if onward is None else [onward]
        if target not in passing:
            moves.append(WordMove(times * more * weights[target], (target,)))
        if not moves:
            return None
        cheapest = min(moves)
        cost, fifos = cost + cheapest.cost, [*fifos, *cheapest.fifos]
    return WordMove(cost, tuple(fifos))


def _exchanges(design: Design, alone: Alone) -> Iterator[tuple[bool, DepthExchange]]:
    """Yield the exchanges across each layer, with whether an exchange is forward."""
    readers: list[list[int]] = [[] for _ in design.layers]
    writers: list[list[int]] = [[] for _ in design.layers]
    for number, fifo in enumerate(design.fifos):
        readers[fifo.consumer].append(number)
        writers[fifo.producer].append(number)
    for number, layer in enumerate(design.layers):
        cluster, inputs, outputs = layer.cluster, readers[number], writers[number]
        period = alone(number)
        if len(inputs) != len(cluster.inputs) or len(outputs) != len(cluster.outputs) or not inputs:
            continue  # a port without a FIFO: an input or an output of the design
        writes_fast = len(outputs) == 1 and _is_fast(cluster, cluster.outputs[0], period)
        reads_fast = len(inputs) == 1 and _is_fast(cluster, cluster.inputs[0], period)
        # A layer that does the same for each unit of a frame allows exchanges of one unit.
        parts = units(cluster) if writes_fast or reads_fast else 1
        # A locked writer breaks the proof of both rules (see `Lock`).
        if writes_fast and all(output.lock is None for output in cluster.outputs):
            made = _in_order(cluster)
            taken = [1 if made else port.words // parts for port in cluster.inputs]
            targets = tuple((fifo, taken[design.fifos[fifo].input]) for fifo in inputs)
            fewer = made or cluster.outputs[0].words // parts
            yield False, DepthExchange(source=outputs[0], fewer=fewer, targets=targets)
        is_written_freely = all(
            design.ports(design.fifos[fifo])[0].lock is None for fifo in (*inputs, *outputs)
        )
        if reads_fast and outputs and is_written_freely:
            produced = [port.words // parts for port in cluster.outputs]
            is_by_word = max(produced) > 1 and is_thinning(cluster)
            more = [1] if is_by_word else produced
            targets = tuple((fifo, more[design.fifos[fifo].output]) for fifo in outputs)
            fewer = 1 if is_by_word else cluster.inputs[0].words // parts
            yield True, DepthExchange(source=inputs[0], fewer=fewer, targets=targets)


def _is_fast(cluster: Cluster, port: WordPort, period: Fraction) -> bool:
    """Whether a layer by itself passes a word at this port in every cycle."""
    return (
        port.events is None
        and cluster.sequences[port.sequence].events == port.words
        and _is_plain(cluster.sequences[port.sequence])
        and period == port.words
    )


def _is_plain(sequence: EventSequence) -> bool:
    """Whether each event may follow the preceding event of the sequence after one cycle."""
    return sequence.gap == 1 if sequence.gaps is None else bool((sequence.gaps == 1).all())


def _in_order(cluster: Cluster) -> int:
    """Return how many more words each read waits for than the preceding read, at least; 0 if unknown.

    A positive number needs a layer with one input, whose reads wait for its own writes only.
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
        # The next frame follows without a gap: the step to its first read counts too.
        around = np.append(wait.events, wait.events[0] + written.words)
        minimum = min(minimum, int(np.diff(around).min()))
    return max(0, minimum)
