"""A network as stages in one order: a layer that moves data, with what works on its output in place.

A window slides over maps in a convolution, a pooling, and a fully connected layer (one window over
all of its input). What works element by element after it, an addition with its other operands too,
is of the same stage where nothing else reads what it works on. Concatenations, slices and reshapes
move nothing: the stage that produces their input writes it to its position in the result. Other layers
are stages of their own. Parameters beside weights of windows and matrices, such as biases, are not
counted. Runs of stages that can run fused are groups.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from cnn2csdf import operators as op
from cnn2csdf.network import Layer, Network
from cnn2csdf.parameters import ElementSizes
from planners.traffic.convolution import ConvolutionLoops, convolution_of, is_loop_nest
from planners.traffic.fused.axis_cuts import makes_what_it_writes
from planners.traffic.fused.group import (
    INPUT,
    PART_OF_OTHERS,
    FusedGroup,
    FusedLayer,
    Skip,
    count,
)
from planners.traffic.fused.reading import (
    fused_layer,
    maps_of,
    parameters_read,
    read_of,
    whole_of,
    window_of,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TraversalStep:
    """A stage of a network: layers that DRAM traffic is counted for together.

    layers: their names; the last names the output of the stage. source: the tensor that the window
    slides over; sources: the tensors that are concatenated in it. beside: the operands that the stage
    reads elementwise; in_views: tensors that views among these operands show. window: the layer as
    windows on maps, None for other kinds; convolution: its loops, if it has weights. leaves: whether
    some reader needs the result in DRAM. readers: positions of the stages that read the result,
    directly or through a view. shown: for the source and each operand, the tensors that it shows.
    maps_apart: maps of the source that share no elements. source_bytes, element_bytes: bytes per
    element of the source, and of the result. For other kinds, reads and parameters: bytes of all
    inputs, and of parameters; least_reads: bytes of both that the output certainly depends on.
    """

    layers: tuple[str, ...]
    source: str
    sources: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()
    in_views: tuple[str, ...] = ()
    window: FusedLayer | None = None
    convolution: ConvolutionLoops | None = None
    outputs: int
    shown: tuple[frozenset[str], ...] = ()
    maps_apart: int = 0
    source_bytes: int = 1
    element_bytes: int = 1
    reads: int = 0
    parameters: int = 0
    least_reads: int = 0
    leaves: bool = False
    readers: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        """The layer whose tensor is the result of the stage."""
        return self.layers[-1]

    @property
    def output_bytes(self) -> int:
        """Bytes of the result."""
        return self.outputs * self.element_bytes


def stages_of(network: Network, sizes: ElementSizes | None = None) -> tuple[TraversalStep, ...]:
    """Return the stages, each after those it reads; long chains are not interrupted by branches.

    sizes: of elements; none given: of one byte each, so that elements are counted.
    """
    made = _made(network, sizes or ElementSizes(network, 1))
    by_name = {stage.name: stage for stage in made}
    order = [by_name[name] for name in _order(network, by_name)]
    place = {stage.name: number for number, stage in enumerate(order)}
    return tuple(_with_neighbours(network, stage, order, place) for stage in order)


def _made(network: Network, sizes: ElementSizes) -> list[TraversalStep]:
    """All stages, in the order of the layers that end them."""
    consumers, depth = network.consumers, _depths(network)
    made: dict[str, TraversalStep] = {}  # by the layer that ends it, as far as is known
    for layer in network.layers:
        if layer.is_end or layer.operator.is_view:
            continue
        if not _is_in_place(network, layer):
            made[layer.name] = _stage(network, layer, sizes)
            continue
        open_ends = [
            name
            for name in layer.inputs
            if name in made and made[name].window and len(consumers[name]) == 1
        ]
        main = max(open_ends or layer.inputs, key=depth.__getitem__)
        stage = made.pop(main) if open_ends else _windowed(network, layer, main, sizes)
        made[layer.name] = _with_in_place(stage, layer, main, sizes)
    return list(made.values())


def _with_in_place(
    stage: TraversalStep, layer: Layer, main: str, sizes: ElementSizes
) -> TraversalStep:
    """The stage with a layer that works on its output, or that it consists of."""
    new = list(layer.inputs)
    new.remove(main)
    layers = stage.layers if stage.name == layer.name else (*stage.layers, layer.name)
    beside, element = (*stage.beside, *new), sizes.of(layer.name)
    window = stage.window and replace(
        stage.window,
        output_bytes=element,
        beside=len(beside),
        operand_bytes=tuple(map(sizes.of, beside)),
    )
    return replace(stage, layers=layers, beside=beside, window=window, element_bytes=element)


def _depths(network: Network) -> dict[str, int]:
    """Layers on the longest path from an input."""
    depth: dict[str, int] = {}
    for layer in network.layers:
        depth[layer.name] = 1 + max((depth[name] for name in layer.inputs), default=0)
    return depth


def _is_in_place(network: Network, layer: Layer) -> bool:
    """Whether each element of the output needs just the elements at its place."""
    operator, constant = layer.operator, layer.operator.constant_dims
    if not operator.is_elementwise or operator.is_view:
        return False
    is_small = constant is None or prod(constant) <= maps_of(layer.shape)[0]
    return is_small and set(network.input_shapes(layer)) == {layer.shape}


def _stage(network: Network, layer: Layer, sizes: ElementSizes) -> TraversalStep:
    """The stage that a layer starts."""
    if window_of(network, layer) is not None:
        return _windowed(network, layer, layer.inputs[0], sizes)
    parameters = sizes.of_parameters(layer)
    inputs = zip(layer.inputs, network.input_shapes(layer), strict=True)
    bytes_of_inputs = {name: shape.elements * sizes.of(name) for name, shape in inputs}
    return TraversalStep(
        layers=(layer.name,),
        source=layer.inputs[0],
        outputs=layer.shape.elements,
        source_bytes=sizes.of(layer.inputs[0]),
        element_bytes=sizes.of(layer.name),
        reads=sum(bytes_of_inputs.values()),
        parameters=parameters,
        least_reads=_least_reads(network, layer, parameters, sizes),
    )


def _least_reads(network: Network, layer: Layer, parameters: int, sizes: ElementSizes) -> int:
    """Bytes that all of the output of a layer depends on, each counted once."""
    whole, seen = whole_of(layer.shape), set[str]()
    bytes_read = parameters_read(network, layer, whole, parameters)
    for index, name in enumerate(layer.inputs):
        tensors = set(_viewed(network, name))
        if not tensors & seen:
            bytes_read += count(read_of(network, layer, index, whole)) * sizes.of(name)
        seen |= tensors
    return bytes_read


def _windowed(network: Network, layer: Layer, source: str, sizes: ElementSizes) -> TraversalStep:
    """The stage of a layer that slides a window, or looks at single elements."""
    window = window_of(network, layer)
    is_single = window is None
    if window is None:
        window = fused_layer(network.layer(source).shape, layer.shape, op.Window(kernel=(1, 1)))
    return TraversalStep(
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
        if is_single or not is_loop_nest(layer)
        else convolution_of(network, layer),
        outputs=layer.shape.elements,
    )


def _order(network: Network, stages: Mapping[str, TraversalStep]) -> Iterator[str]:
    """Names of stages, each after those it reads; of branches that meet, the deepest comes last."""
    depth = _depths(network)
    done: set[str] = set()
    waiting = [
        (layer.name, False)
        for layer in sorted(network.outputs, key=lambda output: -depth[output.name])
    ]
    while waiting:
        name, is_ready = waiting.pop()
        if name in done:
            continue
        if is_ready:
            done.add(name)
            if name in stages:
                yield name
            continue
        stage = stages.get(name)
        read = network.layer(name).inputs if stage is None else _read_by(network, stage)
        waiting.append((name, True))
        waiting += [(source, False) for source in sorted(read, key=lambda source: -depth[source])]


def _read_by(network: Network, stage: TraversalStep) -> tuple[str, ...]:
    if stage.window is None:
        return network.layer(stage.name).inputs
    return (stage.source, *stage.beside)


def _with_neighbours(
    network: Network, stage: TraversalStep, order: list[TraversalStep], place: Mapping[str, int]
) -> TraversalStep:
    """The stage with whose maps it reads, and who reads what it leaves."""
    stage_of = {name: stage for stage in order for name in stage.layers}
    windowed = [
        stage_of.get(name)
        for name in _consumers(network, stage.name)
        if name in stage_of or network.layer(name).is_output
    ]
    readers = {
        place[stage.name] for stage in windowed if stage is not None and stage.window is not None
    }
    sources = tuple(_joined(network, stage.source))
    return replace(
        stage,
        maps_apart=_maps_apart(network, sources),
        shown=tuple(frozenset(_viewed(network, name)) for name in (stage.source, *stage.beside)),
        sources=sources,
        in_views=tuple(
            viewed for name in stage.beside for viewed in _viewed(network, name) if viewed != name
        ),
        readers=tuple(sorted(readers)),
        leaves=any(stage is None or stage.window is None for stage in windowed),
    )


def _maps_apart(network: Network, sources: Sequence[str]) -> int:
    """The number of feature maps of tensors that certainly share no element."""
    seen, maps = set[str](), 0
    for name in sources:
        tensors = set(_viewed(network, name))
        if not tensors & seen:
            maps += maps_of(network.layer(name).shape)[0]
        seen |= tensors
    return maps


def _joined(network: Network, name: str) -> Iterator[str]:
    """The tensors that are concatenated by channel in a tensor; without a concatenation, itself."""
    layer = network.layer(name)
    if layer.operator.joined_axis != 0:
        yield name
        return
    for input_ in layer.inputs:
        yield from _joined(network, input_)


def _viewed(network: Network, name: str) -> Iterator[str]:
    """The tensors that a tensor is a view of, or itself."""
    layer = network.layer(name)
    if not layer.operator.is_view:
        yield name
        return
    for input_ in layer.inputs:
        yield from _viewed(network, input_)


def operands_of(
    stages: Sequence[TraversalStep], inside: Collection[str]
) -> tuple[tuple[int, ...], ...]:
    """Return which tensor each operand from DRAM is, of stages that slide over one input.

    inside: tensors that are no operands from DRAM. Numbers are as FusedGroup has them.
    """
    start = stages[0]
    numbers, tensors_shown = {start.source: INPUT}, set(start.shown[0])
    stages_found = []
    for stage in stages:
        of_stage = []
        for name, tensors in zip(stage.beside, stage.shown[1:], strict=True):
            if name in inside:
                continue
            if name not in numbers:
                numbers[name] = PART_OF_OTHERS if tensors & tensors_shown else len(numbers)
                tensors_shown |= tensors
            of_stage.append(numbers[name])
        stages_found.append(tuple(of_stage))
    return tuple(stages_found)


def _consumers(network: Network, name: str) -> Iterator[str]:
    """The layers that read a tensor, as such or in a view."""
    for consumer in network.consumers[name]:
        if network.layer(consumer).operator.is_view:
            yield from _consumers(network, consumer)
        else:
            yield consumer


def groups_of(stages: Sequence[TraversalStep], first: int, end: int) -> Iterator[FusedGroup]:
    """Return the fused groups that stages [first, end) can form; none where they cannot be fused.

    They differ in whether an input that is added later waits for that or is read twice.
    """
    chosen = stages[first:end]
    if len(chosen) < 2:
        return
    place = {stage.name: number for number, stage in enumerate(chosen, 1)}
    sources = tuple(_sources_in(place, stage, chosen[0]) for stage in chosen)
    if not all(sources) or any(name in place for stage in chosen for name in stage.in_views):
        return
    skips = tuple(_skips(chosen, place))
    read = {number for numbers in sources for number in numbers} | {source for source, _ in skips}
    if not _are_cut_alike(stage for number, stage in enumerate(chosen, 1) if number not in read):
        return
    written = frozenset(
        number
        for number, stage in enumerate(chosen, 1)
        if number in read and _is_read_beyond(stage, first, end)
    )
    if any(stage.window is None for stage in chosen):
        return
    window, apart = chosen[0].window, chosen[0].maps_apart
    repeats_maps = window is not None and apart < window.channels
    added = tuple(_skips(chosen, {chosen[0].source: 0}))
    for waiting in ((), added) if added else ((),):
        inside = {*place, chosen[0].source} if waiting else place.keys()
        operands = operands_of(chosen, inside)
        group = FusedGroup(
            layers=tuple(_layers(chosen, inside)),
            sources=sources,
            skips=(*skips, *waiting),
            written=written,
            operands=operands if any(operands) else (),
            maps_apart=apart if repeats_maps else None,
            input_bytes=chosen[0].source_bytes,
        )
        if makes_what_it_writes(group):
            yield group


def _sources_in(
    place: Mapping[str, int], stage: TraversalStep, start: TraversalStep
) -> tuple[int, ...]:
    """The maps of a group that the window of a stage slides over; none where others are needed."""
    left, positions = stage.sources, []
    while left:
        if left[0] in place:
            positions.append(place[left[0]])
            left = left[1:]
        elif left[: len(start.sources)] == start.sources:
            positions.append(0)
            left = left[len(start.sources) :]
        else:
            return ()
    return tuple(positions)


def _skips(chosen: Sequence[TraversalStep], place: Mapping[str, int]) -> Iterator[Skip]:
    """The tensors with a place that stages read element by element."""
    for number, stage in enumerate(chosen, 1):
        yield from ((place[name], number) for name in stage.beside if name in place)


def _are_cut_alike(ends: Iterable[TraversalStep]) -> bool:
    """Whether all of these make equally many rows and columns."""
    windows = [stage.window for stage in ends]
    return (
        len({window and (window.rows.outputs, window.columns.outputs) for window in windows}) == 1
    )


def _is_read_beyond(stage: TraversalStep, first: int, end: int) -> bool:
    """Whether someone outside stages [first, end) reads what a stage leaves."""
    return stage.leaves or any(not first <= reader < end for reader in stage.readers)


def _layers(chosen: Sequence[TraversalStep], inside: Collection[str]) -> Iterator[FusedLayer]:
    """The layers with their operands from DRAM; inside: tensors that are in the buffer."""
    for stage in chosen:
        if stage.window is not None:
            outside = [place for place, name in enumerate(stage.beside) if name not in inside]
            sizes = tuple(stage.window.beside_bytes[place] for place in outside)
            yield replace(stage.window, beside=len(sizes), operand_bytes=sizes)
