"""The search for streaming plans against all plans, and its count against the bytes of plans."""

from itertools import pairwise
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cnn2csdf.builder import NetworkBuilder
from cnn2csdf.catalogue.networks import from_catalogue
from cnn2csdf.operators import Activation, Convolution, Elementwise, GlobalPooling, Window
from cnn2csdf.simplify import simplified
from cnn2csdf.weights import Model
from planners.memory.labels import PlanFront
from planners.memory.line_buffers import Keeping, kept_rows, least_lead
from planners.memory.moves import WHOLE
from planners.plan.firing import firing_order, made_by_rows
from planners.plan.plan import Kind
from tests.planners.memory.plain import plan_of
from tests.planners.memory.streamed import random_moves, space


@st.composite
def small_chains(draw):
    """A few convolutions, some behind one another around a shortcut, and perhaps a mean.

    Perhaps what the last layer reads goes out as well.
    """
    builder = NetworkBuilder("chain")
    last = builder.input((draw(st.integers(1, 3)), draw(st.integers(5, 9)), 6))
    for _ in range(draw(st.integers(1, 3))):
        size = draw(st.sampled_from([1, 3]))
        window = Window(
            kernel=(size, size),
            stride=(draw(st.integers(1, 2)),) * 2,
            padding=(size // 2,) * 4,
        )
        last = builder.add(Convolution(filters=draw(st.integers(1, 5)), window=window), last)
        if draw(st.booleans()):
            inner = builder.add(Activation(function="relu"), last)
            last = builder.add(Elementwise(function="add"), inner, last)
    if draw(st.booleans()):
        builder.output(last)
        last = builder.add(Convolution(filters=2, window=Window(kernel=(1, 1))), last)
    if draw(st.booleans()):
        last = builder.add(GlobalPooling(function="average"), last)
    builder.output(last)
    return builder.network()


def every_group(moves, begin, end, entry):
    """All sequences of moves from a cut to another."""
    if begin == end:
        yield ()
        return
    for move in moves.moves_from(begin, entry):
        if move.end <= end:
            for rest in every_group(moves, move.end, end, move.rows):
                yield (move, *rest)


def counted(moves, group, begin, end, *, is_streamed):
    """Bytes of a group added up move by move, with its ends laid over each other, and its work."""
    layer_order, table = moves.layer_order, moves.table
    entry = 1 if is_streamed and begin == 0 else WHOLE
    lines = passing = work = 0
    for number, move in enumerate(group):
        cost = moves.cost(move, entry)
        batch = move.rows * table.row_bytes(move.stages[-1].result)
        own = batch if number + 1 < len(group) else 0
        lines, work = lines + cost.lines, work + cost.work
        passing = max(passing, cost.passing, cost.last + own)
        entry = move.rows
    source, result = (
        table.tensor_bytes(layer_order.at(begin)),
        table.tensor_bytes(layer_order.at(end)),
    )
    if is_streamed and begin == 0:
        return lines + passing + result, work
    if layer_order.at(begin) in layer_order.results:  # it goes out, so nothing may lie over it
        return lines + passing + source + result, work
    lead = least_lead(
        [moves.pace(move) for move in group],
        table.row_bytes(layer_order.at(begin)),
        table.row_bytes(layer_order.at(end)),
    )
    return lines + passing + max(result, source + min(lead, result)), work


def every_plan(moves, *, is_streamed):
    """Memory and work of all chains of groups; the input is not collected."""
    last = len(moves.layer_order.separators) - 1
    groups = {}
    for begin in range(last):
        entry = 1 if is_streamed and begin == 0 else WHOLE
        for end in range(begin + 1, last + 1):
            groups[begin, end] = {
                counted(moves, group, begin, end, is_streamed=is_streamed)
                for group in every_group(moves, begin, end, entry)
            }
            if end == begin + 1 and not (is_streamed and begin == 0):
                move, peak = moves.layer_by_layer(begin)
                work = sum(moves.table.geometry(stage).work for stage in move.stages)
                groups[begin, end].add((peak, work))
    plans = {0: {(0, 0)}}
    for end in range(1, last + 1):
        plans[end] = {
            (max(memory, more), work + extra)
            for begin in range(end)
            for memory, work in plans[begin]
            for more, extra in groups[begin, end]
        }
    return plans[last]


def improved(points):
    kept = []
    for memory, work in sorted(points):
        if not kept or work < kept[-1][1]:
            kept.append((memory, work))
    return kept


@settings(max_examples=12, deadline=None)
@given(network=small_chains(), is_streamed=st.booleans(), parts=st.sampled_from([(), (2,)]))
def test_the_front_is_that_of_all_groups_and_moves(network, is_streamed, parts):
    moves = space(network, element_bytes=1, parts=parts)
    found = PlanFront(moves, 10**9, is_streamed=is_streamed).plans
    # The least of two ways that end alike may be that of another overlap, so memory may be above.
    places = [True, False] if is_streamed else [False]  # an input of rows is collected or not
    wanted = [pair for one in places for pair in improved(every_plan(moves, is_streamed=one))]
    assert [plan[:2] for plan in found] == wanted


@settings(max_examples=40, deadline=None)
@given(network=small_chains(), is_streamed=st.booleans())
def test_results_and_what_lies_inside_a_group_never_take_more_than_is_counted(network, is_streamed):
    moves = space(network, element_bytes=1)
    results = moves.layer_order.results
    for memory, _, groups in PlanFront(moves, 10**9, is_streamed=is_streamed).plans:
        plan = plan_of(moves.layer_order, moves.table, groups, is_streamed=is_streamed)
        for number in range(len(plan.groups)):
            alive = [one for one in plan.buffers if one.begin <= number < one.end]
            apart = [one for one in alive if one.kind is not Kind.WHOLE or one.tensor in results]
            assert sum(one.size for one in apart) <= memory


@pytest.mark.parametrize(
    "name", ["resnet8:resolution=16", "keyword_spotting", "mobilenet_v2:width=0.35,resolution=64"]
)
def test_bytes_counted_move_by_move_are_never_below_those_of_the_group(name):
    network = simplified(Model(network=from_catalogue(name))).network
    moves = space(network, element_bytes=1)
    table, layer_order = moves.table, moves.layer_order
    source = Random(0)
    for _ in range(60):
        begin, end = sorted(source.sample(range(len(layer_order.separators)), 2))
        entry = 1 if begin == 0 else WHOLE
        group = random_moves(moves, source, begin, end, entry)
        found = [table.geometry(stage) for move in group for stage in move.stages]
        firings, strips = [one.firings for one in found], [one.strip_bytes for one in found]
        if begin == 0:
            firings.insert(0, made_by_rows(layer_order.at(0), table.height(layer_order.at(0)), 1))
            strips.insert(0, 0)
        keeping = {one.result: Keeping.LINE for one in firings}
        keeping[layer_order.at(end)] = Keeping.WHOLE
        sizes = {one.result: table.row_bytes(one.result) for one in firings}
        lines, passing = kept_rows(firings, sizes, strips, keeping)
        exact = sum(rows * sizes[name] for name, rows in lines.items()) + max(passing)
        exact += sum(one.accumulator for one in found) + table.tensor_bytes(layer_order.at(end))
        if begin == 0:
            assert counted(moves, group, begin, end, is_streamed=True)[0] >= exact


def dead_by_hand(firings, source):
    """Dead rows of a tensor in each firing of the last stage, counted firing by firing."""
    fired, dead, last = [0] * len(firings), [], len(firings) - 1
    for index in firing_order(firings):
        if index == last:
            readings = [
                reading.first[count]
                for stage, count in zip(firings, fired, strict=True)
                for reading in stage.readings
                if reading.tensor == source
            ]
            dead.append(min(readings))
        fired[index] += 1
    return tuple(dead)


def test_dead_rows_of_all_tensors_that_a_group_reads_follow_from_its_firings():
    network = simplified(Model(network=from_catalogue("resnet8:resolution=16"))).network
    moves = space(network, element_bytes=1)
    table, source = moves.table, Random(1)
    for _ in range(20):
        begin, end = sorted(source.sample(range(len(moves.layer_order.separators)), 2))
        group = random_moves(moves, source, begin, end, WHOLE)
        stages = [stage for move in group for stage in move.stages]
        firings = [table.geometry(stage).firings for stage in stages]
        read = {reading.tensor for stage in firings for reading in stage.readings}
        dead = table.group(stages).dead
        assert dead == {name: dead_by_hand(firings, name) for name in read}


def test_a_front_falls_in_work_as_memory_grows():
    network = simplified(Model(network=from_catalogue("person_detection"))).network
    every = PlanFront(space(network, element_bytes=1), 13_000, is_streamed=True).plans
    found = [plan for plan in every if plan[2][0]]  # the others collect the input
    assert len(found) > 3
    assert all(one[0] < two[0] and one[1] > two[1] for one, two in pairwise(found))
