"""Quantised ONNX files, as ONNX Runtime's quantiser writes them, as C."""

import pytest

from cnn2csdf.onnx_files.reader import read_onnx
from cnn2csdf.simplify import simplified
from planners.memory.fit import fit
from tests.planners.code.compiling import FLAGS, libraries, needs_compiler, run_all

pytest.importorskip("onnxruntime.quantization")
from tests.cnn2csdf.onnx_files.test_onnx_quantized import quantized_file

pytestmark = pytest.mark.slow


@needs_compiler
@pytest.mark.parametrize(
    ("name", "form", "is_signed"),
    [
        ("resnet8", "QDQ", True),
        ("squeezenet1_1", "QOperator", False),
    ],
)
def test_a_quantised_onnx_file_in_c_gives_the_bytes_of_its_network(name, form, is_signed, tmp_path):
    quantization = pytest.importorskip("onnxruntime.quantization")
    kind = quantization.QuantType.QInt8 if is_signed else quantization.QuantType.QUInt8
    path, _ = quantized_file(name, tmp_path, form, per_channel=is_signed, activation_type=kind)
    model = simplified(read_onnx(path, with_weights=True))
    ways = fit(model.network, input="rows", budget=3).methods
    plans = [ways[0].plan, next(way.plan for way in ways if way.name == "layer by layer")]
    folder = tmp_path / "libraries"
    folder.mkdir()
    made = libraries([(model, plan) for plan in plans])
    assert run_all(made, folder, (*FLAGS[:-1], "-O1")) == []
