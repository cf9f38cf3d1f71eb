"""Matrix products, einsum and recurrent layers of ONNX; each output that is read is a layer."""

from __future__ import annotations

from math import prod

import numpy as np

from cnn2csdf import operators as op
from cnn2csdf.onnx_files.conversion.assembly import Numbers, OnnxAssembly, Step, Weighted
from cnn2csdf.onnx_files.conversion.moves import frame_dims
from cnn2csdf.onnx_files.nodes import OnnxNode, unsupported
from cnn2csdf.weights import Array
from csdf.errors import UnreadableFile, counted


def gemm(node: OnnxNode, assembly: OnnxAssembly) -> None:
    """Add a fully connected layer; for several vectors at once, a product and its bias."""
    tensor = assembly.dynamic(node, 0)
    matrix, dims = assembly.trained(node, 1, "the matrix")
    vectors, units = assembly.values.dims(node.outputs[0])
    alpha, beta = node.real("alpha", 1.0), node.real("beta", 1.0)
    is_by_units = bool(node.integer("transB", 0))
    inputs = dims[1 if is_by_units else 0]
    if inputs * vectors != assembly.shape(tensor).elements:
        raise UnreadableFile(
            f"{node}: a matrix for {counted(inputs, 'input')}, found {assembly.shape(tensor)}"
        )

    def by_inputs() -> Array:
        value = np.asarray(assembly.values.value(matrix), dtype=np.float32)
        scaled = value if alpha == 1 else value * np.float32(alpha)
        return scaled.T if is_by_units else scaled

    def times_beta(numbers: Numbers) -> Numbers:
        def read() -> Array:
            return np.asarray(beta * numbers.read(), dtype=np.float32)

        # The scale of a bias of integers is that of the products.
        return Numbers(numbers.tensor, read, factor=alpha)

    is_vector = vectors == 1
    if node.integer("transA", 0) and not is_vector:
        raise unsupported(node, "transA is not supported for a matrix that is not a vector")
    read_matrix = (lambda: by_inputs().T) if is_vector else by_inputs
    unit_axis = 0 if is_by_units else 1
    weights = {"matrix": Numbers(matrix, read_matrix, unit_axis, factor=alpha)}
    steps = []
    if node.input(2) is not None:
        bias, dims = assembly.trained(node, 2, "the bias")
        is_by_column = prod(dims) == prod(dims[-1:]) and prod(dims) in (1, units)
        if is_vector or is_by_column:
            weights["bias"] = times_beta(assembly.vector(node, 2, "the bias", units))
        else:
            addition = op.Elementwise(function="add", constant=dims)
            added = times_beta(assembly.numbers(bias))
            steps.append(Weighted(addition, {"constant": added}))
    product = op.FullyConnected if is_vector else op.MatrixProduct
    operator = product(units=units, has_bias="bias" in weights)
    assembly.add(node, Weighted(operator, weights), *steps)


def matrix_product(node: OnnxNode, assembly: OnnxAssembly) -> None:
    """Add a product with a matrix of weights, or of two inputs.

    A third input is a bias, absorbed from the addition after the node; the left input is a vector then.
    """
    left, right = assembly.dynamic(node, 0), node.required(1)
    if not assembly.is_static(right):
        assembly.add(node, op.MatrixProduct(), inputs=(left, right))
        return
    dims = assembly.values.dims(right)
    if len(dims) < 2 or prod(dims) != dims[-2] * dims[-1]:
        listed = "x".join(map(str, dims))
        raise unsupported(node, f"a constant operand of shape {listed}, expected one matrix")
    inputs, units = dims[-2:]

    def matrix() -> Array:
        return np.asarray(assembly.values.value(right), dtype=np.float32).reshape(inputs, units)

    if len(assembly.shape(left).dims) > 1:
        product = Weighted(
            op.MatrixProduct(units=units), {"matrix": Numbers(right, matrix, len(dims) - 1)}
        )
        assembly.add(node, product, inputs=(left,))
        return
    weights: dict[str, Numbers] = {"matrix": Numbers(right, lambda: matrix().T, len(dims) - 1)}
    if node.input(2) is not None:
        weights["bias"] = assembly.vector(node, 2, "the bias", units)
    operator = op.FullyConnected(units=units, has_bias="bias" in weights)
    assembly.add(node, Weighted(operator, weights), inputs=(left,))


