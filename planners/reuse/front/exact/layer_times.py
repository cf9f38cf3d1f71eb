"""The time of each layer of a partition, for any rows of its parts."""

from __future__ import annotations

from planners.reuse.cost.evaluation import Evaluator
from planners.reuse.partition.evaluated_partition import LayerTimes


class PartTimes:
    """Nanoseconds of one frame in the layers of one partition, by place and rows of a part."""

    def __init__(self, evaluator: Evaluator, partition: int) -> None:
        member, one = list(evaluator.application.partitions)[partition]
        network = evaluator.application.members[member].network
        costs = evaluator.costs
        self._times = LayerTimes(network, costs.platform, costs.element_bytes)
        self._names = one.layers
        self._heights = [network.layer(name).shape.rows for name in one.layers]

    def of(self, layer: int, rows: int) -> int:
        """Return the time of a layer; its height stands for the whole."""
        whole = rows == self._heights[layer]
        return self._times.nanoseconds(self._names[layer], None if whole else rows)
