"""Self-timed execution of a graph with initial phases, one firing of an actor at a time.

Time moves on from end to end. A state (who is where in which phase, how much longer, what lies in the
channels) that comes back once all actors have done with their initial phases gives the period. Reads
nothing but the values it is given.
"""

from fractions import Fraction


def period_of(graph, initial_times, initial_rates, cycles):
    """The period, or None for a deadlock.

    initial_times: by actor; initial_rates: by channel, (production, consumption). cycles: of each
    actor in an iteration. The graph is strongly connected, and every actor fires one at a time.
    """
    names = [actor.name for actor in graph.actors]
    times = {one.name: (initial_times.get(one.name, ()), one.durations) for one in graph.actors}
    tokens = {one.name: one.initial_tokens for one in graph.channels}
    made = {one.name: (initial_rates[one.name][0], one.production) for one in graph.channels}
    taken = {one.name: (initial_rates[one.name][1], one.consumption) for one in graph.channels}
    fired = dict.fromkeys(names, 0)
    ends = {}  # of those at work
    now, seen = 0, {}
    while True:
        for name in [one for one, end in ends.items() if end == now]:
            del ends[name]
            for one in graph.channels:
                if one.producer == name:
                    tokens[one.name] += entry(made[one.name], fired[name])
            fired[name] += 1
        started = True
        while started:
            started = False
            for name in names:
                inputs = [one.name for one in graph.channels if one.consumer == name]
                if name in ends or any(tokens[c] < entry(taken[c], fired[name]) for c in inputs):
                    continue
                for channel in inputs:
                    tokens[channel] -= entry(taken[channel], fired[name])
                ends[name] = now + entry(times[name], fired[name])
                started = True
        if not ends:
            return None
        if all(fired[name] >= len(times[name][0]) for name in names):
            places = tuple(
                (fired[name] - len(times[name][0])) % len(times[name][1]) for name in names
            )
            left = tuple(sorted((name, end - now) for name, end in ends.items()))
            state = places, left, tuple(tokens.values())
            if state in seen:
                then, before = seen[state]
                phases = cycles[names[0]] * len(times[names[0]][1])
                return (now - then) / Fraction(fired[names[0]] - before, phases)
            seen[state] = now, fired[names[0]]
        now = min(ends.values())


def entry(lists, firing):
    first, cycle = lists
    return first[firing] if firing < len(first) else cycle[(firing - len(first)) % len(cycle)]
