"""Which element a resize takes, against ONNX Runtime: at ties its single precision decides."""

import numpy as np
import pytest

from cnn2csdf.network import Shape
from cnn2csdf.onnx_files.reader import read_onnx
from cnn2csdf.operators import Resize
from cnn2csdf.operators.resizes import ResizedAxis

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

COORDINATES = {
    "asymmetric": "asymmetric",
    "half pixel": "half_pixel",
    "pytorch half pixel": "pytorch_half_pixel",
    "align corners": "align_corners",
}
ROUNDINGS = {
    "floor": "floor",
    "ceil": "ceil",
    "prefer floor": "round_prefer_floor",
    "prefer ceil": "round_prefer_ceil",
}
MODES = [(places, rounding) for places in COORDINATES for rounding in ROUNDINGS]
LARGEST = 64


def model_bytes(coordinates, rounding, sizes=(), scales=(), length="rows"):
    """A model that resizes a column, of any length, to each size, or by each scale."""
    constants = [np.array([1, 1, size, 1], np.int64) for size in sizes]
    constants += [np.array([1, 1, scale, 1], np.float32) for scale in scales]
    outputs = [f"y{place}" for place in range(len(constants))]
    nodes = [
        onnx.helper.make_node(
            "Resize",
            ["x", "", "", f"c{place}"] if sizes else ["x", "", f"c{place}"],
            [output],
            mode="nearest",
            coordinate_transformation_mode=COORDINATES[coordinates],
            nearest_mode=ROUNDINGS[rounding],
        )
        for place, output in enumerate(outputs)
    ]
    value = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        nodes,
        "resizes",
        [value("x", onnx.TensorProto.FLOAT, [1, 1, length, 1])],
        [value(name, onnx.TensorProto.FLOAT, None) for name in outputs],
        [onnx.numpy_helper.from_array(one, f"c{place}") for place, one in enumerate(constants)],
    )
    opset = onnx.helper.make_opsetid("", 19)
    model = onnx.helper.make_model(graph, opset_imports=[opset], ir_version=9)
    return model.SerializeToString()


def runtime(coordinates, rounding, sizes=(), scales=()):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(
        model_bytes(coordinates, rounding, sizes, scales),
        options,
        providers=["CPUExecutionProvider"],
    )


def runtime_rows(session, length):
    column = np.arange(length, dtype=np.float32).reshape(1, 1, length, 1)
    return [found.reshape(-1).astype(int) for found in session.run(None, {"x": column})]


def our_rows(length, size, coordinates, rounding, scale=None):
    axis = ResizedAxis(length, size, scale, coordinates, rounding)
    return axis.nearest(np.arange(size))


def test_row_8_of_14_rows_resized_to_16_is_row_6():
    # 8 * 14 / 16 is 7; in single precision 8 / (16 / 14) is a little less.
    assert our_rows(14, 16, "asymmetric", "floor")[8] == 6


@pytest.mark.slow
@pytest.mark.parametrize(("coordinates", "rounding"), MODES)
def test_nearest_rows_of_all_sizes_up_to_64_are_those_of_onnx_runtime(coordinates, rounding):
    session = runtime(coordinates, rounding, sizes=range(1, LARGEST + 1))
    for length in range(1, LARGEST + 1):
        for size, theirs in enumerate(runtime_rows(session, length), start=1):
            ours = our_rows(length, size, coordinates, rounding)
            assert np.array_equal(ours, theirs), (length, size)


@pytest.mark.parametrize(("coordinates", "rounding"), MODES)
def test_nearest_rows_by_a_scale_near_a_tie_are_those_of_onnx_runtime(coordinates, rounding):
    generator = np.random.default_rng(0)
    scales = []
    for size, length in generator.integers(1, LARGEST, (60, 2)):
        scale = np.float32(size / length)
        for _ in range(generator.integers(0, 8)):
            scale = np.nextafter(scale, np.float32(generator.choice((0, 100))))
        scales.append(float(scale))
    scales = [scale for scale in scales if scale * 20 >= 1.01]
    session = runtime(coordinates, rounding, scales=scales)
    for length in (20, 37, 64):
        for scale, theirs in zip(scales, runtime_rows(session, length), strict=True):
            ours = our_rows(length, len(theirs), coordinates, rounding, scale)
            assert np.array_equal(ours, theirs), (length, scale)


@pytest.mark.slow
def test_sizes_by_scales_are_those_of_onnx_runtime(tmp_path):
    generator = np.random.default_rng(1)
    tenths = [round(one / 10, 1) for one in range(3, 40)]
    scales = [*tenths, *(float(one) for one in generator.uniform(0.3, 4, 60))]
    session = runtime("asymmetric", "floor", scales=scales)
    for length in range(4, LARGEST):
        path = tmp_path / f"{length}.onnx"
        path.write_bytes(model_bytes("asymmetric", "floor", scales=scales, length=length))
        ours = [layer.shape.rows for layer in read_onnx(str(path)).network.outputs]
        assert ours == [len(rows) for rows in runtime_rows(session, length)], length


@pytest.mark.parametrize(("coordinates", "rounding"), MODES)
def test_the_rows_needed_are_the_rows_read(coordinates, rounding):
    for length, size in ((14, 16), (15, 39), (23, 14), (64, 7)):
        operator = Resize(
            size=(size, 1), function="nearest", coordinates=coordinates, rounding=rounding
        )
        needed = operator.rows_needed(0, (Shape(dims=(1, length, 1)),), Shape(dims=(1, size, 1)))
        read = our_rows(length, size, coordinates, rounding)
        assert [needed(row) for row in range(size)] == [(row, row + 1) for row in read]
