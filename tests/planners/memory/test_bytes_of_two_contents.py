"""Plans in which bytes are to hold two contents at a time: refused, as their C is wrong."""

from dataclasses import replace
from functools import partial

import pytest

from cnn2csdf import operators as op
from cnn2csdf.builder import NetworkBuilder
from cnn2csdf.execution.compare import difference
from cnn2csdf.execution.layer_by_layer import run_layer_by_layer
from cnn2csdf.geometry import Region
from cnn2csdf.parameters import network_multiply_accumulates
from csdf.cli.main import main
from csdf.errors import ExecutionError, InvalidPlan
from planners.memory.fit import fit
from planners.memory.plan_runs import run_plan
from planners.plan.carried_out import require_carried_out
from planners.plan.checked_geometry import InputNeeds
from planners.plan.checked_weights import LayerWeights
from planners.plan.held_tensors import HeldTile, rows_read, write_region
from planners.plan.plan import (
    Kind,
    Mode,
    PlannedGroup,
    Stage,
    StreamBuffer,
    StreamingPlan,
    Strip,
    Tiles,
    Turns,
)
from planners.plan.shadow_arena import MarkedArena
from tests.planners.code.calibrated import integer_model, real_model
from tests.planners.code.compiling import libraries, needs_compiler, run_all
from tests.planners.memory.streamed import random_frame
from tests.planners.memory.test_stateful import paired, read_twice
from tests.planners.memory.test_weights_in_memories import chain, memories
from tests.planners.memory.wrong_plans import convolution
from tests.shared_data import SHARED


def pooled_twice():
    """The average and the maximum of a map, side by side."""
    builder = NetworkBuilder("pooled twice")
    source = builder.input((3, 6, 4), "x")
    average = builder.add(op.GlobalPooling(function="average"), source, name="average")
    largest = builder.add(op.GlobalPooling(function="max"), source, name="largest")
    builder.output(builder.add(op.Concatenation(), average, largest, name="y"))
    return builder.network()


def buffer(tensor, kind, offset, size, rows=0, readers=()):
    return StreamBuffer(
        name=f"{tensor} {kind.value}",
        kind=kind,
        tensor=tensor,
        rows=rows,
        size=size,
        offset=offset,
        begin=0,
        end=1,
        readers=readers,
    )


def plan_of_pooled_twice(*, largest_sums):
    """Both sums in one group; each row of the map, 48 bytes, is added to both as it comes in."""
    stages = [
        Stage(layers=("average",), mode=Mode.ACCUMULATING),
        Stage(layers=("largest",), mode=Mode.ACCUMULATING),
        Stage(layers=("y",)),
    ]
    return StreamingPlan(
        network="pooled twice",
        element_bytes=4,
        groups=(
            PlannedGroup(
                stages=tuple(stages),
                streamed_input="x",
                order=(
                    Turns(times=6, results=("x", "average", "largest")),
                    Turns(times=1, results=("y",)),
                ),
            ),
        ),
        buffers=(
            buffer("x", Kind.RING, 0, 48, rows=1),
            buffer("average", Kind.ACCUMULATORS, 48, 12),
            buffer("largest", Kind.ACCUMULATORS, largest_sums, 12),
            buffer("average", Kind.RING, 72, 12, rows=1),
            buffer("largest", Kind.RING, 84, 12, rows=1),
            buffer("y", Kind.WHOLE, 96, 24, rows=1),
            buffer("y", Kind.STAGING, 120, 0),
        ),
        arena_bytes=120,
        multiply_accumulates=0,
    )


def test_sums_of_two_layers_at_the_same_bytes_are_refused():
    with pytest.raises(InvalidPlan, match="the sums of 'average' are overwritten"):
        require_carried_out(pooled_twice(), plan_of_pooled_twice(largest_sums=48))


