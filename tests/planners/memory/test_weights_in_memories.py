"""Weights in flash, slow and fast memory: bytes and times counted by hand, and refused where wrong."""

from dataclasses import replace
from fractions import Fraction
from itertools import count
from random import Random

import pytest

from cnn2csdf import operators as op
from cnn2csdf.builder import NetworkBuilder
from cnn2csdf.catalogue.networks import from_catalogue
from cnn2csdf.execution.layer_by_layer import run_layer_by_layer
from cnn2csdf.geometry import Window
from cnn2csdf.platforms import PLATFORMS, BoardMemory
from cnn2csdf.simplify import simplified
from cnn2csdf.weights import Model
from csdf.errors import GaveUp, InvalidArgument, InvalidPlan
from csdf.status import Ended, because
from csdf.time_limit import Stop
from planners.memory import memories as memories_module
from planners.memory.fit import fit
from planners.memory.memories import PlanInMemories, planned_in_memories
from planners.memory.memory_plans import Chain, _placement
from planners.memory.moved_weights import (
    BoardMemories,
    copies_of,
    costs_of,
    layout_of,
    movable_weights,
)
from planners.memory.order import topological_order
from planners.memory.plan_runs import run_plan
from planners.memory.request import fit_request
from planners.memory.stages import StageTable
from planners.memory.times import PlanTimes
from planners.plan.carried_out import require_carried_out
from planners.plan.plan import Kind, Stage, StreamBuffer
from planners.plan.text import format_plans, parse_plans
from planners.plan.weights import weight_bytes
from planners.rewrites.rematerialisation import executed_network
from tests.planners.code.calibrated import real_model
from tests.planners.memory.any_split import least_of_any_split
from tests.planners.memory.encoders import Sizes, encoder
from tests.planners.memory.streamed import random_frame
from tests.planners.memory.test_memories import small_case
from tests.planners.memory.test_streamed_runs import require_equal

CORE = PLATFORMS["cortex-m7"]  # 216 MHz


def planned(network, memories, platform=None):
    """The plan of a network of bytes in memories."""
    terms = {"memories": memories, "element_bytes": 1, "platform": platform}
    return planned_in_memories(fit_request(network, **terms), None)


def memories(*sizes, rate=None, flash=None, dma=False):
    """Fast memories of some sizes, a slow one, and flash."""
    fast = [BoardMemory(name=f"fast{n}", size=size, write=rate) for n, size in enumerate(sizes)]
    slow = BoardMemory(
        name="slow", size=10**6, is_slow=True, read=rate, write=rate, holds=("tensors",)
    )
    weights = BoardMemory(
        name="flash", size=10**6, is_slow=True, read=flash, holds=("weights",), has_dma=dma
    )
    return (*fast, slow, weights)


def chain(layers, height=16, channels=4):
    """Convolutions of 3 x 3 by 4 maps: 144 bytes of weights each, tensors of 16 x 4 x 4 = 256."""
    builder = NetworkBuilder("chain")
    source = builder.input((channels, height, 4))
    for _ in range(layers):
        window = op.Window(kernel=(3, 3), padding=(1, 1, 1, 1))
        source = builder.add(op.Convolution(filters=channels, window=window), source)
    builder.output(source)
    return builder.network()


def products():
    """Six matrices of 1024 weights, each read once in a frame."""
    builder = NetworkBuilder("products")
    source = builder.input((32,))
    for _ in range(6):
        source = builder.add(op.FullyConnected(units=32), source)
    builder.output(source)
    return builder.network()


def kinds(plan):
    return [(one.tensor, one.kind) for one in plan.buffers if one.kind in WEIGHTS]


WEIGHTS = (Kind.WEIGHTS, Kind.RESIDENT)


def test_weights_that_fit_stay_and_nothing_moves():
    # Two tensors of 256 bytes, and 144 of weights.
    found = planned(chain(1), memories(656))
    assert kinds(found.plan) == [("convolution", Kind.RESIDENT)]
    assert found.plan.slow_bytes == found.traffic.lower_bound == 0
    require_carried_out(chain(1), found.plan)


