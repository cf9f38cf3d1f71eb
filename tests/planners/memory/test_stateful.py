"""Plans of networks that keep a state: bytes, runs in them, and the C that they become."""

import json
import re
import subprocess
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

from cnn2csdf import operators as op
from cnn2csdf.builder import NetworkBuilder
from cnn2csdf.dtypes import Element, Quantization
from cnn2csdf.execution.compare import random_frames
from cnn2csdf.execution.layer_by_layer import first_states, run_layer_by_layer
from cnn2csdf.network import Network
from cnn2csdf.platforms import BoardMemory
from cnn2csdf.readers.model_files import read_model
from cnn2csdf.rings import with_states
from cnn2csdf.streams import as_stream
from cnn2csdf.weights import Model, random_weights
from csdf.cli.main import main
from csdf.errors import ExecutionError, InvalidPlan
from csdf.status import Status
from csdf.time_limit import Stop
from csdf.units import bytes_in_words
from planners.code.frames import random_frame
from planners.code.library import write_library
from planners.code.several import Member, combined_libraries
from planners.code.sources import library_sources
from planners.memory.alternatives import fit_with_alternatives
from planners.memory.fit import fit, slow_front
from planners.memory.loaded_plan import fit_of
from planners.memory.memory_plans import in_fast_memory
from planners.memory.moved_weights import layout_of
from planners.memory.plan_runs import run_frames
from planners.memory.request import fit_request
from planners.memory.several_networks import with_states_apart
from planners.memory.stages import StageTable
from planners.memory.state_in_memories import _knapsack
from planners.memory.stateful import stateful_plan
from planners.plan.carried_out import require_carried_out
from planners.plan.checker import require_apart
from planners.plan.ram import ram_beside
from planners.plan.text import format_plans, parse_plans
from tests.cnn2csdf.readers.test_states import FOLDER, NAMES, as_frame, as_in_file, golden_runs
from tests.planners.code.compiling import libraries, needs_compiler, run_all
from tests.planners.code.counted_accesses import require_counted
from tests.planners.code.test_cells_in_integers import quantised
from tests.shared_data import each

OF_EACH_KIND = (  # channels of two heights, sums that stay, filters in low rank, an LSTM by rows
    "made_residual_begin0",
    "mww_v2x_okay_computer",
    "keyword_svdf_state16",
    "mnist_lstm_int8",
)
SMALL = ["made_plain_begin1", "mww_v2_vad"]


def model_of(name):
    return read_model(FOLDER / f"{name}.tflite", with_weights=True)


@each("name", ["mww_v2_vad"])
def test_what_would_fit_is_said_of_a_network_that_keeps_a_state(name):
    network = model_of(name).network
    found = fit_with_alternatives(network, ram=fit(network).least.ram_bytes - 1)
    (way,) = [one for one in found.alternatives if one.options == "--input external"]
    assert way.fits
    assert fit(network, input="external").least.ram_bytes == way.ram_bytes


@each("name", NAMES)
def test_a_hop_takes_no_more_than_the_table_of_the_page(name):
    wanted = json.loads((FOLDER / "models.json").read_text())[name]["least_ram"]
    assert stateful_plan(model_of(name).network).arena_bytes <= wanted


@each("name", NAMES)
def test_a_plan_runs_in_its_bytes_with_all_others_spoilt_between_frames(name):
    model = model_of(name)
    plan = stateful_plan(model.network).plan
    inputs, outputs = next(golden_runs(name, 4))
    runs = run_frames(model, plan, [as_frame(model, one) for one in inputs])
    for run, wanted in zip(runs, outputs, strict=True):
        assert as_in_file(run.outputs).tolist() == wanted.reshape(-1).tolist()
    assert runs[-1].high_water_bytes <= plan.arena_bytes


@each("name", SMALL)
def test_a_plan_is_written_and_read_with_what_stays(name):
    network = model_of(name).network
    (plan,) = parse_plans(format_plans([stateful_plan(network).plan]), "plan.json")
    assert fit_of(network, plan).best.plan.kept_bytes == network.kept_bytes()


@each("name", SMALL)
def test_the_checker_finds_rows_that_are_overwritten(name):
    network = model_of(name).network
    plan = stateful_plan(network).plan
    moved = [
        replace(one, offset=0) if one.kind.value == "whole" and one.size <= 8 else one
        for one in plan.buffers
    ]
    with pytest.raises((InvalidPlan, ExecutionError)):
        fit_of(network, replace(plan, buffers=tuple(moved)))


