"""Cycles between two visits of an actor within a critical cycle; each bounds capacities on its own.

A critical cycle may pass an actor several times. From one time to the next it is a cycle as well, and
often it is the shorter one that says what the capacities have to be.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import chain

from csdf.analysis.period.periodic import Circuit
from csdf.model.indexed import IndexedGraph
from csdf.search.insight.cycles import Cycle
from csdf.stopping import Stop

LONG = 10_000  # hops, or rounds, between two looks at the stop

Hop = tuple[int, int]  # an actor, and the channel from it to the next one


class Rounds:
    """The cycles within critical cycles of one graph, in terms of the variables.

    cycles: of each actor in an iteration. spaces: by channel, the variable whose space it is, and the
    tokens that lie in its channel at first. is_timed: whether durations count.
    """

    def __init__(
        self,
        graph: IndexedGraph,
        cycles: Sequence[int],
        spaces: Mapping[int, tuple[int, int]],
        *,
        is_timed: bool,
    ) -> None:
        self._graph = graph
        self._cycles = cycles
        self._spaces = spaces
        self._is_timed = is_timed

    def of(self, circuit: Circuit, stop: Stop) -> tuple[Cycle, ...]:
        """Return the cycle and its rounds; none where an actor on it has several phases.

        The order of an actor's own firings is left out: the channels alone make a cycle, too.
        """
        hops = [hop for hop in zip(circuit.actors, circuit.channels, strict=True) if hop[1] >= 0]
        if not hops or any(self._graph.phases[actor] > 1 for actor, _ in hops):
            return ()
        distinct: dict[tuple[Hop, ...], None] = {}
        rounds = chain((hops,), self._from_rarest(hops), _simple(hops))
        for number, one in enumerate(rounds):
            if number % LONG == 0 or len(one) > LONG:
                stop.look()
            distinct[tuple(one)] = None  # most of a long cycle is one round, again and again
        return tuple(dict.fromkeys(self._cycle(one) for one in distinct))

    def _from_rarest(self, hops: Sequence[Hop]) -> Iterator[Sequence[Hop]]:
        """Yield the parts of the cycle between firings of the actor that fires least often."""
        rarest = min((actor for actor, _ in hops), key=self._cycles.__getitem__)
        first, *others = (place for place, (actor, _) in enumerate(hops) if actor == rarest)
        turned = [*hops[first:], *hops[:first]]
        begins = [0, *(place - first for place in others)]
        for begin, end in zip(begins, [*begins[1:], len(hops)], strict=True):
            yield turned[begin:end]

    def _cycle(self, hops: Sequence[Hop]) -> Cycle:
        graph = self._graph
        time, tokens = 0, Fraction(0)
        shares: dict[int, Fraction] = {}
        for (actor, channel), count in Counter(hops).items():
            time += count * graph.duration[graph.duration_start[actor]] if self._is_timed else 0
            passing = graph.produced(channel) * self._cycles[actor]
            if channel in self._spaces:
                variable, occupied = self._spaces[channel]
                tokens -= Fraction(count * occupied, passing)
                shares[variable] = shares.get(variable, Fraction(0)) + Fraction(count, passing)
            else:
                tokens += Fraction(count * graph.initial_tokens[channel], passing)
        firings = tuple(sorted({self._cycles[actor] for actor, _ in hops}))
        return Cycle(time, tokens, tuple(sorted(shares.items())), firings)


def _simple(hops: Sequence[Hop]) -> Iterator[Sequence[Hop]]:
    """Yield the cycles that pass no actor twice, of which this one is made."""
    path: list[Hop] = []
    place: dict[int, int] = {}
    for hop in hops:
        if hop[0] in place:
            begin = place[hop[0]]
            yield path[begin:]
            for actor, _ in path[begin:]:
                del place[actor]
            del path[begin:]
        place[hop[0]] = len(path)
        path.append(hop)
    yield path
