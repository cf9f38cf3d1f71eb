"""Lower bounds on slow-memory traffic, and two baselines: whole layers, largest tensors first.

`least_slow_bytes` counts inputs and results that do not fit into fast memory. `least_waiting_bytes`
adds tensors that a later layer needs although the whole input has been read since; it is computed as a
minimum cut.

Each element of a gate, a tensor, depends on all elements of the one input. Consider the moment
at which the first element of the gate is computed. All of the input has then been read. Elements that
depend on the gate are computed later, and some of them also need elements of tensors that do not
depend on it. The data in fast memory at that moment, together with the data that is read later, cut
all paths from the input to these elements: along a path that is not cut, each element would have to be
computed later from another such element, but an input is not computed. A partial sum cuts like its
element, and has at least as many bytes.

Of the cut, fast memory holds at most its size; the rest is read from slow memory. This is either the
input, for the second time, or computed data, which was also written before; only the writing of
results is counted elsewhere. Therefore every schedule, with or without recomputation, moves at least
the inputs and results once plus the minimum cut minus the fast memory.

The minimum cut is bounded from below by a flow that is uniform over the pixels of each tensor, which
is a flow between tensors: along an edge, each pixel of the result uses pixels of the input that no
other pixel uses, and each uses equally many. Layers that mix all feature maps accept any flow from
each map; other layers accept the same flow from each. Edges for which this is not evident are left
out, which only reduces the flow.
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
from planners.plan.regions import COLUMNS, Needs, can_be_tiled
from planners.rewrites.column_tiles import works_by_columns

MOST_CHOSEN = 8  # tensors of which all sets are tried in fast memory
Names = frozenset[str]


def subsets(names: Sequence[str]) -> Iterator[Names]:
    """Yield all subsets of the names, largest first; of more than MOST_CHOSEN only the prefixes."""
    if len(names) > MOST_CHOSEN:
        yield from (frozenset(names[:count]) for count in range(len(names), -1, -1))
        return
    for count in range(len(names), -1, -1):
        yield from map(frozenset, combinations(names, count))


def least_slow_bytes(
    layer_order: TopologicalOrder,
    table: StageTable,
    fast: int,
    *,
    without: Collection[str | None] = (),
) -> int:
    """Return a lower bound on the slow-memory bytes of any schedule that moves rows or parts of rows.

    The bound counts inputs and results that do not fit into fast memory. All inputs exist before the
    first layer is computed, and all results after the last. without: tensors in no memory of the plan.
    """
    total = 0
    needed = _needed_bytes(layer_order, table)
    for ends in ((layer_order.at(0), *layer_order.others), tuple(layer_order.results)):
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


def _needed_bytes(layer_order: TopologicalOrder, table: StageTable) -> dict[str, int]:
    """Bytes of the pixels of each tensor that the results of the network need.

    A row of a result needs all rows of its inputs from the first needed row to the last; the same
    holds for columns, if the layer can be computed column by column.
    """
    network, needs = layer_order.network, Needs(layer_order.network)
    shapes = {
        name: network.layer(name).shape for name in (*layer_order.layers, *layer_order.others)
    }
    masks = {name: np.zeros((shape.rows, shape.width), bool) for name, shape in shapes.items()}
    for name in layer_order.results:
        masks[name][:] = True
    for name in reversed(layer_order.layers):
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
    """A boolean row for each span, true inside it."""
    places = np.arange(limit)
    return np.array([(first <= places) & (places < end) for first, end in spans], bool)


def slow_bytes_of_whole_layers(
    layer_order: TopologicalOrder, sizes: dict[str, int], fast: Names
) -> int:
    """Return the traffic layer by layer: each tensor moves once when written and once per read."""
    total = 0
    for name in layer_order.layers[1:]:
        for tensor in (name, *layer_order.network.layer(name).inputs):
            total += 0 if tensor in fast else sizes[tensor]
    return total


def greedy_split(
    layer_order: TopologicalOrder, table: StageTable, sizes: dict[str, int], fast: int
) -> int:
    """Return the traffic of whole layers with the largest tensors in slow memory until the rest fits.

    The rest fits if its peak of live bytes does. This is an optimistic baseline: placement may need
    more.
    """
    whole = whole_tensors(layer_order.network, element_bytes=table.element_bytes)
    inside = sorted(whole.buffers, key=lambda buffer: buffer.size)
    while max(loads([(b.start, b.end, b.size) for b in inside]).values(), default=0) > fast:
        inside.pop()
    return slow_bytes_of_whole_layers(
        layer_order, sizes, frozenset(buffer.name for buffer in inside)
    )


SOURCE, SINK = "source", "sink"
Node = tuple[str, str]


def least_waiting_bytes(layer_order: TopologicalOrder, table: StageTable, fast: int) -> int:
    """Return a lower bound on traffic beyond moving inputs and results once."""
    if layer_order.others:
        return 0
    bound, seen = 0, set[frozenset[str]]()
    for gate in _gates(layer_order):
        dependents = _dependents(layer_order, gate)
        if dependents in seen:
            continue
        seen.add(dependents)
        flow = _GateFlow(layer_order, table, gate, dependents)
        for most in (1, 2):  # how often a byte of the cut counts at most
            if flow.targets:
                bound = max(bound, _maximum_flow(flow.capacities(most)) - most * fast)
    return bound


def _gates(layer_order: TopologicalOrder) -> Iterator[str]:
    """Tensors whose elements all depend on all of the input, along at least one chain of layers."""
    network, source = layer_order.network, layer_order.at(0)
    shape = network.layer(source).shape
    reach = {source: (np.eye(shape.rows, dtype=bool), np.eye(shape.width, dtype=bool), False)}
    for name in layer_order.layers[1:]:
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


def _dependents(layer_order: TopologicalOrder, gate: str) -> frozenset[str]:
    """The tensors that depend on a gate."""
    gated = {gate}
    for name in layer_order.layers[1:]:
        if gated.intersection(layer_order.network.layer(name).inputs):
            gated.add(name)
    return frozenset(gated - {gate})


def _operands(network: Network, layer: Layer) -> list[str]:
    """The inputs of a layer; a layer that mixes feature maps also sees through concatenations."""
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
    """Whether each element depends on all feature maps of the pixels in its receptive field."""
    bank = layer.operator.filter_bank
    if bank is not None:
        return bank.groups == 1 and bank.block is None
    return layer.operator.dense_units is not None


def _taps(network: Network, layer: Layer, index: int) -> tuple[Array, Array] | None:
    """For each row, and for each column, of a layer those of an input that it reads; or None.

    None if the windows of the layer are not known.
    """
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
    cut = operator.sliced_range
    is_cut = cut is not None and cut.axis == 0 and source_shape.is_map
    if is_alike or is_cut:
        return np.eye(own_shape.rows, dtype=bool), np.eye(own_shape.width, dtype=bool)
    return None


class _GateFlow:
    """The paths from the input to tensors that depend on a gate, as a flow network between tensors."""

    def __init__(
        self,
        layer_order: TopologicalOrder,
        table: StageTable,
        gate: str,
        dependents: frozenset[str],
    ) -> None:
        """Take the gate, and all tensors that depend on it."""
        self._layer_order, self._table, self._dependents = layer_order, table, dependents
        network = self._network = layer_order.network
        self._result_tensors = _result_tensors(layer_order)
        self._edges: list[tuple[str, str]] = []
        late, self.targets = {gate}, list[str]()
        for name in layer_order.layers[1:]:
            layer = network.layer(name)
            if name == gate:
                continue
            operands = _operands(network, layer)
            if name not in dependents:
                self._edges += [
                    (operand, name) for operand in operands if self._is_even(operand, layer)
                ]
            elif late.intersection(operands) and self._sees_all(layer, late):
                late.add(name)
                early = [
                    operand for operand in operands if operand not in dependents and operand != gate
                ]
                new = [(tensor, name) for tensor in early if self._is_even(tensor, layer)]
                self._edges += new
                self.targets += [name] if new else []
        self._drop_cut()

    def _sees_all(self, layer: Layer, late: set[str]) -> bool:
        """Whether each element of a layer depends on an element computed after the gate."""
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
        """Whether each pixel of a layer uses equally many pixels of a tensor, and no pixel is shared.

        All pixels of the tensor are used.
        """
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
        """Drop edges to slices, unless disjoint slices are the only readers of a mixing tensor."""
        readers = defaultdict[str, list[Layer]](list)
        for source, name in self._edges:
            readers[source].append(self._network.layer(name))
        left = set[tuple[str, str]]()
        for source, layers in readers.items():
            cuts = [cut for reader in layers if (cut := reader.operator.sliced_range) is not None]
            ends = sorted((cut.start, cut.stop) for cut in cuts)
            is_apart = all(span[1] <= following[0] for span, following in pairwise(ends))
            is_free = _mixes(self._network.layer(source)) and len(cuts) == len(layers) and is_apart
            if not is_free:
                left |= {(source, reader.name) for reader in layers if reader.operator.sliced_range}
        self._edges = [edge for edge in self._edges if edge not in left]

    def capacities(self, most: int) -> dict[Node, dict[Node, int]]:
        """Return the flow network; a tensor has its bytes as capacity, at most `most` times."""
        source = self._layer_order.at(0)
        edges = defaultdict[Node, dict[Node, int]](dict)
        nodes = {node for edge in self._edges for node in edge}
        total = 0
        for name in nodes:
            times = min(most, 1 if name == source or name in self._result_tensors else 2)
            edges["in", name]["out", name] = size = times * self._table.tensor_bytes(name)
            total += size
        for tail, head in self._edges:
            edges["out", tail]["in", head] = total
        edges[SOURCE, ""]["in", source] = total
        for name in self.targets:
            edges["out", name][SINK, ""] = total
        return edges


def _result_tensors(layer_order: TopologicalOrder) -> set[str]:
    """Tensors with elements that are, or may be, those of a result, through data movement alone."""
    network, names = layer_order.network, set(layer_order.results)
    for name in reversed(layer_order.layers):
        layer = network.layer(name)
        if name in names and layer.operator.is_view:
            names |= set(layer.inputs)
    for name in layer_order.layers:
        layer = network.layer(name)
        if layer.operator.is_view and names.intersection(layer.inputs):
            names.add(name)
    return names


def _maximum_flow(capacities: Mapping[Node, Mapping[Node, int]]) -> int:
    """Return the maximum flow from the source to the sink, exactly: capacities are integers."""
    nx = import_module("networkx")  # slow to import, and needed for slow memory alone
    graph = nx.DiGraph()
    for tail, heads in capacities.items():
        for head, size in heads.items():
            graph.add_edge(tail, head, capacity=size)
    return int(nx.maximum_flow_value(graph, (SOURCE, ""), (SINK, "")))
