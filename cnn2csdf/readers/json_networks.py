"""Networks from the JSON files of a published tool for memory reuse.

Source of the format: Minakova and Stefanov, Memory-Throughput Trade-off for CNN-Based Applications
at the Edge, ACM TODAES 28(1), 2022. A layer of the format is an operator with fused operators after
it. Its stated sizes are authoritative; its padding is computed from them. The reader checks the
stated layers and connections and converts each layer to an operator with an epilogue.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field
from math import isqrt

from cnn2csdf import operators as op
from cnn2csdf.geometry import window_places
from cnn2csdf.network import Layer, Network, Shape
from cnn2csdf.operators.elementwise import broadcast
from cnn2csdf.readers.reading_order import reading_order
from csdf.errors import InvalidNetwork, UnreadableFile, UnsupportedOperator
from csdf.io.json_value import JsonValue
from csdf.names import longer_name

INPUT = ("data", "input")
JOINS = ("concat", "Lambda")  # their stated input is that of one of their predecessors
LARGEST = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedLayer:
    """The facts that the file states about a layer."""

    name: str
    kind: tuple[str, str]  # op, subop
    kernel: int  # fs
    stride: int
    reads: Shape  # ifm, ih, iw
    writes: Shape  # ofm, oh, ow
    pads: tuple[float, ...]  # as stated: top, left, bottom, right, often wrong
    fused: tuple[str, ...]  # in their order behind the layer


def parse_json_network(text: str, name: str, *, repair: bool = False) -> Network:
    """Return the network of a JSON text. name: of the file.

    Layers keep their names and, where connections allow, their order. A layer without predecessors
    gets an input, a layer without successors an output. An "activation" of unstated kind is read as
    a ReLU.

    repair: if stated sizes contradict the preceding layers, use the sizes that follow from the
    operators; json_contradictions lists the contradictions.

    Raises UnreadableFile, UnsupportedOperator or InvalidNetwork, naming the layer.
    """
    network, contradictions = _read(text, name)
    if contradictions and not repair:
        contradictions_left = len(contradictions) - 1
        more = f" (and {contradictions_left} more)" if contradictions_left else ""
        raise InvalidNetwork(
            f"{contradictions[0]}{more}; repair it to go on with the shapes that follow"
        )
    return network


def json_contradictions(text: str, name: str) -> tuple[str, ...]:
    """Return a line for each layer whose stated sizes contradict its inputs and attributes."""
    return _read(text, name)[1]


def _read(text: str, file: str) -> tuple[Network, tuple[str, ...]]:
    description = parse_description(text, file)
    assembly = _Assembly(
        file=file,
        taken={layer.name for layer in description.layers},
        has_one_root=sum(not sources for sources in description.sources.values()) == 1,
    )
    for stated in description.layers:
        try:
            assembly.add(stated, description.sources[stated.name])
        except UnsupportedOperator as error:
            raise UnsupportedOperator(f"{file}: {error}") from None
        except InvalidNetwork as error:
            raise InvalidNetwork(f"{file}: layer {stated.name!r}: {error}") from None
    assembly.close(description.sources)
    network = Network(name=description.name, layers=tuple(assembly.layers.values()))
    return network, tuple(assembly.contradictions)


@dataclass(slots=True, kw_only=True)
class _Assembly:
    """The layers so far."""

    file: str
    taken: set[str]  # names
    has_one_root: bool  # whether there is only one layer without predecessors
    layers: dict[str, Layer] = field(default_factory=dict)
    contradictions: list[str] = field(default_factory=list)

    def add(self, stated: StatedLayer, sources: tuple[str, ...]) -> None:
        """Add a layer after its sources; record contradictions to its stated sizes."""
        # The fused operators after the layer, in order.
        fused: list[op.Operator] = []
        for word in stated.fused:
            if word not in FUSED:
                raise UnsupportedOperator(
                    f"layer {stated.name!r}: fused operator {word!r} is unknown"
                )
            operator = FUSED[word]
            # Inference folds a batch normalisation right after a convolution into its weights.
            is_folded = isinstance(operator, op.BatchNormalization) and stated.kind in CONVOLUTIONS
            if operator is not None and (fused or not is_folded):
                fused.append(operator)
        epilogue = tuple(fused)
        if stated.kind == INPUT:
            if epilogue:
                raise UnsupportedOperator(f"layer {stated.name!r}: operators fused with an input")
            self._add(stated.name, op.Input(dims=stated.writes.dims), sources)
            return
        if not sources:
            wanted = "input" if self.has_one_root else f"input_{stated.name}"
            sources = (self._free(wanted),)
            self._add(sources[0], op.Input(dims=presumed_input(stated).dims), ())
        shapes = [self.layers[source].shape for source in sources]
        if stated.kind in OUTPUTS:
            is_rectified = stated.kind[0] == "relu"
            epilogue = (op.Activation(function="relu"), *epilogue) if is_rectified else epilogue
            self._add(stated.name, op.Output(), sources, epilogue)
        else:
            self._add(stated.name, stated_operator(stated, shapes), sources, epilogue)
        self._compare(stated, shapes, self.layers[stated.name].shape)

    def close(self, sources: dict[str, tuple[str, ...]]) -> None:
        """Add an output after each layer without successors."""
        read = {source for producers in sources.values() for source in producers}
        unread = [name for name in sources if name not in read and not self.layers[name].is_output]
        for name in unread:
            wanted = "output" if len(unread) == 1 else f"output_{name}"
            self._add(self._free(wanted), op.Output(), (name,))

    def _add(
        self,
        name: str,
        operator: op.Operator,
        sources: tuple[str, ...],
        epilogue: tuple[op.Operator, ...] = (),
    ) -> None:
        shape = operator.output_shape([self.layers[source].shape for source in sources])
        self.layers[name] = Layer(
            name=name, operator=operator, inputs=sources, shape=shape, epilogue=epilogue
        )

    def _free(self, wanted: str) -> str:
        name = longer_name(wanted, self.taken)
        self.taken.add(name)
        return name

    def _compare(self, stated: StatedLayer, inputs: list[Shape], computed: Shape) -> None:
        shapes_read = stated.reads
        if stated.kind[0] not in JOINS:
            # The shape that an operator reads when an input is repeated to the size of the others.
            shapes_read = Shape(dims=broadcast([shape.dims for shape in inputs]))
        if _agree(shapes_read, stated.reads) and _agree(computed, stated.writes):
            return
        self.contradictions.append(
            f"{self.file}: layer {stated.name!r} states that it reads {stated.reads} and writes "
            f"{stated.writes}, but it reads {shapes_read} and writes {computed}"
        )


def _agree(computed: Shape, stated: Shape) -> bool:
    """Whether two shapes are the same, up to a flattening."""
    if stated.dims[1:] == (1, 1) or not computed.is_map:
        return computed.elements == stated.elements
    return computed == stated


CONVOLUTIONS = (("conv", "conv"), ("conv", "depthwiseconv"))
POOLINGS = {("pool", "maxpool"): "max", ("pool", "averagepool"): "average"}
OUTPUTS = (("data", "output"), ("relu", "output"))
ARITHMETIC = {"add": "add", "sub": "subtract", "mul": "multiply", "div": "divide"}
RELU = op.Activation(function="relu")
FUSED: dict[str, op.Operator | None] = {
    "relu": RELU,
    "activation": RELU,  # of a kind that the file does not tell
    "leakyrelu": op.Activation(function="leaky relu", parameters=(0.1,)),  # Darknet's slope
    "sigmoid": op.Activation(function="sigmoid"),
    "tanh": op.Activation(function="tanh"),
    "batchnormalization": op.BatchNormalization(),
    "normalization": op.BatchNormalization(),
    "lrn": op.LocalResponseNormalization(size=5),  # AlexNet's and GoogLeNet's
    "dropout": None,
    "reshape": None,
    "flatten": None,
    "constant": None,
    "padding": None,  # it is in the sizes
}


def stated_operator(layer: StatedLayer, inputs: Sequence[Shape]) -> op.Operator:
    """Return the operator of a layer that reads these shapes.

    A convolution and a gemm have a bias, a matmul has none; arithmetic with one input has a trained
    operand for each feature map; a Lambda adds its inputs (a residual connection).
    Raises UnsupportedOperator where the kind is unknown.
    """
    if layer.kind in CONVOLUTIONS:
        groups = inputs[0].channels if layer.kind[1] == "depthwiseconv" else 1
        return op.Convolution(
            filters=layer.writes.channels, window=stated_window(layer), groups=groups
        )
    if layer.kind in POOLINGS:
        return op.Pooling(function=POOLINGS[layer.kind], window=stated_window(layer))
    match layer.kind:
        case ("pool", "globalaveragepool"):
            return op.GlobalPooling(function="average")
        case ("gemm", "gemm" | "matmul"):
            return op.FullyConnected(units=layer.writes.elements, has_bias=layer.kind[1] == "gemm")
        case ("softmax", "softmax"):
            return op.Softmax(axis=0)
        case ("arithmetic", function) if function in ARITHMETIC:
            return _arithmetic(ARITHMETIC[function], inputs)
        case ("concat", "concat" | "concatenate"):
            return op.Concatenation()
        case ("activation", function) if isinstance(FUSED.get(function), op.Activation):
            return FUSED[function] or RELU
        case ("Lambda", "lambda"):
            return _arithmetic("add", inputs) if len(inputs) > 1 else op.Identity(kind="lambda")
        case ("Rescaling", "rescaling"):
            # Constant factors count for nothing; what is left is the padding fused behind them.
            rows = layer.writes.height - layer.reads.height
            columns = layer.writes.width - layer.reads.width
            if not (rows or columns):
                return op.Identity(kind="rescaling")
            top, left = rows // 2, columns // 2
            return op.Pad(padding=(top, left, rows - top, columns - left))
    raise UnsupportedOperator(f"layer {layer.name!r}: operator {'/'.join(layer.kind)!r} is unknown")


def _arithmetic(function: str, inputs: Sequence[Shape]) -> op.Elementwise:
    if len(inputs) > 1:
        return op.Elementwise(function=function)
    (shape,) = inputs
    dims = (shape.channels, 1, 1) if shape.is_map else shape.dims
    return op.Elementwise(function=function, constant=dims)


def is_possible(layer: StatedLayer) -> bool:
    """Whether a window can compute the stated output from the stated input.

    It cannot if a window position would contain only padding, unless the file fuses a padding layer.
    Such a position begins more than kernel - 1 before the input or ends more than kernel - 1 after it,
    so the padding of both sides is at most 2 * (kernel - 1).
    """
    if layer.kind not in CONVOLUTIONS and layer.kind not in POOLINGS:
        return True
    reads, (height, width) = layer.reads, _window_positions(layer)
    most_padding = 2 * (layer.kernel - 1)
    return "padding" in layer.fused or all(
        (positions - 1) * layer.stride + layer.kernel - size <= most_padding
        for positions, size in ((height, reads.height), (width, reads.width))
    )


def presumed_input(layer: StatedLayer) -> Shape:
    """Return the stated input; if it is impossible, an input of output positions times stride."""
    if is_possible(layer):
        return layer.reads
    height, width = _window_positions(layer)
    return Shape(dims=(layer.reads.channels, height * layer.stride, width * layer.stride))


def stated_window(layer: StatedLayer) -> op.Window:
    """Return the window that makes the stated output of the presumed input.

    Its padding is the stated one where that fits; otherwise what the sizes ask for, the smaller
    half in front.
    """
    size = presumed_input(layer)
    sides = (layer.kernel, layer.kernel)
    strides = (layer.stride, layer.stride)
    positions = _window_positions(layer)
    if len(layer.pads) == 4 and all(
        (-LARGEST <= pad <= LARGEST and pad == int(pad)) for pad in layer.pads
    ):
        top, left, bottom, right = (int(pad) for pad in layer.pads)
        window = op.Window(kernel=sides, stride=strides, padding=(top, left, bottom, right))
        with suppress(InvalidNetwork):
            if window_places(window, size.height, size.width) == positions:
                return window
    # What is missing, the smaller half in front; nothing where rows or columns are left over.
    high, wide = (
        max(0, (count - 1) * layer.stride + layer.kernel - length)
        for count, length in zip(positions, (size.height, size.width), strict=True)
    )
    padding = (high // 2, wide // 2, high - high // 2, wide - wide // 2)
    return op.Window(kernel=sides, stride=strides, padding=padding)


def _window_positions(layer: StatedLayer) -> tuple[int, int]:
    """Rows and columns of the output, before a fused flattening of square maps.

    Example: a pooling of 256 feature maps with a flattened output of 256 * 36 x 1 x 1 writes 6 x 6.
    """
    writes = layer.writes
    pixels, rest = divmod(writes.channels, layer.reads.channels)
    side = isqrt(pixels)
    is_flat = bool({"reshape", "flatten"} & set(layer.fused)) and writes.dims[1:] == (1, 1)
    if layer.kind in POOLINGS and is_flat and not rest and side * side == pixels:
        return (side, side)
    return (writes.height, writes.width)


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """The layers of a file in topological order; sources: names of what each one reads."""

    name: str
    layers: tuple[StatedLayer, ...]
    sources: dict[str, tuple[str, ...]]


def parse_description(text: str, file: str) -> Description:
    """Return the layers of a file and their connections.

    Raises UnreadableFile with the location of a missing or mistyped value, InvalidNetwork if the
    connections form a cycle.
    """
    document = JsonValue.parse_as_python(text, file)
    if isinstance(document.value, dict) and "actors" in document.value:
        raise UnreadableFile(
            f"{file}: a dataflow graph; expected a network. csdf analyze reads graphs"
        )
    name = _text(document["name"])
    entries = list(document["_DNN__layers"].items())
    if not entries:
        raise document["_DNN__layers"].refusal("expected at least one layer")
    layers = [_layer(entry) for entry in entries]
    names = _names_by_id(entries, layers)
    sources: dict[str, list[str]] = {layer.name: [] for layer in layers}
    for connection in document["_DNN__connections"].items():
        producer, consumer = (_name_at(connection[key], names) for key in ("src", "dst"))
        sources[consumer].append(producer)
    inputs = {consumer: tuple(producers) for consumer, producers in sources.items()}
    return Description(name=name, layers=_ordered(layers, inputs, file), sources=inputs)


def _names_by_id(entries: list[JsonValue], layers: list[StatedLayer]) -> dict[int, str]:
    """Return the layer of each id, by name. Raises UnreadableFile for duplicate ids or names."""
    names: dict[int, str] = {}
    used: set[str] = set()
    for entry, layer in zip(entries, layers, strict=True):
        number = entry["id"].whole(0, LARGEST)
        if number in names:
            raise entry["id"].refusal("another layer has this id")
        if layer.name in used:
            raise entry["name"].refusal("another layer has this name")
        names[number] = layer.name
        used.add(layer.name)
    return names


def _text(value: JsonValue) -> str:
    if not value.text():
        raise value.refusal("expected a text")
    return value.text()


def _name_at(value: JsonValue, names: dict[int, str]) -> str:
    number = value.whole(0, LARGEST)
    if number not in names:
        raise value.refusal("no layer has this id")
    return names[number]


def _layer(entry: JsonValue) -> StatedLayer:
    return StatedLayer(
        name=_text(entry["name"]),
        kind=(_text(entry["op"]), _text(entry["subop"])),
        kernel=entry["fs"].whole(1, LARGEST),
        stride=entry["stride"].whole(1, LARGEST),
        reads=Shape(dims=tuple(entry[key].whole(1, LARGEST) for key in ("ifm", "ih", "iw"))),
        writes=Shape(dims=tuple(entry[key].whole(1, LARGEST) for key in ("ofm", "oh", "ow"))),
        pads=tuple(pad.number() for pad in entry["pads"].items()),
        fused=tuple(_text(fused) for fused in entry["fused_ops"].items()),
    )


def _ordered(
    layers: list[StatedLayer], sources: dict[str, tuple[str, ...]], file: str
) -> tuple[StatedLayer, ...]:
    """Return the layers in topological order, otherwise in the order of the file."""
    indices = {layer.name: index for index, layer in enumerate(layers)}
    read = {indices[name]: [indices[source] for source in sources[name]] for name in indices}
    ordered = [layers[index] for index in reading_order(read)]
    if len(ordered) < len(layers):
        waiting = indices.keys() - {layer.name for layer in ordered}
        raise InvalidNetwork(f"{file}: the layers {_cycle(waiting, sources)} form a cycle")
    return tuple(ordered)


def _cycle(waiting: Set[str], sources: dict[str, tuple[str, ...]]) -> str:
    """Return a cycle among layers that all have an unordered predecessor."""
    path: list[str] = [min(waiting)]
    while True:
        before = next(source for source in sources[path[-1]] if source in waiting)
        if before in path:
            cycle = path[path.index(before) :]
            return ", ".join(repr(name) for name in reversed(cycle))
        path.append(before)
