"""ONNX models that are nearly right: seeded changes to the message of good ones."""

import onnx
from google.protobuf.message import DecodeError

from tests.fuzz import mutations

NUMBERS = (0, 1, -1, 2, 3, 7, -2, 2**31, 2**62, 2**63 - 1, -(2**63), 1000)
DIMS = (0, 1, 2, 3, -1, 7, 64, 2**31, 2**62)
TEXTS = (
    "",
    "x",
    "Relu",
    "Conv",
    "SAME_UPPER",
    "VALID",
    "NOTSET",
    "\x00",
    "\u2028",
    "../x",
    "a" * 300,
)
OPERATORS = (
    *("Conv", "ConvTranspose", "Gemm", "MatMul", "Add", "Mul", "Div", "Sub", "Pow", "Relu", "Clip"),
    *("MaxPool", "AveragePool", "GlobalAveragePool", "BatchNormalization", "LRN", "Softmax", "Sum"),
    *("Concat", "Split", "Slice", "Reshape", "Flatten", "Transpose", "Squeeze", "Unsqueeze", "Pad"),
    *(
        "Resize",
        "Upsample",
        "Shape",
        "Gather",
        "Cast",
        "Constant",
        "ConstantOfShape",
        "Expand",
        "Tile",
    ),
    *(
        "Range",
        "Size",
        "ReduceMean",
        "Identity",
        "Dropout",
        "DepthToSpace",
        "If",
        "Loop",
        "LSTM",
        "Erf",
    ),
    *(
        "LayerNormalization",
        "InstanceNormalization",
        "PRelu",
        "Where",
        "Max",
        "Sqrt",
        "TopK",
        "Einsum",
        "QLinearConv",
        "QLinearMatMul",
        "QuantizeLinear",
        "DequantizeLinear",
        "DynamicQuantizeLinear",
    ),
)


def onnx_mutant(content, other, random):
    """A model with one to four changes to its message, or to its bytes."""
    if random.random() < 0.25:
        return mutations.mutant(content, other, random)
    model = onnx.ModelProto()
    try:
        model.ParseFromString(content)
    except DecodeError:
        return content
    for _ in range(random.choice((1, 1, 2, 3, 4))):
        random.choice(CHANGES)(model, random)
    return model.SerializeToString()


def _attribute(model, random):
    nodes = [node for node in model.graph.node if node.attribute]
    if not nodes:
        return
    one = random.choice(random.choice(nodes).attribute)
    if one.ints and random.random() < 0.7:
        _entries(one.ints, NUMBERS, random)
    elif random.random() < 0.3:
        one.type = random.randrange(15)
    elif random.random() < 0.5:
        one.i = random.choice(NUMBERS)
    else:
        one.f = random.choice((0.0, -1.0, float("nan"), float("inf"), 1e30))
        one.s = random.choice(TEXTS).encode() + random.choice((b"", b"\xff"))


def _new_attribute(model, random):
    if not model.graph.node:
        return
    name = random.choice(("axis", "axes", "pads", "strides", "kernel_shape", "group", "auto_pad"))
    value = random.choice((random.choice(NUMBERS), [random.choice(NUMBERS)] * 2, "SAME_UPPER", 0.5))
    node = random.choice(model.graph.node)
    node.attribute.append(onnx.helper.make_attribute(name, value))


def _drop_attribute(model, random):
    nodes = [node for node in model.graph.node if node.attribute]
    if nodes:
        attributes = random.choice(nodes).attribute
        del attributes[random.randrange(len(attributes))]


def _operator(model, random):
    if model.graph.node:
        random.choice(model.graph.node).op_type = random.choice(OPERATORS)


def _wire(model, random):
    """Let a node read or write another tensor, one less or one more."""
    if not model.graph.node:
        return
    node = random.choice(model.graph.node)
    names = [name for one in model.graph.node for name in (*one.input, *one.output)] + ["", "new"]
    ends = random.choice((node.input, node.input, node.output))
    what = random.randrange(3)
    if what == 0 or not ends:
        ends.append(random.choice(names))
    elif what == 1:
        del ends[random.randrange(len(ends))]
    else:
        ends[random.randrange(len(ends))] = random.choice(names)


def _node(model, random):
    """A node twice, away, or elsewhere."""
    nodes = model.graph.node
    if not nodes:
        return
    if random.random() < 0.5:
        del nodes[random.randrange(len(nodes))]
    else:
        nodes.append(random.choice(nodes))


def _tensor(model, random):
    tensors = [*model.graph.initializer]
    tensors += [one.t for node in model.graph.node for one in node.attribute if one.HasField("t")]
    if not tensors:
        return
    tensor = random.choice(tensors)
    what = random.randrange(6)
    if what == 0:
        _entries(tensor.dims, DIMS, random)
    elif what == 1:
        tensor.data_type = random.randrange(25)
    elif what == 2:
        tensor.raw_data = tensor.raw_data[: random.randint(0, len(tensor.raw_data))]
    elif what == 3:
        tensor.ClearField("raw_data")
        tensor.int64_data.extend([random.choice(NUMBERS)] * random.randint(0, 5))
    elif what == 4:
        tensor.data_location = onnx.TensorProto.EXTERNAL
        place = tensor.external_data.add()
        place.key, place.value = "location", random.choice(TEXTS)
    else:
        tensor.name = random.choice(TEXTS)


def _value(model, random):
    """Change the type or the shape of an input or output."""
    values = [*model.graph.input, *model.graph.output, *model.graph.value_info]
    if not values:
        return
    tensor = random.choice(values).type.tensor_type
    what = random.randrange(4)
    if what == 0:
        tensor.elem_type = random.randrange(25)
    elif what == 1:
        tensor.shape.dim.add().dim_value = random.choice(DIMS)
    elif what == 2 and tensor.shape.dim:
        del tensor.shape.dim[random.randrange(len(tensor.shape.dim))]
    elif tensor.shape.dim:
        random.choice(tensor.shape.dim).dim_value = random.choice(DIMS)


def _model(model, random):
    what = random.randrange(5)
    if what == 0:
        model.opset_import.add().version = random.choice(NUMBERS)
    elif what == 1 and model.opset_import:
        model.opset_import[0].version = random.randint(1, 25)
    elif what == 2:
        model.graph.output.add().name = random.choice(TEXTS)
    elif what == 3:
        model.graph.input.add().name = random.choice(TEXTS)
    else:
        model.ir_version = random.choice(NUMBERS)


def _entries(entries, values, random):
    what = random.randrange(3)
    if what == 0 or not entries:
        entries.extend([random.choice(values)] * random.choice((1, 2, 100)))
    elif what == 1:
        del entries[random.randrange(len(entries))]
    else:
        entries[random.randrange(len(entries))] = random.choice(values)


CHANGES = (
    *(_attribute, _attribute, _new_attribute, _drop_attribute, _operator, _operator, _wire, _wire),
    *(_node, _tensor, _tensor, _value, _model),
)