@each("name", SMALL)
def test_a_variable_without_a_buffer_is_refused_by_name(name):
    network = model_of(name).network
    plan = stateful_plan(network).plan
    first = next(one for one in plan.buffers if one.persists)
    left = tuple(one for one in plan.buffers if one is not first)
    with pytest.raises(InvalidPlan, match="stays from frame to frame in 0 buffers; expected one"):
        fit_of(network, replace(plan, buffers=left))


def built(name, frames, folder):
    model = model_of(name)
    inputs, _ = next(golden_runs(name, frames))
    write_library(
        model, fit(model.network).best.plan, folder, frames=[as_frame(model, one) for one in inputs]
    )
    flags = "-O0 -fsanitize=address,undefined -fno-sanitize-recover"
    return subprocess.run(
        ["make", "-s", "-C", folder, "test", f"CFLAGS={flags}"],
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
@each("name", [name for name in OF_EACH_KIND if name in NAMES])
def test_c_gives_the_same_from_any_saved_state(name, tmp_path):
    # The test program works all frames, then again from the beginning with the state saved, the
    # arena spoilt and the state restored before each frame.
    found = built(name, 12, tmp_path)
    assert found.returncode == 0, found.stdout + found.stderr
    assert "outputs equal" in found.stdout


@each("name", SMALL[:1])
def test_outputs_depend_on_frames_before(name):
    model, frames = model_of(name), []
    inputs, _ = next(golden_runs(name, 12))
    frames = [as_frame(model, one) for one in inputs]
    states = first_states(model)
    kept = [as_in_file(run_layer_by_layer(model, one, states)) for one in frames]
    fresh = [as_in_file(run_layer_by_layer(model, one)) for one in frames]
    assert not np.array_equal(kept, fresh)


def paired(name, add):
    """A network with variables `a` and `b` behind what `add` makes of them and an input."""
    network = NetworkBuilder(name)
    add(network, *(network.input((2, 2, 1), one) for one in ("x", "a", "b")))
    model = Model(network=network.network(), weights={})
    return with_states(model, {"a": "next a", "b": "next b"})


def in_a_chain(network, x, a, b):
    network.output(network.add(op.Elementwise(function="add"), x, b), "y")
    network.output(x, "next a")
    network.output(a, "next b")


def changing_places(network, x, a, b):
    network.output(network.add(op.Elementwise(function="add"), x, b), "y")
    network.output(b, "next a")
    network.output(network.add(op.Elementwise(function="subtract"), x, a), "next b")


def read_twice(network, x, a, b):
    window = network.add(op.Concatenation(axis=1), a, x)
    network.output(network.add(op.GlobalPooling(function="average"), window), "y")
    network.output(network.add(op.GlobalPooling(function="max"), window), "z")
    network.output(network.add(op.Slice(axis=1, start=2, stop=4), window), "next a")
    network.output(network.add(op.Elementwise(function="add"), b, x), "next b")


def read_after_the_last_layer(network, x, a, b):
    network.output(network.add(op.Elementwise(function="add"), x, b), "next b")
    both = network.add(op.Elementwise(function="add"), x, a)
    for name in ("y", "next a"):
        network.output(both, name)
    network.output(network.add(op.Activation(function="relu"), both), "z")
    network.output(x, "same")


def a_sum_for_the_next_frame(network, x, a, b):
    total = network.add(op.Elementwise(function="add"), x, a)
    network.output(total, "y")
    network.output(total, "next a")
    network.output(b, "next b")


def test_a_result_that_the_next_frame_reads_is_resident():
    network = paired("kept", a_sum_for_the_next_frame).network
    found = fit(network, element_bytes=4, output="external")
    assert found.best.plan == fit(network, element_bytes=4).best.plan
    assert found.best.ram_bytes == 4 * 16  # `a`, `b`, `x` and the sum


def test_separate_buffers_are_those_of_states_inputs_and_results():
    network = paired("kept", in_a_chain).network
    # 16 bytes each: `a`, `b`, `x`, the sum, and `a` for the next `b`.
    assert stateful_plan(network).separate_bytes == 80
    assert stateful_plan(network, external=["x"]).separate_bytes == 64


@pytest.mark.parametrize(
    "names", [("f: sums", "p", "f"), ("f", "p", "p: sums"), ("p state copy", "p", "a kept")]
)
def test_a_tensor_may_be_named_as_the_buffer_of_another(names):
    first, second, third = names

    def add(network, x, a, b):
        steep = network.add(op.Activation(function="relu"), x, name=first)
        pooled = network.add(op.GlobalPooling(function="average"), steep, name=second)
        network.output(network.add(op.Activation(function="relu"), pooled, name=third), "y")
        network.output(b, "next a")
        network.output(x, "next b")

    network = paired("named", add).network
    plan = stateful_plan(network).plan
    require_carried_out(network, plan)
    for away in ((), ("a", "b")):
        buffers = stateful_plan(network, away=away).plan.buffers
        assert len({buffer.name for buffer in buffers}) == len(buffers)


def test_a_sum_of_all_rows_but_the_last_is_kept_from_that_row():
    builder = NetworkBuilder("pooled")
    steep = builder.add(op.Activation(function="relu"), builder.input((8, 5, 8)))
    window = op.Window(kernel=(4, 8), stride=(4, 8))
    pooled = builder.add(op.Pooling(function="average", window=window), steep)
    builder.output(builder.add(op.Activation(function="relu"), pooled))
    network = builder.network()
    require_carried_out(network, stateful_plan(network).plan)


@pytest.mark.parametrize(
    "add", [in_a_chain, changing_places, read_twice, read_after_the_last_layer]
)
def test_variables_of_any_form_stay_as_in_the_whole_network(add):
    model = paired(add.__name__, add)
    plan = fit(model.network, element_bytes=4).best.plan
    fit_of(model.network, plan)
    frames, states = random_frames(model.network, 6, 0), first_states(model)
    for frame, run in zip(frames, run_frames(model, plan, frames), strict=True):
        wanted = run_layer_by_layer(model, frame, states)
        for name, array in run.outputs.items():
            assert array == pytest.approx(wanted[name])


def test_traffic_of_a_state_is_computed_for_each_size_of_fast_memory():
    memories = ["sram=64", "psram=1kB:slow"]
    request = fit_request(paired("read_twice", read_twice).network, memories=memories)
    front = slow_front(request, lambda _: Stop())
    assert [traffic.memories[0].size for traffic in front] == [16, 32, 64, 128, 256, 512]
    assert (front[0].moved, front[-1].moved) == (None, 0)


def test_networks_in_one_arena_keep_their_states_apart():
    models = [paired(one.__name__, one) for one in (in_a_chain, read_twice)]
    alone = [fit(one.network, element_bytes=4) for one in models]
    members = [
        Member(model=one, plan=found.best.plan) for one, found in zip(models, alone, strict=True)
    ]
    with pytest.raises(InvalidPlan, match="stays between frames, but"):  # as they share bytes
        combined_libraries(members)
    apart = with_states_apart(alone)
    plans = [one.best.plan for one in apart]
    require_apart(plans)
    assert all(any(way is one.best for way in one.methods) for one in apart)
    with pytest.raises(InvalidPlan, match="stays between frames, but"):
        require_apart([one.best.plan for one in alone])
    # 2 variables of 4 numbers of 4 bytes each in both, and what passes in the neediest
    kept, passing = 2 * 2 * 4 * 4, [one.best.plan.arena_bytes - 32 for one in alone]
    assert max(one.arena_bytes for one in plans) == kept + max(passing)


def test_a_network_beside_states_takes_the_way_that_fits_into_what_they_leave():
    stateful = fit(paired("in_a_chain", in_a_chain).network, element_bytes=4)
    network = read_model("samos_example").network
    alone = fit(network, element_bytes=4, searched=())
    small, *_, large = sorted(alone.methods, key=lambda way: way.ram_bytes)
    kept = stateful.best.plan.kept_bytes
    ram = large.ram_bytes + kept - 1  # for each alone, and for the smaller way beside the state
    asked = [replace(stateful, ram=ram), replace(alone, best=large, ram=ram)]

    def again(number, left):
        return fit((None, network)[number], element_bytes=4, searched=(), ram=left)

    refused = with_states_apart(asked)[1]
    assert (refused.best, refused.status) == (None, Status.UNKNOWN)
    assert with_states_apart(asked, again)[1].best.ram_bytes == small.ram_bytes + kept


def test_elements_beside_a_state_of_any_size_are_aligned_and_within_the_ram():
    wide = read_model("samos_example").network
    alone = fit(wide, element_bytes=8, searched=(), labels=(12,))
    for columns in (2, 3):  # states of 4 and 6 bytes
        builder = NetworkBuilder("kept")
        x, a = (builder.input((2, columns, 1), name) for name in ("x", "a"))
        builder.output(builder.add(op.Elementwise(function="add"), x, a), "y")
        builder.output(x, "next a")
        network = with_states(Model(network=builder.network()), {"a": "next a"}).network
        stateful = fit(network, element_bytes=1)
        kept, shared = with_states_apart([stateful, alone])
        require_carried_out(network, kept.best.plan)
        require_carried_out(wide, shared.best.plan)
        ram = kept.best.ram_bytes
        assert with_states_apart([replace(stateful, ram=ram), alone])[0].best is not None
        assert with_states_apart([replace(stateful, ram=ram - 1), alone])[0].best is None


@each("name", SMALL)
def test_a_given_plan_takes_at_least_what_stays(name):
    network = model_of(name).network
    found = fit(network)
    assert fit_of(network, found.best.plan).lower_bound == found.lower_bound


@each("name", SMALL)
def test_flash_counts_what_the_state_begins_with(name):
    model = model_of(name)
    found = fit(model.network)
    written = library_sources(model, found.best.plan, "net")
    assert found.flash_bytes == written.weight_bytes


def test_the_page_of_a_library_says_that_the_arena_keeps_a_state(tmp_path):
    model = model_of(SMALL[0])
    plan = fit(model.network).best.plan
    write_library(model, plan, tmp_path, name="net")
    page = (tmp_path / "README.md").read_text()
    assert f"{plan.kept_bytes:,} bytes of the arena" in page
    assert "net_save" in page


def test_the_page_of_networks_calls_what_the_header_declares():
    models = [model_of(name) for name in SMALL]
    apart = with_states_apart([fit(one.network) for one in models])
    members = [
        Member(model=one, plan=found.best.plan) for one, found in zip(models, apart, strict=True)
    ]
    files = combined_libraries(members, name="two").files
    called = re.findall(r"^(\w+)\(&state_of_", files["README.md"], flags=re.MULTILINE)
    assert len(called) == 2 * len(models)
    header = "".join(text for name, text in files.items() if name.endswith(".h"))
    assert [name for name in called if f"_status {name}(" not in header] == []


@each("name", SMALL[:1])
def test_cnn_verify_runs_frame_after_frame_in_the_bytes_of_the_plan(name, capsys):
    assert main(["cnn", "verify", str(FOLDER / f"{name}.tflite"), "--frames", "5"]) == 0
    # the table of the page: 388 bytes, 352 kept
    assert (
        "5 frames, one after the other, in 388 bytes, of which 352 stay" in capsys.readouterr().out
    )


@each("name", NAMES[:1])
def test_a_report_leads_with_the_bytes_that_stay(name, tmp_path, capsys):
    page = tmp_path / "page.html"
    assert main(["report", str(FOLDER / f"{name}.tflite"), "-o", str(page)]) == 0
    network = model_of(name).network
    found = fit(network, beside=ram_beside(network))
    shown = found.best or found.least
    first = capsys.readouterr().out.splitlines()[0]
    assert f": {bytes_in_words(shown.needed_ram)} of RAM, of which " in first
    assert f"{bytes_in_words(shown.plan.kept_bytes)} retained between frames, " in first
    assert first.split(" (")[0] in page.read_text()


def boards(fast):
    """A fast memory of some bytes, a larger one, slow memory, and flash that counts."""
    return (
        BoardMemory(name="dtcm", size=fast),
        BoardMemory(name="axi", size=10**6),
        BoardMemory(name="sdram", size=10**6, is_slow=True),
        BoardMemory(name="flash", size=10**6, is_slow=True, holds=("weights",)),
    )


@each("name", SMALL)
def test_a_state_lies_in_the_nearest_fast_memory_that_has_room(name):
    model = model_of(name)
    alone = fit(model.network).best.plan
    for fast, home in ((alone.arena_bytes, "dtcm"), (alone.arena_bytes - 1, "axi")):
        found = fit(model.network, memories=boards(fast))
        plan = found.best.plan
        assert [one.name for one in plan.memories if one.size] == [home]
        require_carried_out(model.network, plan)
        assert found.slow.moved == plan.slow_bytes > 0  # weights that are read in flash
        inputs, outputs = next(golden_runs(name, 4))
        runs = run_frames(model, plan, [as_frame(model, one) for one in inputs])
        for run, wanted in zip(runs, outputs, strict=True):
            assert as_in_file(run.outputs).tolist() == wanted.reshape(-1).tolist()
            assert run.slow_bytes == plan.slow_bytes
    small = fit(model.network, memories=(*boards(9)[:1], boards(9)[2]))
    assert (small.best, small.status) == (None, Status.UNKNOWN)
    frame = in_slow_memory(model, 0).memories[0].size
    assert f"still needs {frame} bytes of fast memory; give larger memories" in str(small.reason)


def in_two_fast_memories(model):
    """A plan in two fast memories: the first has room for part of the state, none for the arena."""
    arena = stateful_plan(model.network).plan
    largest = max(one.size for one in arena.buffers if one.persists)
    near, far, *others = boards(largest + -largest % 8)
    plan = fit(
        model.network, memories=(near, replace(far, size=arena.arena_bytes - 1), *others)
    ).best.plan
    assert all(one.size for one in plan.memories[:2])
    return plan


def in_slow_memory(model, part, *, unit=None):
    """A plan beside slow memory, in fast memory for a frame and this part of what stays."""
    arena = stateful_plan(model.network, element_bytes=unit).plan
    kept = {one.tensor for one in arena.buffers if one.persists}
    frame = stateful_plan(model.network, element_bytes=unit, away=kept).plan.memories[0].size
    fast = frame + int(max(0, arena.arena_bytes - 1 - frame) * part)
    return fit(model, element_bytes=unit, memories=(boards(fast)[0], boards(0)[2])).best.plan


@each("name", NAMES)
def test_a_state_in_several_memories_gives_the_frames_of_the_network(name):
    model = model_of(name)
    inputs, outputs = next(golden_runs(name, 4))
    for plan in (in_two_fast_memories(model), in_slow_memory(model, 0.5)):
        require_carried_out(model.network, plan)
        runs = run_frames(model, plan, [as_frame(model, one) for one in inputs])
        for run, wanted in zip(runs, outputs, strict=True):
            assert as_in_file(run.outputs).tolist() == wanted.reshape(-1).tolist()
            assert run.slow_bytes == plan.slow_bytes


@pytest.mark.slow
@each("name", [name for name in NAMES if name.startswith("made") or name.endswith("computer")])
def test_states_in_slow_memory_move_as_few_bytes_as_any_choice(name):
    network = model_of(name).network
    arena, table = stateful_plan(network).plan, StageTable(network, element_bytes=None)
    states = [one.tensor for one in arena.buffers if one.persists]
    choices = [
        stateful_plan(network, away=away).plan
        for count in range(len(states) + 1)
        for away in combinations(states, count)
    ]
    moved = set()
    for fifths in range(4):
        fast = arena.arena_bytes - 1 - arena.kept_bytes * fifths // 5
        memories = boards(fast)[0], boards(fast)[2]
        plans = [in_fast_memory(choice, table, layout_of(memories)) for choice in choices]
        least = min((one.slow_bytes for one in plans if one is not None), default=None)
        best = fit(network, memories=memories).best
        assert (best and best.plan.slow_bytes) == least
        moved.add(least)
    assert len(moved) > 2


def test_bytes_of_states_in_slow_memory_are_those_counted_by_hand():
    # 16 bytes each: `a` and `b` are copied for their readers; `x` is stored in `a`, and `a` in `b`.
    model = paired("kept", in_a_chain)
    plan = in_slow_memory(model, 0, unit=4)
    assert [(one.read, one.written) for one in plan.traffic] == [(16 + 16, 16 + 16)]
    assert [memory.size for memory in plan.memories[:2]] == [16 + 16 + 16, 16 + 16]


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (lambda plan: {"buffers": without_copy(plan)}, "0 buffers with all rows have the name"),
        (lambda plan: {"groups": uncopied(plan)}, "does not take it over"),
        (
            lambda plan: {"buffers": without_copy(plan), "groups": uncopied(plan)},
            "reads the state 'b' in slow memory 'sdram'; expected a copy in fast memory",
        ),
        (lambda plan: {"traffic": (replace(plan.traffic[0], read=16),)}, "counts 16 bytes from"),
    ],
)
def test_a_state_in_slow_memory_that_is_not_copied_is_refused(changed, words):
    model = paired("kept", in_a_chain)
    plan = in_slow_memory(model, 0, unit=4)
    change = {name: tuple(value) for name, value in changed(plan).items()}
    with pytest.raises(InvalidPlan, match=words):
        require_carried_out(model.network, replace(plan, **change))


