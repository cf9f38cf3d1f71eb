"""Networks by parts in the order of their plan, as C: compiled, run, compared with the whole."""

import pytest

from cnn2csdf.catalogue.networks import from_catalogue
from cnn2csdf.granularity import ROWS, Granularity
from planners.plan.plan import Kind
from planners.plan.text import format_plans, parse_plans
from tests.planners.code.calibrated import integer_model, real_model
from tests.planners.code.compiling import libraries, needs_compiler, run_all
from tests.planners.code.test_random_libraries import drawn
from tests.planners.memory.plain import ordered_plan, whole_plan

CATALOGUE = ("resnet8:resolution=16", "keyword_spotting:rows=25")


def by_parts(model, rows):
    """The plan of an arena by parts, as it reads back from its document."""
    plan = ordered_plan(model.network, Granularity(rows=rows))
    return parse_plans(format_plans([plan]), "plan.json")[0]


@pytest.mark.slow
@needs_compiler
def test_random_networks_by_parts_give_in_c_what_the_whole_gives(tmp_path):
    cases = [
        (model, by_parts(model, 1 + number % 3)) for number, (model, _) in enumerate(drawn(11))
    ]
    plans = [plan for _, plan in cases]
    assert any(one.readers for plan in plans for one in plan.buffers)
    assert any(one.kind is Kind.EXTERNAL for plan in plans for one in plan.buffers)
    assert run_all(libraries(cases), tmp_path) == []


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize("made", [real_model, integer_model])
def test_networks_of_the_catalogue_by_parts_and_by_layers_run_in_c(made, tmp_path):
    cases = []
    for name in CATALOGUE:
        model = made(from_catalogue(name))
        whole = whole_plan(model.network)
        cases += [(model, by_parts(model, rows)) for rows in (1, 4)] + [(model, whole)]
    assert run_all(libraries(cases), tmp_path) == []


@needs_compiler
def test_a_small_network_by_rows_runs_in_c_in_the_bytes_of_its_arena(tmp_path):
    model = real_model(from_catalogue("samos_example"))
    plan = ordered_plan(model.network, ROWS)
    (library,) = libraries([(model, plan)])
    assert f"ARENA_BYTES {plan.arena_bytes}\n" in library.files[f"include/{library.name}.h"]
    assert run_all([library], tmp_path) == []
