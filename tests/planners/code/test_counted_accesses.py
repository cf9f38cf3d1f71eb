"""Bytes that compiled C moves to and from slow memory and flash, beside those that the plan says."""

from dataclasses import replace
from random import Random

import pytest

from cnn2csdf import operators as op
from cnn2csdf.builder import NetworkBuilder
from cnn2csdf.dtypes import Arithmetic
from csdf.errors import InvalidPlan
from planners.memory.fit import fit
from planners.plan.carried_out import require_carried_out
from planners.plan.plan import Kind, Memory, MemoryTraffic
from tests.planners.code.calibrated import integer_model, real_model
from tests.planners.code.compiling import needs_compiler
from tests.planners.code.counted_accesses import (
    INSTRUMENTED,
    MovedBytes,
    counted_traffic,
    planned_traffic,
    require_counted,
)
from tests.planners.code.memory_cases import planned_cases
from tests.planners.code.mixed_networks import Mixing
from tests.planners.memory.test_memories import small_case
from tests.planners.memory.test_weights_in_memories import memories as with_flash
from tests.planners.memory.wrong_plans import residual, tiled_cases

CASES = (
    6  # random models for each number of memories; more: tests.benchmarks.bench_counted_accesses
)


def convolutions():
    """Two convolutions with an activation function, whose sums have 9 inputs for each of 4 channels."""
    builder = NetworkBuilder("convolutions")
    tensor = builder.input((4, 16, 16))
    window = op.Window(kernel=(3, 3), padding=(1, 1, 1, 1))
    for _ in range(2):
        tensor = builder.add(op.Convolution(filters=4, window=window), tensor)
        tensor = builder.add(op.Activation(function="relu"), tensor)
    builder.output(tensor)
    return builder.network()


def residual_block():
    """A block of which an inner layer of a stage reads the input, too, at its own pace."""
    builder = NetworkBuilder("residual block")
    source = builder.input((4, 16, 16))
    window = op.Window(kernel=(3, 3), padding=(1, 1, 1, 1))
    tensor = builder.add(op.Convolution(filters=4, window=window), source)
    tensor = builder.add(op.Convolution(filters=8, window=window), tensor)
    beside = builder.add(op.Convolution(filters=8, window=op.Window(kernel=(1, 1))), source)
    builder.output(builder.add(op.Elementwise(function="add"), tensor, beside))
    return builder.network()


@needs_compiler
@pytest.mark.parametrize("made", [real_model, integer_model])
def test_c_stores_each_sum_in_slow_memory_once(made, tmp_path):
    model = made(convolutions())
    unit = model.network.inputs[0].element_bytes
    memories = (
        Memory(name="sram", size=700 * unit),
        Memory(name="psram", size=10**5, is_slow=True),
    )
    plan = fit(model, memories=memories).best.plan
    assert any(buffer.kind is Kind.WRITE_BUFFER for buffer in plan.buffers)
    counted = counted_traffic(model, plan, tmp_path)
    assert counted["psram"] == MovedBytes(1024 * unit, 1024 * unit)
    assert plan.slow_bytes == 2 * 1024 * unit


@needs_compiler
def test_c_converts_an_unsigned_output_in_slow_memory_beside_the_planned_bytes(tmp_path):
    model = Mixing(1, Arithmetic.UNSIGNED_FIXED_POINT, real=()).mixed(convolutions())
    memories = Memory(name="sram", size=700), Memory(name="psram", size=10**5, is_slow=True)
    plan = fit(model, memories=memories).best.plan
    (output,) = (plan.by_tensor(Kind.WHOLE)[one.inputs[0]] for one in model.network.outputs)
    assert plan.is_in_slow_memory(output)
    planned, counted = planned_traffic(plan)["psram"], counted_traffic(model, plan, tmp_path)
    assert planned.written == output.size
    assert counted["psram"] == MovedBytes(planned.read + output.size, 2 * output.size)


@needs_compiler
def test_a_layer_inside_a_stage_reads_its_ring_and_not_slow_memory(tmp_path):
    model = integer_model(residual_block())
    memories = Memory(name="sram", size=560), Memory(name="psram", size=10**5, is_slow=True)
    plan = fit(model, memories=memories).best.plan
    assert len(plan.groups[0].stages[-1].layers) == 3
    assert [buffer.kind for buffer in plan.buffers if "convolution 3" in buffer.readers] == [
        Kind.RING
    ]
    require_counted(model, plan, tmp_path)


def bottlenecks():
    """Two blocks that expand 8 channels to 64 and project them to 8 again."""
    builder = NetworkBuilder("bottlenecks")
    tensor = builder.input((8, 6, 6))
    pixel, window = op.Window(kernel=(1, 1)), op.Window(kernel=(3, 3), padding=(1, 1, 1, 1))
    for _ in range(2):
        tensor = builder.add(op.Convolution(filters=64, window=pixel), tensor)
        tensor = builder.add(op.Convolution(filters=64, groups=64, window=window), tensor)
        tensor = builder.add(op.Convolution(filters=8, window=pixel), tensor)
    builder.output(tensor)
    return builder.network()


@needs_compiler
@pytest.mark.parametrize("made", [real_model, integer_model])
def test_channel_blocks_move_at_most_the_input_and_the_result(made, tmp_path):
    model = made(bottlenecks())
    unit = model.network.inputs[0].element_bytes
    memories = Memory(name="sram", size=600 * unit), Memory(name="psram", size=10**5, is_slow=True)
    plan = fit(model, memories=memories).best.plan
    assert [stage.channel_blocks > 1 for group in plan.groups for stage in group.stages] == [
        True,
        True,
    ]
    assert 0 < plan.slow_bytes <= 2 * 8 * 6 * 6 * unit
    require_counted(model, plan, tmp_path)


