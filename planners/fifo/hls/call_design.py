"""Model of a call of a design in HLS as a design of planners.fifo, for its searches."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction

from planners.fifo.design import LEAST_DEPTH, Design, DesignLayer, Fifo
from planners.fifo.event_graph import Chain, EventCycle, Infeasible, Spend, spend_nothing
from planners.fifo.hls.call import CallModel, Memories, Outcome, events
from planners.fifo.timing.cluster import Cluster, EventSequence, WordPort


class _CallQuestion:
    """A question to a call, in the words of planners.fifo.evaluator."""

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
        """Return the processes and FIFOs that wait for one another, or None."""
        outcome = self._outcome(spend)
        return None if outcome.cycles is not None else self._cycle(outcome)

    def cycle_above(self, period: Fraction, spend: Spend = spend_nothing) -> EventCycle | None:
        """Return the longest path if it takes more cycles, or a deadlock."""
        outcome = self._outcome(spend, int(period))
        return (
            None
            if outcome.cycles is not None and outcome.cycles <= period
            else self._cycle(outcome)
        )

    def _cycle(self, found: Outcome) -> EventCycle:
        limits: dict[Chain, int] = {
            ((index, 1),): self._depths[index] or 0 for index in found.holding
        }
        return EventCycle(
            period=None if found.cycles is None else Fraction(found.cycles),
            fifos=found.holding,
            layers=found.processes or (0,),
            infeasible=Infeasible(limits),
        )

    def max_occupancy(
        self,
        number: int,
        period: Fraction,  # noqa: ARG002 -- of the words
        spend: Spend = spend_nothing,
    ) -> int:
        """Return a depth with which no write to a place waits."""
        occupancy = self._model.occupancy(self._depths, number, self._memories, spend=spend)
        return max(LEAST_DEPTH, occupancy)


class CallGraph:
    """A call as a design of planners.fifo: one FIFO for each place, one layer for each process.

    memories: the places that are memories whatever their depths.
    """

    def __init__(self, model: CallModel, memories: Sequence[bool]) -> None:
        self._model, self._memories = model, memories
        self.design = _design(model)
        self.alone = {
            number: Fraction(process.stages)
            for number, process in enumerate(model.design.processes)
        }

    def components(self, depths: Sequence[int | None]) -> list[list[int]]:  # noqa: ARG002
        """All processes: the cycles of a call are those of the last one to end."""
        return [list(range(len(self._model.design.processes)))]

    def restricted(self, layers: Iterable[int], depths: Sequence[int | None]) -> _CallQuestion:  # noqa: ARG002
        """Return the question of the whole call in some depths."""
        return _CallQuestion(self._model, depths, self._memories)


def _design(model: CallModel) -> Design:
    """The places as FIFOs; ports only have words, for times come from the stages."""
    bits = [sum(model.design.fifos[number].bits for number in row) for row in model.members]
    outputs: list[list[WordPort]] = [[] for _ in model.design.processes]
    inputs: list[list[WordPort]] = [[] for _ in model.design.processes]
    fifos = []
    for index, row in enumerate(model.members):
        first = model.design.fifos[row[0]]
        port = WordPort(sequence=0, words=model.words[index], bits=bits[index])
        fifos.append(
            Fifo(
                name=model.names[index],
                producer=first.writer,
                output=len(outputs[first.writer]),
                consumer=first.reader,
                input=len(inputs[first.reader]),
                bits=bits[index],
                words=model.words[index],
                given=model.given[index],
            )
        )
        outputs[first.writer].append(port)
        inputs[first.reader].append(port)
    layers = []
    for process, process_outputs, read in zip(model.design.processes, outputs, inputs, strict=True):
        # One more input, of no FIFO: rules about layers of which all events are known do not hold.
        ports = (*read, WordPort(sequence=0, words=0, bits=0))
        sequence = EventSequence(name="stages", events=sum(map(events, process.tracks)))
        cluster = Cluster(
            sequences=(sequence,), waits=(), inputs=ports, outputs=tuple(process_outputs)
        )
        layers.append(DesignLayer(name=process.name, kind="process", cluster=cluster))
    return Design(name=model.design.name, layers=tuple(layers), fifos=tuple(fifos))
