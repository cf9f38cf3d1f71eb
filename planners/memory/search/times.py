"""The time of a frame, as a model of the platform predicts it for a plan."""

from __future__ import annotations

from fractions import Fraction

from cnn2csdf.parameters import layer_parameter_bytes, operations
from cnn2csdf.platforms import Platform
from planners.streaming.again import worked_network
from planners.streaming.plan import StreamingPlan
from planners.streaming.stage import Stage
from planners.streaming.stages import StageTable


class PlanTimes:
    """Predicted times of the plans of a network on a platform."""

    def __init__(
        self, table: StageTable, platform: Platform, parameter_bytes: int | None = None
    ) -> None:
        """Take the bytes of each trained number, if they are not its element's."""
        self._table = table
        self._platform = platform
        self._parameter_bytes = parameter_bytes

    def of(self, plan: StreamingPlan) -> int:
        """Return the nanoseconds of a frame."""
        table = self._table
        if plan.again:
            table = table.of(worked_network(table.network, plan.again))
        return sum(self.of_stage(one.stage, table) for group in plan.groups for one in group.stages)

    def of_stage(self, stage: Stage, table: StageTable | None = None) -> int:
        """Return the nanoseconds of a stage in a frame.

        It starts with each firing, reads its parameters and rows, and writes rows. table: which has
        the stage, if it is not that of the network.
        """
        table = table or self._table
        network, found = table.network, table.geometry(stage)
        firings = found.firings.count
        work, parameters = Fraction(0), 0
        for name in stage.layers:
            layer = network.layer(name)
            inputs = network.input_shapes(layer)
            parameters += layer_parameter_bytes(layer, inputs, self._parameter_bytes)
            if found.accumulator:
                work += operations(layer, inputs)
            else:
                of_row = Fraction(operations(layer, inputs), layer.shape.rows)
                work += of_row * sum(end - first for first, end in found.ranges[name])
        moved = table.tensor_bytes(stage.result) + sum(
            table.tensor_bytes(reading.tensor) for reading in found.firings.readings
        )
        each = self._platform.nanoseconds(work / firings, Fraction(moved, firings) + parameters)
        return each * firings
