"""Libraries that call CMSIS-NN: which blocks of rows it makes, its scratch, and the same bytes.

A stand-in for CMSIS-NN, in `cmsis_nn/`, checks the geometry of blocks where the library itself is
missing. Where the environment's CMSIS_NN names a folder with it, the same libraries run with it.
"""

import json
import os
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from cnn2csdf import operators as op
from cnn2csdf.builder import NetworkBuilder
from cnn2csdf.dtypes import Quantization
from cnn2csdf.weights import Model, random_weights
from csdf.errors import UnsupportedOperator
from planners.code.calls.cmsis_nn import ScratchLimit, blocks_of
from planners.code.library import library, write_library
from planners.code.packaging import Package
from planners.code.parts import CMSIS_NN, COMMIT, source
from planners.memory.fit import fit
from planners.plan.plan import Kind
from tests.cli.running import run
from tests.planners.code.compiling import COMPILER, FLAGS, SANITIZERS, needs_compiler, run_all
from tests.planners.code.test_library_packages import CALLER, FRAMES, PROJECT_OF, needs_cmake
from tests.planners.code.test_quantised_libraries import everything, quantised, wide
from tests.planners.memory.streamed import random_plan
from tests.shared_data import SHARED, each

__all__ = ["run"]

MODELS = SHARED / "networks" / "tflite"
STAND_IN = Path(__file__).parent / "cmsis_nn"
FOLDER = os.environ.get("CMSIS_NN")
slow = pytest.mark.slow


def network_of(*operators, dims=(2, 9, 6)):
    """Operators one behind the other."""
    builder = NetworkBuilder("chain")
    last = builder.input(dims)
    for operator in operators:
        last = builder.add(operator, last)
    builder.output(last)
    return builder.network()


def window(size, stride=1, padding=None, dilation=1):
    around = dilation * (size - 1) // 2 if padding is None else padding
    return op.Window(
        kernel=(size, size),
        stride=(stride, stride),
        dilation=(dilation, dilation),
        padding=(around,) * 4,
    )


def beyond(kernel, right):
    return op.Window(kernel=kernel, padding=(0, 0, 0, right))


def method(network, name):
    return next(way.plan for way in fit(network).methods if way.name == name)


def written(model, plan, name="net"):
    return library(model, plan, name=name, kernels=CMSIS_NN).written


CHAIN = (op.Convolution(filters=5, window=window(3)), op.Convolution(filters=4, window=window(3)))


def test_a_block_is_contiguous_where_its_rows_do_not_bend_around_their_line():
    model = quantised(network_of(*CHAIN), 0)
    plan = method(model.network, "row by row")
    first, last = (layer.name for layer in model.network.layers[1:3])
    line = next(one for one in plan.buffers if (one.tensor, one.kind) == (first, Kind.LINE))
    pool = next(one for one in plan.buffers if one.kind is Kind.STAGING)
    size = 5 * 6  # bytes of a row, of which the line has room for two

    def together(row):
        """Row r lies at place r % 2; a third one in the pool, while the first two are needed."""
        begin, end = max(row - 1, 0), min(row + 2, 9)
        places = [line.offset + one % 2 * size for one in range(begin, end)]
        places[2:] = [pool.offset] * len(places[2:])
        return places == list(range(places[0], places[0] + len(places) * size, size))

    blocks = blocks_of(model.network, plan)[last]
    found = [(block.padding_above, block.is_contiguous) for block in blocks]
    assert line.rows == 2
    assert found == [(int(row == 0), together(row)) for row in range(9)]
    assert {is_together for _, is_together in found} == {True, False}


def test_scratch_is_that_of_the_largest_block_on_each_target():
    # 3 x 3 x 2 = 18 products: two columns of 20 in 16 bits, or four columns of two vectors of 16 bytes.
    dense = quantised(network_of(op.Convolution(filters=6, window=window(3))), 0)
    sizes = written(dense, method(dense.network, "layer by layer")).cmsis_nn.scratch
    assert sizes == {"mve": 4 * 2 * 16, "dsp": 2 * 20 * 2, "plain": 2 * 20 * 2}
    # 5 x 5 taps of 6 channels in 16 bits, or of four columns of 124 channels.
    deep = network_of(op.Convolution(filters=6, groups=6, window=window(5)), dims=(6, 9, 6))
    model = quantised(deep, 0)
    sizes = written(model, method(model.network, "layer by layer")).cmsis_nn.scratch
    assert sizes == {"mve": 4 * 124 * 25, "dsp": 2 * 6 * 25, "plain": 4}


def test_the_header_has_the_scratch_of_the_target():
    model = quantised(network_of(op.Convolution(filters=6, window=window(3))), 0)
    found = written(model, method(model.network, "layer by layer"))
    sizes = re.findall(r"#define NET_SCRATCH_BYTES (\d+)", found.header)
    assert [int(one) for one in sizes] == list(found.cmsis_nn.scratch.values())
    assert "int32_t scratch[NET_SCRATCH_BYTES / 4];" in found.header
    assert found.state_bytes >= max(found.cmsis_nn.scratch.values())


