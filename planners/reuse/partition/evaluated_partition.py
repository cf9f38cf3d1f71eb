"""The share of a partition in an evaluation of its application, remembered by its genes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from cnn2csdf.durations import platform_durations
from cnn2csdf.granularity import Granularity
from cnn2csdf.network import Network
from cnn2csdf.platforms import Platform
from csdf.errors import InvalidNetwork
from planners.reuse.application.application import Genes, Partition
from planners.reuse.edge_buffers import Residents, Stay, largest_load, overlaps
from planners.reuse.partition.partition_model import PartitionModel, Steps, remember

MOST_STATES = 1_000  # to remember, of one partition, or as many as have
MOST_SPANS = 100_000  # spans together: more than a processor's cache holds are slower, not faster


class PartitionState(NamedTuple):
    """A partition at its genes.

    sizes: elements of the edge buffers within it, by number. spans: first and last step of all that
    are in use in it. conflicts: for each of these, as bits, those that it shares a step with.
    """

    rows: tuple[int, ...]
    capacities: list[int]
    sizes: dict[int, int]
    spans: dict[int, tuple[int, int]]
    conflicts: dict[int, int]
    extra_phases: int
    nanoseconds: int
    lower_bound: int  # elements of the edge buffers within it cannot be less

    def load(self, sizes: Sequence[int]) -> int:
        """Elements that are in use at one step at most; sizes: of all edge buffers."""
        first = [start for start, _ in self.spans.values()]
        last = [end for _, end in self.spans.values()]
        return largest_load(first, last, [sizes[edge] for edge in self.spans])


PhaseTimes = Mapping[str, Mapping[int, int]]  # by layer, nanoseconds of all of so many phases


class LayerTimes:
    """Nanoseconds of one frame in each layer of a network, for any rows of its parts.

    measured: instead of what the platform says; raises InvalidNetwork for phases not measured.
    """

    def __init__(
        self,
        network: Network,
        platform: Platform,
        element_bytes: int | None,
        measured: PhaseTimes | None = None,
    ) -> None:
        self._measured = measured
        self._network = network
        self._platform = platform
        self._element_bytes = element_bytes
        self._known: dict[int | None, Mapping[str, int]] = {}

    def nanoseconds(self, layer: str, rows: int | None) -> int:
        """Return the time of all phases of a layer; None is the whole."""
        if rows not in self._known:
            durations = platform_durations(
                self._network,
                Granularity(rows=rows),
                self._platform,
                element_bytes=self._element_bytes,
            )
            self._known[rows] = {
                name: self._taken(name, times) for name, times in durations.items()
            }
        return self._known[rows][layer]

    def _taken(self, layer: str, predicted: Sequence[int]) -> int:
        """Nanoseconds of all phases: as measured, or else as predicted."""
        if self._measured is None:
            return sum(predicted)
        found = self._measured.get(layer, {}).get(len(predicted))
        if found is None:
            known = sorted(self._measured.get(layer, {}))
            raise InvalidNetwork(
                f"network {self._network.name!r}, layer {layer!r}: no measured times of "
                f"{len(predicted)} phases, only of {', '.join(map(str, known)) or 'none'}; give a "
                "table for each number of rows, as csdf cnn measure writes them"
            )
        return found


class EvaluatedPartition:
    """Return a partition with the edge buffers that are in use in it."""

    def __init__(
        self,
        network: Network,
        partition: Partition,
        times: LayerTimes,
        residents: Residents,
        unit: int,
    ) -> None:
        self.model = PartitionModel(network, partition, unit)
        self._names = partition.layers
        self._times = times
        self._stays = {number: stay for number, (_, stay) in residents.items()}
        self._inner = [
            (number, edge.inner)
            for number, (edge, _) in residents.items()
            if edge.inner is not None
        ]
        self._bits = [1 << number for number in residents]
        self._most = max(1, min(MOST_STATES, MOST_SPANS // max(1, len(residents))))
        self._known: dict[tuple[int, ...], PartitionState] = {}
        self._durations: dict[tuple[int, int], int] = {}

    def state(self, genes: Genes) -> PartitionState:
        """Return the partition at these genes, one for each of its layers."""
        rows = self.model.part_rows(genes)
        known = self._known.get(rows)
        return known or remember(self._known, rows, self._new_state(rows), self._most)

    def order(self, state: PartitionState) -> list[int]:
        """Return the layer of every step of the schedule."""
        return self.model.order(state.rows, state.capacities)

    def _new_state(self, rows: tuple[int, ...]) -> PartitionState:
        storages = self.model.storages(rows)
        capacities = self.model.capacities(storages)
        steps = self.model.steps(rows, capacities)
        spans = {number: _span(stay, steps) for number, stay in self._stays.items()}
        edges = self.model.table.edges
        masks = overlaps(
            [start for start, _ in spans.values()], [end for _, end in spans.values()], self._bits
        )
        return PartitionState(
            rows=rows,
            capacities=capacities,
            sizes={n: capacities[inner] * edges[inner].row_elements for n, inner in self._inner},
            spans=spans,
            conflicts=dict(zip(spans, masks, strict=True)),
            extra_phases=sum(self.model.phases(rows)) - len(rows),
            nanoseconds=sum(map(self._duration, range(len(rows)), rows)),
            lower_bound=sum(storage.lower_bound for storage in storages),
        )

    def _duration(self, layer: int, rows: int) -> int:
        known = self._durations.get((layer, rows))
        if known is None:
            height = self.model.table.layers[layer].shape.rows
            known = self._times.nanoseconds(self._names[layer], None if rows == height else rows)
            self._durations[layer, rows] = known
        return known


def _span(stay: Stay, steps: Steps) -> tuple[int, int]:
    """First and last step; a partition starts at step 0."""
    return (
        0 if stay.first is None else steps.first[stay.first],
        steps.total - 1 if stay.last is None else steps.last[stay.last],
    )
