"""How long choosing primitives takes, by both solvers.

Run `python tests/benchmarks/bench_primitives.py [TABLE ...]`, with tables that `csdf plan primitives
MODEL --save-profile TABLE` wrote, by default those of the figures; a table is named for its network.
One line for each and objective; seconds of the processor: the whole front by dynamic programming, one
budget in the middle by the integer program.
"""

import sys
from pathlib import Path
from time import process_time

from cnn2csdf.catalogue.networks import from_catalogue
from cnn2csdf.simplify import simplified
from cnn2csdf.weights import Model
from figures.published.taso import NETWORKS, network_of
from planners.primitives.profile import read_profile
from planners.primitives.selection.problem import Objective, selection_problem
from planners.primitives.selection.solver import fastest
from planners.primitives.selection.trade_off import trade_off

TABLES = Path(__file__).parents[2] / "figures" / "taso_profiles"


def problem_of(path):
    name = path.stem
    if name in NETWORKS:
        network = network_of(name)
    else:
        network = simplified(Model(network=from_catalogue(name))).network
    return selection_problem(network, read_profile(path))


def main(paths):
    print(f"{'network':<20}{'objective':<11}{'ways':>6}{'points':>8}{'front':>8}{'budget':>8}")
    for path in paths:
        problem = problem_of(path)
        ways = sum(map(len, problem.candidates))
        for objective in Objective:
            begin = process_time()
            front = trade_off(problem, objective)
            whole = process_time() - begin
            memory = (front.smallest.memory + front.fastest.memory) // 2
            begin = process_time()
            found = fastest(problem, objective, memory)
            one = process_time() - begin
            best = front.within_memory(memory)
            if found.selection is None or found.selection.nanoseconds != best.nanoseconds:
                raise SystemExit(f"{path}: the solvers do not agree: {found}, {best}")
            print(
                f"{problem.name:<20}{objective.value:<11}{ways:>6}{len(front.pairs):>8}"
                f"{whole:>8.2f}{one:>8.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main([Path(word) for word in sys.argv[1:]] or sorted(TABLES.glob("*.csv")))
