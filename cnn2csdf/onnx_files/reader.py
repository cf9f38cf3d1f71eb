"""Reading a network from an ONNX file: its nodes in running order, then layers by a table.

Before that, a choice between two graphs whose condition no frame changes becomes the nodes of the
graph chosen, and an operator of ONNX Runtime between integers (QLinearConv and its like) the steps
that it stands for: nodes that make its inputs real by their scales and zero points, the operator
itself, and one that stores its output; quantized_layers reads those as one layer again.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from functools import partial

import onnx
from onnx import helper, numpy_helper

from cnn2csdf.onnx_files.compositions import composition
from cnn2csdf.onnx_files.conversion import (
    dynamic,
    elementwise,
    extended,
    moves,
    normalizations,
    products,
    windows,
)
from cnn2csdf.onnx_files.conversion.assembly import OnnxAssembly
from cnn2csdf.onnx_files.conversion.windows import over_lines
from cnn2csdf.onnx_files.graph_values import GraphValues
from cnn2csdf.onnx_files.input_dims import (
    Dims,
    OpenSizes,
    constant_input,
    inputs_dims,
    require_known_names,
    usual_sizes,
    words_for,
)
from cnn2csdf.onnx_files.model_file import (
    between,
    cuts_around_nodes,
    opset_versions,
    read_model_file,
)
from cnn2csdf.onnx_files.nodes import (
    NodeRefusal,
    OnnxNode,
    RefusedNodes,
    attribute_value,
    node_of,
    refusal_of_all,
    unknown,
    unsupported,
)
from cnn2csdf.onnx_files.patterns import layer_nodes
from cnn2csdf.parameters import with_shared_names
from cnn2csdf.quantized_layers import with_integers
from cnn2csdf.readers.between_tensors import words_that_read
from cnn2csdf.readers.reading_order import reading_order
from cnn2csdf.weights import Model
from csdf.errors import InvalidNetwork, UnreadableFile, UnsupportedOperator, counted


def read_onnx(
    path: str,
    *,
    shapes: Mapping[str, Dims] | None = None,
    constants: Mapping[str, float] | None = None,
    inputs: Sequence[str] = (),
    outputs: Sequence[str] = (),
    with_weights: bool = False,
) -> Model:
    """Return the network in an ONNX file, of opset 7 or newer, for frames one at a time.

    shapes: dims of graph inputs, the batch of one in front, instead of those in the file; or the
    size of a dim by the name that the file gives it. Needed where the file leaves dims other than
    the batch open. constants: inputs that have the same number in all elements of every frame.
    inputs, outputs: tensors, to read the network between these tensors. Layers are called as their
    nodes, those of nameless nodes as the tensor they write; inputs that no output needs are left
    out. Weights are read only where they are wanted: without, files that hold them may be missing.

    Raises UnreadableFile, UnsupportedOperator (naming all such operators that were found) or
    InvalidNetwork, naming the file and the node.
    """
    shapes, constants = shapes or {}, constants or {}
    try:
        model = between(read_model_file(path), inputs, outputs)
        try:
            return _network(model, path, shapes, constants, with_weights=with_weights)
        except OpenSizes as error:
            words = _words_that_work(model, path, error, shapes, constants)
            example = f"; {words} is read, for example" if words else ""
            raise UnreadableFile(f"{error}{example}") from None
    except RefusedNodes as error:
        words = ""
        if not inputs and not outputs:
            words = words_that_read(
                cuts_around_nodes(model, error.names),
                str,
                lambda begin, until: read_onnx(
                    path, shapes=shapes, constants=constants, inputs=begin, outputs=until
                ),
            )
        raise UnsupportedOperator(f"{path}: {error}{words}") from None
    except UnsupportedOperator as error:
        raise UnsupportedOperator(f"{path}: {error}") from None
    except (UnreadableFile, InvalidNetwork) as error:
        raise type(error)(f"{path}: {error}") from None


def _words_that_work(
    model: onnx.ModelProto,
    path: str,
    open_sizes: OpenSizes,
    shapes: Mapping[str, Dims],
    constants: Mapping[str, float],
) -> str | None:
    """Return words of a command line with which the file is read; None where no usual sizes fit."""
    numbers = {name: _compared_number(model, name) for name in open_sizes.scalars}
    metadata = {entry.key: entry.value for entry in model.metadata_props}
    for chosen in usual_sizes(open_sizes, metadata):
        sizes = {name: tuple(dims) for name, dims in chosen.items()}
        try:
            _network(model, path, {**shapes, **sizes}, {**constants, **numbers}, with_weights=False)
        except (UnreadableFile, UnsupportedOperator, InvalidNetwork):
            continue
        words = [
            word
            for name, dims in chosen.items()
            for word in words_for(name, open_sizes.sizes[name], dims)
        ]
        words += [f"--constant {name}={number:g}" for name, number in numbers.items()]
        return " ".join(dict.fromkeys(words))
    return None


USUAL_NUMBERS = {"sr": 16000.0, "sample_rate": 16000.0, "sampling_rate": 16000.0}  # of speech


def _compared_number(model: onnx.ModelProto, name: str) -> float:
    """Return the first constant that a scalar input is compared with; else a usual one, or 1."""
    numbers: dict[str, float] = {}
    tensors = [(initializer.name, initializer) for initializer in model.graph.initializer]
    for proto in model.graph.node:
        for attribute in proto.attribute if proto.op_type == "Constant" and proto.output else ():
            if attribute.type == onnx.AttributeProto.TENSOR:
                tensors.append((proto.output[0], attribute.t))
            elif attribute.type in (onnx.AttributeProto.INT, onnx.AttributeProto.FLOAT):
                numbers[proto.output[0]] = float(attribute_value(attribute))
    for tensor_name, tensor in tensors:
        if not any(tensor.dims) and tensor.data_location != onnx.TensorProto.EXTERNAL:
            try:
                numbers[tensor_name] = float(numpy_helper.to_array(tensor).reshape(-1)[0])
            except (ValueError, TypeError, IndexError, KeyError):
                continue  # a damaged constant, which reading the file reports
    for proto in model.graph.node:
        if name in proto.input and proto.op_type in ("Equal", "Greater", "Less"):
            for operand in proto.input:
                if operand in numbers:
                    return numbers[operand]
    return USUAL_NUMBERS.get(name, 1.0)


def _network(
    model: onnx.ModelProto,
    path: str,
    shapes: Mapping[str, Dims],
    constants: Mapping[str, float],
    *,
    with_weights: bool,
) -> Model:
    graph, opsets = model.graph, opset_versions(model)
    folder = os.path.dirname(os.path.abspath(path))
    values = GraphValues(graph.initializer, folder=folder, opsets=opsets)
    inputs = [value_info for value_info in graph.input if not values.is_static(value_info.name)]
    require_known_names(shapes, inputs)
    fixed = [value_info for value_info in inputs if value_info.name in constants]
    values.add_constants(
        {value_info.name: constant_input(value_info, constants) for value_info in fixed}
    )
    for name in constants.keys() - {value_info.name for value_info in fixed}:
        listed = ", ".join(repr(value_info.name) for value_info in inputs) or "none"
        raise UnreadableFile(f"there is no input {name!r} to be a constant; inputs: {listed}")
    inputs = [value_info for value_info in inputs if value_info.name not in constants]
    outputs = [output.name for output in graph.output]
    names_given = {value_info.name for value_info in (*graph.input, *graph.initializer)}
    opened = [
        with_captured(node_of(step, with_axes(step, opsets)))
        for proto in graph.node
        for step in steps_of(proto)
    ]
    nodes = ordered_nodes(opened, names_given, outputs)
    if not inputs:
        raise UnreadableFile("the graph has no input")
    read = {name for node in nodes for name in node.inputs} | set(outputs)
    used = [value_info for value_info in inputs if value_info.name in read]
    if not used:
        raise UnreadableFile("no output depends on an input")
    sequences = {
        name for node in nodes if node.op_type in products.KINDS for name in node.inputs[:1]
    }
    dims = inputs_dims(used, shapes, sequences)
    for value_info in used:
        values.add_input(
            value_info.name, value_info.type.tensor_type.elem_type, dims[value_info.name]
        )
    nodes_known, lost = learned(nodes, values, opsets)
    layers, read = layer_nodes(nodes_known, outputs, values, finds_patterns=not lost)
    name = os.path.basename(path).removesuffix(".onnx") or "network"
    assembly = OnnxAssembly(values, name, with_weights=with_weights, read=read)
    for value_info in used:
        assembly.add_input(value_info.name)
    add_layers(assembly, layers, read)
    for name in outputs:
        if not assembly.has(name):
            raise UnreadableFile(f"output {name!r} is the same for every frame")
        assembly.add_output(name)
    weights = assembly.weights if with_weights else None
    network = with_shared_names(assembly.builder.network())
    return with_integers(Model(network=network, weights=weights))


KNOWN = ("Shape", "Size", "IsNaN")  # whose outputs have known types, though none is a layer alone


def learned(
    nodes: Sequence[OnnxNode], values: GraphValues, opsets: Mapping[str, int]
) -> tuple[list[OnnxNode], Set[str]]:
    """Find out types and constants; put the nodes of a chosen branch instead of the choice.

    Returns the nodes and the tensors without known type and dims, since an operator that is not
    supported writes them or something they are computed from.
    """
    nodes_read: list[OnnxNode] = []
    lost: set[str] = set()
    waiting = list(reversed(nodes))
    while waiting:
        node = waiting.pop()
        if node.op_type == "If" and not node.domain and values.is_static(node.required(0)):
            waiting += reversed(chosen_branch(node, values, opsets))
            continue
        is_known = lost.isdisjoint(node.inputs)
        depends_on_frame = not all(values.is_static(name) for name in node.inputs if name)
        composed = composition(node, values) if is_known and depends_on_frame else None
        if composed is not None:
            waiting += reversed(composed)
            continue
        nodes_read.append(node)
        if not lost.isdisjoint(node.inputs):
            lost.update(filter(None, node.outputs))
        elif is_known and extended.extension_of(node) is not None:
            extended.learn(node, values)
        elif (not node.domain and (node.op_type in CONVERTERS or node.op_type in KNOWN)) or all(
            values.is_static(name) for name in node.inputs if name
        ):
            values.add_node(node)
        else:
            lost.update(filter(None, node.outputs))
    return nodes_read, lost


def add_layers(assembly: OnnxAssembly, layers: Sequence[OnnxNode], read: Set[str]) -> None:
    """Add a layer for each node, or several.

    Raises UnsupportedOperator for all nodes together that are not supported; those behind such a
    node are not looked at, unless their operator is not known.
    """
    refusals: list[NodeRefusal] = []
    for node in layers:
        if node.op_type == "If":
            refusals.append(unsupported(node, "its condition is computed from the frame"))
        elif (convert := _converter(node)) is None:
            inside = "an operator with graphs inside is not supported"
            has_graphs = next(_graphs(node.proto), None) is not None
            refusals.append(unsupported(node, inside) if has_graphs else unknown(node))
        # Whether all that it reads is there.
        elif not refusals or all(
            assembly.has(name) or assembly.is_static(name) for name in node.inputs if name
        ):
            try:
                convert(node, assembly)
                for name in node.outputs:
                    if name in read and not assembly.has(name):
                        raise unsupported(node, f"its output {name!r} is not supported")
            except NodeRefusal as refusal:
                refusals.append(refusal)
            except (UnreadableFile, InvalidNetwork):
                if not refusals:
                    raise
    if refusals:
        raise refusal_of_all(refusals)


def _converter(node: OnnxNode) -> Callable[[OnnxNode, OnnxAssembly], None] | None:
    """The function that adds the layers of a node; None for an operator that is not supported."""
    if not node.domain:
        return CONVERTERS.get(node.op_type)
    return None if extended.extension_of(node) is None else extended.extended


DEEPEST = 32  # graphs inside one another


def with_captured(node: OnnxNode) -> OnnxNode:
    """Return the node; what its inner graphs read from around them is read behind its inputs."""
    names = [name for graph in _graphs(node.proto) for name in _captured(graph)]
    more = dict.fromkeys(name for name in names if name not in node.inputs)
    return replace(node, inputs=(*node.inputs, *more)) if more else node


def chosen_branch(node: OnnxNode, values: GraphValues, opsets: Mapping[str, int]) -> list[OnnxNode]:
    """Return the nodes of the branch that the static condition of an If chooses, in running order.

    They write the outputs of the If; their own tensors have its name in front. Constants of the
    branch become known.
    """
    condition = values.value(node.required(0))
    if condition.size != 1:
        raise UnreadableFile(f"{node}: a condition of {condition.size} elements")
    name = "then_branch" if bool(condition.reshape(-1)[0]) else "else_branch"
    attribute = node.attributes.get(name)
    if attribute is None or attribute.type != onnx.AttributeProto.GRAPH:
        raise UnreadableFile(f"{node}: attribute {name} is missing")
    if node.name.count("/branch/") >= DEEPEST:
        raise unsupported(node, f"more than {DEEPEST} graphs inside one another")
    graph = attribute.g
    if len(graph.output) != len(node.outputs):
        raise UnreadableFile(
            f"{node}: {counted(len(node.outputs), 'output')}, but its branch has {len(graph.output)}"
        )
    prefix = f"{node.name}/branch/"
    inner = [initializer.name for initializer in graph.initializer]
    inner += [name for proto in graph.node for name in proto.output if name]
    names = {name: prefix + name for name in inner}
    values.add_constants(
        {names[initializer.name]: initializer for initializer in graph.initializer}
    )
    nodes = [with_captured(node_of(_renamed(node, names, prefix), opsets)) for node in graph.node]
    for ours, theirs in zip(node.outputs, graph.output, strict=True):
        source = names.get(theirs.name, theirs.name)
        copy = onnx.helper.make_node("Identity", [source], [ours], name=f"{prefix}{ours}")
        nodes.append(node_of(copy, opsets))
    made = {name for node in nodes for name in node.outputs}
    names_given = {name for node in nodes for name in node.inputs} - made
    return ordered_nodes(nodes, names_given, node.outputs)


def _renamed(proto: onnx.NodeProto, names: Mapping[str, str], prefix: str) -> onnx.NodeProto:
    """The node with other names of tensors, in the graphs inside it as well."""
    renamed = onnx.NodeProto()
    renamed.CopyFrom(proto)
    renamed.name = prefix + (proto.name or next(filter(None, proto.output), ""))
    renamed.output[:] = [names.get(name, name) for name in proto.output]
    waiting = [renamed]
    while waiting:
        node = waiting.pop()
        node.input[:] = [names.get(name, name) for name in node.input]
        for graph in _graphs(node):
            waiting += graph.node
            made = {name for node in graph.node for name in node.output}
            for output in graph.output:
                if output.name not in made:
                    output.name = names.get(output.name, output.name)
    return renamed


def _graphs(proto: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    for attribute in proto.attribute:
        if attribute.type == onnx.AttributeProto.GRAPH:
            yield attribute.g
        yield from attribute.graphs


def _captured(graph: onnx.GraphProto) -> Iterator[str]:
    """Tensors that a graph, or a graph inside it, reads and does not make."""
    made = {value_info.name for value_info in (*graph.input, *graph.initializer)}
    made |= {name for proto in graph.node for name in proto.output}
    for proto in graph.node:
        inner = [name for graph in _graphs(proto) for name in _captured(graph)]
        yield from (name for name in (*proto.input, *inner) if name and name not in made)
    yield from (output.name for output in graph.output if output.name not in made)


def ordered_nodes(
    nodes: Sequence[OnnxNode], given: Set[str], wanted: Sequence[str]
) -> list[OnnxNode]:
    """Return the nodes behind the wanted tensors, each after those it reads, else as in the file.

    given: tensors that no node has to write. Raises UnreadableFile for a tensor that nothing writes
    or two nodes write, and for a cycle, naming its nodes.
    """
    writers: dict[str, int] = {}
    for place, node in enumerate(nodes):
        for output in filter(None, node.outputs):
            if output in writers or output in given:
                raise UnreadableFile(f"{node} writes {output!r}, which is already there")
            writers[output] = place
    for name in wanted:
        if name not in writers and name not in given:
            raise UnreadableFile(f"output {name!r} is not produced by any node")
    frontier = [writers[name] for name in wanted if name in writers]
    sources: dict[int, set[int]] = {}
    while frontier:
        place = frontier.pop()
        if place in sources:
            continue
        for name in filter(None, nodes[place].inputs):
            if name not in writers and name not in given:
                raise UnreadableFile(f"{nodes[place]} reads {name!r}, which nothing produces")
        sources[place] = {writers[name] for name in nodes[place].inputs if name in writers}
        frontier.extend(sources[place])
    order = reading_order(sources)
    if len(order) < len(sources):
        stuck = sources.keys() - set(order)
        trail = [min(stuck)]  # every stuck node has a stuck one before it: going back must repeat
        while trail[-1] not in trail[:-1]:
            trail.append(min(sources[trail[-1]] & stuck))
        cycle = trail[trail.index(trail[-1]) : -1][::-1]
        first = cycle.index(min(cycle))
        names = [repr(nodes[position].name) for position in (*cycle[first:], *cycle[: first + 1])]
        raise UnreadableFile(f"the graph has a cycle: {' -> '.join(names)}")
    return [nodes[place] for place in order]


RUNTIME = "com.microsoft"
PLAIN = {  # each input is followed by its scale and zero point; those of the output come last
    ("", "QLinearMatMul"): ("MatMul", 2),
    (RUNTIME, "QLinearAdd"): ("Add", 2),
    (RUNTIME, "QLinearMul"): ("Mul", 2),
    (RUNTIME, "QLinearAveragePool"): ("AveragePool", 1),
    (RUNTIME, "QLinearGlobalAveragePool"): ("GlobalAveragePool", 1),
    (RUNTIME, "QLinearLeakyRelu"): ("LeakyRelu", 1),
    (RUNTIME, "QLinearSigmoid"): ("Sigmoid", 1),
    (RUNTIME, "QLinearSoftmax"): ("Softmax", 1),
}
FIRST_WITH_AXES = 13  # opset in which tensors may have a scale for each place along an axis
QUICK_GELU, SKIP_EPSILON = 1.702, 1e-12  # defaults of ONNX Runtime
DROPPED = ("channels_last", "opset")  # attributes that only the integer operators have


def steps_of(node: onnx.NodeProto) -> Iterable[onnx.NodeProto]:
    """Return the node, or the steps that an operator between integers stands for."""
    key = ("" if node.domain == "ai.onnx" else node.domain, node.op_type)
    if key in PLAIN:
        kind, count = PLAIN[key]
        axes = [1 if kind == "MatMul" and number == 1 else None for number in range(count)]
        reals = [(3 * number, axis) for number, axis in enumerate(axes)]
        return _Steps(node).between_integers(kind, reals, stored=3 * count)
    return SPECIAL[key](_Steps(node)) if key in SPECIAL else [node]


def with_axes(proto: onnx.NodeProto, opsets: Mapping[str, int]) -> Mapping[str, int]:
    """Return the opsets by which a node is read: an axis of scales came with opset 13."""
    is_along_axis = any(attribute.name == "axis" for attribute in proto.attribute)
    if proto.op_type not in ("QuantizeLinear", "DequantizeLinear") or not is_along_axis:
        return opsets
    return {**opsets, "": max(opsets.get("", FIRST_WITH_AXES), FIRST_WITH_AXES)}


class _Steps:
    """Makes the nodes of one operator; their tensors are called after its output."""

    def __init__(self, node: onnx.NodeProto) -> None:
        self.node = node
        self.output = node.output[0] if node.output else ""
        self.inputs = list(node.input)

    def input(self, place: int) -> str:
        """Return an input; empty where it is left out."""
        return self.inputs[place] if place < len(self.inputs) else ""

    def name(self, what: str) -> str:
        """Return the name of a tensor between the steps."""
        return f"{self.output} {what}"

    def between_integers(
        self,
        kind: str,
        reals: Sequence[tuple[int, int | None]],
        *,
        stored: int,
        bias: int | None = None,
    ) -> Iterator[onnx.NodeProto]:
        """Make inputs real, compute an operator of real numbers, store what it gives.

        reals: the positions of the inputs, each with scale and zero point after it, and the axis of
        several scales. stored: the position of the scale and zero point of the result. bias: the
        position of a bias, whose scale is the product of the scales of inputs 0 and 3.
        """
        made = [self.name(f"real {number}") for number in range(len(reals))]
        for real, (place, axis) in zip(made, reals, strict=True):
            names = [self.input(place), self.input(place + 1), self.input(place + 2)]
            if not names[0] or not names[1]:
                raise UnreadableFile(f"node {self.node.name!r}: input {place} has no scale")
            yield helper.make_node("DequantizeLinear", names, [real], axis=axis)
        if bias is not None and self.input(bias):
            scale = self.name("scale")
            yield helper.make_node("Mul", [self.input(1), self.input(4)], [scale])
            made.append(self.name(f"real {len(made)}"))
            names = [self.input(bias), scale]
            yield helper.make_node("DequantizeLinear", names, made[-1:], axis=0)
        is_real = kind == "Gemm" and not self.input(stored)
        result = self.output if is_real else self.name("result")
        node = helper.make_node(kind, made, [result], name=self.node.name)
        node.attribute.extend(
            attribute for attribute in self.node.attribute if attribute.name not in DROPPED
        )
        yield node
        names = [result, self.input(stored), self.input(stored + 1)]
        if not is_real and not names[1]:
            raise UnreadableFile(f"node {self.node.name!r}: its output has no scale")
        if not is_real:
            yield helper.make_node("QuantizeLinear", names, [self.output])


def _convolution(steps: _Steps) -> Iterator[onnx.NodeProto]:
    return steps.between_integers("Conv", [(0, None), (3, 0)], bias=8, stored=6)


def _gemm(steps: _Steps) -> Iterator[onnx.NodeProto]:
    by_units = any(attribute.name == "transB" and attribute.i for attribute in steps.node.attribute)
    reals = [(0, None), (3, 0 if by_units else 1)]
    return steps.between_integers("Gemm", reals, bias=6, stored=7)


def _concatenation(steps: _Steps) -> Iterator[onnx.NodeProto]:
    count = (len(steps.inputs) - 2) // 3
    reals = [(2 + 3 * number, None) for number in range(count)]
    return steps.between_integers("Concat", reals, stored=0)


def _as_standard(steps: _Steps) -> Iterator[onnx.NodeProto]:
    """The runtime's own form, which took other types before the standard did."""
    copy = onnx.NodeProto()
    copy.CopyFrom(steps.node)
    copy.domain = ""
    yield copy