def with_scale(model, place, scale):
    """The model with another scale of a layer's result."""
    layers = list(model.network.layers)
    types = replace(layers[place].quantization, scales=(scale,))
    layers[place] = replace(layers[place], quantization=types)
    return replace(model, network=replace(model.network, layers=tuple(layers)))


def with_zero_point(model, place):
    """The model whose weights of a layer have a zero point."""
    layers = list(model.network.layers)
    stored = list(layers[place].stored)
    given = stored[0].quantization
    types = Quantization(element=given.element, scales=given.scales, zero_point=3)
    stored[0] = replace(stored[0], quantization=types)
    layers[place] = replace(layers[place], stored=tuple(stored))
    return replace(model, network=replace(model.network, layers=tuple(layers)))


@pytest.mark.parametrize(
    "model",
    [
        with_scale(
            quantised(network_of(CHAIN[0]), 0), 1, 1e-6
        ),  # sums are multiplied by more than one
        with_zero_point(quantised(network_of(CHAIN[0]), 0), 1),
        quantised(network_of(op.Convolution(filters=4, groups=2, window=window(3))), 0),
        quantised(  # the last windows of 3 x 3 see one column, and CMSIS-NN reads two
            network_of(op.Convolution(filters=2, groups=2, window=beyond((3, 3), right=2))), 0
        ),
        quantised(  # with the DSP extension, windows beside the input overrun the scratch
            network_of(op.Convolution(filters=2, groups=2, window=window(2, padding=2))), 0
        ),
        quantised(network_of(op.Reduction(function="mean", axes=(1, 2))), 0),
        quantised(
            network_of(
                op.Pooling(function="average", window=window(3), counts_padding=True),
            ),
            0,
        ),
        quantised(network_of(op.Pooling(function="max", window=window(2, dilation=2))), 0),
        quantised(  # CMSIS-NN counts places as int16_t, products as uint16_t
            network_of(
                op.Convolution(filters=1, window=op.Window(kernel=(1, 2), stride=(1, 9))),
                dims=(1, 1, 2**15),
            ),
            0,
        ),
        quantised(network_of(op.Convolution(filters=1, window=window(2)), dims=(2**14, 2, 2)), 0),
    ],
)
def test_layers_whose_bits_may_differ_stay(model):
    with pytest.raises(UnsupportedOperator, match=r"'quantised': CMSIS-NN computes no layer"):
        library(model, method(model.network, "layer by layer"), kernels=CMSIS_NN)


def test_a_network_of_real_numbers_is_refused():
    network = network_of(CHAIN[0])
    model = Model(network=network, weights=random_weights(network, 0))
    plan = fit(network, element_bytes=4).best.plan
    with pytest.raises(UnsupportedOperator, match="leave out --kernels"):
        library(model, plan, kernels=CMSIS_NN)


def test_build_files_name_the_commit_and_have_no_file_of_it():
    model = quantised(network_of(*CHAIN), 0)
    files = library(model, method(model.network, "row by row"), kernels=CMSIS_NN).files
    naming = {name for name, text in files.items() if COMMIT in text}
    assert naming == {"Makefile", "CMakeLists.txt", "README.md"}
    assert not any("arm_" in Path(name).name for name in files)


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_another_folder_of_cmsis_nn_and_other_flags_build_again(tmp_path):
    model = quantised(network_of(CHAIN[0]), 0)
    write_library(model, method(model.network, "layer by layer"), tmp_path, kernels=CMSIS_NN)
    built = set()
    for folder, flags in (("a", "-O1"), ("b", "-O1"), ("b", "-O3")):
        words = ("make", "-s", "build/flags", f"CMSIS_NN={folder}", f"CMSIS_NN_FLAGS={flags}")
        subprocess.run(words, cwd=tmp_path, check=True)
        built.add((tmp_path / "build" / "flags").read_text())
    assert len(built) == 3


def cases():
    """Models and plans with each kind of layer, in blocks of all kinds."""
    found = []
    for seed in range(3):
        model = quantised(wide(), seed)
        found += [(model, method(model.network, "layer by layer"))] if not seed else []
        found.append((model, method(model.network, "row by row")))
    model = quantised(everything(), 1)
    found.append((model, method(model.network, "layer by layer")))
    found.append((model, random_plan(model.network, 1, is_streamed=False, element_bytes=1)))
    steps = network_of(
        op.Convolution(filters=6, window=window(3, stride=2)),
        op.Convolution(filters=6, groups=6, window=window(3, dilation=2)),
        op.Convolution(filters=5, window=window(1, stride=2, dilation=2)),
        op.Pooling(function="average", window=window(3, stride=2)),
        dims=(3, 25, 22),
    )
    model = quantised(steps, 5)
    found.append((model, method(model.network, "row by row")))
    model = quantised(network_of(*CHAIN), 6)
    found.append((model, method(model.network, "row by row")))
    return found


def made_of(found):
    """Libraries, in turn with any scratch and with little; in the last, rows cannot be copied."""
    return [
        library(
            *(model, plan),
            name=f"net{number}",
            kernels=CMSIS_NN,
            scratch=ScratchLimit(200 if number == len(found) - 1 else 700 if number % 2 else None),
        )
        for number, (model, plan) in enumerate(found)
    ]


