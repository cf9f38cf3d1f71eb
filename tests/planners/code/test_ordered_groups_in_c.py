"""Plans of several groups in an order, as C: partitions, pipelines, groups of rows among others."""

import pytest
from hypothesis import given

from cnn2csdf.catalogue.networks import from_catalogue
from cnn2csdf.platforms import PLATFORMS
from cnn2csdf.weights import Model
from planners.fusion.groups import Terms
from planners.fusion.planning import best_plan
from planners.memory.answer import GroupMode, ScratchCount
from planners.memory.order import chain_of
from planners.plan.plan import Kind
from planners.plan.text import format_plans, parse_plans
from planners.reuse.deployment import streaming_plans
from planners.reuse.evaluation import Evaluator
from tests.planners.code.calibrated import real_model
from tests.planners.code.compiling import libraries, needs_compiler, run_all
from tests.planners.code.drawing import same_in_each_run
from tests.planners.reuse.deployment.deployed import as_published, by_offsets
from tests.planners.reuse.deployment.test_random_deployments import applications


def deployed(count):
    """Networks with their plans, of so many random applications; the same in each run."""
    found = []

    @same_in_each_run(count)
    @given(drawn=applications())
    def collect(drawn):
        application, weights, genes = drawn
        make = (as_published, by_offsets)[len(found) % 2]
        plans = streaming_plans(make(Evaluator(application), genes))
        for member, plan in zip(application.members, plans, strict=True):
            model = Model(network=member.network, weights=weights[member.name])
            found.append((model, parse_plans(format_plans([plan]), "plan.json")[0]))

    collect()
    return found


@needs_compiler
@pytest.mark.slow
def test_partitions_and_pipelines_give_in_c_what_the_whole_gives(tmp_path):
    cases = deployed(6)
    plans = [plan for _, plan in cases]
    assert any(group.transfers for plan in plans for group in plan.groups)
    assert any(len(plan.groups) > 2 for plan in plans)
    assert any(one.kind is Kind.EXTERNAL for plan in plans for one in plan.buffers)
    assert run_all(libraries(cases), tmp_path) == []


@needs_compiler
def test_groups_of_rows_among_whole_layers_give_in_c_what_the_whole_gives(tmp_path):
    model = real_model(from_catalogue("resnet8:resolution=16"))
    ways = frozenset({GroupMode.WHOLE, GroupMode.ROWS})
    terms = Terms(platform=PLATFORMS["jetson-tx2"], scratch=ScratchCount.NONE, modes=ways)
    found = best_plan(chain_of(model.network), terms, 37_500).plan
    cases = [(model, found.plan)]
    assert any(len(plan.groups) > 1 and any(g.stages[1:] for g in plan.groups) for _, plan in cases)
    assert run_all(libraries(cases), tmp_path) == []