def _with_activation(kind: str) -> Callable[[_Steps], Iterator[onnx.NodeProto]]:
    """Return the steps of an activation behind a sum with a bias; the bias may be left out."""

    def opened(steps: _Steps) -> Iterator[onnx.NodeProto]:
        source = steps.input(0)
        if steps.input(1):
            source = steps.name("sum")
            yield helper.make_node("Add", [steps.input(0), steps.input(1)], [source])
        attributes = {"approximate": "tanh"} if kind == "FastGelu" else {}
        yield helper.make_node("Gelu", [source], [steps.output], steps.node.name, **attributes)

    return opened


def _quick_gelu(steps: _Steps) -> Iterator[onnx.NodeProto]:
    """An element times the sigmoid of alpha times the element."""
    alpha = next(
        (attribute.f for attribute in steps.node.attribute if attribute.name == "alpha"), QUICK_GELU
    )
    factor, scaled, share = (steps.name(what) for what in ("alpha", "scaled", "share"))
    yield helper.make_node("Constant", [], [factor], value_float=alpha)
    yield helper.make_node("Mul", [steps.input(0), factor], [scaled])
    yield helper.make_node("Sigmoid", [scaled], [share])
    yield helper.make_node("Mul", [steps.input(0), share], [steps.output], steps.node.name)


