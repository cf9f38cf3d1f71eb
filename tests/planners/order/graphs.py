"""Random graphs of tensors, and the least peak of all their orders by trying all down-sets."""

import random
from dataclasses import replace
from functools import cache
from heapq import heappop, heappush
from itertools import combinations, permutations, product

from planners.order.lifetimes import tensor_lifetimes
from planners.order.problem import OrderProblem, ReusePrice, Step, StepAlternative


def random_problem(seed, most_steps=9):
    """Return a graph with shared tensors, several outputs a step, zero bytes, and pairs in place."""
    choose = random.Random(seed)
    sizes = {f"input{k}": choose.randrange(6) * choose.choice((1, 10)) for k in range(2)}
    steps = []
    for number in range(choose.randrange(2, most_steps + 1)):
        reads = choose.sample(list(sizes), min(len(sizes), choose.choice((0, 1, 1, 1, 2, 2, 3))))
        writes = [f"t{number}_{k}" for k in range(choose.choice((1, 1, 1, 1, 1, 2)))]
        for tensor in writes:
            is_same = reads and choose.random() < 0.4
            sizes[tensor] = sizes[reads[0]] if is_same else choose.choice((0, 1, 2, 3, 5, 8, 20))
        overwrites = [
            tensor
            for tensor in reads
            if len(writes) == 1 and sizes[tensor] >= sizes[writes[0]] and choose.random() < 0.5
        ]
        steps.append(
            Step(
                name=f"s{number}",
                reads=tuple(reads),
                writes=tuple(writes),
                overwrites=tuple(overwrites),
            )
        )
    outputs = tuple(tensor for tensor in sizes if choose.random() < 0.15)
    choose.shuffle(steps)
    return OrderProblem(name=f"random {seed}", sizes=sizes, steps=tuple(steps), outputs=outputs)


def with_scratch(problem, seed):
    """Return the graph with scratch in some steps."""
    choose = random.Random(seed)
    steps = (replace(step, scratch=choose.choice((0, 0, 3, 9, 25))) for step in problem.steps)
    return replace(problem, steps=tuple(steps))


def with_positions(problem, seed):
    """Return the graph with some steps at a position, or within a range, of one random order."""
    choose = random.Random(seed)
    order, steps = [], {step.name: step for step in problem.steps}
    writer = {tensor: step.name for step in problem.steps for tensor in step.writes}
    while len(order) < len(steps):
        ready = [
            step.name
            for step in problem.steps
            if step.name not in order
            and all(tensor not in writer or writer[tensor] in order for tensor in step.reads)
        ]
        order.append(choose.choice(ready))
    for position, name in enumerate(order):
        before, after = choose.choice(((0, 0), (1, 0), (0, 2), (9, 9), (9, 9), (9, 9)))
        latest = min(len(order) - 1, position + after)
        steps[name] = replace(steps[name], earliest=max(0, position - before), latest=latest)
    return replace(problem, steps=tuple(steps.values()))


def with_alternatives(problem, seed):
    """Return the graph with two or three alternatives in up to three steps."""
    choose = random.Random(seed)
    steps = {step.name: step for step in problem.steps}
    for name in choose.sample(list(steps), min(3, len(steps))):
        step = steps[name]
        alternatives = tuple(
            StepAlternative(
                reads=tuple(tensor for tensor in step.reads if choose.random() < 0.8),
                sizes={
                    tensor: choose.choice((problem.sizes[tensor], 0, 4, 12))
                    for tensor in step.writes
                },
                scratch=choose.choice((0, 0, 6, 15)),
                price=choose.randrange(4),
            )
            for _ in range(choose.choice((2, 3)))
        )
        steps[name] = replace(step, alternatives=alternatives)
    return replace(problem, steps=tuple(steps.values()))


def selections(problem):
    """Yield the price of each selection of alternatives, and the graph with these alone."""
    for options in product(*(step.alternatives or (None,) for step in problem.steps)):
        sizes, steps = dict(problem.sizes), []
        for step, option in zip(problem.steps, options, strict=True):
            changes = {}
            if option is not None:
                sizes |= option.sizes
                changes = {"reads": option.reads, "scratch": step.scratch + option.scratch}
            steps.append(replace(step, alternatives=(), **changes))
        steps = tuple(
            replace(
                step,
                overwrites=tuple(
                    tensor
                    for tensor in step.overwrites
                    if tensor in step.reads and sizes[tensor] >= sizes[step.writes[0]]
                ),
            )
            for step in steps
        )
        price = sum(option.price for option in options if option is not None)
        yield price, replace(problem, sizes=sizes, steps=steps)


def with_reuse_prices(problem, seed):
    """Return the graph with prices of reuse for up to four pairs of tensors."""
    choose = random.Random(seed)
    pairs = list(combinations(problem.sizes, 2))
    prices = tuple(
        ReusePrice(*pair, choose.randrange(1, 4))
        for pair in choose.sample(pairs, min(4, len(pairs)))
    )
    return replace(problem, reuse_prices=prices)


def least_arena_and_price(problem, price_limit):
    """Return the least arena of all orders, choices of pairs and placements, and its least price."""
    values = []
    for order in all_orders(problem):
        buffers = tensor_lifetimes(problem, order).buffers
        buffers = [buffer for buffer in buffers if buffer.takes_bytes]
        for count in range(len(problem.reuse_prices) + 1):
            for paid in combinations(problem.reuse_prices, count):
                price = sum(pair.price for pair in paid)
                if price <= price_limit:
                    apart = {
                        frozenset(pair[:2]) for pair in problem.reuse_prices if pair not in paid
                    }
                    values.append((_least_arena(buffers, apart), price))
    return min(values)


