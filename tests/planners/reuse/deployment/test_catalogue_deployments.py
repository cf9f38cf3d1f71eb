"""Networks of the catalogue together in one arena."""

import random
import re
from fractions import Fraction

import pytest

from cnn2csdf.catalogue.embedded import keyword_spotting, mobilenet_v2, resnet8
from csdf.time_limit import Stop
from figures.published.offset_points import elementwise_in_place
from planners.arena.allocation import plan_arena
from planners.reuse.application import Application, single_partition
from planners.reuse.c_tables import format_tables
from planners.reuse.deployment import deployment
from planners.reuse.evaluation import Evaluator
from planners.reuse.placement import offset_problem
from tests.planners.reuse.deployment.deployed import (
    TOLERANCE,
    after,
    as_published,
    by_offsets,
    calibrated,
    run,
)
from tests.planners.reuse.front.small_applications import divided

EYES = mobilenet_v2(width=Fraction(1, 4), resolution=32)
EARS = keyword_spotting()
TOUCH = resnet8()


def application():
    """A pipeline of three partitions, a network in two that take turns, one in one."""
    third = len(EYES.layers) // 3
    eyes = divided(EYES, (third, third, len(EYES.layers) - 2 * third))
    touch = divided(TOUCH, (7, len(TOUCH.layers) - 8), frozenset({TOUCH.layers[0].name}))
    names = frozenset(partition.name for partition in eyes.partitions)
    members = (eyes, touch, single_partition(EARS))
    return Application(name="robot", members=members, parallel=(names,))


ROBOT = application()
EVALUATOR = Evaluator(ROBOT)
WEIGHTS = calibrated(ROBOT)


def chromosomes():
    drawn = random.Random(3)
    layers = len(ROBOT.layers)
    yield (None,) * layers
    yield (1,) * layers
    yield tuple(drawn.choice((None, 1, 2, 5)) for _ in range(layers))


@pytest.mark.slow
@pytest.mark.parametrize("genes", list(chromosomes()), ids=["whole", "rows", "mixed"])
@pytest.mark.parametrize("make", [as_published, by_offsets])
def test_interleaved_networks_give_what_each_gives_alone(make, genes):
    plan = make(EVALUATOR, genes)
    assert run(ROBOT, plan, weights=WEIGHTS, counts=3) < TOLERANCE


@pytest.mark.slow
def test_additions_in_the_place_of_what_they_read_run_in_fewer_bytes():
    alone = Application(name="alone", members=(single_partition(TOUCH),))
    evaluator = Evaluator(alone)
    plan = evaluator.plan((None,) * len(alone.layers))
    apart = offset_problem(evaluator, plan)
    over = elementwise_in_place(evaluator, plan, apart)
    found = deployment(evaluator, plan, plan_arena(over, budget=Stop(report=after(20))))
    assert re.search(r",1\}, /\*", format_tables(found))  # the column in_place
    assert found.memory.peak <= plan_arena(apart, budget=Stop(report=after(20))).peak
    assert run(alone, found) < TOLERANCE