def _skip_normalization(steps: _Steps) -> Iterator[onnx.NodeProto]:
    """The layer normalisation of a sum of two tensors and a bias; the sum may be an output too."""
    outputs = [*steps.node.output, "", "", "", ""]
    if outputs[1] or outputs[2]:
        raise UnreadableFile(f"node {steps.node.name!r}: its mean or deviation as an output")
    total = outputs[3] or steps.name("sum")
    first = steps.name("sum without bias") if steps.input(4) else total
    yield helper.make_node("Add", [steps.input(0), steps.input(1)], [first])
    if steps.input(4):
        yield helper.make_node("Add", [first, steps.input(4)], [total])
    epsilon = next(
        (attribute.f for attribute in steps.node.attribute if attribute.name == "epsilon"),
        SKIP_EPSILON,
    )
    names = [total, steps.input(2), *filter(None, [steps.input(3)])]
    yield helper.make_node(
        "LayerNormalization", names, [steps.output], steps.node.name, epsilon=epsilon
    )


def _dynamic_product(steps: _Steps) -> Iterator[onnx.NodeProto]:
    """A real matrix, quantised by its own range, times a trained one."""
    names = [steps.name(what) for what in ("integers", "scale", "zero point")]
    yield helper.make_node("DynamicQuantizeLinear", [steps.input(0)], names)
    zeros = [names[2], steps.input(3)]
    yield from _rescaled_product(steps, names[0], zeros, [names[1], steps.input(2)], bias=4)


