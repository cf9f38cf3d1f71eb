"""Networks that are small enough for the search over every schedule, and what they show.

Run `python -m tests.planners.traffic.tiny_networks [CASES [SEED [PART/PARTS]]]` (10000, 0, 1/1): draws
so many, each with a buffer, and prints how the bounds, the least of any schedule and what is found
compare. A part is every PARTS-th of the cases, which are the same however they are split; the counts of
the parts add up. Progress goes to standard error. Exit code 1: some bound or answer is wrong.
"""

import sys
import time
from collections import Counter
from random import Random
from typing import NamedTuple

from cnn2csdf import operators as op
from cnn2csdf.builder import NetworkBuilder
from csdf.errors import InvalidNetwork, InvalidPlan
from planners.traffic.network_traffic import NetworkSearch
from tests.planners.traffic.any_schedule import (
    least_of_any_schedule,
    least_with_any_buffer,
    needed,
    work_of,
)

MOST_TERMS = 8


def random_window(random):
    """Any stride, dilation and padding; also windows that see padding alone."""
    return op.Window(
        kernel=(random.choice([1, 1, 2, 3]), random.randint(1, 3)),
        stride=(random.randint(1, 3), random.randint(1, 3)),
        dilation=(random.randint(1, 2), random.randint(1, 2)),
        padding=tuple(random.choice([0, 0, 1, 2]) for _ in range(4)),
    )


def random_network(random, most_layers):
    """A chain, or branches that are added, joined or sliced."""
    builder = NetworkBuilder("tiny")
    sizes = random.randint(1, 2), random.randint(1, 3), random.randint(1, 4)
    tensors = [(builder.input(sizes), sizes[0])]
    for _ in range(random.randint(1, most_layers)):
        source, maps = random.choice([tensors[-1], tensors[-1], random.choice(tensors)])
        groups = random.choice([1, 1, maps])
        kind = random.randint(0, 9)
        if kind < 7:
            filters = groups * random.randint(1, 2)
            window = random_window(random)
            layer = op.Convolution(filters=filters, window=window, groups=groups, has_bias=False)
            tensors.append((builder.add(layer, source), filters))
        elif kind == 7:
            pool = op.Pooling(function="max", window=random_window(random))
            tensors.append((builder.add(pool, source), maps))
        elif kind == 8:
            alike = [one for one, _ in tensors if builder.shape(one) == builder.shape(source)]
            other = random.choice(alike)
            tensors.append((builder.add(op.Elementwise(function="add"), source, other), maps))
        else:
            other, more = random.choice(tensors)
            joined = builder.add(op.Concatenation(), source, other)
            tensors.append((joined, maps + more))
    if random.randint(0, 5) == 0:
        name, maps = tensors[-1]
        sliced = op.Slice(axis=random.randint(0, 2), start=0, stop=1)
        tensors.append((builder.add(sliced, name), maps))
    builder.output(tensors[-1][0])
    return builder.network()


class Case(NamedTuple):
    """A network with a buffer: elements. least: None where the search takes too long."""

    network: object
    room: int
    bounds: tuple[int, ...]
    found: int | None
    any_buffer: int
    least: int | None


def random_case(random, most_layers=3):
    """A network of few terms, with what bounds say and what any schedule moves at least."""
    while True:
        try:
            network = random_network(random, most_layers)
        except InvalidNetwork:
            continue
        work = work_of(network)
        terms = sum(len(work.terms[one]) for one in needed(work) & work.terms.keys())
        if work.results and terms <= MOST_TERMS:
            break
    search, room = NetworkSearch(network, 1), random.randint(3, 9)
    whole = search.best(10_000)
    bounds, found = [whole.bound_bytes], None
    # A group makes all of what it makes: its bound is of that, and not of a slice.
    is_all = not any(isinstance(layer.operator, op.Slice) for layer in network.layers)
    bounds += [one.bound_bytes for one in whole.groups if is_all and len(whole.groups) == 1]
    try:
        answer = search.best(room)
        found = answer.total_bytes
        bounds += [one.bound_bytes for one in answer.groups if is_all and len(answer.groups) == 1]
    except InvalidPlan:
        pass
    operands = [len(term) for found in work.terms.values() for term in found]
    least = None if room <= max(operands, default=0) else least_of_any_schedule(work, room)
    return Case(network, room, tuple(bounds), found, least_with_any_buffer(work), least)


def wrong(case):
    """The fault of the case, in words; empty if there is none."""
    if case.bounds[0] > case.any_buffer:
        return "bound above the least with any buffer"
    if case.least is None:
        return ""
    if max(case.bounds) > case.least:
        return "bound above the least of any schedule"
    if case.found is not None and case.found < case.least:
        return "found below the least of any schedule"
    return ""


def counts(case):
    """The share of the case in the table, by name."""
    least = case.least
    return {
        "cases": 1,
        "wrong": bool(wrong(case)),
        "least told": least is not None,
        "bound reached": least is not None and max(case.bounds) == least,
        "fits": least is not None and case.found is not None,
        "least found": least is not None and case.found == least,
    }


def main(cases="10000", seed="0", part="1/1"):
    first, parts = map(int, part.split("/"))
    seen, shown = Counter(), time.monotonic()
    for number in range(first - 1, int(cases), parts):
        case = random_case(Random(f"{seed} {number}"), 1 if number % 2 else 3)
        seen.update(counts(case))
        if wrong(case):
            print(f"case {number}: {wrong(case)}: {case}", flush=True)
        if time.monotonic() - shown > 10:
            shown = time.monotonic()
            print(f"case {number} of {cases}: {dict(seen)}", file=sys.stderr, flush=True)
    print(dict(seen))
    return int(seen["wrong"] > 0)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
