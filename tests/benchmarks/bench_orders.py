"""Order and arena beside the planners of other tools, on the same graphs in one run.

    python -m tests.benchmarks.bench_orders [NAME ...]

Needs the graphs of the shared data. Prints a Markdown table: bytes of the order of the file; of
arenas in that order by two rules, that of TensorFlow Lite Micro's GreedyMemoryPlanner and that of
onnxsim's plan_activation_memory; of live bytes in the order that PyTorch's reorder_for_peak_memory
chooses; and of our order and arena. The rules of others are written anew here from their published
descriptions, without alignment and in-place results.
"""

import sys
from collections import Counter
from math import exp, log
from pathlib import Path

from csdf.time_limit import Stop
from planners.arena.allocation import plan_arena
from planners.formats.tensor_graphs import parse_tensor_graph
from planners.order.heuristics import file_order
from planners.order.lifetimes import tensor_lifetimes
from planners.order.problem import peak_of
from planners.order.search import plan_order

INSTANCES = Path(__file__).parents[2].parent / "shared" / "order" / "instances"
COLUMNS = (
    "file's order, live bytes",
    "TensorFlow Lite Micro's rule",
    "onnxsim's rule",
    "PyTorch's order, live bytes",
    "least peak",
    "our arena",
)
EFFORT = 5.0  # seconds, of order and of offsets; less than the table of least peaks has


def main():
    """Print the table."""
    print("| graph | " + " | ".join(COLUMNS) + " |")
    print("|---|" + "---:|" * len(COLUMNS))
    rows = []
    for path in sorted(INSTANCES.glob("*.json")):
        if not sys.argv[1:] or path.stem in sys.argv[1:]:
            rows.append(row(parse_tensor_graph(path.read_text(), path.stem)))
            cells = [f"{number:,}" for number in rows[-1]]
            print(f"| {path.stem} | " + " | ".join(cells) + " |", flush=True)
    means = [
        exp(sum(log(row[k] / row[-1]) for row in rows) / len(rows)) for k in range(len(COLUMNS))
    ]
    print("| geometric mean over our arena | " + " | ".join(f"{mean:.3f}" for mean in means) + " |")


def row(graph):
    """Return the bytes of each column for a graph."""
    ordered = graph.named(file_order(graph.numbered))
    buffers = tensor_lifetimes(graph, ordered).buffers
    plan = plan_order(graph, budget=Stop(effort=EFFORT))
    arena = plan_arena(tensor_lifetimes(graph, plan.order), budget=Stop(effort=EFFORT))
    return (
        peak_of(graph, ordered),
        arena_by_size(buffers, is_best_fit=False),
        arena_by_size(buffers, is_best_fit=True),
        min(peak_of(graph, order) for order in (ordered, *pytorch_orders(graph, ordered))),
        plan.peak,
        arena.peak,
    )


def arena_by_size(buffers, *, is_best_fit):
    """Return the bytes of an arena in which the largest buffers are placed first.

    Each goes to the first gap between buffers that are live with it; is_best_fit: to the smallest.
    """
    placed = []
    for buffer in sorted(buffers, key=lambda buffer: -buffer.size):
        gaps, end = [], 0
        for other, offset in sorted(placed, key=lambda pair: pair[1]):
            if other.start < buffer.end and buffer.start < other.end:
                if offset - end >= buffer.size:
                    gaps.append((offset - end, end))
                end = max(end, offset + other.size)
        at = end
        if gaps:
            at = min(gaps)[1] if is_best_fit else gaps[0][1]
        placed.append((buffer, at))
    return max(offset + buffer.size for buffer, offset in placed)


def pytorch_orders(graph, ordered):
    """Return orders by least peak memory first, breadth first, and depth first by bytes."""
    steps = {step.name: step for step in graph.steps}
    producer = {tensor: step.name for step in graph.steps for tensor in step.writes}
    before = {
        name: {producer[tensor] for tensor in steps[name].reads if tensor in producer}
        for name in ordered
    }
    return (
        _least_peak_first(graph, steps, ordered, before),
        _breadth_first(ordered, before),
        _depth_first(graph, steps, ordered, before),
    )


def _least_peak_first(graph, steps, ordered, before):
    """The ready step that raises the peak the least, then the one that leaves the fewest bytes."""
    readers = Counter(tensor for step in graph.steps for tensor in set(step.reads))
    readers.update(graph.outputs)
    live = sum(graph.sizes[tensor] for tensor in graph.inputs)
    peak = max(live, sum(graph.sizes[tensor] for tensor in graph.outputs))
    index, order = {name: place for place, name in enumerate(ordered)}, []

    def sizes(name):
        written = sum(graph.sizes[tensor] for tensor in steps[name].writes)
        freed = sum(graph.sizes[t] for t in set(steps[name].reads) if readers[t] == 1)
        freed += sum(graph.sizes[t] for t in steps[name].writes if readers[t] == 0)
        return written, freed

    def key(name):
        written, freed = sizes(name)
        return max(live + written, peak), written - freed, index[name]

    while len(order) < len(ordered):
        done = set(order)
        name = min((n for n in ordered if n not in done and before[n] <= done), key=key)
        written, freed = sizes(name)
        peak = max(peak, live + written)
        live += written - freed
        readers.subtract(set(steps[name].reads))
        order.append(name)
    return order


def _breadth_first(ordered, before):
    """The ready step whose predecessors were executed the earliest."""
    place, order = {}, []
    while len(order) < len(ordered):
        ready = [name for name in ordered if name not in place and before[name] <= place.keys()]
        name = min(ready, key=lambda name: sorted(place[source] for source in before[name]))
        place[name] = len(order)
        order.append(name)
    return order


def _depth_first(graph, steps, ordered, before):
    """Steps by the bytes that they read and write, the fewest first, each after its predecessors."""
    total = {
        name: sum(graph.sizes[t] for t in {*steps[name].reads, *steps[name].writes})
        for name in ordered
    }
    index, order = {name: place for place, name in enumerate(ordered)}, {}

    def by_bytes(names):
        return sorted(names, key=lambda name: (total[name], index[name]))

    for first in by_bytes(ordered):
        stack = [first]
        while stack:
            missing = [name for name in by_bytes(before[stack[-1]]) if name not in order]
            if missing:
                stack += reversed(missing)
            else:
                order[stack.pop()] = None
    return list(order)


if __name__ == "__main__":
    main()
