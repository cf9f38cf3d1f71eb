"""Slow second opinions on plans of planners.reuse; they share no code with it."""

from itertools import combinations


def clashes(plan, parallel_partitions):
    """Pairs of edges of one shared buffer that are in use at the same time.

    parallel_partitions: pairs of numbers of partitions that run at the same time. Steps of a
    lifetime are enumerated: both ends are in it.
    """
    found = []
    for buffer in plan.shared:
        for one, other in combinations(buffer.edges, 2):
            if _meet(plan, one, other, parallel_partitions):
                found.append((plan.edges[one].name, plan.edges[other].name))
    return found


def _meet(plan, one, other, parallel_partitions):
    for stay, (first, last) in zip(plan.edges[one].stays, plan.spans[one], strict=True):
        for also, (start, end) in zip(plan.edges[other].stays, plan.spans[other], strict=True):
            if {stay.partition, also.partition} in parallel_partitions:
                return True
            if stay.partition == also.partition:
                if set(range(first, last + 1)) & set(range(start, end + 1)):
                    return True
    return False


def replay(graph, order):
    """Fire the actors of a graph with capacities in this order, once round; what goes wrong.

    order: names of actors. A firing needs its tokens, and room for what it makes.
    """
    tokens = {channel.name: channel.initial_tokens for channel in graph.channels}
    used = dict(tokens)
    fired = {actor.name: 0 for actor in graph.actors}
    for step, name in enumerate(order):
        phase = fired[name] % graph.actor(name).phases
        for channel in graph.channels:
            if channel.is_self_loop:
                continue
            if channel.consumer == name:
                tokens[channel.name] -= channel.consumption[phase]
                if tokens[channel.name] < 0:
                    return f"step {step}: {name} lacks tokens on {channel.name}"
            if channel.producer == name:
                used[channel.name] += channel.production[phase]
                tokens[channel.name] += channel.production[phase]
                if channel.capacity is not None and used[channel.name] > channel.capacity:
                    return f"step {step}: {name} lacks room on {channel.name}"
        for channel in graph.channels:
            if channel.consumer == name and not channel.is_self_loop:
                used[channel.name] -= channel.release_rates[phase]
        fired[name] += 1
    unfinished = [name for name, count in fired.items() if count != graph.actor(name).phases]
    return f"not one frame of {unfinished}" if unfinished else None
