"""The arena of TensorFlow Lite Micro: predicted to the byte, and files that carry a plan for it."""

import re
import struct
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cnn2csdf.execution.layer_by_layer import run_layer_by_layer
from cnn2csdf.readers.tflite.model_file import root_record
from cnn2csdf.readers.tflite.reader import parse_tflite
from csdf.cli.main import main
from csdf.errors import UnreadableFile
from planners.arena.allocation import plan_arena
from planners.arena.checker import check_plan
from planners.arena.problem import Buffer, Problem
from planners.formats.tflite_micro import offline_plan
from planners.formats.tflite_micro_arena import (
    DEVICE,
    KERNELS,
    PACKAGE,
    InterpreterArena,
    interpreter_arena,
    registration,
)
from planners.formats.tflite_offline_plan import with_offline_plan
from tests.cnn2csdf.readers.tflite_cases import NAMES, case
from tests.cnn2csdf.readers.tflite_models import small_network
from tests.shared_data import SHARED, each

FOLDERS = [SHARED / "networks" / kind for kind in ("tflite", "stateful")]
FILES = {path.stem: path for folder in FOLDERS for path in sorted(folder.glob("*.tflite"))}
NOT_RUN = ("kws_fp32",)  # the interpreter refuses it
NEAR = 16  # bytes: one file of many variables takes so many more in the package than predicted
GUESSED = ("audio_preprocessor_int8",)  # has kernels whose data is not known
COUNTED = [
    one for one in NAMES if one[0].split()[0] in KERNELS
]  # the others are said to be guesses
# Recorded on a 32-bit Arm with the reference kernels: tensors and scratch, and what stays.
ON_ARM = {
    "ad01_fp32": (3072, 1456), "ad01_int8": (768, 1492), "ad_toycar_floatio": (3200, 1616),
    "hello_world_float": (128, 608), "hello_world_int8": (32, 644),
    "ic_resnet8_fp32": (196608, 5152), "ic_resnet8_int8": (49152, 5188),
    "kws_int8": (16000, 6772), "mcunet_vww1_int8": (161472, 58272),
    "micro_speech_int8": (5968, 820), "person_detect_int8": (55296, 26996),
    "simple_add_int8": (49152, 452),
}  # fmt: skip


def own_plan(arena):
    return arena.head(arena.placed({}))


@each("name", ON_ARM.keys() & FILES.keys())
def test_the_recorded_arena_of_a_device_is_predicted_to_the_byte(name):
    arena = interpreter_arena(FILES[name].read_bytes(), name, DEVICE)
    assert (own_plan(arena), arena.persistent) == ON_ARM[name]


def planned_file(content, name):
    """The file with a plan, the plan, and what the interpreter takes."""
    arena = interpreter_arena(content, name, PACKAGE)
    plan = arena.settled(plan_arena(arena.problem, budget=5))
    tensors = arena.problem.part((b for b in arena.problem.buffers if b.name.isdigit()), name)
    offsets = {one.name: plan.offsets[one.name] for one in tensors.buffers}
    of_tensors = replace(plan, problem=tensors, offsets=offsets)
    numbers = offline_plan(of_tensors, tensors=arena.tensors)
    return with_offline_plan(content, numbers), of_tensors, arena


def offsets_in(plan):
    """The offsets of an offline plan by tensor, without those that the runtime places."""
    _, _, _, *offsets = struct.unpack(f"<{len(plan) // 4}i", plan)
    return {str(tensor): offset for tensor, offset in enumerate(offsets) if offset != -1}


def plans_in(content):
    model = root_record(content)
    buffers = model.records(4)
    return [
        bytes(buffers[entry.integer(1, "I")].vector(0, "u1"))
        for entry in model.records(6)
        if entry.text(0) == "OfflineMemoryAllocation"
    ]


def test_a_file_with_a_plan_is_the_same_network():
    content = small_network()
    made, plan, _ = planned_file(content, "small")
    (numbers,) = plans_in(made)
    assert offsets_in(numbers) == plan.offsets
    before, after = (parse_tflite(one, "one.tflite", with_weights=True) for one in (content, made))
    assert after.network == before.network
    generator = np.random.default_rng(0)
    frame = {
        layer.name: generator.integers(-128, 128, layer.shape.dims).astype(np.int8)
        for layer in before.network.inputs
    }
    outputs = run_layer_by_layer(before, frame)
    for name, found in run_layer_by_layer(after, frame).items():
        assert np.array_equal(found, outputs[name])


def test_a_plan_takes_the_place_of_an_earlier_one():
    made, _, arena = planned_file(small_network(), "small")
    again = with_offline_plan(made, b"\1\0\0\0\0\0\0\0\0\0\0\0")
    assert plans_in(again) == [b"\1\0\0\0\0\0\0\0\0\0\0\0"]
    assert interpreter_arena(again, "small", PACKAGE) == arena


def test_a_damaged_file_is_refused():
    content = small_network()
    for broken in (b"", content[:40], content.replace(b"TFL3", b"XXXX")):
        with pytest.raises(UnreadableFile):
            with_offline_plan(broken, b"")


buffers = st.lists(
    st.tuples(st.integers(1, 9), st.integers(0, 9), st.integers(1, 4), st.booleans()),
    min_size=1,
    max_size=12,
)


