"""The depths whose memories cost the least, where the cost grows in steps: block RAMs, or LUTs.

The search is that of csdf.search.memory_cost, which `csdf buffers --objective` uses as well; here a
design answers it by its events. Where it proves the least cost at once, the rest of the time goes to
the fewest bits, which break ties. Else the depths of the fewest bits and of the fewest words are looked
at, too: they bound the cost from above, and the search goes on from where it was.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

from csdf.errors import GaveUp
from csdf.outcome import Reason, Status, because
from csdf.search.memory_cost import StepSearch
from csdf.search.variables import Variable
from csdf.time_limit import ENDS, Stop, reason_of
from planners.fifo.design import LEAST_DEPTH
from planners.fifo.evaluator import DesignEvaluator
from planners.fifo.event_graph import EventSystem
from planners.fifo.growing import least_depths, narrowed
from planners.fifo.sizing import Sizing, SizingWhy, held_back, smallest_depths

AT_ONCE = 0.15  # of the time, for a proof before anything else
BEGINNING = 0.3  # of what is left then, for the fewest bits
WORDS = 0.65  # of the rest, for the fewest words
FINISH = 0.9  # of what is left after a proof, for the fewest bits
Depths = tuple[int, ...]
MemoryCost = Callable[[int, int], int]  # of a depth and the bits of a word


def cheapest_depths(
    system: EventSystem, period: Fraction | None, cost: MemoryCost, *, stop: Stop | None = None
) -> Sizing:
    """Return depths of the least cost with at most this period, or without deadlock if it is None.

    Bits and bound of the answer are costs. Of all depths found that cost the same, those with the
    fewest bits are taken.
    """
    return _Stepping(system, period, cost, stop or Stop()).answer()


class _Stepping:
    """The search for the least cost, and what was found on the way."""

    def __init__(
        self, system: EventSystem, period: Fraction | None, cost: MemoryCost, stop: Stop
    ) -> None:
        self._system, self._period, self._cost = system, period, cost
        self._fifos = system.design.fifos
        self._stop = self._part = stop
        self._found: list[Depths] = []
        self._narrow: set[Depths] = set()  # no depth of these can be less by itself
        self._evaluator = DesignEvaluator(
            system, required=period, only_live=period is None, look=self._look
        )
        variable = Variable(channels=(), least=LEAST_DEPTH, step=1, weight=1)
        self._search = StepSearch(
            self._evaluator, [variable] * len(self._fifos), self._price, self._look
        )

    def answer(self) -> Sizing:
        """Return the cheapest depths, or the best found with a bound if the stop ends the work."""
        is_proved = self._is_proved(self._stop.part(share=AT_ONCE))
        share = FINISH if is_proved else BEGINNING
        begin = smallest_depths(self._system, self._period, stop=self._stop.part(share=share))
        if not begin.depths:
            return begin
        self._found.append(begin.depths)
        if begin.is_narrow:
            self._narrow.add(begin.depths)
        return self._sizing(begin, None if is_proved else self._compared())

    def _is_proved(self, stop: Stop) -> bool:
        """Whether the least cost is found by then."""
        self._part = stop
        try:
            if held_back(self._evaluator, self._period) is not None:
                return False
            self._take(self._search.cheapest(self._evaluator.reaches))
        except GaveUp:
            return False
        finally:
            self._part = self._stop
        return True

    def _compared(self) -> Reason | None:
        """Look at the fewest words, then for a proof; return why there is none."""
        words = smallest_depths(
            self._system, self._period, stop=self._stop.part(share=WORDS),
            weights=[1] * len(self._fifos),
        )  # fmt: skip
        if words.depths:
            self._take(words.depths)
        try:
            self._descend()
            if min(map(self._search.total, self._found)) > self._search.lower_bound:
                self._take(self._search.cheapest(self._evaluator.reaches))
        except ENDS as end:
            return reason_of(end)
        return None

    def _descend(self) -> None:
        """Take steps down from all depths found, each at first as large as it can be at its cost."""
        for start in sorted(self._found, key=self._search.total):
            depths = tuple(map(self._search.end, range(len(start)), start))
            while (less := self._stepped(depths)) is not None:
                depths = less
            if self._search.total(depths) < self._search.total(start):
                self._take(depths)

    def _stepped(self, depths: Depths) -> Depths | None:
        """Cheaper depths that suffice: one FIFO a step down, and if need be another a step up."""
        for place in sorted(range(len(depths)), key=lambda one: -self._price(one, depths[one])):
            below = self._search.below(place, depths[place])
            if below is None:
                continue
            trial = (*depths[:place], below, *depths[place + 1 :])
            circuit = self._evaluator.circuit(trial)
            if circuit is None:
                return trial
            for other in circuit.fifos:
                more = self._search.end(other, trial[other] + 1)
                own = (*trial[:other], more, *trial[other + 1 :])
                if self._search.total(own) >= self._search.total(depths):
                    continue
                if self._evaluator.circuit(own) is None:
                    return own
        return None

    def _take(self, depths: Depths) -> None:
        """Note depths that suffice, made narrow as far as the time allows."""
        self._found.append(depths)
        weights = [one.bits for one in self._fifos]
        try:
            least = least_depths(self._evaluator)
            for less in narrowed(self._evaluator, depths, least, weights):
                self._found[-1] = less
        except ENDS:
            return
        self._narrow.add(self._found[-1])

    def _sizing(self, begin: Sizing, reason: Reason | None) -> Sizing:
        total, bits = self._search.total, self._system.design.bits
        best = min(self._found, key=lambda one: (total(one), bits(one)))
        cost, bound = total(best), self._search.lower_bound
        is_proved = reason is None or cost == bound
        return replace(
            begin,
            status=Status.OPTIMAL if is_proved else Status.FEASIBLE,
            depths=best,
            bits=cost,
            lower_bound=cost if is_proved else bound,
            is_narrow=best in self._narrow,
            evaluations=begin.evaluations + self._evaluator.count,
            least_bits=begin.lower_bound,
            reason=because(SizingWhy.CHEAPEST) if reason is None or is_proved else reason,
        )

    def _look(self) -> None:
        self._part.look()

    def _price(self, place: int, depth: int) -> int:
        return self._cost(depth, self._fifos[place].bits)
