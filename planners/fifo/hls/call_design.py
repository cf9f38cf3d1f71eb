"""A call of an HLS design in the form that the searches of planners.fifo take.

Each group of FIFOs with a common depth is a FIFO, and each process a layer; the period is the cycles of
the call. The FIFOs and layers have no timing of their own: CallModel simulates the whole call.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction

from planners.fifo.design import LEAST_DEPTH, Design, DesignLayer, Fifo
from planners.fifo.event_graph import Chain, EventCycle, Infeasible, Spend, spend_nothing
from planners.fifo.hls.call import CallModel, Memories, Outcome, events
from planners.fifo.timing.cluster import Cluster, EventSequence, WordPort


class _CallQuestion:
    """A call at given depths, as a TimedPart of planners.fifo.evaluator."""

    def __init__(self, model: CallModel, depths: Sequence[int | None], memories: Memories) -> None:
        self._model, self._depths, self._memories = model, depths, memories
        self.simulated = 0

    def _outcome(self, spend: Spend, limit: int | None = None) -> Outcome:
        before = self._model.simulated
        outcome = self._model.outcome(
            self._depths, memories=self._memories, limit=limit, spend=spend
        )
        self.simulated += self._model.simulated - before
        return outcome

    def deadlock(self, spend: Spend = spend_nothing) -> EventCycle | None:
        """Return the cycle of a deadlock, or None."""
        outcome = self._outcome(spend)
        return None if outcome.cycles is not None else self._cycle(outcome)

    def cycle_above(self, period: Fraction, spend: Spend = spend_nothing) -> EventCycle | None:
        """Return the longest path if it has more cycles than the period, or the cycle of a deadlock."""
        outcome = self._outcome(spend, int(period))
        is_reached = outcome.cycles is not None and outcome.cycles <= period
        return None if is_reached else self._cycle(outcome)

    def _cycle(self, outcome: Outcome) -> EventCycle:
        """Return the path of an outcome; the call gets faster only if one of its FIFOs gets deeper."""
        limits: dict[Chain, int] = {
            ((index, 1),): self._depths[index] or 0 for index in outcome.holding
        }
        return EventCycle(
            period=None if outcome.cycles is None else Fraction(outcome.cycles),
            fifos=outcome.holding,
            layers=outcome.processes or (0,),
            infeasible=Infeasible(limits),
        )

    def max_occupancy(
        self,
        number: int,
        period: Fraction,  # noqa: ARG002 -- a call has no steady state
        spend: Spend = spend_nothing,
    ) -> int:
        """Return a depth with which no write to a group of FIFOs waits."""
        occupancy = self._model.occupancy(self._depths, number, self._memories, spend=spend)
        return max(LEAST_DEPTH, occupancy)


class CallGraph:
    """A call as a TimedDesign of planners.fifo.evaluator.

    memories: the groups of FIFOs that are memories at any depth.
    """

    def __init__(self, model: CallModel, memories: Sequence[bool]) -> None:
        self._model, self._memories = model, memories
        self.design = _design(model)
        self.alone = {
            number: Fraction(process.stages)
            for number, process in enumerate(model.design.processes)
        }

    def components(self, depths: Sequence[int | None]) -> list[list[int]]:  # noqa: ARG002
        """Return all processes as a single component: a call ends with its last process."""
        return [list(range(len(self._model.design.processes)))]

    def restricted(self, layers: Iterable[int], depths: Sequence[int | None]) -> _CallQuestion:  # noqa: ARG002
        """Return the whole call at these depths."""
        return _CallQuestion(self._model, depths, self._memories)


def _design(model: CallModel) -> Design:
    """Return the groups as FIFOs and the processes as layers, whose ports only have words."""
    outputs: list[list[WordPort]] = [[] for _ in model.design.processes]
    inputs: list[list[WordPort]] = [[] for _ in model.design.processes]
    fifos = []
    for index, group in enumerate(model.fifos):
        first, bits = group[0], sum(fifo.bits for fifo in group)
        port = WordPort(sequence=0, words=model.words[index], bits=bits)
        fifos.append(
            Fifo(
                name=model.names[index],
                producer=first.writer,
                output=len(outputs[first.writer]),
                consumer=first.reader,
                input=len(inputs[first.reader]),
                bits=bits,
                words=model.words[index],
                given=model.source_depths[index],
            )
        )
        outputs[first.writer].append(port)
        inputs[first.reader].append(port)
    layers = []
    for process, process_outputs, read in zip(model.design.processes, outputs, inputs, strict=True):
        # A further input without a FIFO: the dominance rules then skip the layer.
        ports = (*read, WordPort(sequence=0, words=0, bits=0))
        sequence = EventSequence(name="stages", events=sum(map(events, process.tracks)))
        cluster = Cluster(
            sequences=(sequence,), waits=(), inputs=ports, outputs=tuple(process_outputs)
        )
        layers.append(DesignLayer(name=process.name, kind="process", cluster=cluster))
    return Design(name=model.design.name, layers=tuple(layers), fifos=tuple(fifos))