@given(found=buffers)
def test_a_plan_is_never_larger_than_that_of_the_interpreter(found):
    named = [
        Buffer(
            name=f"scratch {number}" if is_scratch else str(number),
            size=16 * size,
            start=start,
            end=start + (1 if is_scratch else length),
        )
        for number, (size, start, length, is_scratch) in enumerate(found)
    ]
    problem = Problem(name="random", buffers=tuple(named))
    arena = InterpreterArena(
        problem=problem, tensors=len(named), persistent=0, temporary=0, not_known=(), kinds=()
    )
    plan = arena.settled(plan_arena(problem))
    check_plan(plan)
    assert plan.lower_bound <= plan.peak <= own_plan(arena)
    fixed = {name: at for name, at in plan.offsets.items() if name.isdigit()}
    assert (
        arena.placed(fixed) == plan.offsets
    )  # so the interpreter puts scratch where the plan says


def test_a_command_writes_the_file_and_says_the_arena(tmp_path, capsys):
    given, out = tmp_path / "small.tflite", tmp_path / "planned.tflite"
    given.write_bytes(small_network())
    assert main(["plan", "arena", str(given), "-o", str(out)]) == 0
    arena = interpreter_arena(given.read_bytes(), "small", DEVICE)
    (line,) = [one for one in capsys.readouterr().out.splitlines() if "TFLM" in one]
    head = max(offsets_in(plans_in(out.read_bytes())[0]).values())
    assert f"its own objects {arena.persistent}" in line
    assert head < own_plan(arena)
    assert main(["plan", "arena", "resnet8", "-o", str(out)]) == 2


@pytest.fixture
def interpreter(capfd):
    """Makes an interpreter of a file; and what its records say of head and tail."""
    runtime = pytest.importorskip(
        "tflite_micro.python.tflite_micro.runtime",
        reason="needs tflite-micro (a pre-release: pip install --pre tflite-micro)",
    )

    def make(content, size=1 << 20):
        return runtime.Interpreter.from_bytes(content, arena_size=size)

    def records(one):
        capfd.readouterr()
        one.print_allocations()
        text = "".join(capfd.readouterr())
        return tuple(
            int(re.search(f"allocation {end} (\\d+)", text)[1]) for end in ("head", "tail")
        )

    return make, records


def outputs_of(one, content):
    """The outputs for three random frames, one after the other."""
    generator = np.random.default_rng(1)
    graph = root_record(content).records(2)[0]
    found = []
    for _ in range(3):
        for place in range(len(graph.integers(1))):
            details = one.get_input_details(place)
            numbers = generator.integers(-100, 100, details["shape"]).astype(details["dtype"])
            one.set_input(numbers, place)
        one.invoke()
        found += [one.get_output(place).copy() for place in range(len(graph.integers(2)))]
    return found


@pytest.mark.slow
@each("name", [name for name in FILES if name not in (*NOT_RUN, *GUESSED)])
def test_the_installed_interpreter_follows_the_plan_and_takes_what_is_predicted(name, interpreter):
    make, records = interpreter
    content = FILES[name].read_bytes()
    made, plan, arena = planned_file(content, name)
    before, after = make(content), make(made)
    wanted, found = outputs_of(before, content), outputs_of(after, content)
    assert all(np.array_equal(one, other) for one, other in zip(wanted, found, strict=True))
    head, tail = records(after)
    assert head <= records(before)[0] == own_plan(arena)
    assert head >= plan.peak
    missing = tail - arena.persistent
    assert 0 <= missing <= NEAR
    make(made, arena.size(head) + 2 * missing)  # is enough


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "dtype"), COUNTED, ids=map(" ".join, COUNTED))
def test_the_installed_kernels_take_what_is_predicted(kind, dtype, interpreter):
    make, records = interpreter
    content = case(kind, dtype, 5)
    one = make(content)
    one.invoke()
    arena = interpreter_arena(content, kind, PACKAGE)
    assert records(one) == (own_plan(arena), arena.persistent)


def test_operators_are_registered_by_the_names_of_the_resolver():
    # As micro_mutable_op_resolver.h has them.
    names = {
        "CONV_2D": "AddConv2D", "DEPTHWISE_CONV_2D": "AddDepthwiseConv2D", "ADD_N": "AddAddN",
        "FULLY_CONNECTED": "AddFullyConnected", "AVERAGE_POOL_2D": "AddAveragePool2D",
        "L2_NORMALIZATION": "AddL2Normalization", "SPLIT_V": "AddSplitV", "PADV2": "AddPadV2",
        "GATHER_ND": "AddGatherNd", "SPACE_TO_BATCH_ND": "AddSpaceToBatchNd", "RELU6": "AddRelu6",
        "CUMSUM": "AddCumSum", "RESIZE_NEAREST_NEIGHBOR": "AddResizeNearestNeighbor",
        "CUSTOM:'TFLite_Detection_PostProcess'": "AddDetectionPostprocess", "SVDF": "AddSvdf",
        "CUSTOM:'mine'": 'AddCustom "mine"', "SELECT_V2": "AddSelectV2",
    }  # fmt: skip
    assert {kind: registration(kind) for kind in names} == names


def test_a_file_names_each_kind_of_operator_once():
    arena = interpreter_arena(small_network(), "small")
    assert arena.kinds == tuple(sorted(set(arena.kinds)))
    words = arena.resolver_in_words()
    assert words.startswith(f"MicroMutableOpResolver<{len(arena.kinds)}>: Add")
    assert words.count("AddConv2D()") == 1