@needs_compiler
def test_channel_blocks_read_filters_in_flash_as_planned(tmp_path):
    model = integer_model(bottlenecks())
    plan = fit(model, memories=with_flash(700)).best.plan
    assert max(stage.channel_blocks for group in plan.groups for stage in group.stages) > 1
    require_counted(model, plan, tmp_path)


@needs_compiler
@pytest.mark.parametrize(("axis", "step", "taken"), [(0, 1, 3 / 6), (0, 2, 2 / 6), (2, 2, 2 / 8)])
def test_a_slice_of_slow_memory_reads_what_it_takes(axis, step, taken, tmp_path):
    builder = NetworkBuilder("cut")
    tensor = builder.input((6, 16, 8))
    builder.output(builder.add(op.Slice(axis=axis, start=1, stop=4, step=step), tensor))
    model = integer_model(builder.network())
    memories = Memory(name="sram", size=40), Memory(name="psram", size=10**5, is_slow=True)
    plan = fit(model, memories=memories).best.plan
    assert planned_traffic(plan)["psram"].read == 6 * 16 * 8 * taken
    require_counted(model, plan, tmp_path)


@needs_compiler
def test_a_pooling_that_adds_up_rows_reads_the_columns_of_its_window(tmp_path):
    builder = NetworkBuilder("narrow")
    window = op.Window(kernel=(16, 5), stride=(1, 6))
    tensor = builder.input((6, 16, 8))
    builder.output(builder.add(op.Pooling(function="max", window=window), tensor))
    model = integer_model(builder.network())
    memories = Memory(name="sram", size=40), Memory(name="psram", size=10**5, is_slow=True)
    plan = fit(model, memories=memories).best.plan
    assert planned_traffic(plan)["psram"].read == 6 * 16 * 5
    require_counted(model, plan, tmp_path)


@needs_compiler
def test_c_of_a_window_that_is_all_padding_does_not_divide_by_zero(tmp_path):
    builder = NetworkBuilder("padding only")
    window = op.Window(kernel=(3, 3), padding=(1, 1, 1, 1))
    tensor = builder.add(op.Convolution(filters=4, window=window), builder.input((2, 8, 8)))
    above = op.Window(kernel=(1, 1), stride=(9, 1), padding=(1, 0, 0, 0))
    builder.output(builder.add(op.Convolution(filters=2, window=above), tensor))
    model = integer_model(builder.network())
    memories = Memory(name="sram", size=40), Memory(name="psram", size=10**5, is_slow=True)
    plan = fit(model, memories=memories).best.plan
    strips = [strip for stage in plan.groups[-1].stages for strip in stage.strips]
    assert [strip.rows for strip in strips] == [0]
    require_counted(model, plan, tmp_path)


@needs_compiler
def test_c_that_copies_no_rows_calls_no_hook_for_them(tmp_path):
    builder = NetworkBuilder("activations")
    tensor = builder.add(op.Activation(function="relu"), builder.input((4, 16, 16)))
    builder.output(builder.add(op.Activation(function="tanh"), tensor))
    model = real_model(builder.network())
    memories = Memory(name="sram", size=1024), Memory(name="psram", size=10**5, is_slow=True)
    plan = fit(model, memories=memories).best.plan
    assert plan.slow_bytes
    require_counted(model, plan, tmp_path, (*INSTRUMENTED, "-DNET_COPY", "-Werror"))


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize("seed", [5, 35, 44])
def test_c_of_tiles_of_columns_reads_the_weights_of_the_plan(seed, tmp_path):
    network, fast = small_case(Random(seed))
    model = integer_model(network)
    plan = fit(model, memories=with_flash(fast)).best.plan
    assert plan.rematerialised
    assert any(buffer.kind in (Kind.WEIGHTS, Kind.RESIDENT) for buffer in plan.buffers)
    require_counted(model, plan, tmp_path)


@needs_compiler
@pytest.mark.parametrize("number", [0, 3], ids=["all layers recomputed", "two groups cached"])
def test_c_of_tiles_reads_the_filters_for_each_pixel_of_a_tile(number, tmp_path):
    case = list(tiled_cases(integer_model(residual(sums=False))))[number]
    flash = MemoryTraffic(memory="flash", read=(11196, 6369, 5856, 5856)[number], written=0)
    sram = Memory(name="sram", size=case.plan.arena_bytes)
    plan = replace(case.plan, memories=(sram,), flash="flash", traffic=(flash,))
    require_carried_out(case.model.network, plan)
    require_counted(case.model, plan, tmp_path)
    once = replace(plan, traffic=(replace(flash, read=243),))  # each filter once
    with pytest.raises(InvalidPlan, match=f"a frame moves {flash.read} and 0"):
        require_carried_out(case.model.network, once)


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize("has_flash", [False, True], ids=["two memories", "three memories"])
def test_c_of_random_networks_moves_the_bytes_of_the_plan(has_flash, tmp_path):
    cases = list(planned_cases(CASES, has_flash=has_flash))
    assert len(cases) >= CASES // 3
    for number, (model, plan) in enumerate(cases):
        require_counted(model, plan, tmp_path / str(number))
