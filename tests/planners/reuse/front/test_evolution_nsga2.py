from random import Random

import pytest
from evolution_problems import (
    Knapsack,
    Refusing,
    Schaffer,
    dominates,
    front_of,
    problem,
    true_front,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from csdf.errors import GaveUp
from csdf.time_limit import Stop
from planners.published.nsga2 import SearchLimits, Settings, evolve
from planners.reuse.executors import Limited, Serial
from planners.reuse.problem import EvaluationFailed, InvalidSearch
from tests.reference.hypervolume import hypervolume

SMALL = Settings(population=12)


def found(evaluate, limits, *, seed=1, of=None, **options):
    return evolve(
        of or evaluate.problem, Serial(evaluate), random=Random(seed), limits=limits, **options
    )


def objectives_of(front):
    return [point.score for point in front.points]


def test_a_search_to_the_end_finds_the_true_front_and_says_so():
    evaluate = Knapsack()
    front = found(evaluate, SearchLimits(generations=400), settings=SMALL)
    assert front.is_proved
    assert front.is_finished
    assert str(front.reason) == "every chromosome was evaluated"
    assert front.evaluations == 2**8
    assert set(objectives_of(front)) == true_front(evaluate, evaluate.problem.alleles)


@settings(max_examples=20, deadline=None)
@given(st.data())
def test_a_front_of_any_table_is_that_of_brute_force(data):
    alleles = tuple(
        tuple(range(size))
        for size in data.draw(st.lists(st.integers(1, 3), min_size=1, max_size=3))
    )
    number = st.integers(0, 4) | st.fractions(0, 4, max_denominator=3)
    objectives = data.draw(st.integers(1, 3))
    score = st.builds(
        lambda values: values,
        st.tuples(*[number] * objectives),
    )
    searched = problem(*alleles, objectives=objectives)
    table = {}

    def evaluate(chromosome):
        return table.setdefault(chromosome, data.draw(score))

    front = found(evaluate, SearchLimits(generations=200), of=searched, settings=SMALL)
    assert front.is_proved
    assert set(objectives_of(front)) == true_front(evaluate, alleles)


def test_schaffers_front_is_met_in_a_large_space():
    # Both objectives fall towards 0 .. 6 and trade off between: efficient are x = 0, 1, .. 6.
    front = found(Schaffer(), SearchLimits(generations=20), settings=SMALL)
    assert objectives_of(front) == [(x * x, (x - 6) ** 2) for x in range(7)]
    assert not front.is_proved


def test_leading_ones_against_trailing_zeros_are_found_to_both_ends():
    # The efficient chromosomes of n bits are i ones and then n - i zeros, for all i; with
    # reference (n + 1, n + 1) their staircase has 1 + 2 + .. + n + 1 cells.
    # Source: Laumanns, Thiele, Zitzler, IEEE Trans. Evolutionary Computation 8(2), 2004.
    bits = 24

    def evaluate(chromosome):
        text = "".join(map(str, chromosome))
        ones, zeros = bits - len(text.lstrip("1")), bits - len(text.rstrip("0"))
        return (bits - ones, bits - zeros)

    searched = problem(*[(0, 1)] * bits)
    front = found(evaluate, SearchLimits(generations=150), of=searched)
    assert objectives_of(front) == [(i, bits - i) for i in range(bits + 1)]
    cells = (bits + 1) * (bits + 2) // 2
    assert hypervolume(objectives_of(front), (bits + 1, bits + 1)) == cells


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 60))
def test_no_point_dominates_another_and_none_is_evaluated_twice(seed, evaluations):
    met = []

    class Noting(Knapsack):
        def __call__(self, chromosome):
            met.append(chromosome)
            return super().__call__(chromosome)

    front = found(
        Noting(),
        SearchLimits(evaluations=evaluations),
        of=Knapsack().problem,
        seed=seed,
        settings=SMALL,
    )
    values = objectives_of(front)
    assert not any(dominates(one, other) for one in values for other in values)
    assert len(met) == len(set(met)) == front.evaluations == evaluations


def test_more_generations_never_lose_volume():
    volumes = [
        hypervolume(
            objectives_of(found(Knapsack(), SearchLimits(generations=g), settings=SMALL)), (99, 33)
        )
        for g in range(1, 12)
    ]
    assert volumes == sorted(volumes)


def test_seeds_are_among_the_first_evaluations():
    seed = (1, 0, 1, 0, 1, 0, 1, 0)
    met = []

    def evaluate(chromosome):
        met.append(chromosome)
        return Knapsack()(chromosome)

    searched = Knapsack().problem
    found(evaluate, SearchLimits(generations=1), of=searched, seeds=[seed, seed], settings=SMALL)
    assert met[0] == seed
    assert len(met) == 12


def test_the_same_seed_gives_the_same_front_and_another_does_not_need_to():
    limits = SearchLimits(evaluations=40)
    assert front_of(found(Knapsack(), limits)) == front_of(found(Knapsack(), limits))
    fronts = [front_of(found(Knapsack(), limits, seed=seed)) for seed in range(5)]
    assert any(front != fronts[0] for front in fronts)


@pytest.mark.parametrize(
    ("error", "reason"),
    [(GaveUp("time is up"), "time is up"), (KeyboardInterrupt(), "interrupted")],
)
def test_an_early_end_keeps_the_front_so_far(error, reason):
    looks = iter(range(30))

    def watch(_):
        if next(looks) == 20:
            raise error

    front = found(Knapsack(), SearchLimits(), settings=SMALL, budget=Stop(report=watch))
    assert (front.is_finished, str(front.reason), front.evaluations) == (False, reason, 20)
    # The twenty evaluations are those of a search for that many.
    whole = found(Knapsack(), SearchLimits(evaluations=20), settings=SMALL)
    assert whole.is_finished
    assert front_of(front) == front_of(whole)


def test_an_error_of_an_evaluation_names_the_chromosome():
    with pytest.raises(EvaluationFailed, match=r"chromosome \(7\): 7 is refused"):
        found(Refusing(), SearchLimits(generations=1), of=problem((7,)))


def test_a_score_of_another_shape_is_refused():
    with pytest.raises(InvalidSearch, match="a score of 2 values; the objectives are objective 0"):
        found(Knapsack(), SearchLimits(generations=1), of=problem(*[(0, 1)] * 8, objectives=3))


def test_limits_are_at_least_one():
    with pytest.raises(InvalidSearch, match="evaluations: found 0"):
        SearchLimits(evaluations=0)


def test_a_cache_evaluates_a_chromosome_once_for_all_searches():
    met = []

    def evaluate(chromosome):
        met.append(chromosome)
        return Knapsack()(chromosome)

    cached = Limited(Serial(evaluate))
    fronts = [
        evolve(Knapsack().problem, cached, random=Random(2), limits=SearchLimits(generations=3))
        for _ in range(2)
    ]
    assert front_of(fronts[0]) == front_of(fronts[1])
    assert len(met) == cached.evaluations == fronts[0].evaluations