def test_sums_of_two_layers_side_by_side_give_the_outputs_of_the_network():
    model, plan = real_model(pooled_twice()), plan_of_pooled_twice(largest_sums=60)
    require_carried_out(model.network, plan)
    frame = random_frame(model.network, 3)
    outputs = run_plan(model, plan, frame).outputs
    for name, array in run_layer_by_layer(model, frame).items():
        assert difference(outputs[name], array).relative < 1e-6


@needs_compiler
def test_c_with_sums_of_two_layers_side_by_side_is_equal(tmp_path):
    model = real_model(pooled_twice())
    made = libraries([(model, plan_of_pooled_twice(largest_sums=60))])
    assert run_all(made, tmp_path) == []


def with_buffer(plan, name, **changes):
    buffers = tuple(replace(one, **changes) if one.name == name else one for one in plan.buffers)
    return replace(plan, buffers=buffers)


def with_a_copy():
    """A convolution read by another of 3x3, by an addition and by a sum over its rows."""
    builder = NetworkBuilder("with a copy")
    a = builder.add(convolution(2, kernel=1), builder.input((2, 8, 8), "x"), name="a")
    b = builder.add(convolution(2), a, name="b")
    c = builder.add(convolution(2, kernel=1), b, name="c")
    builder.output(builder.add(op.GlobalPooling(function="average"), a, name="s"))
    builder.output(builder.add(op.Elementwise(function="add"), c, a, name="d"))
    return builder.network()


TILES = Tiles(row_ends=(4, 8), column_ends=(4, 8), halo_cached=False)
BY_STRIPS = Stage(layers=("b", "c"), strips=(Strip("b", 1, 1),))
BY_TILES = Stage(layers=("b", "c"), mode=Mode.TILES, rows=8, tiles=TILES)
COPY, SCRATCH = 1024, 3648


def plan_with_a_copy(stage, reader, *, scratch=SCRATCH, rows=8):
    """`a` at byte 512, and a copy of it for a layer at COPY, of all rows or a ring of some."""
    sums = Stage(layers=("s",), mode=Mode.ACCUMULATING)
    kind = Kind.WHOLE if rows == 8 else Kind.RING
    network = with_a_copy()
    return StreamingPlan(
        network=network.name,
        element_bytes=4,
        groups=(PlannedGroup(stages=(Stage(layers=("a",)), stage, sums, Stage(layers=("d",)))),),
        buffers=(
            buffer("x", Kind.WHOLE, 0, 512, rows=8),
            buffer("a", Kind.WHOLE, 512, 512, rows=8),
            replace(buffer("a", kind, COPY, rows * 64, rows, (reader,)), name="copy"),
            buffer("c", Kind.WHOLE, 1536, 512, rows=8),
            buffer("d", Kind.WHOLE, 2048, 512, rows=8),
            buffer("b", Kind.TILE, 2560, 512),
            buffer("d", Kind.STAGING, 3072, 512),
            buffer("s", Kind.ACCUMULATORS, 3584, 8),
            buffer("s", Kind.WHOLE, 3592, 8, rows=1),
            buffer(reader, Kind.SCRATCH, scratch, 64, readers=(reader,)),
        ),
        arena_bytes=3712,
        multiply_accumulates=network_multiply_accumulates(network),
    )


COPIES = [(BY_STRIPS, "b", 8), (BY_STRIPS, "b", 3), (BY_TILES, "b", 8), (BY_STRIPS, "s", 8)]


@pytest.mark.parametrize(("stage", "reader", "rows"), COPIES)
def test_a_copy_that_its_reader_reads_gives_the_outputs_of_the_network(stage, reader, rows):
    model, plan = real_model(with_a_copy()), plan_with_a_copy(stage, reader, rows=rows)
    require_carried_out(model.network, plan)
    frame = random_frame(model.network, 3)
    outputs = run_plan(model, plan, frame).outputs
    for name, array in run_layer_by_layer(model, frame).items():
        assert difference(outputs[name], array).relative < 1e-6


