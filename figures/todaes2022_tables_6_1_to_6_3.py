"""Tables 6.1 to 6.3 of the worked example of TODAES 2022: buffers, reuse, reuse with parts.

Minakova and Stefanov, Memory-Throughput Trade-off for CNN-based Applications at the Edge, ACM TODAES
28(1), 2022 (chapter 6 of Minakova's thesis). Run `python -m figures.todaes2022_tables_6_1_to_6_3`:
writes the .md beside it.
"""

from collections.abc import Iterator
from itertools import product
from pathlib import Path

from figures.published.offset_points import extra_phases
from figures.published.reuse_example import PRINTED_PHASES, worked_example
from planners.arena.allocation import plan_arena
from planners.published.todaes import as_published
from planners.reuse.bounds import memory_bound
from planners.reuse.evaluation import Costs, Evaluator, ReusePlan
from planners.reuse.placement import offset_problem

PRINTED_FRONT = ((24586, 0), (19072, 93), (16128, 124), (13536, 213))
COSTS = Costs(element_bytes=1, parameter_bytes=1)


def table_of_edges(plan: ReusePlan) -> str:
    """Return Table 6.1: every edge with a buffer of its own."""
    lines = ["| edge | elements |", "|---|---|"]
    lines += [
        f"| {edge.name} | {elements} |"
        for edge, elements in zip(plan.edges, plan.capacities, strict=True)
    ]
    return "\n".join([*lines, f"| sum | **{sum(plan.capacities)}** |"])


def table_of_buffers(plan: ReusePlan) -> str:
    """Return Tables 6.2 and 6.3: the buffers that edges share."""
    lines = ["| buffer | edges | elements |", "|---|---|---|"]
    for number, buffer in enumerate(plan.shared, start=1):
        names = "; ".join(plan.edges[edge].name for edge in buffer.edges)
        lines.append(f"| B{number} | {names} | {buffer.size} |")
    return "\n".join([*lines, f"| sum | | **{plan.elements}** |"])


def fronts() -> Iterator[tuple[str, list[tuple[int, int]], int]]:
    """Yield each accounting with its exhaustive front and the bound."""
    application = worked_example()
    for name, one in (
        ("rates as printed", as_published(application)),
        ("rates that can run", application),
    ):
        evaluator = Evaluator(one, COSTS)
        points: set[tuple[int, int]] = set()
        for genes in product((None, 1), repeat=len(application.layers)):
            memory, *_ = evaluator.evaluate(genes)
            phases = extra_phases(evaluator, evaluator.plan(genes))
            points.add((memory - evaluator.weights, phases))
        front = [
            point
            for point in sorted(points, reverse=True)
            if not any(
                other != point and other[0] <= point[0] and other[1] <= point[1] for other in points
            )
        ]
        yield name, front, memory_bound(evaluator) - evaluator.weights


def smallest_by_offsets() -> tuple[int, int]:
    """Return elements of an arena, and extra phases, of the smallest plan with offsets."""
    evaluator = Evaluator(worked_example(), COSTS)
    found = []
    for genes in product((None, 1), repeat=len(worked_example().layers)):
        plan = evaluator.plan(genes)
        arena = plan_arena(offset_problem(evaluator, plan))
        found.append((arena.peak, extra_phases(evaluator, plan)))
    return min(found)


def page() -> str:
    """Return the page."""
    evaluator = Evaluator(as_published(worked_example()), COSTS)
    layers = evaluator.application.layers
    printed = tuple(
        1 if layer in PRINTED_PHASES.get(network, ()) else None for network, layer in layers
    )
    whole, parts = evaluator.plan((None,) * len(layers)), evaluator.plan(printed)
    listed = "\n".join(
        f"- {name}: {', '.join(map(str, front))}; no plan has less than {bound} elements"
        for name, front, bound in fronts()
    )
    offsets, phases = smallest_by_offsets()
    return f"""# The worked example of TODAES 2022

Made by `python -m figures.todaes2022_tables_6_1_to_6_3`. Elements; an edge cut between the pipelined
partitions of CNN2 has two buffers.

## Table 6.1: a buffer for each edge (the text prints 51,446, a misprint of the table's own sum)

{table_of_edges(whole)}

## Table 6.2: whole buffers reused (printed: 24,586)

{table_of_buffers(whole)}

## Table 6.3: layers l3, l4, l5 of CNN1 by rows (printed: 19,712)

{table_of_buffers(parts)}

## All choices of parts: elements and phases beyond one a layer

{listed}

The choice printed in Table 6.3 is dominated. Offsets in one arena instead of whole buffers bring the
smallest to {offsets} elements at {phases} phases more.
"""


if __name__ == "__main__":
    Path(__file__).with_suffix(".md").write_text(page())
