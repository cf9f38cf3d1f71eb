"""Table 1 of TASO: how long choosing primitives takes.

Wen, Anderson, Radu, O'Boyle and Gregg, TASO: Time and Space Optimization for Memory-Constrained DNN
Inference, SBAC-PAD 2020. Run `python -m figures.taso_table1 [--profiles FOLDER]`:
writes the .md beside it, from the tables that taso_profiles.py measured.
"""

import argparse
from pathlib import Path
from time import process_time

from figures.published.taso import NETWORKS, SOLVE_SECONDS, VARIABLES, network_of
from planners.primitives.profile import LAYER, Profile, read_profile
from planners.primitives.selection.problem import Objective, SelectionProblem, selection_problem
from planners.primitives.selection.solver import fastest, variables_of
from planners.primitives.selection.trade_off import trade_off

PROFILES = Path(__file__).with_name("taso_profiles")
BUDGETS = 50

HEAD = """# Solve times: TASO's table 1

Written by `python -m figures.taso_table1`: seconds of the processor, on {machine}.
"Paper" is its integer program with 57 primitives in PuLP, on another machine; "variables" are those of
both programs, explained in taso_published.md. Ours is an integer program over layouts in
HiGHS, with a limit on the memory of the whole network: at {budgets} budgets, evenly from the least
to that of the fastest selection, the mean, the longest, and all together. "Whole front" is dynamic
programming, complete for all budgets at once. Both gave the same time at every budget of every
network here.

"""
COLUMNS = (
    "| network | convolutions | ways to run | paper | one budget | longest | {budgets} budgets | "
    "whole front | pairs | variables: paper | ours |\n|---|---|---|---|---|---|---|---|---|---|---|\n"
)


def row(name: str, profile: Profile) -> str:
    """Return the line of one network."""
    problem = selection_problem(network_of(name), profile)
    begin = process_time()
    front = trade_off(problem, Objective.NETWORK)
    whole = process_time() - begin
    times = []
    low, high = front.smallest.memory, front.fastest.memory
    for step in range(BUDGETS):
        memory = low + (high - low) * step // (BUDGETS - 1)
        begin = process_time()
        found = fastest(problem, Objective.NETWORK, memory)
        times.append(process_time() - begin)
        best = front.within_memory(memory)
        if found.selection is None or found.selection.nanoseconds != best.nanoseconds:
            raise SystemExit(f"{name}: {memory} bytes: the solvers do not agree: {found}, {best}")
    cells = (
        name,
        str(convolutions(problem)),
        str(sum(map(len, problem.candidates))),
        f"{SOLVE_SECONDS[name]}" if name in SOLVE_SECONDS else "",
        f"{sum(times) / BUDGETS:.3f}",
        f"{max(times):.3f}",
        f"{sum(times):.2f}",
        f"{whole:.3f}",
        str(len(front.pairs)),
        str(VARIABLES[name][0]) if name in VARIABLES else "",
        str(len(variables_of(problem, Objective.NETWORK))),
    )
    return f"| {' | '.join(cells)} |\n"


def convolutions(problem: SelectionProblem) -> int:
    """Return how many layers have primitives to choose from."""
    return sum(
        any(one.primitive != LAYER for one in candidates) for candidates in problem.candidates
    )


def main() -> None:
    """Measure and write the page."""
    parser = argparse.ArgumentParser(description="Time both solvers on profiles of primitives.")
    parser.add_argument("--profiles", type=Path, metavar="FOLDER", default=PROFILES)
    folder = parser.parse_args().profiles
    tables = {
        name: read_profile(path) for name in NETWORKS if (path := folder / f"{name}.csv").exists()
    }
    if not tables:
        raise SystemExit(f"{folder}: no tables; measure some with figures/taso_profiles.py")
    machine = next(iter(tables.values())).machine
    head = (HEAD + COLUMNS).format(
        machine=f"{machine.processor}, {machine.library}", budgets=BUDGETS
    )
    rows = (row(name, profile) for name, profile in tables.items())
    Path(__file__).with_suffix(".md").write_text(head + "".join(rows))


if __name__ == "__main__":
    main()
