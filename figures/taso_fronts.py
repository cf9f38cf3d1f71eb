"""Fig. 5 to 10 of TASO, measured here: time over memory, for five networks and both objectives.

Wen, Anderson, Radu, O'Boyle and Gregg, TASO: Time and Space Optimization for Memory-Constrained DNN
Inference, SBAC-PAD 2020. Run `python -m figures.taso_fronts [--profiles FOLDER]`: writes the .md and
the pictures beside it, from the tables that taso_profiles.py measured.
"""

import argparse
from collections.abc import Sequence
from functools import cache
from math import exp, log
from pathlib import Path
from typing import NamedTuple

from figures.published.taso import NETWORKS, network_of
from planners.primitives.command.picture import Panel, primitives_picture
from planners.primitives.profile import Profile, read_profile
from planners.primitives.selection.planning import (
    budgets,
    greedy_pairs,
    single_families,
)
from planners.primitives.selection.problem import (
    Objective,
    Pair,
    Selection,
    SelectionProblem,
    selection_problem,
)
from planners.primitives.selection.trade_off import TradeOff, trade_off

HERE = Path(__file__)
PROFILES = HERE.with_name("taso_profiles")
BUDGETS = 50
MORE_TIME = 115  # percent of the least time
TITLES = {
    Objective.NETWORK: "memory of the whole network",
    Objective.WORKSPACE: "one workspace for all layers",
}


class Case(NamedTuple):
    """A network with an objective; greedy: what it reaches at each budget where it reaches anything."""

    name: str
    problem: SelectionProblem
    front: TradeOff
    greedy: tuple[Pair, ...]
    singles: dict[str, Selection]

    @property
    def slower(self) -> list[tuple[int, float]]:
        """Each budget with how many times as long the greedy choice takes."""
        return [
            (one.memory, one.nanoseconds / best.nanoseconds)
            for one in self.greedy
            if (best := self.front.within_memory(one.memory)) is not None
        ]


@cache
def profile(name: str, folder: Path = PROFILES) -> Profile:
    """Return the table of one network."""
    return read_profile(folder / f"{name}.csv")


@cache
def case(name: str, objective: Objective, folder: Path = PROFILES) -> Case:
    """Return what is drawn and listed of one network."""
    problem = selection_problem(network_of(name), profile(name, folder))
    front = trade_off(problem, objective)
    return Case(
        name=name,
        problem=problem,
        front=front,
        greedy=tuple(greedy_pairs(front, budgets(front, BUDGETS))),
        singles=dict(single_families(problem, objective)),
    )


def names(folder: Path = PROFILES) -> list[str]:
    """Return the networks that have a table."""
    return [name for name in NETWORKS if (folder / f"{name}.csv").exists()]


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return lines of a table."""
    lines = [header, ["---"] * len(header), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def front_table(objective: Objective, folder: Path) -> str:
    """Return both ends of each front."""
    header = ("network", "pairs", "fastest ms", "MB", "smallest MB", "ms")
    rows = []
    for name in names(folder):
        front = case(name, objective, folder).front
        fast, small = front.fastest, front.smallest
        cells = (ms(fast), mb(fast.memory), mb(small.memory), ms(small))
        rows.append((name, str(len(front.pairs)), *cells))
    return table(header, rows)


def greedy_table(objective: Objective, folder: Path) -> str:
    """Return how much faster than the greedy choice ours is."""
    header = ("network", "largest speed-up", "at MB", "geometric mean", "at the least budget")
    rows = []
    for name in names(folder):
        slower = case(name, objective, folder).slower
        budget, most = max(slower, key=lambda one: one[1])
        mean = exp(sum(log(factor) for _, factor in slower) / len(slower))
        rows.append((name, f"{most:.2f}", mb(budget), f"{mean:.2f}", f"{slower[0][1]:.2f}"))
    return table(header, rows)


def saved_table(objective: Objective, folder: Path) -> str:
    """Return how much less memory 15% more time than the least needs."""
    header = ["network", "fastest MB", "MB within 15% more", "times less"]
    header += ["without weights"] if objective is Objective.NETWORK else []
    rows = []
    for name in names(folder):
        one = case(name, objective, folder)
        fast = one.front.fastest
        slow = one.front.within_time(fast.nanoseconds * MORE_TIME // 100)
        cells = [name, mb(fast.memory), mb(slow.memory), factor(fast.memory, slow.memory)]
        if objective is Objective.NETWORK:
            weights = least_weights(one.problem)
            cells.append(factor(fast.memory - weights, slow.memory - weights))
        rows.append(cells)
    return table(header, rows)


def single_table(objective: Objective, folder: Path) -> str:
    """Return the time of each family alone over ours within the same memory."""
    families = sorted(
        {family for name in names(folder) for family in case(name, objective, folder).singles}
    )
    rows = []
    for name in names(folder):
        one = case(name, objective, folder)
        slower = {key: over_ours(one, objective, each) for key, each in one.singles.items()}
        rows.append((name, *(f"{slower[key]:.2f}" if key in slower else "" for key in families)))
    return table(("network", *families), rows)


def over_ours(one: Case, objective: Objective, other: Selection) -> float:
    """Return the time of a selection over that of ours within its memory."""
    ours = one.front.within_memory(other.memory(objective))
    return other.nanoseconds / ours.nanoseconds


def least_weights(problem: SelectionProblem) -> int:
    """Return the bytes of all weights where each layer keeps as few as it can."""
    return sum(min(one.parameter_bytes for one in found) for found in problem.candidates)


def factor(more: int, less: int) -> str:
    """Return how many times as much it is."""
    return f"{more / less:.2f}" if less else "all"


def mb(size: int) -> str:
    """Return MB of 1,000,000 bytes."""
    return f"{size / 1e6:.4g}"


def ms(pair: Pair) -> str:
    """Return the milliseconds of a pair."""
    return f"{pair.nanoseconds / 1e6:.4g}"


HEAD = """# Convolution primitives for time and memory: TASO's figures 5 to 10