def counting(made):
    """Flags with which test programs compare the blocks that CMSIS-NN makes with those planned."""
    return [f"-D{one.name.upper()}_BLOCKS" for one in made]


@slow
@needs_compiler
def test_blocks_of_rows_give_the_bytes_of_the_whole_network(tmp_path):
    made = made_of(cases())
    assert all(one.written.cmsis_nn.computed_blocks for one in made)
    assert any(one.written.cmsis_nn.own_blocks for one in made)
    assert any(one.written.cmsis_nn.copied for one in made)
    layers = [layer for one in made for layer in one.written.cmsis_nn.to_json()["layers"]]
    called = {layer["function"] for layer in layers}
    assert len(called) == 6  # all that it may call
    flags = (*FLAGS, *SANITIZERS, "-isystem", str(STAND_IN), *counting(made))
    assert run_all(made, tmp_path, flags) == []


@slow
@needs_compiler
@pytest.mark.skipif(FOLDER is None, reason="CMSIS_NN names no folder with CMSIS-NN")
def test_cmsis_nn_itself_gives_the_bytes_of_the_whole_network(tmp_path):
    found = cases()
    made = made_of(found)
    write_library(*found[0], tmp_path / "one", name="one", kernels=CMSIS_NN)
    words = ["make", "-s", "-C", tmp_path / "one", "build/cmsis-nn.a", f"CMSIS_NN={FOLDER}"]
    subprocess.run([*words, f"CC={COMPILER}", "CFLAGS=-O0 -fsanitize=address"], check=True)
    archive = tmp_path / "one" / "build" / "cmsis-nn.a"
    flags = (
        *(*FLAGS, *SANITIZERS, "-isystem", f"{FOLDER}/Include", *counting(made)),
        *(f"-Wl,-u,{name}" for name in set(re.findall(r"arm_\w+(?=\()", source("cmsis_nn.c")))),
        str(archive),
    )
    (tmp_path / "all").mkdir()
    assert run_all(made, tmp_path / "all", flags) == []


@each("file", sorted(MODELS.glob("hello_world_int8.tflite")))
def test_deploy_counts_the_scratch_and_says_what_cmsis_nn_computes(run, tmp_path, file):
    words = ("deploy", file, "--kernels", "cmsis-nn", "-o", tmp_path / "c")
    code, output, _ = run(*words, "--json")
    answer = json.loads(output)
    found = answer["kernels"]
    state = max(one["state_bytes"] for one in answer["methods"] if one["ram_bytes"] == 32)
    assert code == 0
    assert found["commit"] == COMMIT
    assert found["firings"]["cmsis_nn"] == sum(one["firings"] for one in found["layers"]) == 3
    # 32 bytes of arena, the state with the least scratch, a word and its padding, and the stack
    least = 32 + state + 8 + answer["stack_bytes"]
    code, output, _ = run(*words, "--ram", least)
    assert code == 0
    assert "CMSIS-NN makes 3 of 3 firings, 100% of the MACs" in output
    code, _, remarks = run(*words, "--ram", least - 1)
    assert code == 2
    assert "and the scratch that there is" in remarks


@slow
@needs_cmake
@pytest.mark.parametrize("frame", FRAMES)
def test_cmake_links_cmsis_nn_from_the_folder_that_it_is_given(tmp_path, frame):
    model = quantised(network_of(CHAIN[0]), 0)
    plan = method(model.network, "layer by layer")
    package = Package(projects=(PROJECT_OF[frame],))
    folder = tmp_path / "library"
    write_library(model, plan, folder, name="small", kernels=CMSIS_NN, package=package)
    (tmp_path / "main.c").write_text(CALLER)
    (tmp_path / "given").mkdir()
    (tmp_path / "given" / "CMakeLists.txt").write_text(
        f"add_library(cmsis-nn INTERFACE)\ntarget_include_directories(cmsis-nn INTERFACE {STAND_IN})\n"
    )
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.15)\nproject(product C)\nset(COMPONENT_LIB firmware)\n"
        f"{FRAMES[frame]}\nadd_executable(product main.c)\n"
        "target_link_libraries(product firmware m)\n"
    )
    for words in (["-S", ".", "-B", "build", "-DCMSIS_NN=given"], ["--build", "build"]):
        subprocess.run(["cmake", *words], cwd=tmp_path, check=True, capture_output=True)
    assert subprocess.run([tmp_path / "build" / "product"]).returncode == 0


@slow
@needs_compiler
@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_make_says_where_cmsis_nn_comes_from(tmp_path):
    model = quantised(network_of(CHAIN[0]), 0)
    write_library(model, method(model.network, "layer by layer"), tmp_path, kernels=CMSIS_NN)
    ran = subprocess.run(
        ["make", "-C", tmp_path, "test", "CMSIS_NN=nowhere"], capture_output=True, text=True
    )
    assert ran.returncode
    assert f"git -C CMSIS-NN checkout {COMMIT}" in ran.stderr
