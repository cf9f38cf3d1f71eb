"""Fig. 1 and Table II of SAMOS 2020: the rates of the worked example, and its four sizes.

Minakova and Stefanov, Buffer Sizes Reduction for Memory-efficient CNN Inference on Mobile and
Embedded Devices, SAMOS 2020. Run `python -m figures.samos2020_fig1_table2`: writes the .md beside it.
"""

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

from cnn2csdf.catalogue.samos import samos_example
from cnn2csdf.geometry import Overlap
from cnn2csdf.granularity import ROWS, WHOLE, Granularity
from cnn2csdf.lowering import lower
from csdf.search.trade_off import smallest_storage

PRINTED_RATES = {  # Fig. 1; actors and channels by the paper's numbers
    ("n2 to n3", "consumption"): "384, 2*192, 256",
    ("n2 to n3 overlap", "production"): "3*128, 0",
    ("n2 to n3 overlap", "consumption"): "0, 3*128",
    ("n3 to n4", "production"): "4*12",
}
EXAMPLES = (  # phases of n2 and n3, what is printed for the total, how we cut
    ("Ex1", 1, 1, 2098, WHOLE),
    ("Ex2", 2, 1, 1842, Granularity(rows=None, layers={"n1": 1, "n2": 8})),
    ("Ex3", 16, 1, 1618, Granularity(rows=1, layers={"n3": None})),
    ("Ex4", 16, 4, 978, ROWS),
)


def rate_table() -> str:
    """Return every rate of the graph with overlaps as self-loops, and what the paper prints."""
    graph = lower(samos_example(), ROWS, overlap=Overlap.SELF_LOOP, element_bytes=1)
    lines = ["| channel | rates | ours | printed |", "|---|---|---|---|"]
    for channel in graph.channels:
        if channel.name.endswith(" state"):
            continue
        for kind, rates in (
            ("production", channel.production),
            ("consumption", channel.consumption),
        ):
            printed = PRINTED_RATES.get((channel.name, kind), "")
            lines.append(f"| {channel.name} | {kind} | {short(rates)} | {printed} |")
    return "\n".join(lines)


def short(rates: Sequence[int]) -> str:
    """Return rates with repetitions as 3*128."""
    runs = [(rate, len(list(run))) for rate, run in groupby(rates)]
    return ", ".join(str(rate) if count == 1 else f"{count}*{rate}" for rate, count in runs)


def size_table() -> str:
    """Return the smallest buffers of the four examples, one byte an element."""
    lines = ["| | phases of n2, n3 | buffers | ours | printed |", "|---|---|---|---|---|"]
    for name, second, third, printed, granularity in EXAMPLES:
        graph = lower(samos_example(), granularity, element_bytes=1)
        phases = (graph.actor("n2").phases, graph.actor("n3").phases)
        if phases != (second, third):
            raise AssertionError(f"{name}: phases {phases}, expected {(second, third)}")
        found = smallest_storage(graph)
        if found.point is None:
            raise AssertionError(str(found.reason))
        parts = " + ".join(str(size) for size in found.point.capacities.values())
        lines.append(f"| {name} | {second}, {third} | {parts} | {found.point.size} | {printed} |")
    return "\n".join(lines)


def page() -> str:
    """Return the page."""
    return f"""# The worked example of SAMOS 2020

Made by `python -m figures.samos2020_fig1_table2`.

## Fig. 1: rates by rows, overlaps in self-loops

{rate_table()}

## Table II: smallest buffers, in bytes

One byte an element; windows keep the rows they share in the channel, self-loops are not counted
besides. Each size is proved the smallest with which the graph runs. In Ex2 layer n2 works by eight
rows: 17 + 7 rows of 32 elements are its window.

{size_table()}
"""


if __name__ == "__main__":
    Path(__file__).with_suffix(".md").write_text(page())