def einsum(node: OnnxNode, assembly: OnnxAssembly) -> None:
    """Add sums of products over axes of the same letter; the batch of one is left out."""
    terms, result = _letters(node)
    ours = []
    for name, term in zip(node.inputs, terms, strict=True):
        rank = len(assembly.values.dims(name))
        if rank != len(term):
            raise unsupported(node, f"equation term {term!r} for a tensor with {rank} axes")
        ours.append(term if assembly.is_static(name) else term[assembly.batch_axes(name) :])
    tensors = [name for name in node.inputs if not assembly.is_static(name)]
    constants, weights = assembly.constant_operands(node.inputs, assembly.values.dims)
    left = "".join(letter for letter in result if letter in "".join(ours))
    operator = op.TensorProduct(terms=tuple(ours), result=left, constants=constants)
    output_dims = assembly.values.dims(node.outputs[0])
    frame = frame_dims(output_dims)
    made = operator.output_dims([assembly.shape(name) for name in tensors])
    ends = () if made in (frame, output_dims) else (op.Reshape(dims=frame),)
    assembly.add(node, Weighted(operator, weights), *ends, inputs=tensors)


def _letters(node: OnnxNode) -> tuple[list[str], str]:
    """Return the letters of each operand and of the result."""
    equation = node.text("equation", "").replace(" ", "")
    if "." in equation:
        raise unsupported(node, f"an ellipsis in equation {equation!r} is not supported")
    before, arrow, result = equation.partition("->")
    terms = before.split(",")
    if len(terms) != len(node.inputs):
        raise unsupported(node, f"equation {equation!r} for {counted(len(node.inputs), 'input')}")
    letters = "".join(terms)
    if not arrow:
        result = "".join(sorted(letter for letter in set(letters) if letters.count(letter) == 1))
    is_plain = all(len(set(term)) == len(term) for term in (*terms, result))
    if not is_plain or not set(result) <= set(letters) or not all(map(str.isalpha, letters)):
        raise unsupported(node, f"equation {equation!r} is not supported")
    return terms, result


KINDS = {"LSTM": "lstm", "GRU": "gru", "RNN": "rnn"}
USUAL = {"lstm": ("Sigmoid", "Tanh", "Tanh"), "gru": ("Sigmoid", "Tanh"), "rnn": ("Tanh",)}
RESULTS = ("all", "last", "cell")  # by output
ROLES = ((1, "matrix"), (2, "recurrent matrix"), (3, "bias"), (5, "state"), (6, "cell"))


def recurrence(node: OnnxNode, assembly: OnnxAssembly) -> None:
    """Add a recurrent layer for each output that is read: no peepholes."""
    tensor = assembly.dynamic(node, 0)
    kind = KINDS[node.op_type]
    # Raise UnsupportedOperator for a form other than the usual one.
    if node.integer("layout", 0):
        raise unsupported(node, "layout = 1 is not supported")
    if node.integer("input_forget", 0) or "clip" in node.attributes:
        raise unsupported(node, "input_forget and clip are not supported")
    if node.input(7) is not None:
        raise unsupported(node, "peepholes are not supported")
    names = node.texts("activations")
    if names is not None and any(
        name.lower() != usual.lower() for name, usual in zip(names, USUAL[kind] * 2, strict=False)
    ):
        raise unsupported(node, f"activations {', '.join(names)} are not supported")
    dims = assembly.values.dims(tensor)
    if len(dims) != 3:
        raise unsupported(node, f"works on frames x sequences x elements only, found {dims}")
    lengths = assembly.integers(node, 4, "the lengths")
    if lengths is not None and set(lengths) != {dims[0]}:
        raise unsupported(node, "sequences shorter than the tensor are not supported")
    inputs = [assembly.with_dims(node, tensor, dims)]
    weights, roles_given = {}, []
    for index, role in ROLES:
        name = node.input(index)
        if name is None or (role == "cell" and kind != "lstm"):
            continue
        if role in ("state", "cell") and assembly.has(name):
            inputs.append(assembly.with_dims(node, name, assembly.values.dims(name)))
            roles_given.append(role)
        else:
            trained, _ = assembly.trained(node, index, f"the {role}")
            weights[role] = assembly.numbers(trained)
    read = [output for output in node.outputs if output and assembly.is_read(output)]
    for gives, output in zip(RESULTS, node.outputs, strict=False):
        if output in read:
            layer_name = output if len(read) > 1 else None
            operator = op.Recurrence(
                kind=kind,
                units=node.integer("hidden_size", 0),
                direction=node.text("direction", "forward"),
                resets_after=bool(node.integer("linear_before_reset", 0)),
                gives=gives,
                has_bias="bias" in weights,
                has_state="state" in weights,
                has_cell="cell" in weights,
                given=tuple(roles_given),
            )
            steps: list[Step] = [Weighted(operator, weights)]
            output_dims = assembly.values.dims(output)
            if output_dims[0] == 1 and gives == "all":
                steps.append(op.Reshape(dims=output_dims[1:]))
            assembly.add(node, *steps, inputs=inputs, output=output, name=layer_name)
