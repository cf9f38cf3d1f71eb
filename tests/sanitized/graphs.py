"""Random graphs with huge numbers through what a command asks: compiled against plain kernels.

    python -m tests.sanitized.build FOLDER tests.sanitized.graphs COMMAND FIRST COUNT [SECONDS]

prints each seed whose two answers differ, then how many were compared, how many of them are answers
of both, and the longest time that one question took.
"""

import sys
import time
from contextlib import suppress
from fractions import Fraction
from math import gcd, lcm
from random import Random

from csdf.analysis.capacity_steps import capacity_steps
from csdf.analysis.cycle_lines import added_time
from csdf.analysis.latency import dependency_latency, latency
from csdf.analysis.parametric import parametric_period
from csdf.analysis.schedules import periodic_throughput
from csdf.analysis.self_timed import self_timed_execution
from csdf.analysis.sensitivity import sensitivity
from csdf.analysis.throughput import METHODS, throughput
from csdf.errors import CsdfError, GaveUp
from csdf.kernels import compile as compiler
from csdf.mapping.latency import source_latency
from csdf.mapping.search import best_mapping, equal_processors
from csdf.model.builder import GraphBuilder
from csdf.search.trade_off import pareto_front, smallest_storage
from csdf.status import Status
from csdf.time_limit import Stop

SECONDS = 0.5  # for each question; some graphs have more firings than anybody can execute
LATE = 3.0  # seconds, on a machine that others use too
EDGES = (31, 32, 59, 60, 61, 62, 63, 64, 70)  # exponents near which something could overflow


def number(random, most_bits):
    """A number of any size, or close to a power of two."""
    edges = [edge for edge in EDGES if edge <= most_bits][-4:]
    if edges and random.random() < 0.5:
        return min((1 << random.choice(edges)) + random.randint(-2, 2), 1 << most_bits)
    return 1 + random.getrandbits(random.randint(1, most_bits))


def split(random, total, phases):
    """The total as the rates of some phases."""
    cuts = sorted(random.randint(0, total) for _ in range(phases - 1))
    return [high - low for low, high in zip([0, *cuts], [*cuts, total], strict=True)]


