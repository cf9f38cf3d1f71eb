"""How much buffers could shrink, on the worked example of the thesis."""

from figures.published.reuse_example import worked_example
from planners.published.todaes import as_published
from planners.reuse.evaluation import Evaluator
from planners.reuse.hill_climbing import possible_gains
from tests.planners.reuse.front.small_applications import all_genes, together

EXAMPLE = as_published(worked_example())
WHOLE = (None,) * len(EXAMPLE.layers)


def named(evaluator, found):
    layers = evaluator.application.layers
    return {layers[place]: gain for place, gain in found.items()}


def test_only_edges_that_fill_the_buffers_of_table_6_2_have_gains():
    # {e12, e34, e12'} 8192: without e34, 3072 are left. {e23, e45, e23'(1)} 8192 and
    # {e24, e23'(2)} 8192: without the edges of CNN1 6272 are left. {e34'} 10: nothing is left.
    evaluator = Evaluator(EXAMPLE)
    assert named(evaluator, possible_gains(evaluator, *evaluator.buffers(WHOLE))) == {
        ("CNN1", "l2"): 1920,
        ("CNN1", "l3"): 5120,
        ("CNN1", "l4"): 5120,
        ("CNN1", "l5"): 1920,
        ("CNN2", "l3"): 10,
        ("CNN2", "l4"): 10,
    }


def test_a_buffer_that_a_cut_edge_fills_gains_nothing():
    # Partitions that run at the same time share nothing, and e12' and e23'(1) are in use together:
    # each of the four edges of CNN2 has a buffer of its own. e23' is cut, so that l2 counts for e12'.
    evaluator = Evaluator(EXAMPLE)
    found = named(evaluator, possible_gains(evaluator, *evaluator.buffers(WHOLE, member=1)))
    assert found == {
        ("CNN2", "l1"): 3072, ("CNN2", "l2"): 3072, ("CNN2", "l3"): 10, ("CNN2", "l4"): 10,
    }  # fmt: skip


def test_buffers_of_the_evaluator_agree_with_the_plan():
    evaluator = Evaluator(together())
    for genes in list(all_genes(together()))[:200:9]:
        plan, (sizes, shared) = evaluator.plan(genes), evaluator.buffers(genes)
        assert tuple(sizes) == plan.capacities
        assert tuple(shared) == plan.shared
