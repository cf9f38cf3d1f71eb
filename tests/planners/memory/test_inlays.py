"""Tensors that lie inside others: who may, and plans of them carried out byte by byte."""

from dataclasses import replace
from itertools import combinations
from random import Random

import pytest

from cnn2csdf import operators as op
from cnn2csdf.builder import NetworkBuilder
from cnn2csdf.catalogue.networks import from_catalogue
from cnn2csdf.execution.layer_by_layer import run_layer_by_layer
from cnn2csdf.simplify import simplified
from cnn2csdf.weights import Model
from csdf.errors import ExecutionError, InvalidPlan
from planners.memory import build
from planners.memory.moves import GroupMove
from planners.plan import executor
from planners.plan.aliases import aliases_of, most_bytes, without_costly_aliases
from planners.plan.carried_out import require_carried_out
from planners.plan.executor import PlanMachine
from planners.plan.plan import Alias, Kind, Stage
from planners.plan.text import format_plans, parse_plans
from tests.planners.memory.joined import Drawing, joined_model, joined_network
from tests.planners.memory.plain import plan_of
from tests.planners.memory.streamed import outputs, random_frame, random_plan, space
from tests.planners.memory.test_streamed_runs import require_equal


def places(network):
    return {
        name: (one.host, one.row, one.column, one.channel)
        for name, one in aliases_of(network, lambda _: 1).items()
    }


def drawn(seed=0):
    """A drawing whose blocks a test chooses, and whose last tensor has four channels."""
    drawing = Drawing(seed, shape=(3, 5, 4))
    window = op.Window(kernel=(1, 1), stride=(1, 1), padding=(0, 0, 0, 0))
    drawing.point = lambda source, filters=2: drawing.builder.add(
        op.Convolution(filters=filters, window=window), source
    )
    drawing.last = drawing.point(drawing.last, 4)
    return drawing


def finished(drawing):
    drawing.builder.output(drawing.point(drawing.last))
    return drawing.builder.network()


def test_tensors_joined_again_and_again_lie_in_the_longest():
    drawing = drawn()
    first = drawing.last
    second = drawing.point(first, 3)
    two = drawing.joined(first, second)
    third = drawing.point(two, 2)
    three = drawing.joined(two, third)
    again = drawing.joined(first, second, third)  # the same elements: it lies in `three`, too
    drawing.last = drawing.builder.add(op.Elementwise(function="add"), three, again)
    found = places(finished(drawing))
    assert found == {
        first: (three, 0, 0, 0),
        second: (three, 0, 0, 4),
        two: (three, 0, 0, 0),
        third: (three, 0, 0, 7),
        again: (three, 0, 0, 0),
    }


def test_slices_lie_in_what_they_are_cut_from_and_with_it_where_they_are_joined():
    drawing = drawn()
    whole = drawing.last
    low, high = (drawing.builder.add(op.Slice(axis=0, start=a, stop=a + 2), whole) for a in (0, 2))
    new = drawing.point(high, 3)
    joined = drawing.last = drawing.joined(new, low, high)
    assert places(finished(drawing)) == {
        new: (joined, 0, 0, 0),
        whole: (joined, 0, 0, 3),
        low: (joined, 0, 0, 3),
        high: (joined, 0, 0, 5),
    }


def test_a_tensor_joined_at_two_places_lies_at_one_of_them():
    drawing = drawn()
    one, other = drawing.point(drawing.last), drawing.point(drawing.last)
    first = drawing.joined(one, other)
    second = drawing.joined(other, one)
    drawing.last = drawing.builder.add(op.Elementwise(function="add"), first, second)
    found = places(finished(drawing))
    assert found[one] == (first, 0, 0, 0)
    assert found[other] == (first, 0, 0, 2)
    assert second not in found


def test_rows_below_rows_and_columns_beside_columns_lie_in_the_result():
    for axis, place in ((1, (5, 0, 0)), (2, (0, 4, 0))):
        drawing = drawn()
        one, other = drawing.point(drawing.last), drawing.point(drawing.last)
        joined = drawing.last = drawing.joined(one, other, axis=axis)
        found = places(finished(drawing))
        assert found == {one: (joined, 0, 0, 0), other: (joined, *place)}


def test_inputs_results_and_readers_of_contiguous_rows_keep_tensors_by_themselves():
    builder = NetworkBuilder("ends")
    image = builder.input((2, 4, 3))
    one = builder.add(op.Activation(function="relu"), image)
    read = builder.add(op.Activation(function="tanh"), image)
    result = builder.add(op.Activation(function="sigmoid"), image)
    joined = builder.add(op.Concatenation(), image, one, read, result)
    builder.output(builder.add(op.FullyConnected(units=2), read))
    builder.output(builder.add(op.Activation(function="relu"), joined))
    builder.output(result)
    assert places(builder.network()) == {one: (joined, 0, 0, 2)}


def test_an_activation_after_a_concatenation_keeps_its_inputs_separate():
    drawing = drawn()
    one, other = drawing.point(drawing.last), drawing.point(drawing.last)
    relu = (op.Activation(function="relu"),)
    drawing.last = drawing.builder.add(op.Concatenation(), one, other, epilogue=relu)
    assert places(finished(drawing)) == {}