def huge_graph(seed):
    """Two to five actors in a strongly connected graph, with numbers of up to 70 bits."""
    random = Random(seed)
    count = random.randint(1, 5)
    bits = random.choice((32, 62, 62, 63, 64, 70))
    few = random.random() < 0.8  # firings in an iteration, so that rates share their factors
    cycles = [random.randint(1, 4) if few else number(random, bits // 2) for _ in range(count)]
    builder = GraphBuilder(f"seed {seed}")
    phases = []
    for actor in range(count):
        phases.append(random.choice((1, 1, 2, 3)))
        kind = random.random()
        times = [
            0
            if kind < 0.1
            else random.randint(0, 9)
            if kind < 0.5
            else number(random, random.choice((32, bits)))
            for _ in range(phases[-1])
        ]
        builder.actor(f"a{actor}", times, overlap=random.random() < 0.4)
    ends = [(actor, (actor + 1) % count) for actor in range(count)]
    ends += [
        (random.randrange(count), random.randrange(count)) for _ in range(random.randint(0, 2))
    ]
    for one, two in ends:
        least = lcm(cycles[one], cycles[two])
        factor = number(random, max(32, bits - least.bit_length()))
        made, taken = least // cycles[one] * factor, least // cycles[two] * factor
        enough = made + taken - gcd(made, taken)
        tokens = random.choice(
            (0, enough, 2 * enough, enough + number(random, bits), made - 1, least * factor)
        )
        room = None
        if random.random() < 0.3:
            room = tokens + random.choice((enough, 3 * enough, taken))
        builder.channel(
            f"a{one}", split(random, made, phases[one]), f"a{two}", split(random, taken, phases[two]),
            initial_tokens=tokens, capacity=room, token_size=random.choice((None, 1, 8)),
        )  # fmt: skip
    return builder.graph()


def analyze(graph, stop):
    for method in METHODS:
        yield lambda method=method: _cycle(throughput(graph, method=method, budget=stop()))
    for copies in (1, 2):
        yield lambda copies=copies: _cycle(periodic_throughput(graph, copies, budget=stop()))
    yield lambda: self_timed_execution(graph, iterations=2, budget=stop()).firings


def _cycle(found):
    """The answer without the way that it was found, and what proves it."""
    proof = found.critical_cycle
    ratio = None if proof is None else Fraction(proof.time, proof.tokens)
    return found.period, found.deadlock is None, ratio


def buffers(graph, stop):
    yield lambda: _storage(smallest_storage(graph, budget=stop()))
    period = None
    with suppress(CsdfError):
        period = throughput(graph, budget=stop()).period
    if period:
        yield lambda: _storage(smallest_storage(graph, period=2 * period, budget=stop()))


def _storage(found):
    if found.status is Status.UNKNOWN:
        raise GaveUp("budget")
    if found.status is Status.INFEASIBLE:
        return found.status
    return Between(found.lower_bound, found.point.size)


class Between:
    """Bounds of a size that a budget left open: equal to others that leave a size in common."""

    def __init__(self, low, high):
        self.low, self.high = low, high

    def __eq__(self, other):
        if not isinstance(other, Between):
            return False
        return max(self.low, other.low) <= min(self.high, other.high)

    def __repr__(self):
        return f"{self.low} to {self.high}"


def pareto(graph, stop):
    def points():
        front = pareto_front(graph, points=3, budget=stop())
        if not front.is_complete and len(front.points) < 3:
            raise GaveUp("budget")
        return [(point.size, point.period) for point in front.points]

    yield points


def mapped(graph, stop):
    def period():
        found = best_mapping(graph, equal_processors(2), budget=stop())
        if found.status is not Status.OPTIMAL:
            raise GaveUp("budget")
        return found.period

    yield period


def latencies(graph, stop):
    first, last = graph.actors[0].name, graph.actors[-1].name
    yield lambda: latency(graph, source=first, sink=last)
    yield lambda: dependency_latency(graph, first, last)
    yield lambda: source_latency(graph, first, last, period=1 << 70, budget=stop())


def sensitivities(graph, stop):
    def rows():
        found = sensitivity(graph, budget=stop())
        if found.reason is not None:
            raise GaveUp("budget")
        return found.to_json()

    yield rows
    yield lambda: parametric_period(
        graph, added_time(graph, {graph.actors[0].name: 1}), budget=stop()
    )
    bounded = [channel.name for channel in graph.channels if channel.capacity is not None]
    if bounded:
        yield lambda: capacity_steps(graph, bounded[0], budget=stop())


COMMANDS = {
    "analyze": analyze,
    "buffers": buffers,
    "pareto": pareto,
    "map": mapped,
    "latency": latencies,
    "sensitivity": sensitivities,
}


def answered(question, stop):
    """The answer, or the kind of the refusal; and the seconds that it took."""
    begin = time.monotonic()
    try:
        with stop.enforced():
            answer = question()
    except CsdfError as error:
        answer = type(error)
    return answer, time.monotonic() - begin


def compare(command, seed):
    """Ask both kernels; return what they answer, question by question, and the longest time."""
    answers, longest = [], 0.0
    for is_compiled in (True, False):
        compiler.has_compiled = lambda chosen=is_compiled: chosen
        graph, listed, stops = huge_graph(seed), [], [Stop(SECONDS)]
        for question in COMMANDS[command](graph, lambda stops=stops: stops[0]):
            stops[0] = Stop(SECONDS)
            answer, seconds = answered(question, stops[0])
            listed.append(answer)
            longest = max(longest, seconds)
        answers.append(listed)
    return answers, longest


def main(command, first, count):
    compared = both = 0
    longest = 0.0
    for seed in range(first, first + count):
        print("seed", seed, file=sys.stderr, flush=True)
        (compiled, plain), seconds = compare(command, seed)
        longest = max(longest, seconds)
        if seconds > LATE:
            print("late", seed, f"{seconds:.1f} s")
        for one, two in zip(compiled, plain, strict=False):
            compared += 1
            if one is GaveUp or two is GaveUp:
                continue
            both += 1
            if one != two:
                print("differs", seed, one, two)
    print(f"compared {compared} both {both} longest {longest:.1f}")


if __name__ == "__main__":
    if len(sys.argv) > 4:
        SECONDS = float(sys.argv[4])
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
