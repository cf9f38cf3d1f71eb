"""Traversal of a network as stages, the units whose DRAM traffic is counted, and groups of them.

A stage is one layer that moves data, followed by the elementwise layers that run in place on its
result. Three kinds of layer slide a window over feature maps: convolutions, poolings and fully
connected layers (one window over the entire input). An elementwise layer joins the stage of its
input if no other layer reads that input. Concatenations, slices and reshapes move nothing: the
producer of their input writes to the right position of the result. Every other layer is a stage of
its own. For example

    conv1 -> bn1 -> relu1 -> conv2 -> add(conv2, relu1) -> relu2

are two stages: (conv1, bn1, relu1) and (conv2, add, relu2). The addition reads relu1 as an operand
of its stage.

`stages_of` orders the stages so that each follows the stages that it reads; `groups_of` returns the
fused groups that a run of consecutive stages can form. Of the parameters of windowed stages only
weights are counted, not biases.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from cnn2csdf import operators as op
from cnn2csdf.network import Layer, Network
from cnn2csdf.parameters import ElementSizes
from planners.traffic.convolution import ConvolutionLoops, convolution_of, is_loop_nest
from planners.traffic.fused.axis_cuts import computes_all_written
from planners.traffic.fused.group import ALIASED_OPERAND, INPUT, FusedGroup, FusedLayer, Skip, count
from planners.traffic.fused.reading import (
    all_elements,
    elements_read,
    fused_layer,
    maps_of,
    parameters_read,
    window_of,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrafficStage:
    """A stage of a network: layers whose DRAM traffic is counted together.

    All stages:
    layers: names of the layers; the last one produces the result of the stage.
    source: tensor that the window slides over; of other kinds, the first input.
    outputs: elements of the result.
    source_bytes, element_bytes: bytes per element of the source, of the result.

    Stages with a window:
    window: kernel, channels and bytes per element; None for other kinds.
    convolution: loop nest of the first layer; None without weights.
    operands: further tensors, read elementwise by the layers after the window.

    Stages without a window:
    reads: bytes of all inputs.
    parameters: bytes of all parameters.
    minimum_reads: bytes of inputs and parameters on which the result certainly depends.

    Neighbours, set once the order of the stages is known:
    sources: tensors that are concatenated in the source, or the source itself.
    storage: for the source and each operand, the tensors that own its elements (views own none).
    viewed_operands: the owners of those operands that are views.
    distinct_maps: feature maps of the source that share no elements.
    readers: positions of the windowed stages that read the result, directly or through a view.
    needs_dram: whether an output of the network, or a stage without a window, reads the result.
    """

    layers: tuple[str, ...]
    source: str
    sources: tuple[str, ...] = ()
    operands: tuple[str, ...] = ()
    viewed_operands: tuple[str, ...] = ()
    window: FusedLayer | None = None
    convolution: ConvolutionLoops | None = None
    outputs: int
    storage: tuple[frozenset[str], ...] = ()
    distinct_maps: int = 0
    source_bytes: int = 1
    element_bytes: int = 1
    reads: int = 0
    parameters: int = 0
    minimum_reads: int = 0
    needs_dram: bool = False
    readers: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        """The layer whose tensor is the result of the stage."""
        return self.layers[-1]

    @property
    def output_bytes(self) -> int:
        """Bytes of the result."""
        return self.outputs * self.element_bytes


def stages_of(network: Network, sizes: ElementSizes | None = None) -> tuple[TrafficStage, ...]:
    """Return the stages in depth-first order: each after its inputs, long branches uninterrupted.

    sizes: bytes per element; by default one byte each, so that traffic counts elements.
    """
    by_name = _stages_by_name(network, sizes or ElementSizes(network, 1))
    order = [by_name[name] for name in _depth_first_order(network, by_name)]
    position = {stage.name: number for number, stage in enumerate(order)}
    return tuple(_with_neighbours(network, stage, order, position) for stage in order)


def _stages_by_name(network: Network, sizes: ElementSizes) -> dict[str, TrafficStage]:
    """All stages by their last layer, in the order of those layers."""
    consumers, depth = network.consumers, _depths(network)
    stages: dict[str, TrafficStage] = {}
    for layer in network.layers:
        if layer.is_end or layer.operator.is_view:
            continue
        if not _runs_in_place(network, layer):
            stages[layer.name] = _stage_of_layer(network, layer, sizes)
            continue
        # The layer extends the stage of its deepest input among those that only it reads.
        extensible = [
            name
            for name in layer.inputs
            if name in stages and stages[name].window and len(consumers[name]) == 1
        ]
        main_input = max(extensible or layer.inputs, key=depth.__getitem__)
        stage = (
            stages.pop(main_input)
            if extensible
            else _windowed_stage(network, layer, main_input, sizes)
        )
        stages[layer.name] = _with_elementwise_layer(stage, layer, main_input, sizes)
    return stages


def _with_elementwise_layer(
    stage: TrafficStage, layer: Layer, main_input: str, sizes: ElementSizes
) -> TrafficStage:
    """The stage, extended by an elementwise layer on its result; other inputs become operands."""
    other_inputs = list(layer.inputs)
    other_inputs.remove(main_input)
    layers = stage.layers if stage.name == layer.name else (*stage.layers, layer.name)
    operands, element_bytes = (*stage.operands, *other_inputs), sizes.of(layer.name)
    window = stage.window and replace(
        stage.window,
        output_bytes=element_bytes,
        dram_operands=len(operands),
        operand_bytes=tuple(map(sizes.of, operands)),
    )
    return replace(
        stage, layers=layers, operands=operands, window=window, element_bytes=element_bytes
    )


def _depths(network: Network) -> dict[str, int]:
    """For each layer, the number of layers on the longest path from an input."""
    depth: dict[str, int] = {}
    for layer in network.layers:
        depth[layer.name] = 1 + max((depth[name] for name in layer.inputs), default=0)
    return depth


def _runs_in_place(network: Network, layer: Layer) -> bool:
    """Whether each output element depends only on the input elements at the same position.

    A constant operand may hold one number per feature map at most: it is not counted as traffic.
    """
    operator, constant = layer.operator, layer.operator.constant_dims
    if not operator.is_elementwise or operator.is_view:
        return False
    is_small = constant is None or prod(constant) <= maps_of(layer.shape)[0]
    return is_small and set(network.input_shapes(layer)) == {layer.shape}


def _stage_of_layer(network: Network, layer: Layer, sizes: ElementSizes) -> TrafficStage:
    """The stage that begins with a layer that is not elementwise."""
    if window_of(network, layer) is not None:
        return _windowed_stage(network, layer, layer.inputs[0], sizes)
    parameters = sizes.of_parameters(layer)
    inputs = zip(layer.inputs, network.input_shapes(layer), strict=True)
    bytes_of_inputs = {name: shape.elements * sizes.of(name) for name, shape in inputs}
    return TrafficStage(
        layers=(layer.name,),
        source=layer.inputs[0],
        outputs=layer.shape.elements,
        source_bytes=sizes.of(layer.inputs[0]),
        element_bytes=sizes.of(layer.name),
        reads=sum(bytes_of_inputs.values()),
        parameters=parameters,
        minimum_reads=_minimum_reads(network, layer, parameters, sizes),
    )


def _minimum_reads(network: Network, layer: Layer, parameters: int, sizes: ElementSizes) -> int:
    """Bytes on which the entire output of a layer depends; inputs that may share bytes count once."""
    outputs, counted_tensors = all_elements(layer.shape), set[str]()
    bytes_read = parameters_read(network, layer, outputs, parameters)
    for index, name in enumerate(layer.inputs):
        owners = set(_owners(network, name))
        if not owners & counted_tensors:
            bytes_read += count(elements_read(network, layer, index, outputs)) * sizes.of(name)
        counted_tensors |= owners
    return bytes_read


def _windowed_stage(
    network: Network, layer: Layer, source: str, sizes: ElementSizes
) -> TrafficStage:
    """The stage of a layer with a window; an elementwise layer has a window of one element."""
    window = window_of(network, layer)
    is_elementwise = window is None
    if window is None:
        window = fused_layer(network.layer(source).shape, layer.shape, op.Window(kernel=(1, 1)))
    return TrafficStage(
        layers=(layer.name,),
        source=source,
        source_bytes=sizes.of(source),
        element_bytes=sizes.of(layer.name),
        window=replace(
            window,
            output_bytes=sizes.of(layer.name),
            weight_bytes=sizes.of_weights(layer) if window.has_weights else 1,
        ),
        convolution=None
        if is_elementwise or not is_loop_nest(layer)
        else convolution_of(network, layer),
        outputs=layer.shape.elements,
    )


def _depth_first_order(network: Network, stages: Mapping[str, TrafficStage]) -> Iterator[str]:
    """Names of stages, each after the stages it reads; of joining branches the deepest comes last."""
    depth = _depths(network)
    visited: set[str] = set()
    # Post-order traversal from the outputs, with an explicit stack: (layer, inputs visited).
    stack = [
        (layer.name, False)
        for layer in sorted(network.outputs, key=lambda output: -depth[output.name])
    ]
    while stack:
        name, inputs_visited = stack.pop()
        if name in visited:
            continue
        if inputs_visited:
            visited.add(name)
            if name in stages:
                yield name
            continue
        stage = stages.get(name)
        inputs = network.layer(name).inputs if stage is None else _inputs_of(network, stage)
        stack.append((name, True))
        stack += [(source, False) for source in sorted(inputs, key=lambda source: -depth[source])]


def _inputs_of(network: Network, stage: TrafficStage) -> tuple[str, ...]:
    """The tensors that a stage reads."""
    if stage.window is None:
        return network.layer(stage.name).inputs
    return (stage.source, *stage.operands)


def _with_neighbours(
    network: Network, stage: TrafficStage, order: list[TrafficStage], position: Mapping[str, int]
) -> TrafficStage:
    """The stage with the fields that depend on other stages: its sources, owners and readers."""
    stage_of = {name: stage for stage in order for name in stage.layers}
    reading_stages = [  # None for an output of the network
        stage_of.get(name)
        for name in _consumers(network, stage.name)
        if name in stage_of or network.layer(name).is_output
    ]
    readers = {
        position[reader.name]
        for reader in reading_stages
        if reader is not None and reader.window is not None
    }
    sources = tuple(_concatenated_tensors(network, stage.source))
    return replace(
        stage,
        distinct_maps=_distinct_maps(network, sources),
        storage=tuple(
            frozenset(_owners(network, name)) for name in (stage.source, *stage.operands)
        ),
        sources=sources,
        viewed_operands=tuple(
            owner for name in stage.operands for owner in _owners(network, name) if owner != name
        ),
        readers=tuple(sorted(readers)),
        needs_dram=any(reader is None or reader.window is None for reader in reading_stages),
    )


def _distinct_maps(network: Network, sources: Sequence[str]) -> int:
    """The number of feature maps of tensors that certainly share no element."""
    counted_tensors, maps = set[str](), 0
    for name in sources:
        owners = set(_owners(network, name))
        if not owners & counted_tensors:
            maps += maps_of(network.layer(name).shape)[0]
        counted_tensors |= owners
    return maps


def _concatenated_tensors(network: Network, name: str) -> Iterator[str]:
    """The tensors that are concatenated by channel in a tensor; the tensor itself if none are."""
    layer = network.layer(name)
    if layer.operator.joined_axis != 0:
        yield name
        return
    for source in layer.inputs:
        yield from _concatenated_tensors(network, source)


def _owners(network: Network, name: str) -> Iterator[str]:
    """The tensors that own the elements of a tensor: those behind a view, or the tensor itself."""
    layer = network.layer(name)
    if not layer.operator.is_view:
        yield name
        return
    for source in layer.inputs:
        yield from _owners(network, source)


def operand_numbers(
    stages: Sequence[TrafficStage], buffered: Collection[str]
) -> tuple[tuple[int, ...], ...]:
    """Return for each stage of a group the numbers of the operands that it reads from DRAM.

    The numbers are those of `FusedGroup.operands`: INPUT for the input of the group,
    ALIASED_OPERAND for a tensor that shares elements with an earlier one, otherwise 1, 2, ... for
    each new tensor.
    buffered: tensors that the group keeps in its buffer, and so does not read from DRAM.
    """
    start = stages[0]
    numbers, numbered_storage = {start.source: INPUT}, set(start.storage[0])
    numbers_of_stages = []
    for stage in stages:
        numbers_of_stage = []
        for name, owners in zip(stage.operands, stage.storage[1:], strict=True):
            if name in buffered:
                continue
            if name not in numbers:
                numbers[name] = ALIASED_OPERAND if owners & numbered_storage else len(numbers)
                numbered_storage |= owners
            numbers_of_stage.append(numbers[name])
        numbers_of_stages.append(tuple(numbers_of_stage))
    return tuple(numbers_of_stages)


def _consumers(network: Network, name: str) -> Iterator[str]:
    """The layers that read a tensor, directly or through views."""
    for consumer in network.consumers[name]:
        if network.layer(consumer).operator.is_view:
            yield from _consumers(network, consumer)
        else:
            yield consumer


def groups_of(stages: Sequence[TrafficStage], first: int, end: int) -> Iterator[FusedGroup]:
    """Return the fused groups of stages [first, end): none, one, or two.

    There are two where a later stage reads the group's input once more, elementwise (a residual
    connection from the input): the input stays in the buffer until then, or is read from DRAM
    twice.
    """
    members = stages[first:end]
    if len(members) < 2:
        return
    number_of = {stage.name: number for number, stage in enumerate(members, 1)}
    sources = tuple(_sources_in_group(number_of, stage, members[0]) for stage in members)
    if not all(sources) or any(
        name in number_of for stage in members for name in stage.viewed_operands
    ):
        return
    skips = tuple(_skips(members, number_of))
    inner = {number for numbers in sources for number in numbers} | {source for source, _ in skips}
    windows = [stage.window for stage in members]
    areas = {
        window and (window.rows.outputs, window.columns.outputs)
        for number, window in enumerate(windows, 1)
        if number not in inner
    }
    if len(areas) != 1 or None in windows:
        return  # the ends of a group are cut alike, so they have equal rows and columns
    written = frozenset(
        number
        for number, stage in enumerate(members, 1)
        if number in inner
        and (stage.needs_dram or any(not first <= reader < end for reader in stage.readers))
    )
    window, distinct_maps = members[0].window, members[0].distinct_maps
    repeats_maps = window is not None and distinct_maps < window.channels
    input_skips = tuple(_skips(members, {members[0].source: 0}))
    for kept_skips in ((), input_skips) if input_skips else ((),):
        buffered = {*number_of, members[0].source} if kept_skips else number_of.keys()
        operands = operand_numbers(members, buffered)
        group = FusedGroup(
            layers=tuple(_fused_layers(members, buffered)),
            sources=sources,
            skips=(*skips, *kept_skips),
            written=written,
            operands=operands if any(operands) else (),
            distinct_maps=distinct_maps if repeats_maps else None,
            input_bytes=members[0].source_bytes,
        )
        if computes_all_written(group):
            yield group


def _sources_in_group(
    number_of: Mapping[str, int], stage: TrafficStage, start: TrafficStage
) -> tuple[int, ...]:
    """Numbers of the group's maps that a stage's window slides over; none if any lies outside."""
    unmatched, numbers = stage.sources, []
    while unmatched:
        if unmatched[0] in number_of:
            numbers.append(number_of[unmatched[0]])
            unmatched = unmatched[1:]
        elif unmatched[: len(start.sources)] == start.sources:
            numbers.append(0)
            unmatched = unmatched[len(start.sources) :]
        else:
            return ()
    return tuple(numbers)


def _skips(members: Sequence[TrafficStage], number_of: Mapping[str, int]) -> Iterator[Skip]:
    """Pairs (map, layer) of elementwise reads of the numbered tensors."""
    for number, stage in enumerate(members, 1):
        yield from ((number_of[name], number) for name in stage.operands if name in number_of)


def _fused_layers(
    members: Sequence[TrafficStage], buffered: Collection[str]
) -> Iterator[FusedLayer]:
    """The windows of the stages, with the operands that are not in the buffer."""
    for stage in members:
        if stage.window is not None:
            from_dram = [index for index, name in enumerate(stage.operands) if name not in buffered]
            sizes = tuple(stage.window.bytes_by_operand[index] for index in from_dram)
            yield replace(stage.window, dram_operands=len(sizes), operand_bytes=sizes)
