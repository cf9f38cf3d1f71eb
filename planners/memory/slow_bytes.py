"""Slow bytes that no schedule is below, and those of the splits that people make by hand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

import numpy as np

from cnn2csdf.geometry import Range
from cnn2csdf.weights import Array
from planners.arena.problem import loads
from planners.memory.order import TopologicalOrder
from planners.memory.plain_plans import whole_tensors
from planners.memory.stages import StageTable
from planners.plan.column_tiles import works_by_columns
from planners.plan.regions import COLUMNS, Needs, can_be_tiled

MOST_CHOSEN = 8  # tensors of which all sets are tried in fast memory
Names = frozenset[str]


def subsets(names: Sequence[str]) -> Iterator[Names]:
    """Yield all sets of some names, the largest first; of too many the first ones, up to each."""
    if len(names) > MOST_CHOSEN:
        yield from (frozenset(names[:count]) for count in range(len(names), -1, -1))
        return
    for count in range(len(names), -1, -1):
        yield from map(frozenset, combinations(names, count))


def least_slow_bytes(course: TopologicalOrder, table: StageTable, fast: int) -> int:
    """Return slow bytes of any schedule that moves rows or parts of them, and all that is needed.

    They are those of inputs and results that cannot lie whole in fast memory. Inputs are there
    together before the first layer works, results behind the last.
    """
    found = 0
    needed = _needed_bytes(course, table)
    for names in ((course.at(0), *course.others), tuple(course.results)):
        if len(names) > MOST_CHOSEN:
            found += max(0, sum(needed[name] for name in names) - fast)
            continue
        found += min(
            sum(needed[name] for name in names if name not in staying)
            for staying in subsets(names)
            if sum(map(table.tensor_bytes, staying)) <= fast
        )
    return found


def _needed_bytes(course: TopologicalOrder, table: StageTable) -> dict[str, int]:
    """Bytes of the places of each tensor that the results of the network need.

    A row of a result needs all rows of what it is made of from the first to the last, and so does a
    column, as far as layers work by columns.
    """
    network, needs = course.network, Needs(course.network)
    shapes = {name: network.layer(name).shape for name in (*course.layers, *course.others)}
    found = {name: np.zeros((one.rows, one.width), bool) for name, one in shapes.items()}
    for name in course.results:
        found[name][:] = True
    for name in reversed(course.layers):
        layer = network.layer(name)
        is_by_columns = can_be_tiled(network, layer) and works_by_columns(network, layer)
        across = needs.of(layer, COLUMNS) if is_by_columns else ()
        for index, source in enumerate(layer.inputs):
            height, width = found[source].shape
            rows = _spans(table.row_needs(layer, index), height)
            every = [(0, width)] * shapes[name].width
            if across:
                every = [across[index].clipped((at, at + 1)) for at in range(shapes[name].width)]
            found[source] |= rows.T @ found[name] @ _spans(every, width)
    return {
        name: int(some.sum()) * (table.row_bytes(name) // shapes[name].width)
        for name, some in found.items()
    }


def _spans(spans: Sequence[Range], limit: int) -> Array:
    """A row for each span, true where it is."""
    places = np.arange(limit)
    return np.array([(first <= places) & (places < end) for first, end in spans], bool)


def slow_bytes_of_whole_layers(course: TopologicalOrder, sizes: dict[str, int], fast: Names) -> int:
    """Return slow bytes where each layer works whole: once for its result, once for each input."""
    found = 0
    for name in course.layers[1:]:
        for one in (name, *course.network.layer(name).inputs):
            found += 0 if one in fast else sizes[one]
    return found


def greedy_split(
    course: TopologicalOrder, table: StageTable, sizes: dict[str, int], fast: int
) -> int:
    """Return slow bytes of whole layers with the largest tensors in slow memory until the others fit.

    They fit where those that live at one time do, which is generous: offsets may take more.
    """
    whole = whole_tensors(course.network, element_bytes=table.element_bytes)
    inside = sorted(whole.buffers, key=lambda one: one.size)
    while max(loads([(b.start, b.end, b.size) for b in inside]).values(), default=0) > fast:
        inside.pop()
    return slow_bytes_of_whole_layers(course, sizes, frozenset(one.name for one in inside))
