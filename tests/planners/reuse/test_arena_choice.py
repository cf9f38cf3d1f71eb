"""Which chromosome becomes the plan: offsets decide, and the simplest plans are never forgotten."""

from fractions import Fraction
from functools import partial
from operator import le
from random import Random

import pytest

from cnn2csdf.catalogue.networks import from_catalogue
from cnn2csdf.granularity import ROWS
from cnn2csdf.simplify import simplified
from cnn2csdf.weights import Model
from csdf.errors import GaveUp
from csdf.time_limit import Stop
from planners.memory.plain_plans import whole_arena
from planners.reuse.application import Application, single_partition
from planners.reuse.edge_buffers import best_shared
from planners.reuse.evaluation import Costs, Evaluator
from planners.reuse.local_search import local_search
from planners.reuse.placement import free_offsets
from planners.reuse.selection import Constraints, chosen_point, placed_front, uniform_points
from tests.planners.memory.plain import ordered_plan

NAMES = ("resnet8", "keyword_spotting", "person_detection", "efficientnet_b0", "mobilenet_v2")
RATE = Fraction(10**9)  # frames a second, which nothing reaches


def evaluator_of(name):
    network = simplified(Model(network=from_catalogue(name))).network
    application = Application(name=name, members=(single_partition(network),))
    costs = Costs(element_bytes=1, parameter_bytes=1)
    return network, Evaluator(application, costs, share=best_shared)


def placed(evaluator, chromosome):
    plan = evaluator.plan(chromosome)
    return free_offsets(evaluator, plan).peak


def front_of(evaluator, points, rows=(0, 1), budget=None):
    return placed_front(evaluator, points, rows, partial(placed, evaluator), budget=budget)


def time(point):
    return sum(point.score[1:])


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("evaluations", [2, 200])
def test_the_smallest_plan_never_loses_against_whole_layers_or_rows_in_one_arena(name, evaluations):
    # Issue 10: yolov8n needed 731.8 kB where whole layers need 716.8.
    network, evaluator = evaluator_of(name)
    points = local_search(evaluator, random=Random(0), evaluations=evaluations).points
    front = front_of(evaluator, points)
    found = chosen_point(evaluator.application, front, Constraints()).memory - evaluator.weights
    assert found <= whole_arena(network, element_bytes=1).peak
    assert found <= ordered_plan(network, ROWS, element_bytes=1).arena_bytes
    assert found <= placed(evaluator, points[0].chromosome)


@pytest.mark.parametrize("name", NAMES[:3])
def test_within_a_limit_that_whole_layers_fit_nothing_slower_is_chosen(name):
    network, evaluator = evaluator_of(name)
    points = local_search(evaluator, random=Random(0), evaluations=100).points
    whole = uniform_points(evaluator, ())[0]
    room = whole_arena(network, element_bytes=1).peak
    demands = Constraints(memory=evaluator.weights + room)
    front = front_of(evaluator, points)
    chosen = chosen_point(evaluator.application, front, demands)
    assert time(chosen) <= time(whole)
    assert placed(evaluator, chosen.chromosome) <= room
    tight = Constraints(memory=evaluator.weights + room - 1)
    slower = chosen_point(evaluator.application, front, tight)
    assert placed(evaluator, slower.chromosome) < room
    assert time(slower) > time(chosen)  # whole layers are the fastest, and do not fit


def test_a_limit_that_nothing_meets_has_no_answer():
    _, evaluator = evaluator_of("keyword_spotting")
    front = front_of(evaluator, uniform_points(evaluator, (0, 1)))
    application = evaluator.application
    assert chosen_point(application, front, Constraints(memory=evaluator.weights)) is None
    too_fast = Constraints(throughput={"keyword_spotting": RATE})
    assert chosen_point(application, front, too_fast) is None


def test_all_layers_by_each_number_of_rows_are_candidates():
    _, evaluator = evaluator_of("keyword_spotting")
    found = [set(one.chromosome) for one in uniform_points(evaluator, (0, 1, 4))]
    assert found[0] == {0}
    assert 1 in found[1]
    assert 4 in found[2]
    assert len(uniform_points(evaluator, (1,))) == 2  # the whole is one of them in any case


@pytest.mark.parametrize("name", NAMES[:2])
def test_without_any_time_all_layers_whole_or_by_rows_are_the_answer(name):
    network, evaluator = evaluator_of(name)
    points = local_search(evaluator, random=Random(0), evaluations=50).points

    def over(_):
        raise GaveUp("no time")

    front = front_of(evaluator, points, budget=Stop(report=over))
    simple = [one.chromosome for one in uniform_points(evaluator, (0, 1))]
    assert {one.chromosome for one in front} <= set(simple)
    limit = evaluator.weights + whole_arena(network, element_bytes=1).peak
    demands = Constraints(memory=limit)
    assert chosen_point(evaluator.application, front, demands) is not None


@pytest.mark.parametrize("name", NAMES[:3])
def test_the_front_in_one_arena_is_that_of_all_points_placed_one_by_one(name):
    _, evaluator = evaluator_of(name)
    points = local_search(evaluator, random=Random(0), evaluations=60).points
    front = front_of(evaluator, points)
    of_front = [(one.memory, *one.periods) for one in front]
    assert of_front == sorted(set(of_front))
    # A naive second opinion: every point is placed, none is left out because of a bound.
    for point in (*points, *uniform_points(evaluator, (0, 1))):
        costs = (evaluator.weights + placed(evaluator, point.chromosome), *point.periods)
        assert any(all(map(le, better, costs)) for better in of_front)
        for better in of_front:
            assert costs == better or not all(map(le, costs, better))
