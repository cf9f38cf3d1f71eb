"""Slow bytes that no schedule is below, and those of the splits that people make by hand.

`least_slow_bytes` counts inputs and results that cannot lie whole in fast memory; `least_waiting_bytes`
adds what a later layer needs of what was made before.

Let each element of a tensor, the gate, depend on all elements of the one input, and take the moment at
which the first of them is there. By then all of the input has been read. Elements that depend on one of
the gate come later, and some of them need elements of tensors that do not depend on it. What is in fast
memory at the moment, and what is read behind it, together cut all ways from the input to those: along a
way that is not cut, each element would have to be computed behind the moment, from one that is, and an
input is not computed. A partial sum cuts as its element does, and has no fewer bytes.
Of the cut, fast memory holds no more than its size; the rest is read: the input once more, and what
was computed was written before, too, but for results, whose writing is counted anyway. So no schedule,
recomputation or not, moves less than inputs and results once and the least cut less the fast memory.

The least cut is bounded by a flow that is even over the places of each tensor, and so one between
tensors: along an edge each place of the result has places of its own of what the layer reads, equally
many for each. Layers that mix all feature maps take any flow from each of them, others as much from
each. Edges that are not plainly so are left out, which makes the flow less.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from importlib import import_module
from itertools import combinations, pairwise

import numpy as np

from cnn2csdf.geometry import Range
from cnn2csdf.network import Layer, Network
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


def least_slow_bytes(
    course: TopologicalOrder, table: StageTable, fast: int, *, without: Collection[str | None] = ()
) -> int:
    """Return slow bytes of any schedule that moves rows or parts of them, and all that is needed.

    They are those of inputs and results that cannot lie whole in fast memory. Inputs are there
    together before the first layer works, results behind the last. without: those that lie in no
    memory of the plan.
    """
    total = 0
    needed = _needed_bytes(course, table)
    for ends in ((course.at(0), *course.others), tuple(course.results)):
        names = tuple(name for name in ends if name not in without)
        if len(names) > MOST_CHOSEN:
            total += max(0, sum(needed[name] for name in names) - fast)
            continue
        total += min(
            sum(needed[name] for name in names if name not in staying)
            for staying in subsets(names)
            if sum(map(table.tensor_bytes, staying)) <= fast
        )
    return total


def _needed_bytes(course: TopologicalOrder, table: StageTable) -> dict[str, int]:
    """Bytes of the places of each tensor that the results of the network need.

    A row of a result needs all rows of what it is made of from the first to the last, and so does a
    column, as far as layers work by columns.
    """
    network, needs = course.network, Needs(course.network)
    shapes = {name: network.layer(name).shape for name in (*course.layers, *course.others)}
    masks = {name: np.zeros((shape.rows, shape.width), bool) for name, shape in shapes.items()}
    for name in course.results:
        masks[name][:] = True
    for name in reversed(course.layers):
        layer = network.layer(name)
        is_by_columns = can_be_tiled(network, layer) and works_by_columns(network, layer)
        across = needs.of(layer, COLUMNS) if is_by_columns else ()
        for index, source in enumerate(layer.inputs):
            height, width = masks[source].shape
            rows = _spans(table.row_needs(layer, index), height)
            spans = [(0, width)] * shapes[name].width
            if across:
                spans = [across[index].clipped((at, at + 1)) for at in range(shapes[name].width)]
            masks[source] |= rows.T @ masks[name] @ _spans(spans, width)
    return {
        name: int(mask.sum()) * (table.row_bytes(name) // shapes[name].width)
        for name, mask in masks.items()
    }


def _spans(spans: Sequence[Range], limit: int) -> Array:
    """A row for each span, true where it is."""
    places = np.arange(limit)
    return np.array([(first <= places) & (places < end) for first, end in spans], bool)


def slow_bytes_of_whole_layers(course: TopologicalOrder, sizes: dict[str, int], fast: Names) -> int:
    """Return slow bytes where each layer works whole: once for its result, once for each input."""
    total = 0
    for name in course.layers[1:]:
        for name_ in (name, *course.network.layer(name).inputs):
            total += 0 if name_ in fast else sizes[name_]
    return total


def greedy_split(
    course: TopologicalOrder, table: StageTable, sizes: dict[str, int], fast: int
) -> int:
    """Return slow bytes of whole layers with the largest tensors in slow memory until the others fit.

    They fit where those that live at one time do, which is generous: offsets may take more.
    """
    whole = whole_tensors(course.network, element_bytes=table.element_bytes)
    inside = sorted(whole.buffers, key=lambda buffer: buffer.size)
    while max(loads([(b.start, b.end, b.size) for b in inside]).values(), default=0) > fast:
        inside.pop()
    return slow_bytes_of_whole_layers(course, sizes, frozenset(buffer.name for buffer in inside))


SOURCE, SINK = "source", "sink"
Node = tuple[str, str]


def least_waiting_bytes(course: TopologicalOrder, table: StageTable, fast: int) -> int:
    """Return slow bytes of any schedule beside those of inputs and results, each once."""
    if course.others:
        return 0
    bound, seen = 0, set[frozenset[str]]()
    for gate in _gates(course):
        behind = _behind(course, gate)
        if behind in seen:
            continue
        seen.add(behind)
        ways = _Ways(course, table, gate, behind)
        for most in (1, 2):  # of a byte of the cut, which is counted once or twice
            if ways.targets:
                bound = max(bound, _flow(ways.capacities(most)) - most * fast)
    return bound


def _gates(course: TopologicalOrder) -> Iterator[str]:
    """Tensors each element of which depends on all of the input, along one chain of layers at least."""
    network, source = course.network, course.at(0)
    shape = network.layer(source).shape
    reach = {source: (np.eye(shape.rows, dtype=bool), np.eye(shape.width, dtype=bool), False)}
    for name in course.layers[1:]:
        layer = network.layer(name)
        ways = []
        for index, operand in enumerate(_operands(network, layer)):
            taps = _taps(network, layer, min(index, len(layer.inputs) - 1))
            if operand in reach and taps is not None:
                rows, columns, mixes = reach[operand]
                ways.append((taps[0] @ rows, taps[1] @ columns, mixes or _mixes(layer)))
        if ways and layer.operator.joined_axis is None:
            reach[name] = max(ways, key=lambda way: (way[2], int(way[0].sum() * way[1].sum())))
            rows, columns, mixes = reach[name]
            if rows.all() and columns.all() and (mixes or shape.channels == 1):
                yield name


def _behind(course: TopologicalOrder, gate: str) -> frozenset[str]:
    """The tensors that are computed from another."""
    gated = {gate}
    for name in course.layers[1:]:
        if gated.intersection(course.network.layer(name).inputs):
            gated.add(name)
    return frozenset(gated - {gate})


def _operands(network: Network, layer: Layer) -> list[str]:
    """The tensors that a layer reads; those of a concatenation of feature maps where it mixes them."""
    sources = list(layer.inputs)
    while _mixes(layer) and len(sources) < len(network.layers):
        joined = [network.layer(name) for name in sources]
        if not any(_joins_maps(layer) for layer in joined):
            break
        sources = [
            part
            for layer in joined
            for part in (layer.inputs if _joins_maps(layer) else [layer.name])
        ]
    return sources


def _joins_maps(layer: Layer) -> bool:
    return layer.shape.is_map and not layer.epilogue and layer.operator.joined_axis == 0


def _mixes(layer: Layer) -> bool:
    """Whether each element depends on all feature maps of the places that it sees."""
    bank = layer.operator.filter_bank
    if bank is not None:
        return bank.groups == 1 and bank.block is None
    return layer.operator.dense_units is not None


def _taps(network: Network, layer: Layer, index: int) -> tuple[Array, Array] | None:
    """For each row, and for each column, of a layer which of an input it is made of; None: unknown."""
    source_shape, own_shape = network.input_shapes(layer)[index], layer.shape
    operator = layer.operator
    window, bank = operator.window_over(source_shape), operator.filter_bank
    if window is not None and (bank is None or bank.block is None):
        taps_of = []
        sizes = (own_shape.rows, source_shape.rows), (own_shape.width, source_shape.width)
        for axis, (outputs, inputs) in enumerate(sizes):
            taps = np.zeros((outputs, inputs), bool)
            for place in range(outputs):
                first = place * window.stride[axis] - window.padding[axis]
                seen = (first + tap * window.dilation[axis] for tap in range(window.kernel[axis]))
                taps[place, [at for at in seen if 0 <= at < inputs]] = True
            taps_of.append(taps)
        return taps_of[0], taps_of[1]
    if source_shape.is_map and (factors := operator.enlargement(source_shape)):
        return (
            np.arange(own_shape.rows)[:, None] // factors[0] == np.arange(source_shape.rows),
            np.arange(own_shape.width)[:, None] // factors[1] == np.arange(source_shape.width),
        )
    is_alike = source_shape == own_shape and operator.is_elementwise
    is_cut = operator.cut is not None and operator.cut.axis == 0 and source_shape.is_map
    if is_alike or is_cut:
        return np.eye(own_shape.rows, dtype=bool), np.eye(own_shape.width, dtype=bool)
    return None


class _Ways:
    """The ways from the input to what depends on a gate, as a network of flow between tensors."""

    def __init__(
        self, course: TopologicalOrder, table: StageTable, gate: str, behind: frozenset[str]
    ) -> None:
        """Take the gate, and all tensors that depend on it."""
        self._course, self._table, self._behind = course, table, behind
        network = self._network = course.network
        self._shown = _shown(course)
        self._edges: list[tuple[str, str]] = []
        late, self.targets = {gate}, list[str]()
        for name in course.layers[1:]:
            layer = network.layer(name)
            if name == gate:
                continue
            operands = _operands(network, layer)
            if name not in behind:
                self._edges += [
                    (operand, name) for operand in operands if self._is_even(operand, layer)
                ]
            elif late.intersection(operands) and self._sees_all(layer, late):
                late.add(name)
                early = [
                    operand for operand in operands if operand not in behind and operand != gate
                ]
                new = [(name_, name) for name_ in early if self._is_even(name_, layer)]
                self._edges += new
                self.targets += [name] if new else []
        self._drop_cut()

    def _sees_all(self, layer: Layer, late: set[str]) -> bool:
        """Whether each element depends on one that is late."""
        if layer.operator.joined_axis is not None:
            return late.issuperset(layer.inputs)
        for index in range(len(layer.inputs)):
            taps = _taps(self._network, layer, index)
            read = layer.inputs[index]
            is_late = read in late or (
                _mixes(layer) and late & set(_operands(self._network, layer))
            )
            if taps is not None and is_late and all(tap.any(axis=1).all() for tap in taps):
                return True
        return False

    def _is_even(self, source: str, layer: Layer) -> bool:
        """Whether each place of a layer has as many places of its own of a tensor, all of them used."""
        network, operator = self._network, layer.operator
        source_shape, own_shape = network.layer(source).shape, layer.shape
        if _joins_maps(network.layer(source)) and not _mixes(layer):
            return False
        if operator.dense_units is not None:
            return True
        bank, window = operator.filter_bank, operator.sliding_window
        if window is not None:
            if bank is not None and not _mixes(layer):
                if not bank.groups == source_shape.channels == own_shape.channels or bank.block:
                    return False
            for axis, (inputs, outputs) in enumerate(
                zip(source_shape.dims[1:], own_shape.dims[1:], strict=True)
            ):
                kernel, stride = window.kernel[axis], window.stride[axis]
                before, dilation = window.padding[axis], window.dilation[axis]
                is_dense = dilation == 1 and 0 <= before <= kernel - stride
                is_spread = stride == 1 and before % dilation == 0 <= before < kernel * dilation
                if outputs * stride != inputs or not (is_dense or is_spread):
                    return False
            return True
        if operator.window_over(source_shape) is not None:  # a reduction of each feature map
            return source_shape.channels == own_shape.channels
        return _taps(network, layer, layer.inputs.index(source)) is not None

    def _drop_cut(self) -> None:
        """Leave out slices, unless they alone read a tensor that mixes, each another part of it."""
        readers = defaultdict[str, list[Layer]](list)
        for source, name in self._edges:
            readers[source].append(self._network.layer(name))
        left = set[tuple[str, str]]()
        for source, layers in readers.items():
            cuts = [cut for reader in layers if (cut := reader.operator.cut) is not None]
            ends = sorted((cut.start, cut.stop) for cut in cuts)
            is_apart = all(span[1] <= following[0] for span, following in pairwise(ends))
            is_free = _mixes(self._network.layer(source)) and len(cuts) == len(layers) and is_apart
            if not is_free:
                left |= {(source, reader.name) for reader in layers if reader.operator.cut}
        self._edges = [edge for edge in self._edges if edge not in left]

    def capacities(self, most: int) -> dict[Node, dict[Node, int]]:
        """Return the edges between tensors, each of which lets its bytes through, counted so often."""
        source = self._course.at(0)
        edges = defaultdict[Node, dict[Node, int]](dict)
        nodes = {node for edge in self._edges for node in edge}
        total = 0
        for name in nodes:
            times = min(most, 1 if name == source or name in self._shown else 2)
            edges["in", name]["out", name] = size = times * self._table.tensor_bytes(name)
            total += size
        for tail, head in self._edges:
            edges["out", tail]["in", head] = total
        edges[SOURCE, ""]["in", source] = total
        for name in self.targets:
            edges["out", name][SINK, ""] = total
        return edges


def _shown(course: TopologicalOrder) -> set[str]:
    """Tensors elements of which are, or may be, those of a result, through layers that only move."""
    network, names = course.network, set(course.results)
    for name in reversed(course.layers):
        layer = network.layer(name)
        if name in names and layer.operator.is_view:
            names |= set(layer.inputs)
    for name in course.layers:
        layer = network.layer(name)
        if layer.operator.is_view and names.intersection(layer.inputs):
            names.add(name)
    return names


def _flow(capacities: Mapping[Node, Mapping[Node, int]]) -> int:
    """Return the largest flow from the source to the sink, exactly: capacities are integers."""
    nx = import_module("networkx")  # slow to import, and needed for slow memory alone
    graph = nx.DiGraph()
    for tail, heads in capacities.items():
        for head, size in heads.items():
            graph.add_edge(tail, head, capacity=size)
    return int(nx.maximum_flow_value(graph, (SOURCE, ""), (SINK, "")))