Made by `python -m figures.taso_fronts` from the tables in taso_profiles/, which
`python -m figures.taso_profiles` measures: {candidates} ways to run the layers of {count} networks, on
{machine}. MB are 1,000,000 bytes; times are those of one frame. How long choosing takes (table 1) is in
taso_table1.md.

## What is chosen, and what counts

Each convolution takes one of up to {most} primitives (an algorithm with its layouts), each other layer
a layout; where a consumer wants another layout than its producer writes, its input is changed, at its
time. Memory is all that a plan adds to the feature maps, for two objectives; taso_published.md counts
as the paper does:

- the whole network (formulas 13 and 14): least time within a memory that is the sum over all layers of
  workspace and weights, as each primitive keeps them, and over all maps in a second layout;
- a workspace for each layer (formula 15): least time where no layer needs more than one workspace that
  all of them use in turn. Weights and maps are not counted.

Every point is proved: dynamic programming gives the complete front, and an integer program (HiGHS)
agrees with it. "Greedy" is that of section 5.3.2: from the fastest selection on, the layer with the
largest footprint takes the fastest of its candidates with a smaller one. "All x" takes the family x
wherever it can, each time with its best variants and layouts, and im2col where it cannot.
"""

SECTION = """
## {title}

![time over memory](taso_fronts_{name}.svg)

{fronts}
Greedy at {budgets} budgets, by equal factors from the least memory (at least a thousandth of the
most) to that of the fastest: how many times as long it takes as ours. The paper's abstract says 8 on a
Cortex-A15.

{greedy}
Memory of the fastest selection, and the least within 15% more time. The paper's abstract says 2.2.
{weights}
{saved}
One family for all layers: its time over that of ours within the same memory.

{singles}"""

WITHOUT_WEIGHTS = """"Without weights" leaves out the bytes of weights that no selection does without.
"""


def page(folder: Path = PROFILES) -> str:
    """Return the page."""
    tables = [profile(name, folder) for name in names(folder)]
    machine = tables[0].machine
    most = max(
        len(found)
        for name in names(folder)
        for found in case(name, Objective.NETWORK, folder).problem.candidates
    )
    head = HEAD.format(
        candidates=sum(len(one.layers) for one in tables),
        count=len(tables),
        machine=f"{machine.processor}, {machine.threads} of {machine.cores} cores, {machine.library}",
        most=most,
    )
    sections = (
        SECTION.format(
            title=TITLES[objective][0].upper() + TITLES[objective][1:],
            name=objective.value,
            fronts=front_table(objective, folder),
            budgets=BUDGETS,
            greedy=greedy_table(objective, folder),
            saved=saved_table(objective, folder),
            weights=WITHOUT_WEIGHTS if objective is Objective.NETWORK else "",
            singles=single_table(objective, folder),
        )
        for objective in Objective
    )
    return head + "".join(sections)


def picture(objective: Objective, folder: Path = PROFILES) -> str | bytes:
    """Return the fronts of all networks."""
    panels = []
    for name in names(folder):
        one = case(name, objective, folder)
        panels.append(
            Panel(
                title=name,
                front=one.front.pairs,
                greedy=one.greedy,
                baselines=[
                    ("time only", one.front.fastest),
                    *(
                        (f"all {family}", each.pair(objective))
                        for family, each in one.singles.items()
                    ),
                ],
            )
        )
    return primitives_picture(
        f"Time over memory: {TITLES[objective]}",
        panels,
        suffix="svg",
    )


def main() -> None:
    """Write the pages and the pictures."""
    parser = argparse.ArgumentParser(description="Draw fronts of primitives from profiles.")
    parser.add_argument("--profiles", type=Path, metavar="FOLDER", default=PROFILES)
    folder = parser.parse_args().profiles
    HERE.with_suffix(".md").write_text(page(folder))
    for objective in Objective:
        target = HERE.with_name(f"{HERE.stem}_{objective.value}.svg")
        target.write_text(str(picture(objective, folder)))


if __name__ == "__main__":
    main()
