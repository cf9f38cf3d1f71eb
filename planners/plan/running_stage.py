"""A stage at work: which rows each of its firings makes, and which it needs."""

from __future__ import annotations

from cnn2csdf.geometry import Range
from cnn2csdf.network import Layer, Network
from planners.plan.plan import Mode, Stage


class RunningStage:
    """A stage at work."""

    def __init__(self, stage: Stage, network: Network, source: str | None) -> None:
        self.stage = stage
        self.result = stage.result
        self.layers = [network.layer(name) for name in stage.layers]
        is_input = self.layers[0].is_input  # one of several, a stage of its own
        self.is_streamed_input = source is not None or is_input
        self.fired = 0
        last = self.layers[-1]
        if stage.mode is Mode.ACCUMULATING:
            first, end = rows_of_input(network, last, 0, (0, last.shape.rows))
            self.targets: list[Range] = [(0, 0)] * (end - first - 1) + [(0, last.shape.rows)]
            self.needs = {last.inputs[0]: [(row, row + 1) for row in range(first, end)]}
            return
        rows = stage.rows
        self.targets = [
            (begin, min(begin + rows, last.shape.rows)) for begin in range(0, last.shape.rows, rows)
        ]
        self.needs = {} if self.is_streamed_input else self._rows_from_outside(network)

    def _rows_from_outside(self, network: Network) -> dict[str, list[Range]]:
        inside = {layer.name for layer in self.layers}
        spans_read: dict[str, list[Range]] = {
            source: [] for layer in self.layers for source in layer.inputs if source not in inside
        }
        self.ranges: list[dict[str, Range]] = []
        for target in self.targets:
            wanted = {self.result: target}
            for layer in reversed(self.layers):
                for index, source in enumerate(layer.inputs):
                    need = rows_of_input(network, layer, index, wanted[layer.name])
                    wanted[source] = _hull(wanted.get(source), need)
            for source, spans in spans_read.items():
                spans.append(wanted[source])
            self.ranges.append(wanted)
        return spans_read

    @property
    def is_done(self) -> bool:
        """Whether it has made all of its result."""
        return self.fired == len(self.targets)

    def wants(self, source: str) -> int:
        """Return the end of the rows of a source that have to be there by the next firing."""
        return max(end for first, end in self.needs[source][: self.fired + 1])

    def still_needs(self, source: str, height: int) -> int:
        """The first row of a source that the next firing or a later one needs."""
        left = [first for first, end in self.needs[source][self.fired :] if first < end]
        return min(left, default=height)


def rows_of_input(network: Network, layer: Layer, index: int, wanted: Range) -> Range:
    """Return the rows of an input that some rows of the output need; (0, 0) for none."""
    inputs = network.input_shapes(layer)
    if wanted[0] >= wanted[1]:
        return 0, 0
    needed = layer.operator.rows_needed(index, inputs, layer.shape)
    height = inputs[index].rows
    if needed is None:
        return 0, height
    first, end = max(needed(wanted[0])[0], 0), min(needed(wanted[1] - 1)[1], height)
    return (first, end) if first < end else (0, 0)


def _hull(one: Range | None, other: Range) -> Range:
    if one is None or one[0] >= one[1]:
        return other
    if other[0] >= other[1]:
        return one
    return min(one[0], other[0]), max(one[1], other[1])


def streamed_input_stage(network: Network, name: str) -> RunningStage:
    """Return the stage that brings an input, a row a firing."""
    return RunningStage(Stage(layers=(name,)), network, name)