def _real_product(steps: _Steps) -> Iterator[onnx.NodeProto]:
    zeros, scales = [steps.input(4), steps.input(5)], [steps.input(2), steps.input(3)]
    yield from _rescaled_product(steps, steps.input(0), zeros, scales, bias=6)


def _rescaled_product(
    steps: _Steps, left: str, zeros: list[str], scales: list[str], *, bias: int
) -> Iterator[onnx.NodeProto]:
    """A product of integers made real by both scales, and a bias added."""
    sums, real, scale = (steps.name(what) for what in ("sums", "real sums", "scales"))
    result = steps.name("rescaled") if steps.input(bias) else steps.output
    yield helper.make_node("MatMulInteger", [left, steps.input(1), *zeros], [sums])
    yield helper.make_node("Cast", [sums], [real], to=onnx.TensorProto.FLOAT)
    yield helper.make_node("Mul", scales, [scale])
    yield helper.make_node("Mul", [real, scale], [result])
    if steps.input(bias):
        yield helper.make_node("Add", [result, steps.input(bias)], [steps.output])


SPECIAL: Mapping[tuple[str, str], Callable[[_Steps], Iterator[onnx.NodeProto]]] = {
    ("", "QLinearConv"): _convolution,
    (RUNTIME, "QGemm"): _gemm,
    (RUNTIME, "QLinearConcat"): _concatenation,
    (RUNTIME, "QuantizeLinear"): _as_standard,
    (RUNTIME, "DequantizeLinear"): _as_standard,
    (RUNTIME, "Gelu"): _as_standard,
    (RUNTIME, "BiasGelu"): _with_activation("Gelu"),
    (RUNTIME, "FastGelu"): _with_activation("FastGelu"),
    (RUNTIME, "QuickGelu"): _quick_gelu,
    (RUNTIME, "SkipLayerNormalization"): _skip_normalization,
    (RUNTIME, "DynamicQuantizeMatMul"): _dynamic_product,
    (RUNTIME, "MatMulIntegerToFloat"): _real_product,
}