def test_densenet_lies_in_one_tensor_for_each_block():
    found = aliases_of(from_catalogue("densenet121"), lambda _: 1)
    assert {one.host for one in found.values()} == {
        f"dense{block}_{count}_concatenation"
        for block, count in ((1, 6), (2, 12), (3, 24), (4, 16))
    }


def test_hosts_whose_long_life_costs_more_than_the_copy_are_left_out():
    # `skip` (4 bytes) waits for `up`; the host of both (8 bytes) would stand beside `wide` (10).
    lives = {"skip": (0, 5), "wide": (1, 2), "up": (3, 5), "host": (4, 6)}
    sizes = {"skip": 4, "wide": 13, "up": 4, "host": 8}
    aliases = {name: Alias(name, "host", 0, 0, 0) for name in ("skip", "up")}
    assert most_bytes(aliases, lives, sizes) == 8 + 13
    assert most_bytes({}, lives, sizes) == 4 + 13
    assert without_costly_aliases(aliases, lives, sizes) == {}
    small = {**sizes, "wide": 1}  # by themselves both and the host are alive: 16
    assert without_costly_aliases(aliases, lives, small) == aliases


def eager_alone(*given):
    """The plan in which as many tensors as can lie in others."""
    return [build._PlanBuilder(*given, is_eager=True)]


@pytest.fixture
def everywhere(monkeypatch):
    """Plans in which every tensor that may lies in another, whether that helps or not."""
    monkeypatch.setattr(
        build, "without_costly_aliases", lambda aliases, lives, sizes: dict(aliases)
    )
    monkeypatch.setattr(build, "is_smaller_ring", lambda ring_bytes, separate_bytes: True)
    monkeypatch.setattr(build, "_alias_variants", eager_alone)


def whole_layers(network, element_bytes=4):
    """A plan of layers one after the other, each whole."""
    moves = space(network, element_bytes=element_bytes)
    groups = [
        (move,)
        for cut in range(len(moves.layer_order.separators) - 1)
        for move, _ in [moves.layer_by_layer(cut)]
    ]
    return plan_of(moves.layer_order, moves.table, groups, is_streamed=False)


@pytest.mark.usefixtures("everywhere")
@pytest.mark.parametrize("seed", range(40))
def test_whole_layers_in_place_compute_what_the_network_computes(seed):
    model = joined_model(seed)
    frame = random_frame(model.network, seed)
    plan = whole_layers(model.network)
    require_equal(outputs(model, plan, frame), run_layer_by_layer(model, frame))
    (found,) = parse_plans(format_plans([plan]), "plan.json")
    assert found == plan
    require_carried_out(model.network, found)


@pytest.mark.slow
@pytest.mark.usefixtures("everywhere")
def test_any_plan_in_place_computes_what_the_network_computes():
    count = 0
    for seed in range(90):
        model = joined_model(seed)
        frame = random_frame(model.network, seed)
        is_streamed = Random(seed).random() < 0.3
        plan = random_plan(model.network, seed, is_streamed=is_streamed, parts=(2, 3))
        require_equal(outputs(model, plan, frame), run_layer_by_layer(model, frame))
        count += bool(plan.aliases)
    assert count > 18


@pytest.mark.usefixtures("everywhere")
def test_the_arena_has_the_bytes_that_are_touched():
    """Brute force: with whole layers the arena is what the machine writes, to the last byte."""
    for seed in range(20):
        model = joined_model(seed)
        plan = whole_layers(model.network, element_bytes=1)
        ran = PlanMachine(model.network, plan)
        ran.run()
        assert ran.arena.written_end == plan.arena_bytes


@pytest.mark.usefixtures("everywhere")
def test_a_tensor_at_the_place_of_another_is_refused():
    model = joined_model(0, blocks=["inception"], shape=(3, 5, 5))
    plan = whole_layers(model.network)
    first, *others = plan.aliases
    other = next(one for one in others if one.host == first.host and one.channel != first.channel)
    moved = replace(plan, aliases=(first._replace(channel=other.channel), *others))
    with pytest.raises(ExecutionError):
        PlanMachine(model.network, moved).run()


def test_by_rows_densenet_has_a_ring_for_each_block():
    # Each dense layer waits a row for its 3x3 convolution: of 6 layers the last reads the first tensor
    # 6 rows behind its newest, of 12 layers 12; maps of 14 and 7 rows are no longer than that. The last
    # concatenation of a block normalises what it joins, so it copies.
    network = simplified(Model(network=from_catalogue("densenet121"))).network
    moves = space(network, element_bytes=1)
    stages = tuple(Stage(layers=(name,)) for name in moves.layer_order.layers[1:])
    last = len(moves.layer_order.separators) - 1
    group = (GroupMove(0, last, stages),)
    plan = plan_of(moves.layer_order, moves.table, [group], is_streamed=False)
    hosts = {one.host for one in plan.aliases}
    rows = {one.tensor: one.rows for one in plan.buffers if one.tensor in hosts}
    assert rows == {
        "dense1_5_concatenation": 7,
        "dense2_11_concatenation": 13,
        "dense3_23_concatenation": 14,
        "dense4_15_concatenation": 7,
    }


