"""Dilated convolutions as older converters write them: between SPACE_TO_BATCH_ND and its inverse."""

import numpy as np
import pytest

from cnn2csdf.execution.layer_by_layer import run_layer_by_layer
from cnn2csdf.operators import Convolution, HybridProduct
from cnn2csdf.readers.tflite.reader import parse_tflite
from csdf.errors import CsdfError, UnreadableFile
from tests.cnn2csdf.readers.tflite_models import Node, Tensor, constant, one_node, tflite_bytes

TYPES = {"float32": ((), 0), "int8": ((0.05,), 3), "uint8": ((0.05,), 131), "hybrid": ((), 0)}


class Section:
    """A random section between phases of pixels; `content` is its file, `phase` that of one phase."""

    def __init__(self, seed, *, kind="CONV_2D", dtype="float32", stride=1, middle="", rank=4):
        self.random = np.random.default_rng(seed)
        self.dtype, self.kind, self.stride = "float32" if dtype == "hybrid" else dtype, kind, stride
        self.rank, self.middle = rank, middle
        scales, zero = TYPES[dtype]
        draw = lambda low, high: int(self.random.integers(low, high + 1))  # noqa: E731
        axes = rank - 2
        self.blocks = [draw(1, 3) for _ in range(axes - 1)] + [draw(2, 3)]
        kernel = [1] * (2 - axes) + [draw(1, 3) for _ in range(axes)]
        self.is_same = draw(0, 1)
        self.sizes, self.padding, phase = [], [], []
        for block, taps in zip(self.blocks, kernel[2 - axes :], strict=True):
            places = draw(taps + 1, 6)
            before = draw(0, min(block * places - 1, 4))
            after = draw(0, min(block * places - 1 - before, 4))
            self.padding.append((before, after))
            self.sizes.append(block * places - before - after)
            phase.append(places)
        channels = draw(1, 3)
        units = channels if kind == "DEPTHWISE_CONV_2D" else draw(1, 4)
        lengths = [1] * (2 - axes) + phase
        results = [
            -(-n // stride) if self.is_same else (n - taps) // stride + 1
            for n, taps in zip(lengths, kernel, strict=True)
        ]
        self.crops = []
        for block, places in zip(self.blocks, results[2 - axes :], strict=True):
            before = draw(0, min(block * places - 1, 3))
            self.crops.append((before, draw(0, min(block * places - 1 - before, 3))))
        self.results = results[2 - axes :]
        wide = (1, *kernel, units) if kind == "DEPTHWISE_CONV_2D" else (units, *kernel, channels)
        store = "int8" if dtype == "hybrid" else dtype
        weights = self.random.standard_normal(wide).astype(np.float32)
        if store != "float32":
            weights = self.random.integers(-127, 128, wide) + (128 if store == "uint8" else 0)
        weight_zero = 128 if store == "uint8" else 0
        scales_of = () if store == "float32" else (0.02,) * (1 if store == "uint8" else units)
        self.weights = constant("w", weights.astype(store), scales_of, weight_zero)
        self.weights.axis = 3 if kind == "DEPTHWISE_CONV_2D" else 0
        bias = self.random.integers(-50, 50, units)
        self.bias = constant("b", bias.astype("float32" if not scales else "int32"))
        self.lengths, self.channels, self.units = lengths, channels, units
        self.types = (self.dtype, scales, zero)
        count = int(np.prod(self.blocks))
        self.options = [(0, "b", 1 - self.is_same), (1, "i", stride), (2, "i", stride)]
        if kind == "DEPTHWISE_CONV_2D":
            self.options += [(3, "i", 1), (5, "i", 1), (6, "i", 1)]
        else:
            self.options += [(4, "i", 1), (5, "i", 1)]
        self.content = self._file(count)

    def tensor(self, name, dims):
        return Tensor(name, tuple(dims), *self.types)

    def _file(self, count):
        phase = self.lengths[4 - self.rank :]
        cropped = [
            block * places - sum(crop)
            for block, places, crop in zip(self.blocks, self.results, self.crops, strict=True)
        ]
        flat = self.rank == 3
        whole = [1] * flat + self.results
        tensors = [
            self.tensor("x", (1, *self.sizes, self.channels)),
            constant("blocks", np.array(self.blocks, np.int32)),
            constant("padding", np.array(self.padding, np.int32)),
            self.tensor("phases", (count, *phase, self.channels)),
            self.tensor("wide phases", (count, *self.lengths, self.channels)),
            self.weights,
            self.bias,
            self.tensor("wide sums", (count, *whole, self.units)),
            self.tensor("sums", (count, *self.results, self.units)),
            self.tensor("between", (count, *self.results, self.units)),
            constant("crops", np.array(self.crops, np.int32)),
            self.tensor("y", (1, *cropped, self.units)),
            constant("wide", np.array((count, *self.lengths, self.channels), np.int32)),
            constant("narrow", np.array((count, *self.results, self.units), np.int32)),
        ]
        nodes = [Node("SPACE_TO_BATCH_ND", [0, 1, 2], [3])]
        if flat:
            nodes += [Node("RESHAPE", [3, 12], [4]), Node(self.kind, [4, 5, 6], [7], self.options),
                      Node("RESHAPE", [7, 13], [8])]  # fmt: skip
        else:
            nodes += [Node(self.kind, [3, 5, 6], [8], self.options)]
        last = 8
        if self.middle:
            nodes.append(Node(self.middle, [8], [9]))
            last = 9
        nodes.append(Node("BATCH_TO_SPACE_ND", [last, 1, 10], [11]))
        return tflite_bytes(tensors, nodes, [0], [11])

    def frame(self):
        dims = (1, *self.sizes, self.channels)
        if self.dtype == "float32":
            return self.random.standard_normal(dims).astype(np.float32)
        limits = np.iinfo(self.dtype)
        return self.random.integers(limits.min, limits.max + 1, dims).astype(self.dtype)

    def expected(self, frame):
        """Cut the padded frame into phases, run each through a file of its own, and join them."""
        pads = [(0, 0), *self.padding, (0, 0)]
        padded = np.pad(frame, pads, constant_values=self.types[2])
        operands = [
            self.tensor("x", (1, *self.lengths, self.channels)), self.weights, self.bias
        ]  # fmt: skip
        whole = [1] * (4 - self.rank) + self.results
        output = self.tensor("y", (1, *whole, self.units))
        content = one_node(self.kind, operands, output, self.options)
        dims = [b * n for b, n in zip(self.blocks, self.results, strict=True)]
        joined = np.zeros((1, *dims, self.units), np.float32)
        for places in np.ndindex(*self.blocks):
            cut = tuple(slice(p, None, b) for p, b in zip(places, self.blocks, strict=True))
            result = run(content, padded[(0, *cut)].reshape(1, *self.lengths, self.channels))
            result = np.maximum(result, 0) if self.middle == "RELU" else result
            joined[(0, *cut)] = result.reshape(*self.results, self.units)
        ends = [slice(a, n - b) for (a, b), n in zip(self.crops, dims, strict=True)]
        return joined[(0, *ends)]


def run(content, frame):
    """The output of a file for a frame with the axes of the file, and with the axes of the file."""
    model = parse_tflite(content, "a.tflite", with_weights=True)
    (layer,) = model.network.inputs
    value = np.moveaxis(frame[0], 2, 0) if frame.ndim == 4 else frame[0]
    (result,) = run_layer_by_layer(model, {layer.name: value}).values()
    return np.moveaxis(result, 0, 2) if frame.ndim == 4 else result


def convolutions(content):
    layers = parse_tflite(content, "a.tflite").network.layers
    return [layer for layer in layers if isinstance(layer.operator, (Convolution, HybridProduct))]


@pytest.mark.parametrize("kind", ["CONV_2D", "DEPTHWISE_CONV_2D"])
@pytest.mark.parametrize("dtype", ["float32", "int8", "uint8"])
def test_convolutions_of_phases_are_dilated_convolutions(kind, dtype):
    for seed in range(12):
        section = Section(seed, kind=kind, dtype=dtype, rank=3 + seed % 2,
                          middle="RELU" if dtype == "float32" and seed % 3 else "")  # fmt: skip
        frame = section.frame()
        result, expected = run(section.content, frame), section.expected(frame)
        (layer,) = convolutions(section.content)
        dilation = tuple([1] * (4 - section.rank) + section.blocks)
        assert layer.operator.filter_bank.window.dilation == dilation
        assert result.shape == expected.shape
        limit = 1e-5 * np.abs(expected).max() if dtype == "float32" else 0
        assert np.abs(result - expected).max(initial=0) <= limit, seed


@pytest.mark.parametrize(("dtype", "stride"), [("float32", 2), ("int8", 2), ("hybrid", 1)])
def test_other_convolutions_of_phases_are_copied_for_each_phase(dtype, stride):
    for seed in range(8):
        section = Section(seed, dtype=dtype, stride=stride, rank=3 + seed % 2)
        frame = section.frame()
        result, expected = run(section.content, frame), section.expected(frame)
        assert len(convolutions(section.content)) == np.prod(section.blocks)
        limit = 1e-6 * np.abs(expected).max() if dtype != "int8" else 0
        assert np.abs(result - expected).max(initial=0) <= limit, seed


def moved(kind, dims, result, blocks, ends):
    constants = [
        constant("blocks", np.array(blocks, np.int32)),
        constant("ends", np.array(ends, np.int32)),
    ]
    return one_node(kind, [Tensor("x", dims), *constants], Tensor("y", result))


def test_a_batch_of_phases_alone_moves_elements():
    frame = np.arange(24, dtype=np.float32).reshape(1, 4, 3, 2)
    content = moved("SPACE_TO_BATCH_ND", (1, 4, 3, 2), (4, 2, 2, 2), [2, 2], [[0, 0], [1, 0]])
    model = parse_tflite(content, "a.tflite", with_weights=True)
    (result,) = run_layer_by_layer(model, {"x": np.moveaxis(frame[0], 2, 0)}).values()
    padded = np.pad(frame, [(0, 0), (0, 0), (1, 0), (0, 0)])
    phases = np.stack([padded[0, row::2, column::2] for row in (0, 1) for column in (0, 1)])
    assert np.array_equal(result, phases)


def test_phases_that_nothing_but_moves_reads_become_a_map_again():
    tensors = [
        Tensor("x", (1, 4, 3, 2)),
        constant("blocks", np.array([2, 2], np.int32)),
        constant("ends", np.array([[0, 0], [1, 0]], np.int32)),
        Tensor("phases", (4, 2, 2, 2)),
        constant("axes", np.array([1], np.int32)),
        Tensor("mirrored", (4, 2, 2, 2)),
        Tensor("y", (1, 4, 3, 2)),
    ]
    nodes = [
        Node("SPACE_TO_BATCH_ND", [0, 1, 2], [3]),
        Node("REVERSE_V2", [3, 4], [5]),
        Node("BATCH_TO_SPACE_ND", [5, 1, 2], [6]),
    ]
    frame = np.arange(24, dtype=np.float32).reshape(1, 4, 3, 2)
    result = run(tflite_bytes(tensors, nodes, [0], [6]), frame)
    assert np.array_equal(result, frame[0, [2, 3, 0, 1]])


@pytest.mark.parametrize(
    ("blocks", "ends", "result"),
    [
        ([2, 2], [[0, 0], [0, 0]], (4, 2, 2, 2)),  # three columns are no blocks of two
        ([0, 2], [[0, 0], [1, 0]], (4, 2, 2, 2)),
        ([2, 2], [[0, 0], [-1, 0]], (4, 2, 1, 2)),
        ([2, 2], [[0, 0]], (4, 2, 2, 2)),
        ([2**31 - 1, 2], [[2**31 - 1, 0], [1, 0]], (4, 2, 2, 2)),
    ],
)
def test_blocks_that_do_not_fit_are_refused_in_a_line(blocks, ends, result):
    content = moved("SPACE_TO_BATCH_ND", (1, 4, 3, 2), result, blocks, ends)
    with pytest.raises(UnreadableFile, match="SPACE_TO_BATCH_ND") as raised:
        parse_tflite(content, "a.tflite")
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("shapes", [None, {"x": (1, 4, 4, 2)}])
def test_a_cycle_between_both_operators_ends_in_a_line(shapes):
    tensors = [
        Tensor("x", (1, 4, 4, 2)),
        constant("blocks", np.array([2, 2], np.int32)),
        constant("ends", np.zeros((2, 2), np.int32)),
        Tensor("phases", (4, 2, 2, 2)),
        Tensor("sums", (4, 2, 2, 2)),
        Tensor("y", (1, 4, 4, 2)),
    ]
    nodes = [
        Node("SPACE_TO_BATCH_ND", [5, 1, 2], [3]),
        Node("ADD", [3, 4], [4], [(0, "b", 0)]),
        Node("BATCH_TO_SPACE_ND", [4, 1, 2], [5]),
    ]
    with pytest.raises(CsdfError, match="written by no operator before it") as raised:
        parse_tflite(tflite_bytes(tensors, nodes, [0], [5]), "a.tflite", shapes=shapes)
    assert "\n" not in str(raised.value)


def refusal_of(content):
    """The message of a file that is not read; empty for one that is."""
    try:
        parse_tflite(content, "a.tflite", with_weights=True)
    except CsdfError as error:
        return str(error)
    return ""


def test_bytes_of_batches_that_are_damaged_never_end_in_a_traceback():
    random = np.random.default_rng(0)
    contents = [Section(3, dtype="int8").content, Section(4, stride=2).content]
    messages = []
    for number in range(150):
        content = bytearray(contents[number % 2])
        place = int(random.integers(2, len(content) // 4)) * 4
        values = (0, 2**31 - 1, int(random.integers(0, 64)))
        content[place : place + 4] = values[number % 3].to_bytes(4, "little")
        messages.append(refusal_of(bytes(content)))
    assert any(messages)
    assert not any("\n" in message for message in messages)


BLOCKS = [
    constant("blocks", np.array([2, 2], np.int32)),
    constant("ends", np.zeros((2, 2), np.int32)),
]
STEPS = [(0, "b", 1), (1, "i", 1), (2, "i", 1), (4, "i", 1), (5, "i", 1)]
MAP, PHASES = (1, 8, 8, 1), (4, 4, 4, 1)


def kernel(side):
    return [constant("w", np.ones((1, side, side, 1), "f4")), constant("b", np.ones(1, "f4"))]


def section(tensors, nodes, end, *, map_dims=MAP, phases=PHASES):
    """Nodes between phases of a map: tensors 0 to 4 are x, blocks, ends, phases and y."""
    ends = [Tensor("x", map_dims), *BLOCKS, Tensor("phases", phases), Tensor("y", map_dims)]
    split, join = Node("SPACE_TO_BATCH_ND", [0, 1, 2], [3]), Node("BATCH_TO_SPACE_ND", end, [4])
    return tflite_bytes([*ends, *tensors], [split, *nodes, join], [0], [4])


def by_phase(frame, function):
    """A function of each phase of blocks of two by two pixels of a map."""
    result = np.zeros_like(frame)
    for row, column in np.ndindex(2, 2):
        result[row::2, column::2] = function(frame[row::2, column::2])
    return result


def test_a_sum_with_one_pixel_of_each_phase_is_read():
    tensors = [*kernel(4), Tensor("sums", (4, 1, 1, 1)), Tensor("added", PHASES)]
    nodes = [Node("CONV_2D", [3, 5, 6], [7], STEPS), Node("ADD", [3, 7], [8], [(0, "b", 0)])]
    frame = np.arange(64, dtype=np.float32).reshape(MAP)
    result = run(section(tensors, nodes, [8, 1, 2]), frame)
    expected = by_phase(frame[0, :, :, 0], lambda phase: phase + phase.sum() + 1)
    assert np.array_equal(result[:, :, 0], expected)


@pytest.mark.parametrize("kind", ["ADD", "MUL"])
def test_constants_along_the_columns_of_phases_are_read(kind):
    row = np.array([1, 2, 4, 8], np.float32)
    flat, wide = (4, 4, 4), constant("wide", np.array(PHASES, np.int32))
    narrow = constant("narrow", np.array(flat, np.int32))
    tensors = [*kernel(1), wide, narrow, constant("row", row), Tensor("maps", PHASES),
               Tensor("sums", PHASES), Tensor("flat", flat), Tensor("result", flat)]  # fmt: skip
    nodes = [
        Node("RESHAPE", [3, 7], [10]),
        Node("CONV_2D", [10, 5, 6], [11], STEPS),
        Node("RESHAPE", [11, 8], [12]),
        Node(kind, [12, 9], [13], [(0, "b", 0)]),
    ]
    content = section(tensors, nodes, [13, 1, 2], map_dims=(1, 8, 8), phases=flat)
    frame = np.arange(64, dtype=np.float32).reshape(1, 8, 8)
    combined = {"ADD": np.add, "MUL": np.multiply}[kind]
    expected = by_phase(frame[0], lambda phase: combined(phase + 1, row))
    assert np.array_equal(run(content, frame), expected)


def test_phases_of_two_maps_are_read():
    tensors = [
        Tensor("x", (1, 8, 4, 2)),
        constant("two", np.array([2, 4, 4, 2], np.int32)),
        Tensor("maps", (2, 4, 4, 2)),
        *BLOCKS,
        *[Tensor(name, (8, 2, 2, 2)) for name in ("phases", "positive")],
        Tensor("joined", (2, 4, 4, 2)),
        constant("one", np.array([1, 8, 4, 2], np.int32)),
        Tensor("y", (1, 8, 4, 2)),
    ]
    nodes = [
        Node("RESHAPE", [0, 1], [2]),
        Node("SPACE_TO_BATCH_ND", [2, 3, 4], [5]),
        Node("RELU", [5], [6]),
        Node("BATCH_TO_SPACE_ND", [6, 3, 4], [7]),
        Node("RESHAPE", [7, 8], [9]),
    ]
    frame = np.random.default_rng(0).standard_normal((1, 8, 4, 2)).astype(np.float32)
    assert np.array_equal(run(tflite_bytes(tensors, nodes, [0], [9]), frame), frame[0].clip(0))


def odd_sections():
    """Files of sections that do not fit, by what is wrong."""
    conv, last = Node("CONV_2D", [3, 5, 6], [7], STEPS), [8, 1, 2]
    for dims in ((4,), (4, 4), ()):
        tensors = [*kernel(1), Tensor("sums", PHASES), Tensor("odd", dims), Tensor("r", PHASES)]
        for kind in ("RELU", "RESHAPE"):
            yield f"{kind} to {dims}", section(tensors, [conv, Node(kind, [7], [8])], last)
            nodes = [conv, Node(kind, [7], [8]), Node(kind, [8], [9])]
            yield f"{kind} by {dims}", section(tensors, nodes, [9, 1, 2])
    tensors = [*kernel(1), Tensor("sums", PHASES), Tensor("positive", PHASES)]
    relu = Node("RELU", [7], [8])
    ends = constant("c", np.zeros(PHASES, np.float32))
    yield "the section as blocks", section([*tensors, ends], [conv, relu], [9, 8, 2])
    operands = {"of phases alone": [3], "without a kernel": [3, -1, 6], "by phases": [9, 3, 6]}
    for what, inputs in operands.items():
        node = Node("CONV_2D", inputs, [7], STEPS)
        yield f"a convolution {what}", section([*tensors, ends], [node, relu], last)
    yield "a reshape of nothing", section(tensors, [conv, Node("RESHAPE", [-1, 7], [8])], last)


ODD_SECTIONS = dict(odd_sections())


@pytest.mark.parametrize("what", ODD_SECTIONS)
def test_an_odd_section_between_phases_ends_in_a_line(what):
    message = refusal_of(ODD_SECTIONS[what])
    assert "operator" in message
    assert "\n" not in message


def test_a_refusal_of_all_phases_is_said_once():
    batch = constant("c", np.ones((4, 1, 1, 1), np.float32))
    nodes = [Node("MUL", [3, 5], [6], [(0, "b", 0)])]
    message = refusal_of(section([batch, Tensor("product", PHASES)], nodes, [6, 1, 2]))
    assert message.count("a constant of (4, 1, 1, 1)") == 1
