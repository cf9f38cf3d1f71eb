"""Layers that are computed twice, so that what a gate sums up need not wait as a whole map."""

from random import Random

import pytest

from cnn2csdf.execution.layer_by_layer import run_layer_by_layer
from cnn2csdf.parameters import parameter_bytes
from cnn2csdf.simplify import simplified
from cnn2csdf.weights import Model, random_weights
from csdf.errors import InvalidPlan
from planners.memory.answer import LINES, SEARCHED, STRIPS, TWICE, WHOLE_LAYERS
from planners.memory.fit import fit
from planners.memory.labels import PlanFront
from planners.memory.moves import WHOLE
from planners.memory.order import topological_order
from planners.memory.search import RecomputingMoves
from planners.memory.stages import StageTable
from planners.plan.carried_out import require_carried_out
from planners.plan.plan import Span
from planners.plan.text import format_plans, parse_plans
from planners.rewrites.rematerialisation import executed_model, executed_network
from tests.planners.code.compiling import libraries, needs_compiler, run_all
from tests.planners.memory.gated import gated_block, gated_network
from tests.planners.memory.plain import plan_of
from tests.planners.memory.streamed import outputs, random_frame
from tests.planners.memory.test_streamed_runs import require_equal
from tests.planners.memory.test_streaming_search import every_plan, improved


def twice_space(network, element_bytes=4):
    return RecomputingMoves(
        topological_order(network), StageTable(network, element_bytes=element_bytes)
    )


def plan_with_copies(network, seed):
    """A plan drawn at random that computes layers twice, or None where no gate allows for it."""
    moves, source = twice_space(network), Random(seed)
    groups, cut, last = [], 0, len(moves.layer_order.separators) - 1
    while cut < last:
        known = list(moves.moves_from(cut, WHOLE))
        twice = [move for move in known if move.is_rematerialised]
        move = source.choice(twice or known)
        groups.append((move,))
        cut = move.end
    plan = plan_of(moves.layer_order, moves.table, groups, is_streamed=False)
    return plan if plan.rematerialised else None


@pytest.mark.parametrize("seed", range(12))
def test_a_network_with_layers_twice_computes_what_it_did(seed):
    network = gated_network(seed)
    plan = plan_with_copies(network, seed)
    if plan is None:
        pytest.skip("its gates sum up what is no larger than what it is computed from")
    model = Model(network=network, weights=random_weights(network, seed))
    frame, worked = random_frame(network, seed), executed_model(model, plan.rematerialised)
    wanted = run_layer_by_layer(model, frame)
    require_equal(run_layer_by_layer(worked, frame), wanted)
    require_equal(outputs(model, plan, frame), wanted)
    assert parameter_bytes(worked.network) == parameter_bytes(network)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_the_front_with_layers_twice_is_that_of_all_groups_and_moves(seed):
    moves = twice_space(gated_network(seed, blocks=1), element_bytes=1)
    found = PlanFront(moves, 10**9, is_streamed=False).plans
    wanted = every_plan(moves, is_streamed=False)
    assert [plan[:2] for plan in found] == improved(wanted)


def test_gates_twice_take_less_than_half_of_what_strips_need():
    # 16 x 16 places of 8 maps wait for the gate, 2,048 bytes; twice, the 2 maps they come from.
    network = simplified(Model(network=gated_block(2, 8, 16))).network
    once = fit(network, element_bytes=1, searched=(LINES, STRIPS)).least
    twice = fit(network, element_bytes=1, searched=(LINES, STRIPS, TWICE)).least
    assert once.ram_bytes >= 2_048
    assert twice.ram_bytes < 1_024
    assert 1 < twice.mac_ratio < 3


@needs_compiler
@pytest.mark.slow
def test_code_that_computes_layers_twice_gives_what_the_whole_network_gives(tmp_path):
    cases = []
    for seed in range(10):
        network = gated_network(seed)
        plan = plan_with_copies(network, seed)
        if plan is not None:
            model = Model(network=network, weights=random_weights(network, seed))
            cases.append((model, plan))
    assert len(cases) >= 5
    made = libraries(cases)
    assert run_all(made, tmp_path) == []
    for (model, _), one in zip(cases, made, strict=True):
        # Copies share the numbers of their layers; equal arrays are stored once.
        assert one.written.weight_bytes <= parameter_bytes(model.network)


def test_a_span_that_the_network_does_not_have_is_refused_by_its_ends():
    network = gated_network(0)
    with pytest.raises(InvalidPlan, match="between 'nowhere' and 'else'"):
        executed_network(network, (Span("nowhere", "else"),))


def test_fit_tells_that_gates_are_computed_twice():
    found = fit(gated_block(2, 8, 16), element_bytes=1, searched=SEARCHED)
    assert TWICE in {way.name for way in found.methods}


def test_a_plan_with_layers_twice_reads_back_and_is_checked():
    network = gated_block(2, 8, 16)
    plan = fit(network, element_bytes=1, searched=SEARCHED).least.plan
    assert plan.rematerialised
    (found,) = parse_plans(format_plans([plan]), "plan.json")
    assert found == plan
    require_carried_out(network, found)


def test_measured_times_count_layers_as_often_as_they_are_computed():
    network = simplified(Model(network=gated_block(2, 8, 16))).network
    ends = {one.name for one in (*network.inputs, *network.outputs)}
    names = [one.name for one in network.layers if one.name not in ends]
    durations = dict.fromkeys(names, (1_000_000,))  # a millisecond each
    found = fit(network, element_bytes=1, searched=SEARCHED, durations=durations)
    times = {way.name: way.nanoseconds for way in found.methods}
    assert len(names) * 1_000_000 <= times[WHOLE_LAYERS] < (len(names) + 1) * 1_000_000
    assert times[TWICE] >= (len(names) + 1) * 1_000_000
