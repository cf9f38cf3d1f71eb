"""The least in use together: bounds by branch and bound against enumeration and other schedules."""

import random
from itertools import product

import pytest

from csdf.time_limit import Stop
from planners.published.todaes import as_published, read_published_application
from planners.reuse.bounds import OpenChoices, begun_before_end, memory_bound
from planners.reuse.edge_buffers import best_shared
from planners.reuse.evaluation import Evaluator
from planners.reuse.load_front import load_front
from planners.reuse.placement import free_offsets
from tests.planners.reuse.front.small_applications import (
    alone,
    branched,
    pipelined,
    plain,
    residual,
    together,
)
from tests.shared_data import SHARED

TABLE = SHARED / "networks" / "applications.json"
needs_table = pytest.mark.skipif(
    not TABLE.exists(), reason=f"no table of published applications at {TABLE}"
)
APPLICATIONS = {
    "residual": alone(residual()),
    "branched": alone(branched()),
    "pipelined": pipelined(residual(), 3),
    "published rates": as_published(alone(branched())),
}
EACH = pytest.mark.parametrize("name", APPLICATIONS)


class Lazy:
    """A partition that fires nothing but what the next wanted firing waits for."""

    def __init__(self, model, rows):
        self.table = model.table
        self.rows = rows
        self.capacities = model.capacities(rows)
        self.fired = [0] * len(rows)
        self.order = []

    def ended(self, layer):
        return self.fired[layer] == len(self.table.written(layer, self.rows[layer]))

    def written(self, layer, count):
        return (0, *self.table.written(layer, self.rows[layer]))[count]

    def waits_for(self, layer):
        """A layer that has to fire before this one can, or None."""
        count = self.fired[layer]
        for number, edge in enumerate(self.table.edges):
            consumed, released = self.table.reading(number, self.rows[edge.consumer])
            made = self.written(edge.producer, self.fired[edge.producer])
            if edge.consumer == layer and made < consumed[count]:
                return edge.producer
            gone = (0, *released)[self.fired[edge.consumer]]
            held = self.written(layer, count + 1) - gone
            if edge.producer == layer and held > self.capacities[number]:
                return edge.consumer
        return None

    def fire(self, layer):
        while (other := self.waits_for(layer)) is not None:
            self.fire(other)
        self.fired[layer] += 1
        self.order.append(layer)

    def end(self, layer):
        while not self.ended(layer):
            self.fire(layer)
        return self

    def load(self):
        """Elements in use together at most; an edge from its first firing to its last."""
        first = {layer: self.order.index(layer) for layer in self.order}
        last = {layer: step for step, layer in enumerate(self.order)}
        return max(
            sum(
                self.capacities[number] * edge.row_elements
                for number, edge in enumerate(self.table.edges)
                if first[edge.producer] <= step <= last[edge.consumer]
            )
            for step in range(len(self.order))
        )


def drawn_rows(model, drawn, genes=(None, 1, 2)):
    layers = range(len(model.table.layers))
    return tuple(model.table.part_rows(layer, drawn.choice(genes)) for layer in layers)


@EACH
def test_what_is_forced_to_begin_is_what_a_lazy_schedule_fires(name):
    drawn = random.Random(5)
    for model in Evaluator(APPLICATIONS[name]).models:
        for _ in range(6):
            rows = drawn_rows(model, drawn)
            forced = begun_before_end(model, rows, model.capacities(rows))
            for layer, bits in enumerate(forced):
                fired = Lazy(model, rows).end(layer).fired
                assert bits == sum(1 << one for one, count in enumerate(fired) if count)


@EACH
def test_what_is_not_known_yet_forces_no_more_than_what_follows(name):
    drawn = random.Random(6)
    for model in Evaluator(APPLICATIONS[name]).models:
        rows = drawn_rows(model, drawn)
        capacities = model.capacities(rows)
        known = begun_before_end(model, rows, capacities)
        for _ in range(6):
            fewer = [one if drawn.random() < 0.7 else None for one in rows]
            some = [
                None if None in (fewer[edge.producer], fewer[edge.consumer]) else capacity
                for edge, capacity in zip(model.table.edges, capacities, strict=True)
            ]
            bits = begun_before_end(model, fewer, some)
            assert all(one & ~other == 0 for one, other in zip(bits, known, strict=True))


