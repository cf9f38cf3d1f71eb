"""The small end of the front: what each network needs alone, climbs, and the least in use."""

from random import Random

import pytest

from csdf.time_limit import Stop, stop_of
from figures.published.offset_points import offset_point
from planners.published.todaes import as_published, read_published_application
from planners.reuse.application import Application
from planners.reuse.edge_buffers import best_shared, elements_of, shared_buffers
from planners.reuse.evaluation import Evaluator
from planners.reuse.executors import Limited, Serial
from planners.reuse.hill_climbing import climbed, smallest_of_each
from planners.reuse.local_search import local_search
from planners.reuse.problem import ReuseProblem, search_problem
from planners.reuse.selection import least_points
from tests.planners.reuse.front.small_applications import all_genes, together
from tests.shared_data import SHARED

TABLE = SHARED / "networks" / "applications.json"
needs_table = pytest.mark.skipif(
    not TABLE.exists(), reason=f"no table of published applications at {TABLE}"
)


def alone_bytes(evaluator, member, genes):
    return 4 * elements_of(evaluator.buffers(genes, member=member)[1])


def valley(chromosome):
    """Least where all genes are 1; two of the others have to change together."""
    ones = sum(chromosome)
    return len(chromosome) - ones + (2 if ones == len(chromosome) - 1 else 0)


def test_a_climb_goes_through_equal_and_larger_changes_to_the_least():
    problem = ReuseProblem(identity="", alleles=((0, 1),) * 8, objectives=("memory",))
    found = list(climbed((0,) * 8, range(8), problem, valley, Random(1)))
    values = [valley(one) for one in found]
    assert values == sorted(values, reverse=True)
    assert values[-1] == 0


def test_a_climb_changes_no_other_genes():
    problem = ReuseProblem(identity="", alleles=((0, 1),) * 8, objectives=("memory",))
    found = list(climbed((0,) * 8, (2, 5), problem, lambda one: 8 - sum(one), Random(1)))
    assert found[-1] == (0, 0, 1, 0, 0, 1, 0, 0)


@pytest.mark.parametrize("share", [shared_buffers, best_shared])
def test_a_network_alone_needs_what_the_application_needs_when_the_others_need_nothing_more(share):
    # Networks that take turns share buffers: both together need at least what each needs alone,
    # and no more than both apart.
    evaluator = Evaluator(together(), share=share)
    for genes in list(all_genes(evaluator.application))[:200:9]:
        alone = [alone_bytes(evaluator, member, genes) for member in range(2)]
        whole = evaluator.evaluate(genes)[0] - evaluator.weights
        assert max(alone) <= whole <= sum(alone)


def test_what_is_in_use_of_an_application_is_what_its_largest_network_has_in_use():
    evaluator = Evaluator(together(), share=best_shared)
    for genes in list(all_genes(evaluator.application))[:200:9]:
        each = [evaluator.live_bytes(member, genes) for member in range(2)]
        assert max(each) == 4 * evaluator.plan(genes).live_load


def test_the_least_in_use_is_that_of_all_chromosomes():
    evaluator = Evaluator(together(), share=best_shared)
    (point,) = least_points(evaluator, (0, 1), stop_of(None))
    found = evaluator.plan(point.chromosome).live_load
    assert found == min(evaluator.plan(genes).live_load for genes in all_genes(together()))


def test_a_spent_stop_has_no_point():
    evaluator = Evaluator(together(), share=best_shared)
    assert least_points(evaluator, (0, 1), Stop(steps=0)) == ()


def test_a_climb_begins_with_the_genes_that_gain_most():
    problem = ReuseProblem(identity="", alleles=((0, 1),) * 8, objectives=("memory",))
    seen = []

    def memory(chromosome):
        seen.append(chromosome)
        return len(seen)  # nothing is better than the start

    climb = climbed((0,) * 8, range(8), problem, memory, Random(1), lambda _: {6: 5, 2: 9})
    assert list(climb) == []
    changed = [chromosome.index(1) for chromosome in seen[1:9]]
    assert changed[:2] == [2, 6]
    assert sorted(changed) == list(range(8))


@needs_table
@pytest.mark.slow
@pytest.mark.parametrize(("name", "theirs"), [("application 1", 1.487), ("application 3", 2.28)])
def test_with_300_evaluations_no_more_is_needed_than_the_published_tool_finds(name, theirs):
    application = as_published(read_published_application(str(TABLE), name))
    for seed in range(1, 5):
        evaluator = Evaluator(application, share=best_shared)
        front = local_search(evaluator, random=Random(seed), evaluations=300)
        assert front.evaluations == 300
        assert front.points[0].score[0] - evaluator.weights <= theirs * 1e6


def smallest_alone(application, *, evaluations, seed):
    """The bytes of each network in the seed of the small end, and the evaluations that it took."""
    evaluator = Evaluator(application, share=best_shared)
    place = Limited(Serial(evaluator.evaluate), evaluations)
    (found,) = smallest_of_each(
        evaluator, search_problem(evaluator), place, random=Random(seed), stop=Stop()
    )
    members = range(len(application.members))
    needs = [alone_bytes(evaluator, member, found) for member in members]
    return needs, place.evaluations


@pytest.mark.parametrize("evaluations", [7, 60, 3000])
def test_climbs_of_each_network_take_a_third_of_the_evaluations_at_most(evaluations):
    _, taken = smallest_alone(together(), evaluations=evaluations, seed=1)
    assert taken <= evaluations // 3


def test_climbs_leave_the_last_evaluation_for_their_result():
    evaluator = Evaluator(together(), share=best_shared)
    limited = Limited(Serial(evaluator.evaluate), 60)
    for _ in range(50):
        limited.charge()
    problem = search_problem(evaluator)
    (best,) = smallest_of_each(evaluator, problem, limited, random=Random(1), stop=Stop())
    assert limited.evaluations == 59
    assert list(limited.scores([best], Stop())) == [evaluator.evaluate(best)]


def test_each_network_alone_needs_the_least_of_all_its_chromosomes():
    needs, _ = smallest_alone(together(), evaluations=3000, seed=1)
    evaluator = Evaluator(together(), share=best_shared)
    every = list(all_genes(together()))
    assert needs == [
        min(alone_bytes(evaluator, member, one) for one in every) for member in range(2)
    ]


@needs_table
@pytest.mark.slow
def test_the_largest_network_climbs_from_several_starts():
    application = as_published(read_published_application(str(TABLE), "application 6"))
    small, large = (
        next(member for member in application.members if member.name == name)
        for name in ("mobilenetv1", "resnet50")
    )
    # A single climb of ResNet-50 from all layers by parts ends at 7.557 MB here, where all layers
    # of the stage behind the first one are whole: no change of a few layers needs less.
    pair = Application(name="pair", members=(small, large))
    for seed in (1,):
        needs, _ = smallest_alone(pair, evaluations=7500, seed=seed)
        assert needs[1] <= 7_000_000


@needs_table
@pytest.mark.slow
def test_application_6_needs_no_more_with_offsets_than_is_printed():
    evaluator = Evaluator(read_published_application(str(TABLE), "application 6"))
    (point,) = least_points(evaluator, (0, 1), stop_of(None))
    found = offset_point(evaluator, point.chromosome)
    assert found.memory <= 155_000_000