def kinds() -> list[str]:
    """Return the operators that are opened, those of the runtime with its domain in front."""
    return sorted(f"{domain}.{kind}".lstrip(".") for domain, kind in (*PLAIN, *SPECIAL))


CONVERTERS: Mapping[str, Callable[[OnnxNode, OnnxAssembly], None]] = {
    **dict.fromkeys(elementwise.PLAIN, elementwise.activation),
    **dict.fromkeys(elementwise.FUNCTIONS, elementwise.elementwise),
    **dict.fromkeys(normalizations.REDUCTIONS, normalizations.reduction),
    **dict.fromkeys(elementwise.EXTREMES, elementwise.extreme_place),
    **dict.fromkeys(products.KINDS, products.recurrence),
    "AveragePool": over_lines(partial(windows.pooling, function="average")),
    "BatchNormalization": normalizations.batch_normalization,
    "Cast": elementwise.cast,
    "ChannelShuffle": moves.channel_shuffle,
    "Clip": elementwise.clip,
    "Concat": moves.concatenation,
    "Conv": over_lines(windows.convolution),
    "ConvInteger": over_lines(windows.integer_convolution),
    "ConvTranspose": over_lines(windows.transposed_convolution),
    "CumSum": elementwise.running_sum,
    "DequantizeLinear": dynamic.dequantize,
    "DepthToSpace": moves.depth_to_space,
    "Dropout": elementwise.dropout,
    "DynamicQuantizeLinear": dynamic.dynamic_quantization,
    "Einsum": products.einsum,
    "Expand": moves.expand,
    "Flatten": moves.reshape,
    "Gather": moves.gather,
    "GatherND": moves.gather_nd,
    "Gelu": elementwise.gelu,
    "Gemm": products.gemm,
    "GlobalAveragePool": over_lines(partial(windows.global_pooling, function="average")),
    "GlobalMaxPool": over_lines(partial(windows.global_pooling, function="max")),
    "Identity": elementwise.identity,
    "InstanceNormalization": normalizations.instance_normalization,
    "LRN": normalizations.local_response_normalization,
    "LayerNormalization": normalizations.layer_normalization,
    "LogSoftmax": normalizations.softmax,
    "MatMul": products.matrix_product,
    "MatMulInteger": dynamic.integer_product,
    "MaxPool": over_lines(partial(windows.pooling, function="max")),
    "PRelu": elementwise.prelu,
    "Pad": moves.pad,
    "QuantizeLinear": dynamic.quantize,
    "Reshape": moves.reshape,
    "Resize": windows.resize,
    "Slice": moves.slices,
    "Softmax": normalizations.softmax,
    "SpaceToDepth": moves.space_to_depth,
    "Split": moves.split,
    "Squeeze": moves.reshape,
    "Swish": elementwise.swish,
    "Tile": moves.tile,
    "TopK": elementwise.ranking,
    "Transpose": moves.transpose,
    "Unsqueeze": moves.reshape,
    "Upsample": windows.resize,
    "Where": elementwise.where,
}