@pytest.mark.usefixtures("everywhere")
def test_a_ring_that_is_a_row_short_is_refused(monkeypatch):
    """Brute force of the rows of rings: one row fewer, and a row is overwritten before it is read."""
    has_no_room = executor._GroupRun._has_no_room
    short = {}  # a ring has no other place for a row

    def stages(group, tensor, rows):
        return tensor.buffer.tensor not in short and has_no_room(group, tensor, rows)

    monkeypatch.setattr(executor._GroupRun, "_has_no_room", stages)
    refused = []
    for seed in range(60):
        model = joined_model(seed)
        plan = random_plan(model.network, seed, is_streamed=False, element_bytes=1)
        lines = {one.tensor: one for one in plan.buffers if one.kind is Kind.LINE}
        for host in {one.host for one in plan.aliases if one.host in lines}:
            if lines[host].rows == 1:
                continue
            short = {host: replace(lines[host], rows=lines[host].rows - 1)}
            buffers = tuple(short.get(one.tensor, one) for one in plan.buffers)
            try:
                PlanMachine(model.network, replace(plan, buffers=buffers)).run()
                refused.append(False)
            except ExecutionError:
                refused.append(True)
    assert len(refused) > 10
    assert all(refused)


@pytest.mark.slow
def test_the_search_counts_sections_as_the_best_choice_of_places_has_it():
    """Brute force over all choices of tensors that lie in others, where they are few."""
    counted = []
    for seed in range(80):
        moves = space(joined_network(seed), element_bytes=1)
        for cut in range(len(moves.layer_order.separators) - 1):
            move, peak = moves.layer_by_layer(cut)
            names = [stage.result for stage in move.stages]
            aliases = [one for one in moves.table.aliases.values() if {*one[:2]} <= set(names)]
            if 0 < len(aliases) <= 7:
                every = [least_alive(moves, cut, names, some) for some in subsets(aliases)]
                assert min(every) <= peak <= every[0]
                counted.append((peak, min(every), every[0]))
    assert len(counted) > 40
    assert sum(peak == best for peak, best, _ in counted) > 0.95 * len(counted)
    assert any(best < apart for _, best, apart in counted)


def subsets(things):
    """All of them, the empty one first."""
    for count in range(len(things) + 1):
        yield from combinations(things, count)


def least_alive(moves, cut, names, aliases):
    """The most bytes alive at a step, step by step, layer by layer."""
    network, hosts = moves.layer_order.network, {one.tensor: one.host for one in aliases}
    results, first = moves.layer_order.results, moves.layer_order.at(cut)
    alive_at = []
    for step in range(len(names)):
        alive = set()
        for name in (first, *names):
            made = names.index(name) if name in names else 0
            readers = [names.index(one) for one in network.consumers[name] if one in names]
            last = (
                len(names) if name in results or name == names[-1] else max(readers, default=made)
            )
            if made <= step <= last:
                alive.add(hosts.get(name, name))
        alive_at.append(alive)
    # A host lives on from the first to the last step at which one of its tensors does.
    every = set().union(*alive_at)
    spans = {name: [step for step, some in enumerate(alive_at) if name in some] for name in every}
    return max(
        sum(
            moves.table.tensor_bytes(name)
            for name, steps in spans.items()
            if steps[0] <= step <= steps[-1]
        )
        for step in range(len(names))
    )


WRONG = {
    "no layer makes": lambda one: one._replace(host="nobody"),
    "or that one in another": lambda one: one._replace(host=one.tensor),
    "does not fit into it": lambda one: one._replace(channel=99),
    "cannot be carried out": lambda one: one._replace(channel=one.channel + 1),
}


@pytest.mark.usefixtures("everywhere")
@pytest.mark.parametrize("words", WRONG)
def test_a_wrong_place_in_another_is_refused_with_what_is_wrong(words):
    model = joined_model(0, blocks=["dense"], shape=(3, 5, 5))
    plan = whole_layers(model.network)
    first, *others = sorted(plan.aliases, key=lambda one: one.channel)
    wrong = replace(plan, aliases=(WRONG[words](first), *others))
    with pytest.raises(InvalidPlan, match=words):
        require_carried_out(model.network, wrong)


def test_a_reader_of_rows_in_one_piece_is_refused():
    builder = NetworkBuilder("connected")
    image = builder.input((2, 3, 3))
    one, other = (builder.add(op.Activation(function=name), image) for name in ("relu", "tanh"))
    joined = builder.add(op.Concatenation(), one, other)
    builder.output(builder.add(op.FullyConnected(units=2), one))
    builder.output(builder.add(op.Activation(function="relu"), joined))
    network = builder.network()
    plan = whole_layers(network)
    assert one not in {alias.tensor for alias in plan.aliases}
    buffers = tuple(buffer for buffer in plan.buffers if buffer.tensor != one)
    wrong = replace(plan, buffers=buffers, aliases=(Alias(one, joined),))
    with pytest.raises(InvalidPlan, match="in one piece"):
        require_carried_out(network, wrong)
