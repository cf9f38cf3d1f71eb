"""The cost of leaving all cuts: the bound against every way out."""

from itertools import product
from random import Random

import pytest

from csdf.search.learned_bounds import Cuts, InsufficientRegion
from tests import both_kernels
from tests.both_kernels import BOTH


@pytest.fixture(autouse=True, params=BOTH)
def _backend(request, monkeypatch):
    """Every test runs with lists of Python integers, and with the compiled kernel."""
    both_kernels.use(monkeypatch, request.param)


def cheapest_way_out(cuts, capacities, steps, weights):
    """The least cost of larger capacities that lie in no cut, by trying all."""
    reached = [
        max([cut.limits[place] + steps[place] for cut in cuts if place in cut.limits], default=now)
        for place, now in enumerate(capacities)
    ]
    ranges = [
        range(now, max(now, most) + 1, step)
        for now, most, step in zip(capacities, reached, steps, strict=True)
    ]
    costs = [
        sum(
            (more - now) * weight
            for more, now, weight in zip(larger, capacities, weights, strict=True)
        )
        for larger in product(*ranges)
        if not any(cut.holds(larger) for cut in cuts)
    ]
    return min(costs)


def drawn_cuts(random, steps, count):
    """Cuts on the grid of multiples of the steps."""
    places = range(len(steps))
    for _ in range(count):
        chosen = random.sample(places, random.randint(1, len(steps)))
        yield InsufficientRegion({place: steps[place] * random.randint(0, 4) for place in chosen})


def with_cuts(cuts, steps, weights):
    known = Cuts(steps, weights)
    for cut in cuts:
        known.add(cut)
    return known


def test_without_cuts_the_bound_is_zero():
    assert Cuts([1, 1], [1, 1]).bound((0, 0)) == (0, None)


@pytest.mark.slow
def test_a_cut_is_left_by_its_cheapest_capacity():
    cut = InsufficientRegion({0: 3, 1: 4})
    # From (3, 2), one step of 2 beyond 3 costs 2 * 5, and 4 + 3 - 2 = 5 tokens of the other 5 * 1.
    assert with_cuts([cut], [2, 3], [5, 1]).bound((3, 2)) == (5, cut)


def test_a_cut_that_does_not_contain_the_distribution_costs_zero():
    assert with_cuts([InsufficientRegion({0: 3})], [1], [1]).bound((4,)) == (0, None)


def test_cuts_without_common_capacities_add_up():
    cuts = [InsufficientRegion({0: 1}), InsufficientRegion({1: 2, 2: 2})]
    # One token of the first, three of the second or third.
    assert with_cuts(cuts, [1, 1, 1], [1, 1, 1]).bound((1, 0, 0))[0] == 1 + 3


def test_one_step_may_leave_several_cuts():
    cuts = [InsufficientRegion({0: 1, 1: 1}), InsufficientRegion({0: 1, 2: 1})]
    assert with_cuts(cuts, [1, 1, 1], [1, 1, 1]).bound((1, 1, 1))[0] == 1


def test_numbers_of_any_size_are_counted_exactly():
    large = 10**20
    cuts = [InsufficientRegion({0: 1})]
    assert with_cuts(cuts, [1, large], [1, 1]).bound((0, large))[0] == 2
    assert with_cuts(cuts, [1, 1], [large, 1]).bound((0, 0))[0] == 2 * large
    assert with_cuts(cuts, [large, 1], [1, 1]).bound((0, 0))[0] == large + 1


def test_a_cut_that_nothing_leaves_has_no_price():
    nothing = InsufficientRegion({})
    assert with_cuts([nothing], [1], [1]).bound((5,)) == (0, nothing)


def test_the_bound_is_never_more_than_the_cheapest_way_out():
    random = Random(1)
    exact = 0
    for _ in range(1500):
        count = random.randint(1, 4)
        steps = [random.randint(1, 3) for _ in range(count)]
        weights = [random.randint(1, 4) for _ in range(count)]
        cuts = list(drawn_cuts(random, steps, random.randint(1, 6)))
        capacities = tuple(step * random.randint(0, 2) for step in steps)
        bound, smallest = with_cuts(cuts, steps, weights).bound(capacities)
        cheapest = cheapest_way_out(cuts, capacities, steps, weights)
        assert bound <= cheapest, (cuts, capacities, steps, weights)
        assert (smallest is None) == (cheapest == 0), (cuts, capacities)
        exact += bound == cheapest
    assert exact > 750  # a bound of 0 would do nothing for the search


def test_the_smallest_cut_that_holds_is_returned():
    cuts = [
        InsufficientRegion({0: 2, 1: 2}),
        InsufficientRegion({1: 2}),
        InsufficientRegion({0: 0}),
    ]
    assert with_cuts(cuts, [1, 1], [1, 1]).bound((1, 1))[1] is cuts[1]
