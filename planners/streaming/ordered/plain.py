"""Plans without a search of their own: layers one after another, and layers in an order by parts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from cnn2csdf.network import Network
from cnn2csdf.operators import Input
from csdf.errors import InvalidNetwork
from planners.streaming.course import Course
from planners.streaming.making import behind, plan_of
from planners.streaming.ordered.turns import turns_of
from planners.streaming.plan import Kind, PlannedGroup, PlannedStage, StreamBuffer, StreamingPlan
from planners.streaming.search.chains import GroupWay, collecting
from planners.streaming.search.moves import Move
from planners.streaming.stage import Stage
from planners.streaming.stages import StageTable


def whole_layers(
    course: Course, table: StageTable, offsets: Mapping[str, int], *, is_streamed: bool = False
) -> StreamingPlan:
    """Return the plan of layers that work one after another, each whole, at known offsets.

    is_streamed: the input comes row by row, and is collected before the first layer works.
    """
    begun = [collecting(table.arena_bytes(course.at(0)))] if is_streamed else []
    groups = begun + [
        GroupWay(0, 0, cut, cut + 1, (Move(cut, cut + 1, stages),), is_apart=True)
        for cut, stages in enumerate(_stages_apart(course, table))
    ]
    return plan_of(course, table, groups, is_streamed=is_streamed, offsets=offsets)


def _stages_apart(course: Course, table: StageTable) -> Iterator[tuple[Stage, ...]]:
    for before, end in zip(course.cuts, course.cuts[1:], strict=False):
        layers = course.layers[before + 1 : end + 1]
        yield tuple(Stage(layers=(name,), rows=table.height(name)) for name in layers)


class Ring(NamedTuple):
    """Room for rows of a tensor that some layers read. last: the last firing that needs it."""

    name: str
    tensor: str
    readers: tuple[str, ...]
    size: int
    offset: int
    last: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PartsInOrder:
    """A network by parts, each tensor in rings.

    order: the layer of each firing, inputs and outputs too. rows: of a part of each layer.
    """

    network: Network
    element_bytes: int | None
    rings: tuple[Ring, ...]
    rows: Mapping[str, int]
    order: tuple[str, ...]
    arena_bytes: int


def in_order(parts: PartsInOrder) -> StreamingPlan:
    """Return the plan of a network by parts: one group, whose order is that of the firings.

    The input comes row by row. Results that a ring holds whole until the end stay in the arena, others
    go out as they are made. Raises InvalidNetwork for a network of several inputs.
    """
    return _Writing(parts).plan()


def read_once(rings: Sequence[Ring]) -> Iterator[Ring]:
    """Yield rings in which a layer that reads a tensor more than once reads it in the largest.

    What it reads anywhere is there: rows come to all rings at once, and none is given back before
    all of its reads are done. A ring that nobody reads any more is left out.
    """
    largest: dict[tuple[str, str], Ring] = {}
    for ring in rings:
        for reader in ring.readers:
            known = largest.get((ring.tensor, reader))
            if known is None or ring.size > known.size:
                largest[ring.tensor, reader] = ring
    for ring in rings:
        readers = tuple(one for one in ring.readers if largest[ring.tensor, one] is ring)
        if readers:
            yield ring._replace(readers=readers)


class _Writing:
    """A network by parts on its way to a plan."""

    def __init__(self, parts: PartsInOrder) -> None:
        self._parts = parts
        self._network = parts.network
        if len(self._network.inputs) != 1:
            raise InvalidNetwork(
                f"network {self._network.name!r} has {len(self._network.inputs)} inputs; a plan by "
                "parts takes one, row by row"
            )
        self._table = StageTable(self._network, element_bytes=parts.element_bytes)
        self._arriving = self._network.inputs[0].name
        self._rings = tuple(read_once(parts.rings))
        self._staying = dict(self._results_that_stay())

    def _results_that_stay(self) -> Iterator[tuple[str, str]]:
        """Outputs whose rows all lie in a ring at the end, with the name of the ring."""
        last = len(self._parts.order) - 1
        for ring in self._rings:
            height = self._table.height(ring.tensor)
            has_all = ring.size == height * self._table.row_bytes(ring.tensor)
            is_input = isinstance(self._network.layer(ring.tensor).operator, Input)
            for layer in self._network.outputs:
                if layer.name in ring.readers and has_all and ring.last == last and not is_input:
                    yield layer.name, ring.name

    def plan(self) -> StreamingPlan:
        stages = [
            PlannedStage(
                stage=Stage(layers=(layer.name,), rows=self._parts.rows[layer.name]), strips=()
            )
            for layer in self._network.layers
            if layer.name not in self._staying and not isinstance(layer.operator, Input)
        ]
        group = PlannedGroup(
            stages=tuple(stages), arriving=self._arriving, order=turns_of(list(self._firings()))
        )
        return StreamingPlan(
            network=self._network.name,
            element_bytes=self._parts.element_bytes,
            groups=(group,),
            buffers=tuple(self._buffers(stages)),
            arena_bytes=self._parts.arena_bytes,
            multiply_accumulates=sum(self._table.geometry(one.stage).work for one in stages),
        )

    def _firings(self) -> Iterator[str]:
        """Who fires, in order; the input comes a row at a time, whatever its parts are."""
        left = self._table.height(self._arriving)
        for name in self._parts.order:
            if name == self._arriving:
                rows = min(self._parts.rows[name], left)
                left -= rows
                yield from (name for _ in range(rows))
            elif name not in self._staying:
                yield name

    def _buffers(self, stages: Sequence[PlannedStage]) -> Iterator[StreamBuffer]:
        whole = set(self._staying.values())
        rings = sorted(self._rings, key=lambda one: one.name not in whole)  # results first
        copies = [ring.tensor for ring in rings]
        for ring in rings:
            kind = Kind.WHOLE if ring.name in whole else Kind.RING
            readers = ring.readers if copies.count(ring.tensor) > 1 else ()
            rows = ring.size // self._table.row_bytes(ring.tensor)
            yield _buffer(ring.name, kind, ring.tensor, rows, ring.size, ring.offset, readers)
        yield _buffer("pool", Kind.POOL, stages[-1].stage.result, 0, 0, 0)
        out = [
            _buffer(name, Kind.OUTSIDE, name, self._table.height(name), size, 0)
            for layer in self._network.outputs
            if (name := layer.name) not in self._staying
            for size in (self._table.tensor_bytes(name),)
        ]
        offsets = behind(self._parts.arena_bytes, out)
        yield from (replace(one, offset=offsets[one.name]) for one in out)


def _buffer(
    name: str,
    kind: Kind,
    tensor: str,
    rows: int,
    size: int,
    offset: int,
    readers: tuple[str, ...] = (),
) -> StreamBuffer:
    """A buffer of the one group."""
    return StreamBuffer(
        name=name,
        kind=kind,
        tensor=tensor,
        rows=rows,
        size=size,
        offset=offset,
        begin=0,
        end=1,
        readers=readers,
    )