def all_orders(problem):
    """Yield all topological orders of the steps."""
    writer = {tensor: step.name for step in problem.steps for tensor in step.writes}
    before = {
        step.name: {writer[tensor] for tensor in step.reads if tensor in writer}
        for step in problem.steps
    }
    for order in permutations(before):
        if all(before[name] <= set(order[:place]) for place, name in enumerate(order)):
            yield order


def _least_arena(buffers, apart):
    """Return the least arena: in every sequence of buffers, each at the lowest free offset.

    The arena holds the buffers that are live at once, so a sequence that needs no more ends the search.
    """

    def is_barred(first, second):
        is_together = first.start < second.end and second.start < first.end
        return is_together or frozenset((first.name, second.name)) in apart

    least = sum(buffer.size for buffer in buffers)
    load = max(sum(b.size for b in buffers if b.start <= at.start < b.end) for at in buffers)

    def place(placed, remaining, top):
        nonlocal least
        if not remaining:
            least = min(least, top)
        for buffer in remaining:
            if max(top, load) >= least:
                return
            offset = 0
            ranges = sorted((at, at + b.size) for b, at in placed if is_barred(b, buffer))
            for begin, end in ranges:
                if begin < offset + buffer.size and offset < end:
                    offset = end
            others = [b for b in remaining if b is not buffer]
            place([*placed, (buffer, offset)], others, max(top, offset + buffer.size))

    place([], buffers, 0)
    return least


def least_peak_and_price(problem, price_limit):
    """Return the least peak of all orders and alternatives within the limit, and its least price."""
    return min(
        (least_peak(chosen), price) for price, chosen in selections(problem) if price <= price_limit
    )


def least_peak(problem):
    """Return the least peak of all orders: dynamic programming over all down-sets.

    Infinite where no order has each step within its positions.
    """
    writer = {tensor: step.name for step in problem.steps for tensor in step.writes}
    readers = {
        tensor: {step.name for step in problem.steps if tensor in step.reads}
        for tensor in problem.sizes
    }

    def is_live(tensor, done):
        if tensor in writer and writer[tensor] not in done:
            return False
        is_unread_input = tensor not in writer and not readers[tensor]
        return tensor in problem.outputs or is_unread_input or bool(readers[tensor] - done)

    @cache
    def peak_after(done):
        if len(done) == len(problem.steps):
            return 0
        live = sum(problem.sizes[tensor] for tensor in problem.sizes if is_live(tensor, done))
        peaks = []
        for step in problem.steps:
            before = {writer[tensor] for tensor in step.reads if tensor in writer}
            latest = len(problem.steps) if step.latest is None else step.latest
            if step.name in done or not before <= done or not step.earliest <= len(done) <= latest:
                continue
            is_over = any(
                tensor not in problem.outputs and readers[tensor] <= done | {step.name}
                for tensor in step.overwrites
            )
            written = sum(problem.sizes[tensor] for tensor in step.writes)
            bytes_ = (live if is_over else live + written) + step.scratch
            peaks.append(max(bytes_, peak_after(done | {step.name})))
        return min(peaks, default=float("inf"))

    return max(peak_after(frozenset()), sum(problem.sizes[tensor] for tensor in problem.inputs))


def with_repeats(problem, seed):
    """Return the graph with prices of further runs of most steps."""
    choose = random.Random(seed)
    steps = (
        replace(step, repeat_price=choose.choice((None, 0, 1, 1, 2, 3))) for step in problem.steps
    )
    return replace(problem, steps=tuple(steps))


def least_price_of_repeats(problem, bound):
    """Return the least price of a schedule within a bound, None without one: Dijkstra's algorithm.

    Tensors are dropped one by one, at any time; a tensor that is live may be overwritten in place.
    """
    unread = {t for t in problem.inputs if not any(t in step.reads for step in problem.steps)}
    outputs = frozenset(problem.outputs) | unread
    start = (frozenset(), frozenset(problem.inputs))
    prices, waiting = {start: 0}, [(0, 0, start)]

    def enter(price, state):
        if price < prices.get(state, price + 1):
            prices[state] = price
            heappush(waiting, (price, len(prices), state))

    if sum(problem.sizes[tensor] for tensor in problem.inputs) > bound:
        return None
    while waiting:
        price, _, (done, live) = heappop(waiting)
        if len(done) == len(problem.steps) and outputs <= live:
            return price
        if price > prices[done, live]:
            continue
        for tensor in live:
            enter(price, (done, live - {tensor}))
        for step in problem.steps:
            is_again = step.name in done
            if not live.issuperset(step.reads) or (is_again and step.repeat_price is None):
                continue
            if live & set(step.writes):
                continue
            paid = price + (step.repeat_price if is_again else 0)
            held = sum(problem.sizes[tensor] for tensor in live) + step.scratch
            written = sum(problem.sizes[tensor] for tensor in step.writes)
            if held + written <= bound:
                enter(paid, (done | {step.name}, live | set(step.writes)))
            for tensor in step.overwrites:
                if held <= bound:
                    enter(paid, (done | {step.name}, live - {tensor} | set(step.writes)))
    return None
