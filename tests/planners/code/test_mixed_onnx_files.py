"""ONNX files of the runtime's tools in which some operators stay real numbers, as C."""

import numpy as np
import pytest

from cnn2csdf.execution.layer_by_layer import run_layer_by_layer
from cnn2csdf.onnx_files.reader import read_onnx
from cnn2csdf.simplify import simplified
from planners.code.frames import random_frame
from planners.code.library import library
from planners.memory.fit import fit
from tests.cnn2csdf.onnx_models import runtime_outputs, saved
from tests.planners.code.compiling import needs_compiler, run_all

quantization = pytest.importorskip("onnxruntime.quantization")
onnx = pytest.importorskip("onnx")

pytestmark = pytest.mark.slow

DIMS = (1, 3, 12, 12)
STEP = 1 / 255  # of the softmax at the end: shares of one in 8 bits
FILES = {  # how activations and weights are stored, and what is left in real numbers
    "unsigned": ("QDQ", "QUInt8", "QInt8", ()),
    "float head": ("QDQ", "QInt8", "QInt8", ("normal", "larger", "head")),
    "weights with zero points": ("QDQ", "QUInt8", "QUInt8", ("curve",)),
    "16 bits": ("QDQ", "QUInt16", "QInt8", ()),
    "operators": ("QOperator", "QUInt8", "QUInt8", ()),
}


class Frames(quantization.CalibrationDataReader):
    """Random frames from which the runtime takes the ranges of tensors."""

    def __init__(self):
        source = np.random.default_rng(0)
        self._frames = iter([{"x": source.normal(size=DIMS).astype(np.float32)} for _ in range(3)])

    def get_next(self):
        return next(self._frames, None)


def real_file(folder):
    """A network with operators that the runtime computes between integers, and others."""
    source, make = np.random.default_rng(1), onnx.helper.make_node

    def numbers(name, *dims):
        return onnx.numpy_helper.from_array(source.normal(0, 0.3, dims).astype(np.float32), name)

    nodes = [
        make("Conv", ["x", "w1", "b1"], ["c1"], pads=[1] * 4),
        make("HardSwish", ["c1"], ["h"], name="curve"),
        make("Conv", ["h", "w2"], ["c2"], group=4, pads=[1] * 4),
        make("InstanceNormalization", ["c2", "scale", "shift"], ["n"], name="normal"),
        make("Resize", ["n", "", "sizes"], ["r"], mode="linear", name="larger"),
        make("Add", ["r", "r"], ["a"]),
        make("ConvTranspose", ["a", "w3"], ["t"], strides=[2, 2]),
        make("Conv", ["t", "w4"], ["c3"]),
        make("GlobalAveragePool", ["c3"], ["g"]),
        make("Flatten", ["g"], ["f"]),
        make("Gemm", ["f", "w5", "b5"], ["z"], transB=1),
        make("Sigmoid", ["z"], ["y"], name="head"),
        make("Softmax", ["c3"], ["s"], axis=1),
    ]
    value = onnx.helper.make_tensor_value_info
    sizes = onnx.numpy_helper.from_array(np.array([1, 1, 2, 2], np.float32), "sizes")
    trained = {
        "w1": (4, 3, 3, 3), "b1": (4,), "w2": (4, 1, 3, 3), "scale": (4,), "shift": (4,),
        "w3": (4, 3, 2, 2), "w4": (6, 3, 1, 1), "w5": (5, 6), "b5": (5,),
    }  # fmt: skip
    graph = onnx.helper.make_graph(
        nodes, "some", [value("x", 1, DIMS)], [value("y", 1, (1, 5)), value("s", 1, None)],
        [sizes, *(numbers(name, *dims) for name, dims in trained.items())],
    )  # fmt: skip
    opsets = [onnx.helper.make_opsetid("", 17)]
    return saved(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8), folder)


@needs_compiler
def test_files_with_operators_in_real_numbers_give_what_their_networks_give(tmp_path):
    source, made = real_file(tmp_path), []
    for number, (form, activations, weights, left) in enumerate(FILES.values()):
        path = str(tmp_path / f"integers{number}.onnx")
        quantization.quantize_static(
            source,
            path,
            Frames(),
            quant_format=quantization.QuantFormat[form],
            activation_type=quantization.QuantType[activations],
            weight_type=quantization.QuantType[weights],
            nodes_to_exclude=list(left),
            extra_options={"UseQDQContribOps": "16" in activations},
        )
        model = simplified(read_onnx(path, with_weights=True))
        frame = random_frame(model.network, 3)
        found = run_layer_by_layer(model, frame).values()
        expected = runtime_outputs(path, {name: array[None] for name, array in frame.items()})
        for ours, theirs in zip(found, expected, strict=True):
            assert np.abs(ours - theirs.reshape(ours.shape)).max() <= 1.01 * STEP
        planned = fit(model.network, input="rows")
        name = f"net{number}"
        made.append(library(model, planned.least.plan, name=name, frames=[frame]))
        assert made[-1].written.weight_bytes == planned.flash_bytes
    (tmp_path / "all").mkdir()
    assert run_all(made, tmp_path / "all") == []


@needs_compiler
@pytest.mark.parametrize("weights", ["QUInt8", "QInt8"])
def test_integers_with_a_scale_of_the_frame_give_what_their_network_gives(weights, tmp_path):
    path = str(tmp_path / "dynamic.onnx")
    kind = quantization.QuantType[weights]
    quantization.quantize_dynamic(real_file(tmp_path), path, weight_type=kind)
    model = simplified(read_onnx(path, with_weights=True))
    planned = fit(
        model.network, input="rows" if kind == quantization.QuantType.QInt8 else "resident"
    )
    (least, *_, last) = planned.methods
    made = [
        library(model, way.plan, name=f"net{number}") for number, way in enumerate((least, last))
    ]
    assert {one.written.weight_bytes for one in made} == {planned.flash_bytes}
    (tmp_path / "all").mkdir()
    assert run_all(made, tmp_path / "all") == []
