"""Pareto fronts of chains of links, compared with the front of all chains."""

from itertools import product
from random import Random

import pytest

from csdf.search.pareto import ChainLabels, front_of_chains, improving


def all_chains(ending):
    """Every chain from place 0 to the last place, as numbers of links."""
    chains = {0: [()]}
    for place in range(1, len(ending)):
        numbers = range(len(ending[place]))
        chains[place] = [
            (*before, (place, number))
            for number in numbers
            for before in chains[ending[place][number][0]]
        ]
    return chains[len(ending) - 1]


@pytest.mark.parametrize("seed", range(40))
def test_a_front_of_chains_is_the_front_of_all_chains(seed):
    random = Random(seed)
    places = random.randint(2, 5)
    ending = [
        [
            (random.randrange(place), random.randint(0, 6), (random.randint(0, 6), number), number)
            for number in range(random.randint(0, 4) if place else 0)
        ]
        for place in range(places)
    ]
    points = [
        (
            max(ending[place][number][1] for place, number in chain),
            sum(ending[place][number][2][0] for place, number in chain),
        )
        for chain in all_chains(ending)
    ]
    front = front_of_chains(ending, compared=1)
    assert [(peak, cost[0]) for peak, cost, _ in front] == improving(points, lambda pair: pair)
    for _, costs, links in front:
        assert costs[1] == sum(links)  # each link is its second cost


def test_of_equal_chains_the_further_costs_choose():
    links = [(0, 3, (2, fused), fused) for fused in (1, 0)]
    assert front_of_chains([[], links], compared=1) == [(3, (2, 0), (0,))]
    assert front_of_chains([[], []]) == []


@pytest.mark.parametrize("ending", [[], [()]])
def test_the_chain_without_links_is_the_front_of_one_place(ending):
    assert front_of_chains(ending) == [(0, (), ())]


@pytest.mark.parametrize("seed", range(40))
def test_without_peaks_the_least_chain_to_each_state_remains(seed):
    # As plans in several memories are searched: a place is an index with a set, costs compare in order.
    random = Random(seed)
    states = [(index, frozenset(names)) for index in range(4) for names in ("", "a", "ab")]
    begins, later = states[:3], states[3:]
    links = [
        (begin, end, (random.randint(0, 3), random.randint(0, 3)), number)
        for number, (begin, end) in enumerate(random.choices(list(product(states, later)), k=30))
        if begin[0] < end[0]
    ]
    labels = ChainLabels((0, (0, 0), ()), begins=begins)
    every = {begin: [((0, 0), ())] for begin in begins}
    for place in states:
        for begin, end, costs, number in links:
            if begin == place and begin in every:
                labels.extend(begin, end, [(0, costs, number)])
                for (first, second), path in every[begin]:
                    sums = first + costs[0], second + costs[1]
                    every.setdefault(end, []).append((sums, (*path, number)))
    for place, chains in every.items():
        ((peak, costs, path),) = labels.at(place)
        assert peak == 0
        assert costs == min(sums for sums, _ in chains)
        assert (costs, path) in chains


def test_dominated_chains_are_dropped_before_all_are_known():
    labels = ChainLabels((0, (0,), ()))
    points = [(number * 7919 % 2000, number * 104729 % 2000) for number in range(1500)]
    for peak, cost in points:
        labels.extend(0, 1, [(peak, (cost,), (peak, cost))])
    assert [path[0] for _, _, path in labels.at(1)] == improving(points, lambda pair: pair)
