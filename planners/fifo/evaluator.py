"""The period of a design in many depths of its FIFOs, for the engine's search."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from fractions import Fraction

from csdf.search.evaluator import Evaluation
from planners.fifo.event_graph import Circuit, EventSystem, Restricted

Look = Callable[[], None]
Depths = Sequence[int | None]

LATEST = 64  # answers of each kind that are compared with a new question


class Dominance:
    """Answers that follow from earlier ones: more depth is never slower, less never faster."""

    def __init__(self) -> None:
        self._enough: dict[tuple[int, ...], deque[Depths]] = {}
        self._circuits: deque[Circuit] = deque(maxlen=LATEST)

    def note(self, layers: Sequence[int], own: Depths, circuit: Circuit | None) -> None:
        """Keep an answer. own: depths inside a group of layers."""
        if circuit is None:
            self._enough.setdefault(tuple(layers), deque(maxlen=LATEST)).append(own)
        else:
            self._circuits.append(circuit)

    def suffices(self, layers: Sequence[int], own: Depths) -> bool:
        """Whether no more than these depths sufficed in this group of layers."""
        return any(_is_within(one, own) for one in self._enough.get(tuple(layers), ()))

    def circuit(self, inside: Collection[int], depths: Depths) -> Circuit | None:
        """Return a circuit among some layers that these depths do not break, if one is known."""
        for circuit in self._circuits:
            if circuit.too_small.holds(depths) and all(one in inside for one in circuit.layers):
                return circuit
        return None


def _is_within(less: Depths, more: Depths) -> bool:
    return all(
        high is None or (low is not None and low <= high)
        for low, high in zip(less, more, strict=True)
    )


class DesignEvaluator:
    """The answers that csdf.search wants of a graph, given for a design by its events.

    Depths are tuples in the order of the FIFOs, None for one without a bound. required: a period in
    cycles; then an evaluation says no more than whether it is reached: the period returned is the
    required one, or that of a circuit above it. Infinite periods are None. only_live: as csdf.search
    has it, a deadlock or none. Each group of layers that hold each other up is looked at once.
    """

    firings = 0  # of the search's measure of an evaluation: here looking on is always worth it

    def __init__(
        self,
        system: EventSystem,
        *,
        required: Fraction | None = None,
        only_live: bool = False,
        look: Look = lambda: None,
    ) -> None:
        self.system = system
        self.count = 0
        self.simulations = 0  # what the answers took, but for those that followed from earlier ones
        self.work = 0  # the events of all simulations
        self.look = look
        self._required = required
        self._only_live = only_live
        self._dominance = Dominance()
        self._known: dict[tuple[tuple[int, ...], tuple[int | None, ...]], Circuit | None] = {}

    def evaluate(self, capacities: tuple[int | None, ...]) -> Evaluation:
        """Return the period in these depths, and the FIFOs that hold it back."""
        found = self.circuit(capacities)
        if found is not None:
            return Evaluation(found.period, found.fifos)
        reached = Fraction(1) if self._only_live else self._required
        return Evaluation(reached, ())

    def reaches(self, period: Fraction | None) -> bool:
        """Whether the period of an evaluation is as low as required."""
        return period is not None and (self._required is None or period <= self._required)

    def circuit(self, depths: Depths) -> Circuit | None:
        """Return what holds a design back: above the required period, or at all if there is none."""
        self.count += 1
        groups = sorted(self.system.components(depths), key=len)
        worst: Circuit | None = None
        for group in groups:
            found = self._group(group, depths)
            if found is not None and (found.period is None or self._required is not None):
                return found
            if found is not None and (worst is None or _period(found) > _period(worst)):
                worst = found
        if self._required is None and not self._only_live:
            return self._slowest_layer(worst)
        return worst

    def _slowest_layer(self, worst: Circuit | None) -> Circuit:
        """The worst circuit, or that of the slowest layer by itself if it is not faster."""
        layer = max(range(len(self.system.design.layers)), key=self.alone)
        if worst is not None and _period(worst) > self.alone(layer):
            return worst
        return Circuit(period=self.alone(layer), fifos=(), layers=(layer,))

    def _group(self, layers: list[int], depths: Depths) -> Circuit | None:
        inside = set(layers)
        own = tuple(
            depth
            for fifo, depth in zip(self.system.design.fifos, depths, strict=True)
            if fifo.producer in inside and fifo.consumer in inside
        )
        key = (tuple(layers), own)
        if key not in self._known:
            self.look()
            if self._only_live or self._required is not None:
                self._known[key] = self._above(layers, own, depths)
            else:
                part = self.system.restricted(layers, depths)
                self._known[key] = critical(part, self._slowest(layers), self.look)
        return self._known[key]

    def _above(self, layers: Sequence[int], own: Depths, depths: Depths) -> Circuit | None:
        """A circuit that must not be, by what is known of other depths or by simulation."""
        if self._dominance.suffices(layers, own):
            return None
        found = self._dominance.circuit(set(layers), depths)
        if found is not None:
            return found
        self.simulations += 1
        part = self.system.restricted(layers, depths)
        if self._required is None:
            found = part.deadlock()
        else:
            found = part.circuit_above(self._required, self.look)
        self.work += part.simulated
        self._dominance.note(layers, own, found)
        return found

    def enough(self, depths: Depths, place: int) -> int | None:
        """Return a depth of one FIFO that does where it does without a bound, or None if unknown.

        depths: of the others. It is what the FIFO holds where all events happen as soon as they can.
        """
        if self._required is None:
            return None
        bounded = list(depths)
        bounded[place] = 1
        end = self.system.design.fifos[place].producer
        groups = [group for group in self.system.components(bounded) if end in group]
        part = self.system.restricted(groups[0], depths)
        if part.circuit_above(self._required, self.look) is not None:
            return None
        return part.most_held(place, self._required)

    def _slowest(self, layers: Iterable[int]) -> Fraction:
        return max(self.alone(one) for one in layers)

    def alone(self, layer: int) -> Fraction:
        """Return the period of a layer with nothing that holds it up."""
        known = self.system.alone
        if layer not in known:
            part = self.system.restricted([layer], [None] * len(self.system.design.fifos))
            found = critical(part, self._guess(layer), self.look)
            known[layer] = (found.period if found is not None else None) or self._guess(layer)
        return known[layer]

    def _guess(self, layer: int) -> Fraction:
        """A period that no layer is faster than: its longest series, one event after the other."""
        series = self.system.design.layers[layer].cluster.series
        return Fraction(
            max(
                one.events * one.gap if one.gaps is None else sum(one.gaps.tolist())
                for one in series
            )
        )


def critical(part: Restricted, low: Fraction, look: Look) -> Circuit | None:
    """Return the slowest circuit with a period above `low`; None if there is none."""
    found = None
    while (slower := part.circuit_above(low, look)) is not None:
        found = slower
        if slower.period is None:
            break
        low = slower.period
    return found


def _period(circuit: Circuit) -> Fraction:
    return circuit.period or Fraction(0)
