"""The period as the largest ratio of time to iterations over the cycles of all single firings.

Every firing of one iteration becomes a node, every token a constraint. From a first guess of 0,
each cycle that takes longer than the guess allows gives a larger one, until there is none. For
graphs without capacities.
"""

from fractions import Fraction

from tests.reference.slow_simulation import components_of, firings_of


def period_of(graph):
    """The period of the graph in its own time units; None if it deadlocks, 0 if nothing limits it."""
    firings = firings_of(graph)
    slowest = Fraction(0)
    for actors in components_of(graph):
        edges = edges_of(graph, actors, firings)
        if cycle_over(edges, [-edge[3] for edge in edges], at_least=True):
            return None  # a cycle without a token
        slowest = max(slowest, largest_ratio(edges))
    return slowest


def edges_of(graph, actors, firings):
    """(from, to, time, iterations) between firings (actor, number) of one iteration.

    A firing starts no earlier than the one before it of the same actor, and than the end of each
    firing that makes a token it takes. Tokens count from 0, the initial ones first.
    """
    edges = []
    for name in actors:
        count = firings[name]
        edges += [((name, i - 1), (name, i), 0, 0) for i in range(1, count)]
        edges.append(((name, count - 1), (name, 0), 0, 1))
    for channel in graph.channels:
        if channel.producer not in actors or channel.consumer not in actors:
            continue
        durations = graph.actor(channel.producer).durations
        makers = [
            firing
            for firing in range(firings[channel.producer])
            for _ in range(channel.production[firing % len(durations)])
        ]
        token = 0
        for firing in range(firings[channel.consumer]):
            for _ in range(channel.consumption[firing % len(channel.consumption)]):
                iteration, place = divmod(token - channel.initial_tokens, len(makers))
                maker = makers[place]
                edges.append(
                    (
                        (channel.producer, maker),
                        (channel.consumer, firing),
                        durations[maker % len(durations)],
                        -iteration,
                    )
                )
                token += 1
    return list(dict.fromkeys(edges))


def largest_ratio(edges):
    ratio = Fraction(0)
    while True:
        cycle = cycle_over(edges, [edge[2] - ratio * edge[3] for edge in edges], at_least=False)
        if cycle is None:
            return ratio
        ratio = Fraction(sum(edge[2] for edge in cycle), sum(edge[3] for edge in cycle))


def cycle_over(edges, weights, *, at_least):
    """A cycle whose weights sum to more than 0, or to 0 if `at_least`; None if there is none.

    Bellman and Ford: as long paths as there are nodes contain a cycle. To find sums of 0 as well,
    every edge weighs a little more, too little for a negative cycle to reach 0.
    """
    nodes = {edge[1] for edge in edges}
    little = Fraction(1, len(nodes) + 1) if at_least else Fraction(0)
    weighted = [(edge, weight + little) for edge, weight in zip(edges, weights, strict=True)]
    best = dict.fromkeys(nodes, Fraction(0))
    chosen = {}
    for _ in range(len(nodes) + 1):
        changed = None
        for edge, weight in weighted:
            reached = best[edge[0]] + weight
            if reached > best[edge[1]]:
                best[edge[1]] = reached
                chosen[edge[1]] = edge
                changed = edge[1]
        if changed is None:
            return None
    for _ in nodes:
        changed = chosen[changed][0]
    cycle = [chosen[changed]]
    while cycle[-1][0] != changed:
        cycle.append(chosen[cycle[-1][0]])
    return cycle
