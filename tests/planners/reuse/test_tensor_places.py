"""Readers of one tensor share its place: never larger, bounded, and it runs."""

import random
from dataclasses import replace
from itertools import product

import pytest

from cnn2csdf.catalogue.networks import from_catalogue
from cnn2csdf.simplify import simplified
from cnn2csdf.weights import Model
from csdf.errors import InvalidPlan
from planners.arena.allocation import plan_arena
from planners.arena.checker import check_plan
from planners.reuse.application import Application, single_partition
from planners.reuse.bounds import memory_bound
from planners.reuse.deployment import deployment
from planners.reuse.evaluation import Evaluator
from planners.reuse.placement import free_offsets, offset_problem, tensor_problem
from tests.planners.reuse.deployment.deployed import TOLERANCE, run
from tests.planners.reuse.front.small_applications import branched, divided, residual

RESNET8 = simplified(Model(network=from_catalogue("resnet8"))).network


def alone(network):
    return Application(name=network.name, members=(single_partition(network),))


def divided_apart():
    """Partitions that take turns, with a tensor that is read in two of them."""
    return Application(name="turns", members=(divided(residual(), (3, 4)),))


def pipelined():
    member = divided(residual(), (3, 4))
    names = frozenset(partition.name for partition in member.partitions)
    return Application(name="pipelined", members=(member,), parallel=(names,))


APPLICATIONS = [alone(residual()), alone(branched()), divided_apart(), pipelined(), alone(RESNET8)]
EACH = pytest.mark.parametrize("application", APPLICATIONS, ids=lambda one: one.name)


def chromosomes(application, count=8):
    drawn = random.Random(11)
    layers = len(application.layers)
    yield (None,) * layers
    yield (1,) * layers
    for _ in range(count):
        yield tuple(drawn.choice((None, 1, 2)) for _ in range(layers))


@EACH
def test_a_shared_tensor_never_needs_more_than_a_buffer_for_each_reader(application):
    evaluator = Evaluator(application)
    for genes in chromosomes(application):
        plan = evaluator.plan(genes)
        shared = free_offsets(evaluator, plan)
        assert shared.peak <= plan_arena(offset_problem(evaluator, plan)).peak
        check_plan(shared)
        assert (
            memory_bound(evaluator, (None, 1, 2), shares_tensors=True)
            <= evaluator.weights + shared.peak
        )


def test_the_bound_holds_for_every_chromosome_of_a_small_network():
    evaluator = Evaluator(alone(residual()))
    bound = memory_bound(evaluator, shares_tensors=True)
    peaks = [
        evaluator.weights + free_offsets(evaluator, evaluator.plan(genes)).peak
        for genes in product((None, 1), repeat=len(evaluator.application.layers))
    ]
    assert bound <= min(peaks)
    assert bound <= memory_bound(evaluator)


def test_resnet8_keeps_the_input_of_a_block_once():
    # The addition reads two maps of 16x32x32 and writes one; with a copy for each reader, four lie
    # there while the first convolution of the block works: 65536 elements against 49152.
    evaluator = Evaluator(alone(RESNET8))
    plan = evaluator.plan((None,) * len(evaluator.application.layers))
    assert free_offsets(evaluator, plan).peak == 4 * 3 * 16 * 32 * 32
    assert plan_arena(offset_problem(evaluator, plan)).peak == 4 * 4 * 16 * 32 * 32


@pytest.mark.slow
@EACH
def test_a_plan_with_shared_tensors_runs(application):
    evaluator = Evaluator(application)
    for genes in chromosomes(application, count=2):
        plan = evaluator.plan(genes)
        made = deployment(evaluator, plan, free_offsets(evaluator, plan))
        assert run(application, made, counts=2) < TOLERANCE


def test_copies_in_a_pipeline_stay_apart():
    evaluator = Evaluator(pipelined())
    plan = evaluator.plan((None,) * len(evaluator.application.layers))
    copies = [edge.name for edge in plan.edges if edge.name.endswith(")")]
    _, places = tensor_problem(evaluator, plan)
    assert copies
    assert all(places[name] == name for name in copies)


def test_edges_of_different_tensors_that_share_bytes_are_not_deployed():
    evaluator = Evaluator(alone(residual()))
    plan = evaluator.plan((None,) * len(evaluator.application.layers))
    memory = free_offsets(evaluator, plan)
    pairs = (("residual: in to a", "residual: a to b"),)
    wrong = replace(memory, problem=replace(memory.problem, may_overlap=pairs))
    with pytest.raises(InvalidPlan, match="share bytes"):
        deployment(evaluator, plan, replace(wrong, offsets=memory.offsets | {pairs[0][1]: 0}))


def test_readers_of_one_tensor_at_two_offsets_are_not_deployed():
    evaluator = Evaluator(alone(residual()))
    plan = evaluator.plan((None,) * len(evaluator.application.layers))
    memory = free_offsets(evaluator, plan)
    (pair,) = memory.problem.may_overlap
    offsets = {name: 10**6 * (1 + place) for place, name in enumerate(memory.offsets)}
    offsets[pair[1]] = offsets[pair[0]] + 4
    wrong = replace(memory, offsets=offsets, status="feasible")
    with pytest.raises(InvalidPlan, match="share bytes"):
        deployment(evaluator, plan, wrong)
