"""Pareto fronts of chains of links, compared with the front of all chains."""

from random import Random

import pytest

from csdf.search.pareto import front_of_chains, improving


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