def test_a_convolution_reads_its_weights_for_each_pixel_unless_a_copy_fits():
    # Three rows of 16 bytes of the input, and 4 bytes for a pixel of the result. Of 9 taps 16 rows have
    # 16 * 3 - 2 over the input, 4 columns 4 * 3 - 2; each tap has 4 * 4 bytes of weights.
    network, tensors = chain(1), 2 * 256
    in_place = planned(network, memories(3 * 16 + 4)).plan
    assert kinds(in_place) == []
    read = (16 * 3 - 2) * (4 * 3 - 2) * 4 * 4
    assert [(one.memory, one.read) for one in in_place.traffic] == [("slow", 256), ("flash", read)]
    copied = planned(network, memories(3 * 16 + 4 + 144)).plan
    assert copied.slow_bytes <= tensors + 144  # or weights that stay
    for plan in (in_place, copied):
        require_carried_out(network, plan)
        assert parse_plans(format_plans([plan]), "plan.json") == (plan,)


def test_weights_of_a_layer_inside_a_concatenation_may_stay():
    builder = NetworkBuilder("joined")
    source = builder.input((4, 8, 8))
    windows = [op.Window(kernel=(size, size), padding=(size // 2,) * 4) for size in (1, 3)]
    parts = [builder.add(op.Convolution(filters=4, window=one), source) for one in windows]
    joined = builder.add(op.Concatenation(axis=0), *parts)
    builder.output(builder.add(op.Convolution(filters=4, window=windows[1]), joined))
    network = builder.network()
    plan = planned(network, memories(460)).plan
    inside = {alias.tensor for alias in plan.aliases}
    assert inside == set(parts) == {tensor for tensor, _ in kinds(plan)}
    require_carried_out(network, plan)


def test_a_matrix_is_read_once_where_it_lies():
    plan = planned(products(), memories(64)).plan
    assert kinds(plan) == []
    assert [(one.memory, one.read) for one in plan.traffic] == [("slow", 0), ("flash", 6 * 1024)]


def nanoseconds_by_hand(network, plan, rate, flash):
    """Times of stages, and bytes over rates: what is read and written, and copies into fast memory."""
    worked = executed_network(network, plan.rematerialised)
    times = PlanTimes(StageTable(worked, element_bytes=1), CORE)
    hosts = {alias.host for alias in plan.aliases}  # tensors that tiles are stored in
    stages = [one for group in plan.groups for one in group.stages if one.result not in hosts]
    stages = sum(map(times.of_stage, stages))
    slow, weights = plan.traffic
    rings = [one.streamed_input for one in plan.groups if one.streamed_input]
    copied = sum(network.layer(name).shape.elements for name in rings)
    copied += sum(one.size for one in plan.buffers if one.kind is Kind.WEIGHTS)
    cycles = (slow.read + slow.written + copied) / rate + weights.read / flash
    return stages + cycles * 10**9 / CORE.hertz


def test_times_are_those_of_stages_and_of_bytes_over_rates():
    rate, flash, moving, tiled = Fraction(2, 3), Fraction(1, 8), 0, 0
    for seed in range(12):
        network, fast = small_case(Random(seed))
        found = planned(network, memories(fast, rate=rate, flash=flash), CORE)
        if found.plan is None:
            continue
        require_carried_out(network, found.plan)
        moving += bool(found.plan.slow_bytes)
        by_hand = nanoseconds_by_hand(network, found.plan, rate, flash)
        assert found.traffic.nanoseconds == -(-by_hand // 1), seed
        tiled += bool(found.plan.rematerialised)
    assert moving > 4
    assert tiled


def test_dma_copies_weights_while_the_group_before_computes():
    network, rate, flash = products(), Fraction(4), Fraction(1)  # and room for two matrices
    alone, ahead = (
        planned(network, memories(2300, rate=rate, flash=flash, dma=dma), CORE)
        for dma in (False, True)
    )
    early = [
        one for one in ahead.plan.buffers if one.kind is Kind.WEIGHTS and one.begin + 1 < one.end
    ]
    assert early
    assert ahead.traffic.nanoseconds < alone.traffic.nanoseconds
    require_carried_out(network, ahead.plan)
    # As long as each group, or the copies that begin with it.
    assert ahead.traffic.nanoseconds >= nanoseconds_by_hand(network, ahead.plan, rate, flash) - sum(
        (one.size / flash + one.size / rate) * 10**9 / CORE.hertz for one in early
    )


@pytest.mark.slow
def test_small_plans_move_as_little_as_any_split_with_weights():
    told = alone = tiled = 0
    for seed in (*range(30), 32):  # 32: the weights fit where they begin at an odd byte
        network, fast = small_case(Random(seed))
        found = planned(network, memories(fast))
        weights = {
            layer.name: weight_bytes(network, layer, 1)
            for layer in network.layers
            if isinstance(layer.operator, op.Convolution)
        }
        # There are tiles of columns only where no layer has weights in the flash.
        least = least_of_any_split(network, fast, weights, in_tiles=not weights)
        in_tiles = found.plan is not None and bool(found.plan.rematerialised)
        tiled += in_tiles and bool(weights)
        assert in_tiles or (found.plan is None) == (least is None), seed
        if least is None:
            continue
        # Results over dead rows of inputs are in plans of one memory alone; splits lack them.
        if fit(network, ram=fast, element_bytes=1).best is None and not (in_tiles and weights):
            assert found.plan.slow_bytes == least, seed
            told += 1
        assert found.plan.slow_bytes <= least, seed
        alone += found.plan.slow_bytes < least
    assert told > 10
    assert alone > 1
    assert tiled > 2


@pytest.mark.parametrize("rate", [None, Fraction(2, 3)])
def test_tiles_of_columns_fit_where_rows_beside_weights_in_flash_do_not(rate):
    network, fast = small_case(Random(35))
    found = planned(
        network, memories(fast, rate=rate, flash=rate and rate / 4), None if rate is None else CORE
    )
    assert found.plan.rematerialised
    require_carried_out(network, found.plan)
    if rate is None:
        return
    times = []
    for nanoseconds in (10**6, 2 * 10**6):  # of each layer; a copy takes its share, halo included
        measured = {layer.name: [nanoseconds] for layer in network.layers}
        request = fit_request(
            network,
            memories=memories(fast, rate=rate, flash=rate / 4),
            element_bytes=1,
            platform=CORE,
            durations=measured,
        )
        timed = planned_in_memories(request, None)
        assert timed.plan.rematerialised
        times.append(timed.traffic.nanoseconds)
    layers = sum(not layer.is_input and not layer.is_output for layer in network.layers)
    assert times[1] - times[0] >= layers * 10**6


def test_three_memories_are_filled_from_the_nearest_on():
    network = chain(3)
    found = planned(network, memories(300, 700))
    near, next_one, slow = found.plan.memories
    assert 0 < near.size <= 300
    assert 0 < next_one.size <= 700
    assert slow.size == 0
    require_carried_out(network, found.plan)


def test_sums_in_the_second_memory_begin_at_multiples_of_their_bytes():
    builder = NetworkBuilder("pooled")
    window = op.Window(kernel=(3, 3), padding=(1, 1, 1, 1))
    source = builder.add(op.Convolution(filters=3, window=window), builder.input((3, 16, 5)))
    builder.output(builder.add(op.GlobalPooling(function="average"), source))
    network, placed = builder.network(), 0
    for first in (21, 27, 99, 105):  # rows of 15 bytes, tensors of 240
        fast, second, _, flash = memories(first, 260)
        plan = fit(
            network, memories=(fast, second, flash), element_bytes=1, platform=None
        ).best.plan
        require_carried_out(network, plan)
        (sums,) = (one for one in plan.buffers if one.kind is Kind.ACCUMULATORS)
        placed += plan.memory_of(sums).name == second.name
        used, _ = (one.size for one in plan.memories)
        assert used <= first
    assert placed


def test_sums_in_the_third_memory_leave_the_second_memory_within_its_size():
    network = NetworkBuilder("pooled")
    source = network.input((1, 3, 1), "x")
    network.output(network.add(op.GlobalPooling(function="average"), source, name="y"))
    table = StageTable(network.network(), element_bytes=1)
    fast = tuple(BoardMemory(name=f"m{size}", size=size) for size in (7, 4, 64))
    layout = BoardMemories(fast, (BoardMemory(name="slow", size=99, is_slow=True),), None)
    buffers = [
        StreamBuffer.of_group(Kind.WHOLE, "x", 0, 1, size=3, rows=3),
        StreamBuffer.of_group(Kind.RING, "x", 0, 1, size=4, rows=3),
        StreamBuffer.of_group(Kind.ACCUMULATORS, "y", 0, size=16),
    ]
    ranks = {buffer.name: Fraction(-place) for place, buffer in enumerate(buffers)}
    offsets, used, excess = _placement(table, layout, buffers, [], lambda one: ranks[one.name])
    assert excess == (0, 0)
    assert all(one.size <= memory.size for one, memory in zip(used, fast, strict=False))
    assert offsets["y accumulators"] % 4 == 0


def test_external_tensors_leave_their_bytes_to_resident_weights():
    network = simplified(Model(network=from_catalogue("resnet8"))).network
    board = memories(60_000, rate=Fraction(4), flash=Fraction(1))
    terms = {"memories": board, "element_bytes": 1, "input": "external", "output": "external"}
    plan = fit(network, **terms, budget=Stop(effort=1.0)).best.plan
    assert sum(one.size for one in plan.buffers if one.kind is Kind.RESIDENT) == 6192


def test_the_sets_of_weights_to_copy_have_the_set_that_saves_most():
    network = from_catalogue("mobilenet_v1:width=1/4,resolution=64")
    table, order = StageTable(network, element_bytes=1), topological_order(network)
    costs = costs_of(layout_of(memories(10**6)), order, table, None, None)
    layers, most = order.layers[1:], 0
    for begin in range(0, len(layers), 7):
        stages = [table.geometry(Stage(layers=(name,))) for name in layers[begin : begin + 24]]
        reads = movable_weights(stages, costs, table)
        saved = [costs.in_place(name, read) - costs.of_copy(name) for name, read in reads.items()]
        found = copies_of(stages, costs, table)
        assert found[0].layers == ()
        assert found[-1].saved == sum(one for one in saved if one > 0)
        most = max(most, len(found))
    assert most > 8  # some sets are left out


def test_a_run_computes_the_same_with_copied_weights():
    model = real_model(chain(3))
    plan = fit(model, memories=memories(2000)).best.plan
    assert kinds(plan)
    frame = random_frame(model.network, 1)
    run = run_plan(model, plan, frame)
    require_equal(run.outputs, run_layer_by_layer(model, frame))
    assert run.slow_bytes == plan.slow_bytes


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda plan: {"flash": None}, "names no flash"),
        (
            lambda plan: {"traffic": (plan.traffic[0], replace(plan.traffic[1], read=1))},
            "counts 1 bytes from 'flash'",
        ),
        (lambda plan: {"buffers": weights_changed(plan, size=143)}, "can be moved take 144"),
        (lambda plan: {"buffers": weights_changed(plan, tensor="input")}, "can be moved take 0"),
        (lambda plan: {"buffers": weights_changed(plan, offset=32)}, "overwritten|do not hold"),
    ],
)
def test_a_plan_with_wrong_weights_is_refused(change, words):
    plan = planned(chain(1), memories(4 * 16 + 144)).plan
    with pytest.raises(InvalidPlan, match=words):
        require_carried_out(chain(1), replace(plan, **change(plan)))


def weights_changed(plan, **change):
    return tuple(replace(one, **change) if one.kind in WEIGHTS else one for one in plan.buffers)


def test_known_boards_have_figures_and_memories_in_order():
    for name in ("esp32-s3", "stm32h7", "imxrt1170"):
        board = PLATFORMS[name]
        found = fit(chain(1), platform=name, element_bytes=1).best
        assert found.nanoseconds
        assert [one.name for one in found.plan.memories] == [
            one.name for one in board.memories if not one.is_flash
        ]


def test_memories_that_hold_what_is_not_known_are_refused():
    with pytest.raises(InvalidArgument, match="expected some of tensors, weights, scratch"):
        BoardMemory(name="itcm", size=1, holds=("code",))


@pytest.mark.parametrize("rate", [None, Fraction(2)])
def test_heads_that_fit_into_the_first_memory_alone_fit_beside_flash(rate):
    model = simplified(encoder(Sizes(tokens=8, width=4, heads=2, hidden=5)))
    fast, _, flash = memories(fit(model).least.ram_bytes, rate=rate, flash=rate)
    platform = None if rate is None else CORE
    found = fit(model, memories=(fast, flash), platform=platform)
    assert found.best.plan.rematerialised
    assert (found.slow.nanoseconds is None) == (rate is None)
    require_carried_out(model.network, found.best.plan)


@pytest.mark.parametrize("layers", [1, 3])
def test_an_answer_of_an_ended_search_is_cut_short(layers):
    ends = (None, Stop(seconds=0))
    terms = {"memories": memories(4096, rate=10, flash=10), "element_bytes": 1, "platform": CORE}
    answers = [fit(chain(layers), **terms, budget=end) for end in ends]
    assert [one.is_cut_short for one in answers] == [False, True]
    assert [one.status for one in answers] == ["feasible", "feasible"]


@pytest.mark.parametrize("end", [GaveUp("the last step"), KeyboardInterrupt("the last step")])
def test_an_end_while_weights_are_pinned_is_told(end):
    terms = {"memories": memories(700, rate=10, flash=10), "element_bytes": 1, "platform": CORE}
    network = chain(2)

    def reason_after(steps):
        looks = count()

        def report(_):
            step = next(looks)
            if step == steps or (step > steps and isinstance(end, GaveUp)):
                raise end

        return str(fit(network, **terms, budget=Stop(report=report)).reason), next(looks)

    reason, steps = reason_after(10**6)
    assert "the last step" not in reason
    ended = range(steps - 16, steps, 2)  # weights are pinned last
    assert [step for step in ended if "the last step" not in reason_after(step)[0]] == []


def test_ctrl_c_in_the_search_of_a_single_memory_ends_the_search_in_several(monkeypatch):
    searches, within = [], PlanInMemories._least_plan

    def counted(*terms):
        searches.append(terms)
        return within(*terms)

    ended = [], because(Ended.INTERRUPTED)
    monkeypatch.setattr(memories_module, "methods_of_orders", lambda *_, **__: ended)
    monkeypatch.setattr(PlanInMemories, "_least_plan", counted)
    terms = {"memories": memories(700, rate=10, flash=10), "element_bytes": 1, "platform": CORE}
    assert fit(chain(2), **terms).reason.has(Ended.INTERRUPTED)
    assert len(searches) == 1


def test_ctrl_c_while_plans_in_tiles_are_improved_keeps_the_plan(monkeypatch):
    builder = NetworkBuilder("wide rows")
    data = builder.input((8, 16, 256))
    for _ in range(3):
        window = Window(kernel=(3, 3), padding=(1, 1, 1, 1))
        data = builder.add(op.Convolution(filters=8, window=window, groups=1), data)
    builder.output(data)
    terms = {"memories": memories(6000, rate=None, flash=None), "element_bytes": 1}
    full = fit(builder.network(), **terms)
    assert "tiles of columns" in str(full.reason)
    in_tiles = PlanInMemories._in_tiles

    def interrupted(*arguments):
        def improved(chain, plan):
            raise KeyboardInterrupt

        monkeypatch.setattr(Chain, "improved", improved)
        return in_tiles(*arguments)

    monkeypatch.setattr(PlanInMemories, "_in_tiles", interrupted)
    early = fit(builder.network(), **terms)
    assert early.reason.has(Ended.INTERRUPTED)
    require_carried_out(builder.network(), early.best.plan)
