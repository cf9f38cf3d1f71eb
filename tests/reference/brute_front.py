"""The storage/throughput front by trying every storage distribution there is."""

from csdf.analysis.bound_channels import with_capacities
from tests.reference import slow_simulation


def front_of(graph, largest, *, groups=None, weights=None, period_of=slow_simulation.period_of):
    """All (size, period) up to the size `largest` that no other distribution improves on.

    groups: names of channels that share a capacity; by default each channel that is not a self-loop
    is alone. weights: what one token costs in each group; by default 1 for each of its channels.
    """
    groups = groups or [[channel.name] for channel in graph.channels if not channel.is_self_loop]
    weights = weights or [len(group) for group in groups]
    least = [max(single_firing(graph.channel(name)) for name in group) for group in groups]
    best = {}
    for capacities in distributions(least, weights, largest):
        named = {
            name: capacity
            for group, capacity in zip(groups, capacities, strict=True)
            for name in group
        }
        period = period_of(with_capacities(graph, named))
        size = sum(map(int.__mul__, capacities, weights))
        if period is not None and period <= best.get(size, period):
            best[size] = period
    return [
        (size, period)
        for size, period in sorted(best.items())
        if all(period < other for smaller, other in best.items() if smaller < size)
    ]


def single_firing(channel):
    """With less the channel cannot hold the tokens of some firing, or those it begins with."""
    return max(*channel.production, *channel.consumption, channel.initial_tokens)


def distributions(least, weights, largest):
    """All tuples of capacities from `least` on that cost no more than `largest`."""
    if not least:
        if largest >= 0:
            yield ()
        return
    rest = sum(map(int.__mul__, least[1:], weights[1:]))
    for first in range(least[0], (largest - rest) // weights[0] + 1):
        for others in distributions(least[1:], weights[1:], largest - first * weights[0]):
            yield (first, *others)