@pytest.mark.slow
@needs_compiler
def test_c_whose_layers_read_copies_is_equal(tmp_path):
    model = real_model(with_a_copy())
    plans = [plan_with_a_copy(stage, reader, rows=rows) for stage, reader, rows in COPIES]
    assert run_all(libraries([(model, plan) for plan in plans]), tmp_path) == []


@pytest.mark.parametrize(("stage", "reader", "rows"), COPIES)
def test_a_copy_that_scratch_of_its_reader_overwrites_is_refused(stage, reader, rows):
    wrong = plan_with_a_copy(stage, reader, rows=rows, scratch=COPY)
    with pytest.raises(InvalidPlan, match=r"from \d+ on do not hold elements .* of 'a'"):
        require_carried_out(with_a_copy(), wrong)


def test_a_copy_with_too_few_rows_for_its_reader_is_refused():
    with pytest.raises(InvalidPlan, match="do not hold elements 0 to 4 of 'a'"):
        require_carried_out(with_a_copy(), plan_with_a_copy(BY_STRIPS, "b", rows=1))
    with pytest.raises(InvalidPlan, match="tiles need tensor 'a' whole"):
        require_carried_out(with_a_copy(), plan_with_a_copy(BY_TILES, "b", rows=3))


def test_a_tile_has_no_elements_outside_its_region():
    network, plan = with_a_copy(), plan_with_a_copy(BY_TILES, "b")
    (held,) = (one for one in plan.buffers if one.kind is Kind.TILE)
    arena = MarkedArena(plan, network)
    tile = HeldTile(network.layer("b"), 4, held, Region((2, 6), (1, 5)))
    write_region(arena, tile, tile.region, None)
    assert rows_read(arena, tile, (2, 6), None, (1, 5)).shape == (4, 4, 2)
    for rows, columns in (
        *(((1, 6), (1, 5)), ((2, 7), (1, 5))),
        *(((2, 6), (0, 5)), ((2, 6), (1, 6))),
    ):
        with pytest.raises(ExecutionError, match="of 'b' are accessed, but a tile has"):
            write_region(arena, tile, Region(rows, columns), None)
        with pytest.raises(ExecutionError, match="of 'b' are accessed, but a tile has"):
            rows_read(arena, tile, rows, None, columns)


def test_weights_at_a_part_of_a_weight_are_refused():
    model = real_model(chain(1))
    plan = fit(model, memories=memories(2 * 1024 + 576 + 4)).best.plan
    resident = next(one for one in plan.buffers if one.kind is Kind.RESIDENT)
    assert not resident.offset % 4
    for shift in (1, 2, 3):
        wrong = with_buffer(plan, resident.name, offset=resident.offset + shift)
        with pytest.raises(InvalidPlan, match="expected a multiple of 4"):
            require_carried_out(model.network, wrong)


def test_resident_weights_that_a_later_layer_overwrites_are_refused():
    # The last tensor of 256 bytes lies over the weights of the first layer, which is done by then.
    model = integer_model(chain(2))
    plan = fit(model, memories=memories(2 * 256 + 2 * 144)).best.plan
    resident = [one for one in plan.buffers if one.kind is Kind.RESIDENT]
    assert len(resident) == 2
    first = min(resident, key=lambda one: plan.groups[0].stages[0].result != one.tensor)
    last = next(
        one
        for one in plan.buffers
        if one.kind is Kind.WHOLE and one.tensor == model.network.outputs[0].inputs[0]
    )
    wrong = with_buffer(plan, first.name, offset=last.offset)
    with pytest.raises(InvalidPlan, match=f"the weights of '{first.tensor}'"):
        require_carried_out(model.network, wrong)


