"""An input that comes row by row, collected in the arena before the first layer works."""

import json

import pytest

from cnn2csdf.builder import NetworkBuilder
from cnn2csdf.catalogue.networks import from_catalogue
from cnn2csdf.execution.layer_by_layer import run_layer_by_layer
from cnn2csdf.operators import Convolution, Window
from cnn2csdf.simplify import simplified
from cnn2csdf.weights import Model, random_weights
from csdf.cli.main import main
from csdf.errors import UnreadableFile
from planners.memory.answer import RESIDENT, ROWS, SEARCHED, WHOLE_LAYERS
from planners.memory.fit import fit
from planners.memory.labels import PlanFront
from planners.memory.loaded_plan import fit_of
from planners.plan.carried_out import require_carried_out
from planners.plan.text import format_plans, parse_plans
from tests.planners.code.compiling import libraries, needs_compiler, run_all
from tests.planners.memory.gated import gated_block, gated_network
from tests.planners.memory.streamed import outputs, random_frame
from tests.planners.memory.test_layers_twice import twice_space
from tests.planners.memory.test_streamed_runs import require_equal


def fits(network, place):
    return fit(network, element_bytes=1, input=place, searched=SEARCHED)


def collected_way(network):
    """The least plan of a network whose first layers work twice, so that it reads its input twice."""
    found = fit(network, input=ROWS, searched=SEARCHED).least
    assert found.plan.collects_input
    return found


@pytest.mark.parametrize("seed", range(6))
def test_rows_are_counted_with_no_more_than_a_resident_input_at_any_work(seed):
    moves = twice_space(gated_network(seed), element_bytes=1)
    resident, rows = (PlanFront(moves, 10**9, is_streamed=one).plans for one in (False, True))
    for most, work, _ in resident:
        assert min(memory for memory, macs, _ in rows if macs <= work) <= most


@pytest.mark.parametrize(("thin", "wide", "size"), [(2, 8, 16), (3, 12, 14), (1, 9, 11)])
def test_rows_in_front_of_a_gate_need_no_more_than_a_resident_input(thin, wide, size):
    network = gated_block(thin, wide, size)
    assert fits(network, ROWS).least.ram_bytes <= fits(network, RESIDENT).least.ram_bytes


def test_a_gate_behind_the_input_is_worked_twice_from_the_collected_input():
    # The gate's map has 8 x 16 x 16 = 2,048 bytes; the input that it is computed from has 512.
    found = fits(gated_block(2, 8, 16), ROWS).least
    assert found.plan.collects_input
    assert 512 <= found.ram_bytes < 1_024


def test_a_plan_that_collects_its_input_computes_what_the_network_computes():
    network = gated_block(2, 8, 16)
    model = Model(network=network, weights=random_weights(network, 0))
    frame = random_frame(network, 0)
    for way in fit(network, input=ROWS, searched=SEARCHED).methods:
        require_equal(outputs(model, way.plan, frame), run_layer_by_layer(model, frame))


def test_a_plan_that_collects_its_input_reads_back_and_is_checked():
    network = gated_block(2, 8, 16)
    way = collected_way(network)
    (plan,) = parse_plans(format_plans([way.plan]), "plan.json")
    assert plan == way.plan
    found = fit_of(network, plan)
    assert (found.input, found.best.ram_bytes) == (ROWS, way.ram_bytes)


def test_a_group_that_neither_works_nor_collects_is_refused():
    plan = json.loads(format_plans([collected_way(gated_block(2, 8, 16)).plan]))
    plan["groups"][0]["streamed_input"] = None
    with pytest.raises(UnreadableFile, match="at least one stage, or a streamed input"):
        parse_plans(json.dumps(plan), "plan.json")


def test_whole_layers_take_an_input_that_comes_row_by_row():
    network = simplified(Model(network=from_catalogue("keyword_spotting:rows=13"))).network
    for place, streamed_input in ((ROWS, network.inputs[0].name), (RESIDENT, None)):
        ways = {way.name: way for way in fit(network, input=place).methods}
        assert ways[WHOLE_LAYERS].plan.groups[0].streamed_input == streamed_input


def test_an_input_that_goes_out_as_well_lies_whole_in_every_way():
    builder = NetworkBuilder("echo")
    shown = builder.input((1, 5, 6))
    builder.output(shown)
    builder.output(builder.add(Convolution(filters=1, window=Window(kernel=(1, 1))), shown))
    network = builder.network()
    found = fits(network, ROWS)
    assert found.input == RESIDENT
    for way in found.methods:
        # Both results lie whole at the end: 2 x 30 bytes.
        assert way.ram_bytes >= 60
        require_carried_out(network, way.plan)


def test_fit_says_that_the_input_is_collected(capsys):
    main(["fit", "keyword_spotting", "--input", "rows", "--ram", "70kB"])
    told = capsys.readouterr().out
    assert ("collected before the first layer" in told) == (" <" in _line(told, "layer by layer"))
    main(["fit", "keyword_spotting", "--input", "rows", "--ram", "8kB"])
    assert "collected" not in capsys.readouterr().out


def _line(text, begin):
    return next(line for line in text.splitlines() if line.strip().startswith(begin))


@needs_compiler
@pytest.mark.slow
def test_code_that_collects_its_input_gives_what_the_network_gives(tmp_path):
    cases = []
    for network in (gated_block(2, 8, 16), *map(gated_network, range(1))):
        model = Model(network=network, weights=random_weights(network, 0))
        ways = fit(network, input=ROWS, searched=SEARCHED).methods
        cases += [(model, way.plan) for way in ways if way.plan.collects_input]
    assert len(cases) >= 3
    made = libraries(cases)
    assert all("_push_row" in one.files[f"include/{one.name}.h"] for one in made)
    assert run_all(made, tmp_path) == []
