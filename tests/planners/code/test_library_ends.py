"""The needs of an application that calls a library: types, scales, conversions, an example."""

import json
import re
import subprocess

import numpy as np
import pytest

from cnn2csdf.catalogue.networks import from_catalogue
from cnn2csdf.execution.layer_by_layer import run_layer_by_layer
from cnn2csdf.operators.moves import to_memory_order
from planners.code.library import library, write_folder
from planners.code.makefile import EXAMPLE, MAIN
from planners.memory.answer import RESIDENT, ROWS
from planners.memory.fit import fit
from tests.cli.running import run
from tests.planners.code.calibrated import integer_model
from tests.planners.code.compiling import COMPILER, FLAGS, needs_compiler

__all__ = ["run"]

CONVERTING = """#include <stdio.h>
#include "small.h"
int main(void)
{
    float value, back;
    while (scanf("%f", &value) == 1) {
        SMALL_IN_TYPE in;
        SMALL_OUT_TYPE out;
        small_quantize_input(SMALL_IN_NUMBER, &value, &in, 1);
        out = (SMALL_OUT_TYPE)in;
        small_dequantize_output(SMALL_OUT_NUMBER, &out, &back, 1);
        printf("%d %.9g\\n", in, (double)back);
    }
    return 0;
}
"""

REFUSED = """#include "small.h"
static float values[SMALL_IN_ELEMENTS];
static SMALL_IN_TYPE in[SMALL_IN_ELEMENTS];
int main(void)
{
    if (small_quantize_input(1, values, in, 1) != SMALL_WRONG_NUMBER) return 1;
    if (small_quantize_input(-1, values, in, 1) != SMALL_WRONG_NUMBER) return 2;
    if (small_quantize_input(0, values, in, SMALL_IN_ELEMENTS + 1) != SMALL_WRONG_NUMBER) return 3;
    if (small_quantize_input(0, values, in, -1) != SMALL_WRONG_NUMBER) return 4;
    if (small_quantize_input(0, values, NULL, 1) != SMALL_NULL_POINTER) return 5;
    if (small_dequantize_output(1, in, values, 1) != SMALL_WRONG_NUMBER) return 6;
    if (small_dequantize_output(0, NULL, values, 1) != SMALL_NULL_POINTER) return 7;
    return small_quantize_input(0, values, in, SMALL_IN_ELEMENTS) == SMALL_OK ? 0 : 8;
}
"""


def built(made):
    """Words for a compiler, without those for a program."""
    return [
        COMPILER,
        *FLAGS,
        "-Iinclude",
        *(one for one in made.files if one.startswith("src/") and one[-1] == "c"),
    ]


def planned(where):
    model = integer_model(from_catalogue("keyword_spotting:rows=10"))
    return model, library(model, fit(model.network, budget=1, input=where).least.plan, name="small")


@pytest.fixture(scope="module")
def case():
    return planned(RESIDENT)


@pytest.mark.slow
@needs_compiler
def test_numbers_of_a_sensor_become_integers_and_back(case, tmp_path):
    model, made = case
    (port,), (result,) = made.written.inputs, made.written.outputs
    text = CONVERTING.replace("_IN_", f"_{port.parameter.upper()}_")
    write_folder(
        tmp_path, {**made.files, MAIN: text.replace("_OUT_", f"_{result.parameter.upper()}_")}
    )
    subprocess.run([*built(made), MAIN, "-lm", "-o", "all"], cwd=tmp_path, check=True)
    taken, given = model.network.inputs[0].quantization, model.network.outputs[0].quantization
    scale = np.float32(taken.scale)
    values = np.float32([0, 0.3, -1e9, 1e9, *np.linspace(-200, 200, 41) * scale, 0.5 * scale])
    told = "nan " + " ".join(f"{one:.9g}" for one in values)
    ran = subprocess.run(["./all"], cwd=tmp_path, input=told, capture_output=True, text=True)
    found = [line.split() for line in ran.stdout.splitlines()]
    # TFLite rounds halves away from zero, then adds the zero point.
    steps = values / scale
    wanted = np.clip(np.sign(steps) * np.floor(np.abs(steps) + 0.5) + taken.zero_point, -128, 127)
    assert [int(one[0]) for one in found] == [-128, *wanted.astype(int)]
    back = np.float32(given.scale) * np.float32([int(one[0]) - given.zero_point for one in found])
    assert np.array_equal(np.float32([float(one[1]) for one in found]), back)


@pytest.mark.slow
@needs_compiler
def test_conversions_refuse_ports_and_counts_that_do_not_exist(case, tmp_path):
    text = REFUSED.replace("_IN_", f"_{case[1].written.inputs[0].parameter.upper()}_")
    write_folder(tmp_path, {**case[1].files, MAIN: text})
    subprocess.run([*built(case[1]), MAIN, "-lm", "-o", "all"], cwd=tmp_path, check=True)
    assert subprocess.run(["./all"], cwd=tmp_path).returncode == 0


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize("where", [RESIDENT, ROWS])
def test_the_example_prints_the_class_of_each_frame(where, tmp_path):
    model, made = planned(where)
    write_folder(tmp_path, made.files)
    subprocess.run([*built(made), EXAMPLE, "-lm", "-o", "all"], cwd=tmp_path, check=True)
    port = made.written.inputs[0]
    scale, zero = port.stored.quantization.scale, port.stored.quantization.zero_point
    generator = np.random.default_rng(1)
    stored = generator.integers(-128, 128, (3, *model.network.inputs[0].shape.dims), np.int8)
    frames = [to_memory_order(one) for one in stored]
    told = "\n".join(" ".join(f"{scale * (int(x) - zero):.7e}" for x in one) for one in frames)
    ran = subprocess.run(["./all"], cwd=tmp_path, input=told, capture_output=True, text=True)
    assert ran.returncode == 0
    (name,) = [one.name for one in model.network.inputs]
    outputs = [next(iter(run_layer_by_layer(model, {name: one}).values())) for one in stored]
    found = [line.split() for line in ran.stdout.splitlines()]
    assert [one[:2] for one in found] == [["class", str(one.argmax())] for one in outputs]
    back = made.written.outputs[0].stored.quantization
    wanted = [back.scale * (int(one.max()) - back.zero_point) for one in outputs]
    assert [float(one[2]) for one in found] == pytest.approx(wanted, abs=6e-5)
    for wrong in (f"{told} 1 2", "abc", "1e", "1.2.3"):
        ran = subprocess.run(["./all"], cwd=tmp_path, input=wrong, capture_output=True, text=True)
        assert ran.returncode == 1
        assert "ends early, or has a word that is no number" in ran.stdout


def test_an_input_by_row_is_never_whole_in_the_example():
    # Its arena would be for nothing if the example kept the whole input beside it.
    model, made = planned(ROWS)
    elements = model.network.inputs[0].shape.elements
    assert f"[{elements}]" not in made.files[EXAMPLE]


def test_json_and_header_tell_the_same(run, tmp_path):
    folder = tmp_path / "c"
    code, output, _ = run("deploy", "keyword_spotting:rows=10", "-o", folder, "--json")
    assert code == 0
    found = json.loads(output)
    header = (folder / "include" / f"{found['library']}.h").read_text()
    for end in (*found["inputs"], *found["outputs"]):
        macro = f"{found['library'].upper()}_{end['parameter'].upper()}"
        assert f"#define {macro}_TYPE {end['c_type']}\n" in header
        shape = re.search(rf"{macro}_SHAPE \{{(.*)\}}", header)[1]
        assert [int(one) for one in shape.split(", ")] == end["shape"]