def loads_of_all(evaluator, genes, **options):
    """For each partition what each choice has in use together, in every schedule."""
    for model in evaluator.models:
        left = OpenChoices(model, genes, **options)
        yield [max(left.loads(tuple((one,) for one in rows))) for rows in product(*left.all_open)]


def assert_least_of_all(application, genes, **options):
    evaluator = Evaluator(application)
    bound = memory_bound(evaluator, genes, steps=10**6, **options)
    least = [min(one) for one in loads_of_all(evaluator, genes, **options)]
    assert bound == evaluator.weights + 4 * evaluator.together(least)


@EACH
@pytest.mark.parametrize("shares_tensors", [False, True], ids=["edges", "tensors"])
def test_the_search_ends_at_the_least_of_all_choices(name, shares_tensors):
    assert_least_of_all(APPLICATIONS[name], (None, 1), shares_tensors=shares_tensors)


def test_the_search_ends_at_the_least_of_parts_of_several_sizes():
    assert_least_of_all(alone(plain("plain")), (None, 1, 4))


@pytest.mark.parametrize("network", [residual(), branched(), plain("plain")], ids=lambda n: n.name)
def test_no_schedule_of_any_choice_has_less_in_use(network):
    evaluator = Evaluator(alone(network))
    (model,) = evaluator.models
    left = OpenChoices(model, (None, 1))
    drawn = random.Random(7)
    for rows in product(*left.all_open):
        least = max(left.loads(tuple((one,) for one in rows)))
        assert least <= evaluator.plan(rows).live_load
        schedule = Lazy(model, rows)
        for layer in drawn.sample(range(len(rows)), len(rows)):
            schedule.end(layer)
        assert least <= schedule.load()


def test_the_bound_rises_step_by_step_and_is_never_above_a_plan():
    application = together()
    evaluator = Evaluator(application)
    peaks = [
        evaluator.weights + 4 * evaluator.plan(genes).live_load
        for genes in list(product((None, 1), repeat=len(application.layers)))[::7]
    ]
    bounds = [memory_bound(evaluator, steps=steps) for steps in range(31)]
    assert bounds == sorted(bounds)
    assert bounds[0] < bounds[-1] <= min(peaks)


@EACH
def test_no_plan_with_shared_tensors_is_below_its_bound(name):
    application = APPLICATIONS[name]
    evaluator = Evaluator(application)
    bound = memory_bound(evaluator, steps=1000, shares_tensors=True)
    assert bound >= memory_bound(evaluator, shares_tensors=True)
    drawn = random.Random(8)
    for _ in range(20):
        genes = tuple(drawn.choice((None, 1)) for _ in application.layers)
        assert bound <= evaluator.weights + free_offsets(evaluator, evaluator.plan(genes)).peak


def test_a_spent_stop_leaves_the_bound_of_the_beginning():
    evaluator = Evaluator(together())
    assert memory_bound(evaluator, steps=9, budget=Stop(steps=0)) == memory_bound(evaluator)


@needs_table
@pytest.mark.slow
@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_the_bound_is_the_least_load_of_the_exact_front(number):
    # Two methods: stretches of the planner's schedule, and what every schedule has in use.
    application = read_published_application(TABLE, f"application {number}")
    evaluator = Evaluator(as_published(application), share=best_shared)
    least = load_front(evaluator)[-1][0]
    assert memory_bound(evaluator, steps=200) == evaluator.weights + 4 * least


@needs_table
@pytest.mark.slow
def test_155_mb_are_out_of_reach_of_application_6_with_published_rates():
    # ResNet-50: both readers of the last tensor of its first stage wait for 29 of 56 rows, 3.32 MB.
    # If the second stage works by rows, its last tensor is in use with them (two readers of 15 rows,
    # 1.72 MB); if a layer does not, a tensor of 1.6 MB beside it is whole. With weights of 150.63 MB:
    # more than 155.5.
    application = read_published_application(TABLE, "application 6")
    evaluator = Evaluator(as_published(application), share=best_shared)
    assert memory_bound(evaluator) < 155_000_000 < 155_500_000 < memory_bound(evaluator, steps=120)
