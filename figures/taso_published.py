"""TASO with memory as printed, beside ours: figures 1, 2, 5, 6 and 10, and table 1's variables.

Wen, Anderson, Radu, O'Boyle and Gregg, TASO: Time and Space Optimization for Memory-Constrained DNN
Inference, SBAC-PAD 2020. Run `python -m figures.taso_published`: writes the .md and the picture of
figure 10 beside it, from the tables that taso_profiles.py measured.
"""

from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from math import exp, log
from pathlib import Path

from figures.bars import Bars, bars_picture
from figures.published.taso import VARIABLES, network_of
from figures.taso_fronts import BUDGETS, MORE_TIME, mb, names, profile, table
from planners.primitives.selection.planning import (
    as_published,
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
from planners.primitives.selection.solver import variables_of
from planners.primitives.selection.trade_off import TradeOff, trade_off

HERE = Path(__file__)
FAMILIES = ("direct", "im2row", "im2col", "winograd")
ACCOUNTINGS = ("published", "own")
PRIMITIVES = 57  # of the paper
PARETO = "googlenet"
BARS = 10


@cache
def problem_of(name: str, accounting: str, objective: Objective) -> SelectionProblem:
    """Return the choices of a network with the memory of an accounting."""
    network = network_of(name)
    problem = selection_problem(network, profile(name))
    return as_published(problem, network, objective) if accounting == "published" else problem


@cache
def front_of(name: str, accounting: str, objective: Objective = Objective.NETWORK) -> TradeOff:
    """Return the front of a network."""
    return trade_off(problem_of(name, accounting, objective), objective)


@cache
def singles_of(name: str, accounting: str, objective: Objective) -> dict[str, Selection]:
    """Return what one family for all convolutions gives."""
    problem = problem_of(name, accounting, objective)
    return dict(single_families(problem, objective))


def families_table() -> str:
    """Return figures 1 and 5: one family for all layers, the fastest and the smallest selection."""
    rows = []
    for name in names():
        for accounting in ACCOUNTINGS:
            front = front_of(name, accounting)
            found = singles_of(name, accounting, Objective.NETWORK)
            singles = [found[family] for family in FAMILIES]
            cells = [pair(one.nanoseconds, one.memory(Objective.NETWORK)) for one in singles]
            ends = (pair(one.nanoseconds, one.memory) for one in (front.fastest, front.smallest))
            rows.append((name, accounting, *cells, *ends))
    return table(("network", "memory", *FAMILIES, "least time", "least memory"), rows)


def pair(nanoseconds: int, memory: int) -> str:
    """Return milliseconds and MB."""
    return f"{nanoseconds / 1e6:.1f}, {memory / 1e6:.1f}"


def largest_table() -> str:
    """Return figure 2: what the largest layer needs with one family for all."""
    rows = []
    for name in names():
        found = singles_of(name, "published", Objective.WORKSPACE)
        sizes = [found[one].memory(Objective.WORKSPACE) for one in FAMILIES]
        least = front_of(name, "published", Objective.WORKSPACE).smallest.memory
        rows.append((name, *map(mb, sizes), mb(least)))
    return table(("network", *FAMILIES, "least of any selection"), rows)


def points_table() -> str:
    """Return the points of figure 6a: the fastest, and 15% slower; im2col's speed."""
    rows = []
    for name in names():
        for accounting in ACCOUNTINGS:
            front = front_of(name, accounting)
            fast = front.fastest
            slow = front.within_time(fast.nanoseconds * MORE_TIME // 100)
            im2col = singles_of(name, accounting, Objective.NETWORK)["im2col"]
            same = front.within_time(im2col.nanoseconds)
            rows.append(
                (
                    name,
                    accounting,
                    pair(*fast),
                    pair(*slow),
                    f"{(slow.nanoseconds - fast.nanoseconds) / 1e6:.1f} ms",
                    f"{fast.memory / slow.memory:.2f}",
                    f"{im2col.memory(Objective.NETWORK) / same.memory:.2f}",
                )
            )
    header = ("network", "memory", "A", "B", "B - A", "A / B", "im2col / least at its speed")
    return table(header, rows)


def workspace_table() -> str:
    """Return figure 6b: the workspace of the fastest, the least at its speed, and its largest step."""
    rows = []
    for name in names():
        front = front_of(name, "published", Objective.WORKSPACE)
        first = front_of(name, "published").selection(front_of(name, "published").fastest)
        taken = workspace_of(name, first.chosen)
        fast = front.fastest
        low, high = max(pairwise(front.pairs), key=step_of)
        rows.append(
            (
                name,
                mb(taken),
                mb(fast.memory),
                mb(taken - fast.memory),
                mb(front.smallest.memory),
                f"{step_of((low, high)):.2f} from {mb(low.memory)} to {mb(high.memory)} MB",
            )
        )
    header = ("network", "A", "B", "A - B", "least", "largest step, times as fast")
    return table(header, rows)


def workspace_of(name: str, chosen: tuple) -> int:
    """Memory by formula 15 of what was chosen by formula 13."""
    problem = problem_of(name, "published", Objective.WORKSPACE)
    sizes = []
    for one, candidates in zip(chosen, problem.candidates, strict=True):
        key = (one.primitive, one.input_layout, one.output_layout)
        sizes += [
            Objective.WORKSPACE.of_layer(other)
            for other in candidates
            if (other.primitive, other.input_layout, other.output_layout) == key
        ]
    return max(sizes)


def step_of(pairs: tuple[Pair, Pair]) -> float:
    """Return how many times as fast the second of two neighbours is."""
    return pairs[0].nanoseconds / pairs[1].nanoseconds


def slower(name: str, accounting: str) -> list[float]:
    """Return how many times as long the greedy choice takes, from the largest budget down."""
    front = front_of(name, accounting)
    found = greedy_pairs(front, budgets(front, BUDGETS))
    times = [one.nanoseconds / front.within_memory(one.memory).nanoseconds for one in found]
    return times[::-1]


def greedy_table() -> str:
    """Return what is behind figure 10."""
    rows = []
    for name in names():
        for accounting in ACCOUNTINGS:
            found = slower(name, accounting)
            mean = exp(sum(map(log, found)) / len(found))
            stuck = len(budgets(front_of(name, accounting), BUDGETS)) - len(found)
            rows.append((name, accounting, f"{max(found):.2f}", f"{mean:.2f}", str(stuck)))
    return table(("network", "memory", "largest", "geometric mean", "budgets not met"), rows)


def variables_table() -> str:
    """Return the conditional variables of table 1 beside those of our program."""
    rows = []
    for name in names():
        problem = problem_of(name, "own", Objective.NETWORK)
        convolutions = sum(len({one.primitive for one in each}) > 1 for each in problem.candidates)
        printed, seconds = VARIABLES.get(name, ("", ""))
        layers = printed // PRIMITIVES if printed else ""
        rows.append(
            (
                name,
                str(printed),
                str(layers),
                str(seconds),
                str(convolutions),
                str(sum(map(len, problem.candidates))),
                str(len(variables_of(problem, Objective.NETWORK))),
            )
        )
    header = ("network", "paper", "/ 57", "seconds", "convolutions", "candidates", "variables")
    return table(header, rows)


HEAD = """# TASO with memory as it is printed, beside ours

Made by `python -m figures.taso_published` from the tables in taso_profiles/. MB are 1,000,000 bytes.
"Published" counts as formulas 9 and 15 do: convolutions only, layout transformations cost time and no
memory. "Own" counts all that a plan adds to the feature maps: also the weights of fully connected
layers, the workspaces of other layers, and maps in a second layout. `plan primitives --accounting` has
both. The paper measured 57 primitives on a Cortex-A15; its figures are pictures whose values are in the
text only as far as they stand here.

## Figures 1 and 5: one family for all layers; ms, MB

The paper, on GoogLeNet: direct takes 400 s, and less than 300 MB may not be enough to run; the least
memory is about that of direct, and much faster. "Least time" and "least memory" are the ends of our
fronts.

![figure 1](taso_pictures_1.svg)

![figure 5](taso_pictures_5.svg)

{families}
## Figure 2: MB of the largest layer

Input, output, weights and scratch of the largest layer, one family for all. The paper: an order of
magnitude between direct and im2col.

![figure 2](taso_pictures_2.svg)

{largest}
## Figure 6a, and 7 to 9: the network; ms, MB

A is the fastest selection, B the smallest within 15% more time. The paper, on GoogLeNet: 2.2 times less
memory, for less than half a second; and im2col's speed at half of its memory.

![figure 6](taso_pictures_6.svg)

{points}
## Figure 6b: one workspace, as formula 15 counts; MB

A is the workspace of the selection that formula 13 finds without a limit, B the least at the same time.
The paper, on GoogLeNet: B needs 10 MB less, and around 12 MB two neighbours, C and D, differ 1.4 times
in time; here the largest step between two neighbours of the front.

{workspaces}
## Figure 10: the greedy choice of section 5.3.2

It starts with the fastest selection; the layer with the largest footprint takes the fastest of its
candidates with a smaller footprint, until the budget is met. Its time over the best, at {budgets}
budgets; the paper's text: similar at large budgets, up to 8 times at small ones, on GoogLeNet. Our
other greedy choice, layer after layer, was 5.97 times as slow on AlexNet, and is no longer called by
that name.

![time of the greedy choice over the best](taso_published_greedy.svg)

{greedy}
## Table 1: variables

The paper has a variable for each of 57 primitives of each layer: 8, 13, 30 and 70 layers. Ours has one
for each candidate that no other of the same layouts improves on, and for each pair of layouts of a
link. The 8 of AlexNet are its 5 convolutions with the three grouped ones split; 30 and 70 are not the
26 and 57 convolutions of SqueezeNet and GoogLeNet, and not explained. Times are in taso_table1.md.

{variables}"""


def page() -> str:
    """Return the page."""
    return HEAD.format(
        families=families_table(),
        largest=largest_table(),
        points=points_table(),
        workspaces=workspace_table(),
        budgets=BUDGETS,
        greedy=greedy_table(),
        variables=variables_table(),
    )


def _bars() -> Iterator[Bars]:
    for accounting in ACCOUNTINGS:
        found = slower(PARETO, accounting)
        chosen = [found[step * (len(found) - 1) // (BARS - 1)] for step in range(BARS)]
        numbers = [str(number) for number in range(1, BARS + 1)]
        yield Bars(f"memory: {accounting}", "greedy / best", numbers, {"ratio": chosen})


def pictures() -> dict[str, str]:
    """Return the pictures by the end of their name: figure 10, budgets falling to the right."""
    return {
        "greedy": bars_picture("GoogLeNet: time of the greedy choice over the best", [*_bars()])
    }


if __name__ == "__main__":
    HERE.with_suffix(".md").write_text(page())
    for name, picture in pictures().items():
        HERE.with_name(f"{HERE.stem}_{name}.svg").write_text(picture)
