"""Table 6.6 of Minakova's thesis: exact seeds alone are below its figures for EfficientNet-B0.

The figures, in MB of weights and whole buffers, are those of its last column; the accounting is the
published one, on the networks of the published tool.
"""

import pytest

from csdf.status import Status
from planners.arena.allocation import plan_arena
from planners.published.todaes import as_published, read_published_application
from planners.reuse.edge_buffers import best_shared
from planners.reuse.evaluation import Evaluator
from planners.reuse.load_front import load_front
from planners.reuse.placement import offset_problem
from tests.shared_data import SHARED

TABLE = SHARED / "networks" / "applications.json"
pytestmark = pytest.mark.skipif(not TABLE.exists(), reason=f"there is no {TABLE}")
MEGABYTES = {"application 2": 27.30, "application 4": 31.34}


@pytest.mark.slow
@pytest.mark.parametrize("name", MEGABYTES)
def test_a_chromosome_of_the_front_of_loads_needs_less_than_the_paper_prints(name):
    evaluator = Evaluator(as_published(read_published_application(TABLE, name)), share=best_shared)
    found = load_front(evaluator)
    least = min(evaluator.evaluate(genes)[0] for _, genes in found)
    assert least <= MEGABYTES[name] * 1e6


@pytest.mark.slow
@pytest.mark.parametrize("number", [1, 2, 3])
def test_offsets_reach_the_least_load_of_all_chromosomes(number):
    name = f"application {number}"
    evaluator = Evaluator(as_published(read_published_application(TABLE, name)), share=best_shared)
    found = load_front(evaluator)
    load, genes = found[-1]
    plan = plan_arena(offset_problem(evaluator, evaluator.plan(genes)))
    assert plan.status == Status.OPTIMAL
    assert plan.peak == load * evaluator.costs.element_bytes
