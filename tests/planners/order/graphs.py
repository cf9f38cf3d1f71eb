"""Random graphs of tensors, and the least peak of all their orders by trying all down-sets."""

import random
from functools import cache

from planners.order.problem import OrderProblem, Step


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


def least_peak(problem):
    """Return the least peak of all orders: dynamic programming over all down-sets."""
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
            if step.name in done or not before <= done:
                continue
            is_over = any(
                tensor not in problem.outputs and readers[tensor] <= done | {step.name}
                for tensor in step.overwrites
            )
            written = sum(problem.sizes[tensor] for tensor in step.writes)
            bytes_ = live if is_over else live + written
            peaks.append(max(bytes_, peak_after(done | {step.name})))
        return min(peaks)

    return max(peak_after(frozenset()), sum(problem.sizes[one] for one in problem.inputs))
