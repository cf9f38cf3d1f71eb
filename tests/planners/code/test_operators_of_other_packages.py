"""An operator of another package: networks with it are shown, planned, deployed and reported."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from cnn2csdf.execution.layer_by_layer import run_layer_by_layer
from cnn2csdf.readers.tflite.reader import parse_tflite
from tests.cnn2csdf.readers.tflite_models import Tensor, one_node
from tests.planners.code.compiling import COMPILER, needs_compiler

onnx = pytest.importorskip("onnx")

ROOT = Path(__file__).parents[3]
SECTION = (ROOT / "CONTRIBUTING.md").read_text().partition("### An operator of another package")[2]
SOURCE = re.search(r"^```python\n(.*?)^```$", SECTION, re.MULTILINE | re.DOTALL)[1]
POINT = re.search(r"^```toml\n\[(.*?)\]\n(.*?)^```$", SECTION, re.MULTILINE | re.DOTALL)
GROUP = POINT[1].removeprefix("project.entry-points.").strip('"')
DOMAIN, CHANNELS, SIZE = "com.example", 4, 6


@pytest.fixture
def hardshrink(install):
    """The package that CONTRIBUTING shows, installed; its module goes when the test ends."""
    name, _, module = POINT[2].strip().replace('"', "").partition(" = ")
    install("csdf-hardshrink", {name: module}, {module: SOURCE}, group=GROUP)
    yield sys.modules.get(module)
    sys.modules.pop(module, None)


def convolution(name, source):
    weights = np.random.default_rng(3).standard_normal((CHANNELS, CHANNELS, 3, 3), np.float32)
    node = onnx.helper.make_node(
        "Conv", [source, f"{name} kernel"], [name], name=name, pads=[1, 1, 1, 1]
    )
    return node, onnx.numpy_helper.from_array(weights / 4, f"{name} kernel")


def written(nodes, initializers, path, dims=(1, CHANNELS, SIZE, SIZE)):
    """Write an ONNX file whose nodes lead from "image" to "result"."""
    ends = [
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, dims)
        for name in ("image", "result")
    ]
    graph = onnx.helper.make_graph(nodes, "shrinking", ends[:1], ends[1:], initializers)
    opsets = [onnx.helper.make_opsetid("", 13), onnx.helper.make_opsetid(DOMAIN, 1)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    return path


def shrinking(source, result, **attributes):
    return onnx.helper.make_node(
        "Hardshrink", [source], [result], name=result, domain=DOMAIN, **attributes
    )


@pytest.fixture
def file(tmp_path):
    """A network with the operator behind a convolution, and alone between two joined branches."""
    first, kernel = convolution("first", "image")
    nodes = [
        first,
        shrinking("first", "shrunk", lambd=0.25),
        shrinking("shrunk", "branch", lambd=0.75),
        onnx.helper.make_node("Add", ["branch", "shrunk"], ["sum"], name="sum"),
        onnx.helper.make_node("Relu", ["sum"], ["result"], name="relu"),
    ]
    return written(nodes, [kernel], tmp_path / "shrinking.onnx")


def test_a_network_with_the_operator_is_shown_and_planned(run, hardshrink, file):
    code, output, remarks = run("cnn", "show", file)
    assert (code, remarks) == (0, "")
    assert "hardshrink" in output
    code, output, _ = run("fit", file, "--json")
    found = json.loads(output)
    # Fused into the convolution: the bound is one tensor, which the other layers overwrite.
    assert (code, found["lower_bound_bytes"]) == (0, 4 * CHANNELS * SIZE * SIZE)
    assert "line buffers, no recomputation" in [method["name"] for method in found["methods"]]
    code, _, remarks = run("plan", "traffic", file, "--buffer", "1kB")
    assert code == 0, remarks


@needs_compiler
def test_the_c_of_the_operator_computes_the_test_vectors(run, hardshrink, file, tmp_path):
    folder = tmp_path / "library"
    code, _, remarks = run("deploy", file, "-o", folder)
    assert code == 0, remarks
    (source,) = folder.glob("src/shrinking.c")
    layers = (folder / "src" / "csdf_float_layers.h").read_text()
    assert layers.count("EACH_ELEMENT(step_hardshrink, ") == 1
    assert ".apply = step_hardshrink, .a = 0.25f" in source.read_text()
    done = subprocess.run(
        ["make", "-s", "-C", folder, "test", f"CC={COMPILER}"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


ROTATION = '''
    """Rotation of channels: an operator that is not pointwise, with a kernel of its own."""

    from dataclasses import dataclass

    import numpy as np

    from cnn2csdf.operators.operator import RowByRow
    from cnn2csdf.part import same_rows
    from planners.code.extensions import KernelInC


    @dataclass(frozen=True, slots=True, kw_only=True)
    class Rotation(RowByRow):
        by: int

        def computed(self, part):
            return np.roll(same_rows(part), self.by, axis=0)


    def operator_of(attributes):
        return Rotation(by=attributes["by"])


    TEXT = """
    typedef struct {
        int32_t by;
    } rotating;

    static void rotate(const run *r, const layer *l, range rows, range columns)
    {
        const rotating *p = l->parameters;
        view in = input_view(r, l, 0), out = output_view(r, l);
        int32_t y, x, c;
        for (y = rows.first; y < rows.end; y++) {
            for (x = columns.first; x < columns.end; x++) {
                const element *from = row_at(&in, y) + column_at(&in, x);
                element *to = row_at(&out, y) + column_at(&out, x);
                for (c = 0; c < out.channels; c++) {
                    to[(c + p->by) % out.channels] = from[c];
                }
            }
        }
        finish_region(l, &out, rows, columns);
    }
    """
    C = KernelInC(
        text=TEXT, call=lambda layer, operator: layer.call("rotate", "rotating", by=operator.by)
    )
'''


@needs_compiler
def test_a_kernel_of_another_package_computes_the_test_vectors(run, install, tmp_path):
    install("csdf-rotation", {"Rotation": "csdf_rotation"}, {"csdf_rotation": ROTATION}, GROUP)
    first, kernel = convolution("first", "image")
    rotation = onnx.helper.make_node(
        "Rotation", ["first"], ["rotated"], name="rotated", domain=DOMAIN, by=3
    )
    relu = onnx.helper.make_node("Relu", ["rotated"], ["result"], name="relu")
    file = written([first, rotation, relu], [kernel], tmp_path / "rotating.onnx")
    code, _, remarks = run("deploy", file, "-o", tmp_path / "library")
    assert code == 0, remarks
    layers = (tmp_path / "library" / "src" / "csdf_float_layers.h").read_text()
    assert "static void rotate(" in layers
    done = subprocess.run(
        ["make", "-s", "-C", tmp_path / "library", "test", f"CC={COMPILER}"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    sys.modules.pop("csdf_rotation")


def test_an_array_that_flash_does_not_count_is_refused_with_the_layer(run, install, tmp_path):
    table = 'layer.symbol("turns", np.zeros(5, np.float32))'
    text = ROTATION.replace("by=operator.by)", f"by={table})")
    assert table in text
    install("csdf-turns", {"Rotation": "csdf_turns"}, {"csdf_turns": text}, GROUP)
    rotation = onnx.helper.make_node(
        "Rotation", ["image"], ["result"], name="result", domain=DOMAIN, by=3
    )
    file = written([rotation], [], tmp_path / "turns.onnx")
    code, _, remarks = run("deploy", file, "-o", tmp_path / "library")
    assert code == 2
    assert "layer 'result': no C code for Rotation with an array 'turns' of 5 numbers" in remarks
    sys.modules.pop("csdf_turns")


def test_integers_go_through_a_table_of_the_operator(run, hardshrink, tmp_path):
    scale = onnx.numpy_helper.from_array(np.float32(0.02), "scale")
    zero = onnx.numpy_helper.from_array(np.int8(-3), "zero")
    nodes = []
    for source, result in (("image", "image q"), ("shrunk", "shrunk q")):
        if result == "shrunk q":
            nodes.append(shrinking("image d", "shrunk"))
        nodes.append(onnx.helper.make_node("QuantizeLinear", [source, "scale", "zero"], [result]))
        back = "result" if result == "shrunk q" else "image d"
        nodes.append(onnx.helper.make_node("DequantizeLinear", [result, "scale", "zero"], [back]))
    file = written(nodes, [scale, zero], tmp_path / "integers.onnx")
    code, _, remarks = run("deploy", file, "-o", tmp_path / "library")
    assert code == 0, remarks
    text = (tmp_path / "library" / "src" / "integers.c").read_text()
    assert "look_up_region" in text
    if COMPILER is not None and shutil.which("make"):
        done = subprocess.run(
            ["make", "-s", "-C", tmp_path / "library", "test"], capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout + done.stderr


def test_a_report_of_a_network_with_the_operator_names_it(run, hardshrink, file, tmp_path):
    code, _, remarks = run("report", file, "-o", tmp_path / "page.html")
    assert code == 0, remarks
    assert "hardshrink" in (tmp_path / "page.html").read_text()


def test_a_custom_operator_of_tensorflow_lite_is_read_by_its_code(hardshrink):
    dims = (1, SIZE, SIZE, CHANNELS)
    content = one_node("CUSTOM:Hardshrink", [Tensor("x", dims)], Tensor("y", dims))
    model = parse_tflite(content, "shrinking.tflite", with_weights=True)
    frame = np.random.default_rng(5).standard_normal((CHANNELS, SIZE, SIZE), np.float32)
    (result,) = run_layer_by_layer(model, {"x": frame}).values()
    assert np.array_equal(result, np.where(np.abs(frame) > 0.5, frame, 0))


def test_attributes_that_the_package_refuses_are_an_error_with_the_node(run, hardshrink, tmp_path):
    nodes = [shrinking("image", "result", lambd="wide")]
    code, _, remarks = run("cnn", "show", written(nodes, [], tmp_path / "bad.onnx"))
    assert code == 2
    assert "node 'result' (Hardshrink" in remarks
    assert "could not convert string to float: 'wide'" in remarks


def test_without_the_package_the_node_is_refused_by_its_name(run, file):
    code, _, remarks = run("cnn", "show", file)
    assert code == 2
    assert "'Hardshrink' of domain 'com.example'" in remarks
