"""Selections of primitives, run: the time that was predicted and the time that was measured.

Run `python -m figures.taso_measured [--profiles FOLDER]` on a quiet machine, the one that measured the
tables: writes the .md beside it. Three budgets a network: the least memory, that of the fastest
selection, and the geometric mean of both.
"""

import argparse
from collections.abc import Iterator
from math import isqrt
from pathlib import Path

from cnn2csdf.execution.calibration import calibrated_weights
from cnn2csdf.execution.compare import differences, worst_of
from cnn2csdf.execution.layer_by_layer import run_layers
from cnn2csdf.weights import Model
from figures.published.taso import NETWORKS, network_of
from planners.primitives.profile import read_profile
from planners.primitives.profiling import random_frame, run_measured
from planners.primitives.selection.problem import Objective, selection_problem
from planners.primitives.selection.trade_off import trade_off

PROFILES = Path(__file__).with_name("taso_profiles")
REPEATS = 15

HEAD = """# Selections of primitives, run

Written by `python -m figures.taso_measured`. Times are milliseconds of the processor for a frame, on
one thread: predicted from the tables in taso_profiles/, and the median of {repeats} frames, run with
weights drawn at random in a process of its own, as for a profile. The selections are the fastest
within three memories of the whole network. "Difference" is that of the outputs from those of the
whole network, layer by layer, over the largest output.

| network | memory MB | predicted | measured | deviation | difference |
|---|---|---|---|---|---|
"""


def rows(name: str, folder: Path) -> Iterator[str]:
    """Yield a line for each budget of a network."""
    network = network_of(name)
    front = trade_off(
        selection_problem(network, read_profile(folder / f"{name}.csv")), Objective.NETWORK
    )
    model = Model(network=network, weights=calibrated_weights(network, 0))
    frame = random_frame(network, 0)
    maps = run_layers(model, frame)
    expected = {layer.name: maps[layer.name] for layer in network.outputs}
    low, high = front.smallest.memory, front.fastest.memory
    for memory in (low, isqrt(low * high), high):
        best = front.selection(front.within_memory(memory))
        ways = {
            one.layer: (one.primitive, one.input_layout, one.output_layout) for one in best.chosen
        }
        found = run_measured(model, ways, frame, repeats=REPEATS)
        deviation = found.nanoseconds / best.nanoseconds - 1
        difference = worst_of(differences([found.outputs], [expected])).relative
        yield (
            f"| {name} | {best.memory(Objective.NETWORK) / 1e6:.4g} | {best.nanoseconds / 1e6:.4g} | "
            f"{found.nanoseconds / 1e6:.4g} | {deviation:+.1%} | {difference:.1g} |\n"
        )


def main() -> None:
    """Run the selections and write the page."""
    parser = argparse.ArgumentParser(description="Run selections of primitives.")
    parser.add_argument("--profiles", type=Path, metavar="FOLDER", default=PROFILES)
    folder = parser.parse_args().profiles
    names = [name for name in NETWORKS if (folder / f"{name}.csv").exists()]
    lines = [line for name in names for line in rows(name, folder)]
    Path(__file__).with_suffix(".md").write_text(HEAD.format(repeats=REPEATS) + "".join(lines))


if __name__ == "__main__":
    main()
