"""Self-timed execution the slow way, from the words of the definition.

Time moves on from instant to instant. At each, what has ended is delivered, and every actor that
has its tokens and its space starts. A state that comes back gives the period. Shares nothing with
the analyses it checks: the graph's own values are all it reads.
"""

from collections import deque
from fractions import Fraction
from math import lcm

STATES = 50_000  # more than any graph of the tests needs


def period_of(graph):
    """The period of the graph in its own time units; None if it deadlocks, 0 if nothing limits it.

    Each strongly connected component is executed alone, the slowest decides. Capacities of
    self-loops do not count.
    """
    firings = firings_of(graph)
    slowest = Fraction(0)
    for actors in components_of(graph):
        channels = [c for c in graph.channels if c.producer in actors and c.consumer in actors]
        if not channels:
            continue
        run = Run([graph.actor(name) for name in sorted(actors)], channels)
        found = run.time_of_firings(firings)
        if found is None:
            return None
        slowest = max(slowest, found)
    return slowest


def firings_of(graph):
    """Firings of each actor in one iteration, found by spreading fractions until nothing changes."""
    cycles = {}
    for actor in graph.actors:
        if actor.name in cycles:
            continue
        connected = {actor.name: Fraction(1)}
        size = 0
        while len(connected) > size:
            size = len(connected)
            for c in graph.channels:
                ratio = Fraction(sum(c.production), sum(c.consumption))
                if c.producer in connected:
                    connected.setdefault(c.consumer, connected[c.producer] * ratio)
                elif c.consumer in connected:
                    connected[c.producer] = connected[c.consumer] / ratio
        whole = lcm(*(value.denominator for value in connected.values()))
        least = next(
            n
            for n in range(1, whole + 1)
            if all((value * n).denominator == 1 for value in connected.values())
        )
        counts = {name: int(value * least) for name, value in connected.items()}
        # The first actor has `least` cycles; the smallest solution may have fewer of all.
        shared = max(n for n in range(1, least + 1) if all(v % n == 0 for v in counts.values()))
        cycles |= {name: value // shared for name, value in counts.items()}
    return {actor.name: cycles[actor.name] * len(actor.durations) for actor in graph.actors}


def components_of(graph):
    """Sets of actors that can hold one another back: those that reach each other.

    A channel leads from producer to consumer, a bounded one also back.
    """
    reached = {actor.name: {actor.name} for actor in graph.actors}
    steps = [(c.producer, c.consumer) for c in graph.channels]
    steps += [(c.consumer, c.producer) for c in graph.channels if c.capacity is not None]
    is_growing = True
    while is_growing:
        is_growing = False
        for names in reached.values():
            for source, target in steps:
                if source in names and target not in names:
                    names.add(target)
                    is_growing = True
    both = {a: frozenset(b for b in names if a in reached[b]) for a, names in reached.items()}
    return set(both.values())


class Queue:
    """A channel while it is used.

    tokens: there to be taken. arriving: (amount, time of the end) of firings that have started and
    have not delivered, in the order of their starts: none may overtake. With a capacity also
    occupied: tokens, space claimed by running firings, and space that consuming firings have not
    given back; and leaving: like arriving, for that last space.
    """

    def __init__(self, channel):
        self.channel = channel
        is_bounded = channel.capacity is not None and channel.producer != channel.consumer
        self.capacity = channel.capacity if is_bounded else None
        self.release = channel.consumption if channel.release is None else channel.release
        self.tokens = self.occupied = channel.initial_tokens
        self.arriving = deque()
        self.leaving = deque()

    def has_tokens(self, phase):
        return self.tokens >= self.channel.consumption[phase]

    def has_space(self, phase):
        made = self.channel.production[phase]
        return self.capacity is None or self.occupied + made <= self.capacity

    def start_producer(self, phase, end):
        made = self.channel.production[phase]
        if made:
            if self.capacity is not None:
                self.occupied += made
            self.arriving.append((made, end))

    def start_consumer(self, phase, end):
        self.tokens -= self.channel.consumption[phase]
        if self.capacity is not None and self.release[phase]:
            self.leaving.append((self.release[phase], end))

    def deliver(self, now):
        while self.arriving and self.arriving[0][1] <= now:
            self.tokens += self.arriving.popleft()[0]
        while self.leaving and self.leaving[0][1] <= now:
            self.occupied -= self.leaving.popleft()[0]

    def next_end(self):
        return [waiting[0][1] for waiting in (self.arriving, self.leaving) if waiting]

    def state(self, now):
        """The state on which the future depends."""
        arriving = tuple((amount, max(end - now, 0)) for amount, end in self.arriving)
        leaving = tuple((amount, max(end - now, 0)) for amount, end in self.leaving)
        return self.tokens, self.occupied, arriving, leaving


class Run:
    """An execution of strongly connected actors."""

    def __init__(self, actors, channels):
        self.actors = actors
        self.queues = [Queue(channel) for channel in channels]
        self.fired = {actor.name: 0 for actor in actors}
        self.now = 0

    def time_of_firings(self, firings):
        """Time in which, for ever, every actor fires so often; None in a deadlock."""
        clock = self.actors[0].name
        seen = {}
        for _ in range(STATES):
            state = self.state()
            if state in seen:
                then, fired_then = seen[state]
                iterations = Fraction(self.fired[clock] - fired_then, firings[clock])
                return (self.now - then) / iterations
            seen[state] = self.now, self.fired[clock]
            if not self.start_all() and not self.move_on():
                return None
        raise AssertionError(f"no state came back among {STATES}")

    def state(self):
        phases = tuple(self.fired[a.name] % len(a.durations) for a in self.actors)
        return phases, tuple(queue.state(self.now) for queue in self.queues)

    def start_all(self):
        """Start one firing of every actor that can; False if none can."""
        has_started = False
        for actor in self.actors:
            phase = self.fired[actor.name] % len(actor.durations)
            inputs = [q for q in self.queues if q.channel.consumer == actor.name]
            outputs = [q for q in self.queues if q.channel.producer == actor.name]
            can_start = all(q.has_tokens(phase) for q in inputs)
            if not can_start or not all(q.has_space(phase) for q in outputs):
                continue
            end = self.now + actor.durations[phase]
            for queue in inputs:
                queue.start_consumer(phase, end)
            for queue in outputs:
                queue.start_producer(phase, end)
            for queue in self.queues:
                queue.deliver(self.now)
            self.fired[actor.name] += 1
            has_started = True
        return has_started

    def move_on(self):
        """Go to the next instant at which a firing ends; False if none is running."""
        ends = [end for queue in self.queues for end in queue.next_end()]
        if not ends:
            return False
        self.now = min(ends)
        for queue in self.queues:
            queue.deliver(self.now)
        return True
