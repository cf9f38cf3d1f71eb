"""The slow way to time events: each asks for what it waits for, one number after the other.

A layer is here a table of rules: for each series the number of events of a frame and a function from
the number of an event, counted over all frames, to the cycles that it is not before. A port refuses in
some cycles; an event happens in the first cycle that its rule and its port allow.
"""

from itertools import count

from planners.kernels.event_times import NONE

ALWAYS = frozenset()


class Missing(Exception):
    """A rule asks for the time of an event that has to be found first."""

    def __init__(self, name, number):
        self.event = name, number


class Times:
    """Times of events by series and number; events before the first frame are in the far past.

    A rule that asks for what is not known is left, and asked again when that is known: the chain of
    questions is longer than Python lets functions call one another.
    """

    PAST = -(10**9)

    def __init__(self, rules, refusals):
        self._rules = rules
        self._refusals = refusals  # of each series the cycles in which its port does nothing
        self._known = {name: [] for name in rules}
        self._is_asking = False

    def __call__(self, name, number):
        if number < 0:
            return self.PAST
        known = self._known[name]
        if number >= len(known):
            if self._is_asking:
                raise Missing(name, number)
            self._is_asking = True
            try:
                self._find(name, number)
            finally:
                self._is_asking = False
        return known[number]

    def _find(self, name, number):
        wanted = [(name, number)]
        while wanted:
            name, number = wanted[-1]
            known = self._known[name]
            if len(known) > number:
                wanted.pop()
                continue
            try:
                bound = max([0, *self._rules[name](len(known), self)])
            except Missing as missing:
                wanted.append(missing.event)
                continue
            refused = self._refusals.get(name, ALWAYS)
            known.append(next(cycle for cycle in count(bound) if cycle not in refused))

    def all(self, name, events):
        return [self(name, number) for number in range(events)]


def cluster_rules(cluster):
    """The rules of a cluster, its series by number."""
    return {
        number: _cluster_rule(cluster, number, series)
        for number, series in enumerate(cluster.sequences)
    }


def _cluster_rule(cluster, number, series):
    def rule(event, times):
        frame, own = divmod(event, series.events)
        gap = series.gap if series.gaps is None else int(series.gaps[own])
        yield times(number, event - 1) + gap
        for wait in cluster.waits:
            if wait.waiter == number and wait.events[own] != NONE:
                delay = wait.delay if wait.delays is None else int(wait.delays[own])
                source = cluster.sequences[wait.source].events
                yield times(wait.source, frame * source + int(wait.events[own])) + delay

    return rule