def without_copy(plan):
    """The buffers without copies of the variables `a` and `b`."""
    return [one for one in plan.buffers if one.name not in ("a", "b")]


def uncopied(plan):
    return [replace(one, transfers=()) for one in plan.groups]


@pytest.mark.slow
@needs_compiler
@each("name", OF_EACH_KIND)
def test_c_keeps_a_state_beside_slow_memory(name, tmp_path):
    model = model_of(name)
    plan = fit(model.network, memories=boards(10**5)).best.plan
    far = fit(model.network, memories=boards(9)).best.plan
    parted = in_two_fast_memories(model)
    away = [in_slow_memory(model, part) for part in (0, 0.5)]
    frames = [random_frame(model.network, seed) for seed in range(5)]
    plans = [(model, one) for one in (plan, far, parted, *away)]
    assert run_all(libraries(plans, frames=frames), tmp_path) == []
    for one in (plan, *away):
        runs = run_frames(model, one, frames)
        assert [run.slow_bytes for run in runs] == [one.slow_bytes] * len(runs)
    for number, one in enumerate((plan, away[1])):
        require_counted(model, one, tmp_path / str(number), frames=frames)


@pytest.fixture(scope="module")
def cells_with_a_variable():
    """Two cells with a state; the result of the first is also a variable of the network."""
    builder = NetworkBuilder("cells")
    data = builder.input((1, 4))
    last = builder.input((1, 5), "last")
    builder.output(last, "z")
    first = builder.add(op.QuantizedLstm(units=5, cell_scale=2.0**-11, keeps=0), data)
    builder.output(first, "next")
    second = builder.add(op.QuantizedLstm(units=7, cell_scale=2.0**-11, keeps=0), first)
    builder.output(second, "y")
    model = quantised(builder.network(), 1)
    scale = model.network.layer(first).quantization
    layers = tuple(replace(layer, quantization=scale) for layer in model.network.layers)
    model = Model(network=Network(name="cells", layers=layers), weights=model.weights)
    return with_states(model, {"last": "next"}).network