def test_a_copy_of_weights_shifted_over_its_own_home_is_refused():
    model = integer_model(chain(1))
    plan = fit(model, memories=memories(2 * 256 + 2 * 144)).best.plan
    (home,) = (one for one in plan.buffers if one.kind is Kind.RESIDENT)
    copy = replace(home, name="copy", kind=Kind.WEIGHTS, offset=home.offset + 8)
    first, *further = plan.memories
    larger = replace(
        plan,
        buffers=(*plan.buffers, copy),
        arena_bytes=plan.arena_bytes + 8,
        memories=(replace(first, size=first.size + 8), *further),
    )
    with pytest.raises(InvalidPlan, match=r"the weights of 'convolution' in .* are overwritten"):
        require_carried_out(model.network, larger)


@pytest.mark.parametrize("kind", [Kind.WEIGHTS, Kind.RESIDENT])
def test_all_buffers_of_the_weights_of_a_layer_are_executed(kind):
    # The last of several buffers is right; the buffer before it overlaps the home of the weights.
    model = integer_model(chain(1))
    plan = fit(model, memories=memories(2 * 256 + 2 * 144)).best.plan
    (home,) = (one for one in plan.buffers if one.kind is Kind.RESIDENT)
    doubled = replace(home, name="doubled", kind=kind, offset=home.offset + 8)
    good = replace(home, name="good", kind=kind, offset=plan.arena_bytes)
    larger = replace(
        plan,
        buffers=(*plan.buffers, doubled, good),
        arena_bytes=plan.arena_bytes + home.size,
    )
    needs = InputNeeds(model.network)
    weights = LayerWeights(MarkedArena(larger, model.network), needs, larger)
    execute = partial(weights.copy, 0) if kind is Kind.WEIGHTS else weights.require_residents
    with pytest.raises(ExecutionError, match=r"the weights of 'convolution' in .* are overwritten"):
        execute()


def test_weights_of_a_tensor_that_no_layer_makes_are_refused_in_one_line():
    network = paired("read twice", read_twice).network
    plan = fit(network, element_bytes=4).best.plan
    kept = next(one for one in plan.buffers if one.kind is Kind.KEPT)
    weights = replace(kept, name="weights", kind=Kind.WEIGHTS, rows=0)
    with pytest.raises(InvalidPlan, match="the weights of 'a' that can be moved take 0"):
        require_carried_out(network, replace(plan, buffers=(*plan.buffers, weights)))


def test_a_variable_overwritten_behind_its_take_over_is_refused():
    network = paired("read twice", read_twice).network
    plan = fit(network, element_bytes=4).best.plan
    kept = next(one for one in plan.buffers if one.kind is Kind.KEPT)
    results = {layer.inputs[0] for layer in network.outputs}
    for result in plan.buffers:
        if result.kind is Kind.WHOLE and result.tensor in results:
            with pytest.raises(InvalidPlan):
                require_carried_out(network, with_buffer(plan, result.name, offset=kept.offset))


@pytest.mark.parametrize(
    ("folder", "model", "plan", "options", "complaint"),
    [
        ("p1", "poc1.onnx", "poc1_same.json", (), "the sums of 'g' are overwritten"),
        ("p1", "poc1.onnx", "poc1_apart.json", (), None),
        ("p2", "hop.onnx", "bad.json", ("--hop", "3"), "do not hold elements 8 to 16"),
        ("p2", "hop.onnx", "plan.json", ("--hop", "3"), None),
        ("p3", "i16.onnx", "bad.json", (), "begins at byte 443; expected a multiple of 2"),
        ("p9", "i16.onnx", "bad.json", (), "in slow memory, but has no write buffer for it"),
        ("p9", "i16.onnx", "good.json", (), "has no write buffer for it; plan the network again"),
    ],
)
def test_verify_says_of_an_edited_plan_what_its_c_does(
    folder, model, plan, options, complaint, capsys
):
    faults = SHARED / "faults" / folder
    if not faults.exists():
        pytest.skip(f"no edited plans at {faults}")
    words = ["fit", str(faults / model), *options, "--plan", str(faults / plan), "--verify"]
    status = main(words)
    printed = capsys.readouterr()
    if complaint is None:
        assert status == 0
        assert "equal: the run in" in printed.out
    else:
        assert status == 2
        assert complaint in printed.err
