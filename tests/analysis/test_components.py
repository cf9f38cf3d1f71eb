from random import Random

import networkx

from csdf.analysis.components import strong_components


def random_successors(random, actors):
    count = random.randrange(3 * actors + 1)
    successors = [[] for _ in range(actors)]
    for _ in range(count):
        successors[random.randrange(actors)].append(random.randrange(actors))
    return successors


def test_components_agree_with_networkx():
    random = Random(1)
    for _ in range(300):
        successors = random_successors(random, random.randrange(1, 12))
        graph = networkx.MultiDiGraph()
        graph.add_nodes_from(range(len(successors)))
        graph.add_edges_from((a, b) for a, targets in enumerate(successors) for b in targets)
        numbers = strong_components(len(successors), successors)
        expected = {frozenset(c) for c in networkx.strongly_connected_components(graph)}
        found = {
            frozenset(a for a, other in enumerate(numbers) if other == number) for number in numbers
        }
        assert found == expected


def test_no_channel_leads_to_a_larger_number():
    random = Random(2)
    for _ in range(300):
        successors = random_successors(random, random.randrange(1, 12))
        numbers = strong_components(len(successors), successors)
        for actor, targets in enumerate(successors):
            assert all(numbers[target] <= numbers[actor] for target in targets)


def test_depth_has_no_limit():
    actors = 200_000
    successors = [[actor + 1] for actor in range(actors - 1)] + [[0]]
    assert set(strong_components(actors, successors)) == {0}
