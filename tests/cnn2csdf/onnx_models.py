"""ONNX models for tests: tiny ones made here, and the networks of the onnx package."""

import math
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from cnn2csdf.onnx_files.runtime import exact_session

LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
NETWORKS = (
    "bvlc_alexnet",
    "densenet121",
    "inception_v1",
    "inception_v2",
    "resnet50",
    "shufflenet",
    "squeezenet",
    "vgg19",
    "zfnet512",
)
FRAME = (1, 3, 6, 7)
LARGE = 2**22


def network_path(name):
    """The file of one of the networks inside the onnx package; its weights are constant fills."""
    return LIGHT / f"light_{name}.onnx"


def numbers(dims, seed=0, low=-1.0, high=1.0):
    """Seeded random numbers in single precision."""
    drawn = np.random.default_rng(seed).uniform(low, high, dims)
    return np.asarray(drawn, dtype=np.float32)


def graph_model(nodes, *, inputs=None, outputs=("y",), constants=None, opset=17):
    """A model; inputs: dims by name, constants: arrays by name."""
    inputs = {"x": FRAME} if inputs is None else inputs
    graph = helper.make_graph(
        nodes,
        "graph",
        [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, dims)
            for name, dims in inputs.items()
        ],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
        [numpy_helper.from_array(np.asarray(one), name) for name, one in (constants or {}).items()],
    )
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=min(8, onnx.IR_VERSION)
    )


def one_node(op_type, *constants, opset=17, inputs=None, outputs=("y",), **attributes):
    """A model of one node that reads the inputs, then the constants (None: left out)."""
    inputs = {"x": FRAME} if inputs is None else inputs
    named = {f"c{place}": one for place, one in enumerate(constants) if one is not None}
    read = [*inputs, *("" if one is None else f"c{i}" for i, one in enumerate(constants))]
    node = helper.make_node(op_type, read, list(outputs), name="the node", **attributes)
    return graph_model([node], inputs=inputs, outputs=outputs, constants=named, opset=opset)


def saved(model, folder, name="model.onnx"):
    """Save the model; return its path."""
    path = folder / name
    path.write_bytes(model if isinstance(model, bytes) else model.SerializeToString())
    return str(path)


def network_with_random_weights(name, folder, seed=0):
    """Save one of the networks of the onnx package with seeded random weights; return its path.

    Every float fill becomes an initializer. Kernels and matrices are normal with variance
    2 / inputs, under which elements keep their size through a layer and a rectifier; scales and
    variances lie around one, those of batch normalisations below, since residual additions make up
    for it, and shifts around zero. A matrix of more than LARGE numbers is a column times a row,
    which keeps the file small. Fills of integers stay.
    """
    model = onnx.load(network_path(name))
    graph = model.graph
    weights, products = _random_weights(graph, np.random.default_rng(seed))
    written = {name for node in products for name in node.output} | set(weights)
    nodes = [node for node in graph.node if node.output[0] not in written]
    stored = [one for one in graph.initializer if one.name not in written]
    del graph.node[:], graph.initializer[:]
    graph.node.extend([*products, *nodes])
    graph.initializer.extend(stored)
    graph.initializer.extend(numpy_helper.from_array(one, name) for name, one in weights.items())
    model.ir_version = max(4, model.ir_version)  # initializers need not be inputs
    path = folder / f"{name}.onnx"
    onnx.save(model, path)
    return str(path)


def _random_weights(graph, generator):
    """An array for each float fill and initializer, and nodes that make the large ones."""
    arrays = {one.name: numpy_helper.to_array(one) for one in graph.initializer}
    dims = {name: one.shape for name, one in arrays.items() if one.dtype == np.float32}
    for node in filter(_is_float_fill, graph.node):
        dims[node.output[0]] = tuple(map(int, arrays[node.input[0]]))
    roles = _roles(graph)
    weights, products = {}, []
    for tensor, size in dims.items():
        if math.prod(size) <= LARGE:
            weights[tensor] = _drawn(generator, roles.get(tensor, "shift"), size)
            continue
        column, row = f"{tensor} column", f"{tensor} row"
        weights[column] = _drawn(generator, "matrix", (size[0], 1))
        weights[row] = _drawn(generator, "matrix", (1, size[1]))
        products.append(helper.make_node("MatMul", [column, row], [tensor]))
    return weights, products


def _is_float_fill(node):
    if node.op_type != "ConstantOfShape":
        return False
    values = [one.t for one in node.attribute if one.name == "value"]
    return not values or values[0].data_type == TensorProto.FLOAT


def _roles(graph):
    """The use of each weight, also behind the nodes that only give it more axes."""
    places = {
        "Conv": ("", "kernel", "shift"),
        "Gemm": ("", "matrix", "shift"),
        "BatchNormalization": ("", "gain", "shift", "shift", "scale"),
        "Mul": ("scale", "scale"),
        "Add": ("shift", "shift"),
    }
    roles = {}
    for node in reversed(graph.node):
        if node.op_type in ("Unsqueeze", "Reshape") and node.output[0] in roles:
            roles[node.input[0]] = roles[node.output[0]]
        for name, role in zip(node.input, places.get(node.op_type, ()), strict=False):
            roles.setdefault(name, role)
    return roles


def _drawn(generator, role, dims):
    if role in ("kernel", "matrix"):
        inputs = math.prod(dims[1:])  # every Gemm of these networks has transB
        return generator.standard_normal(dims, dtype=np.float32) * np.float32((2 / inputs) ** 0.5)
    if role == "gain":
        array = generator.uniform(0.4, 0.9, dims)
    elif role == "scale":
        array = generator.uniform(0.5, 1.5, dims)
    else:
        array = generator.uniform(-0.2, 0.2, dims)
    return np.asarray(array, dtype=np.float32)


def runtime_outputs(path, frame):
    """The outputs of ONNX Runtime; the test is skipped where it is missing."""
    pytest.importorskip("onnxruntime")
    return exact_session(path).run(None, frame)