def test_a_variable_reads_no_state_of_the_layer_that_gives_it(cells_with_a_variable):
    slow = BoardMemory(name="s", size=1000, is_slow=True)
    for fast in range(38, 60, 4):
        memories = (BoardMemory(name="f", size=fast), slow)
        plan = fit(cells_with_a_variable, memories=memories).best.plan
        require_carried_out(cells_with_a_variable, plan)


def test_the_reason_names_the_memory_that_is_too_small(cells_with_a_variable):
    def reason(fast, slow):
        memories = (
            BoardMemory(name="f", size=fast),
            BoardMemory(name="s", size=slow, is_slow=True),
        )
        return str(fit(cells_with_a_variable, memories=memories).reason)

    assert "puts 41 bytes into slow memory" in reason(38, 1000)
    assert "has 41 bytes, slow memory 10;" in reason(38, 10)
    assert "still needs 38 bytes of fast memory" in reason(30, 1000)


def test_a_knapsack_with_more_subsets_than_labels_takes_all_states_that_have_room():
    sizes = {f"state {number}": 2**number for number in range(10)}
    assert set(_knapsack(list(sizes), sizes, sizes, sum(sizes.values()))) == set(sizes)


def test_tensors_of_real_numbers_beside_integers_begin_at_multiples_of_their_bytes():
    types = Quantization(element=Element.INT8, scales=(0.05,), zero_point=3)
    for kernel in (2, 3, 4, 5):
        network = NetworkBuilder("mixed")
        x = network.input((1, 9, 1), quantization=types, element=Element.INT8)
        pool = op.Pooling(function="max", window=op.Window(kernel=(kernel, 1)))
        x = network.add(pool, x, quantization=types, element=Element.INT8)
        x = network.add(op.Conversion(), x, element=Element.FLOAT32)
        window = op.Window(kernel=(3, 1))
        network.output(network.add(op.Convolution(filters=3, window=window), x))
        found = network.network()
        model = as_stream(Model(network=found, weights=random_weights(found, 0)), 2)
        require_carried_out(model.network, fit(model).best.plan)
