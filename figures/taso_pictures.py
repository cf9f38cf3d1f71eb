"""Figures 1, 2, 5 and 6 of TASO as pictures, with memory as the paper counts it.

Wen, Anderson, Radu, O'Boyle and Gregg, TASO, SBAC-PAD 2020. Run `python -m figures.taso_pictures`:
writes the pictures beside it, of the selections whose numbers are in taso_published.md.
"""

from itertools import pairwise
from pathlib import Path

from figures.bars import Bars, bars_picture
from figures.taso_fronts import MORE_TIME, names
from figures.taso_published import (
    FAMILIES,
    PARETO,
    front_of,
    singles_of,
    step_of,
    workspace_of,
)
from planners.primitives.command.picture import Panel, primitives_picture
from planners.primitives.selection.problem import Objective, Pair

HERE = Path(__file__)
ENDS = ("opt_perf", "opt_mem")


def one_network() -> str:
    """Return figure 1: time and memory of GoogLeNet by one family, and by both ends of the front."""
    time, memory = ({kind: heights[PARETO] for kind, heights in of.items()} for of in by_network())
    names_of = [*FAMILIES, *ENDS]
    plots = [
        Bars(title, title, names_of, {title: [values[name] for name in names_of]})
        for title, values in (("time, ms", time), ("memory, MB", memory))
    ]
    return bars_picture("GoogLeNet: one family for all layers, and the best (figure 1)", plots)


def all_networks() -> str:
    """Return figures 5a and 5b: the same of all networks, with the end of the front that is meant."""
    time, memory = by_network()
    plots = []
    for title, values, best in (
        ("5a: time, ms", time, ENDS[0]),
        ("5b: memory, MB", memory, ENDS[1]),
    ):
        kinds = {name: [values[name][one] for one in names()] for name in FAMILIES}
        kinds["best"] = [values[best][one] for one in names()]
        plots.append(Bars(title, title, names(), kinds))
    return bars_picture("One family for all layers, and the best (figure 5)", plots)


def largest_layers() -> str:
    """Return figure 2: what the largest layer needs by one family for all."""
    kinds = {
        family: [
            singles_of(name, "published", Objective.WORKSPACE)[family].memory(Objective.WORKSPACE)
            / 1e6
            for name in names()
        ]
        for family in FAMILIES
    }
    plot = Bars("memory of the largest layer, MB", "MB", names(), kinds)
    return bars_picture("The largest layer by primitive (figure 2)", [plot])


Heights = dict[str, dict[str, float]]  # by family or end, then by network


def by_network() -> tuple[Heights, Heights]:
    """Return milliseconds and MB of each family and each end of the front, for each network."""
    time: Heights = {name: {} for name in (*FAMILIES, *ENDS)}
    memory: Heights = {name: {} for name in (*FAMILIES, *ENDS)}
    for name in names():
        front = front_of(name, "published")
        found = singles_of(name, "published", Objective.NETWORK)
        pairs = {
            family: (found[family].nanoseconds, found[family].memory(Objective.NETWORK))
            for family in FAMILIES
        }
        pairs |= dict(zip(ENDS, (tuple(front.fastest), tuple(front.smallest)), strict=True))
        for kind, (nanoseconds, size) in pairs.items():
            time[kind][name], memory[kind][name] = nanoseconds / 1e6, size / 1e6
    return time, memory


def network_points() -> dict[str, Pair]:
    """Return points A and B of figure 6a: the fastest, and the smallest within 15% more time."""
    front = front_of(PARETO, "published")
    slow = front.within_time(front.fastest.nanoseconds * MORE_TIME // 100)
    return {"A": front.fastest, "B": slow}


def workspace_points() -> dict[str, Pair]:
    """Return points A to D of figure 6b.

    A is what formula 13 chooses without a limit, B the least at its speed, C and D the two neighbours
    of the front with the largest step in time.
    """
    front = front_of(PARETO, "published", Objective.WORKSPACE)
    network = front_of(PARETO, "published")
    first = network.selection(network.fastest)
    low, high = max(pairwise(front.pairs), key=step_of)
    return {
        "A": Pair(network.fastest.nanoseconds, workspace_of(PARETO, first.chosen)),
        "B": front.within_time(network.fastest.nanoseconds),
        "C": high,
        "D": low,
    }


def fronts() -> str:
    """Return figure 6 with its points."""
    panels = [
        Panel(
            title=title,
            front=front_of(PARETO, "published", objective).pairs,
            baselines=list(points.items()),
        )
        for title, objective, points in (
            ("6a: the network", Objective.NETWORK, network_points()),
            ("6b: one workspace", Objective.WORKSPACE, workspace_points()),
        )
    ]
    return str(
        primitives_picture(
            "GoogLeNet: time over memory (figure 6)",
            panels,
            suffix="svg",
        )
    )


def pictures() -> dict[str, str]:
    """Return the pictures by the end of their name."""
    return {
        "1": one_network(),
        "2": largest_layers(),
        "5": all_networks(),
        "6": fronts(),
    }


if __name__ == "__main__":
    for name, picture in pictures().items():
        HERE.with_name(f"{HERE.stem}_{name}.svg").write_text(picture)
