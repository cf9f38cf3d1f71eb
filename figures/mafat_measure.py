"""Bytes and milliseconds of MAFAT's configurations of YOLOv2's first 16 layers, measured here.

Run `python -m figures.mafat_measure` (Linux; some minutes): writes mafat_sweep.csv beside it, a
process for each configuration, one thread; mafat_sweep.py makes a page and pictures of it.
Columns: arena and touched are the planned bytes and those that the run wrote; process is the peak
of the process while it runs; milliseconds are those of the processor, the least of five runs.
"""

import csv
import os
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from time import process_time

from cnn2csdf.catalogue.yolo import yolo_v2_beginning
from cnn2csdf.execution.compare import random_frames
from cnn2csdf.platforms import Platform
from cnn2csdf.simplify import simplified
from cnn2csdf.weights import Model, random_weights
from figures.published.mafat import BIAS, LIMITS_MB, manual_sweep, memory_to_beat
from figures.published.mafat_execution import run_fused, run_rows
from planners.fusion.groups import Terms
from planners.fusion.planning import FusionPlan, best_plan, fusion_plan
from planners.memory.answer import ScratchCount
from planners.memory.order import TopologicalOrder, chain_of
from planners.published.mafat import MB

COLUMNS = ("configuration", "arena", "touched", "process", "milliseconds")
MEASURED = Path(__file__).with_name("mafat_sweep.csv")
# Four operations and four bytes a cycle at 216 MHz, a microsecond for a phase: a roofline, which the
# plans that were measured were chosen by.
ROOFLINE = Platform(
    operations_per_second=Fraction(864_000_000),
    bytes_per_second=Fraction(864_000_000),
    launch=Fraction(1, 10**6),
)
TERMS = Terms(platform=ROOFLINE, scratch=ScratchCount.IM2COL)
RUNS = 5


def yolo() -> TopologicalOrder:
    """Return the chain of the paper: convolutions with what follows them, and poolings."""
    return chain_of(simplified(Model(network=yolo_v2_beginning())).network)


def our_plan(chain: TopologicalOrder, limit_mb: int) -> FusionPlan | None:
    """Return our plan where the arena and the bias of the paper fit; None if none does."""
    return best_plan(chain, TERMS, max(0, memory_to_beat(chain, limit_mb * MB) - BIAS)).plan


def plan_of(name: str) -> FusionPlan:
    """Return the plan of a row of the table."""
    chain = yolo()
    if name.startswith("ours "):
        plan = our_plan(chain, int(name.split()[1]))
        if plan is None:
            raise SystemExit(f"{name}: nothing fits")
        return plan
    return fusion_plan(chain, manual_sweep(chain)[name], TERMS)


def measure(name: str) -> tuple[str, int, int, int, float]:
    """Run one configuration in this process."""
    plan = None if name == "rows" else plan_of(name)
    network = yolo().network
    model = Model(network=network, weights=random_weights(network, 0))
    (frame,) = random_frames(network, 1, 0)
    Path("/proc/self/clear_refs").write_text("5")
    seconds = []
    for _ in range(RUNS):
        begin = process_time()
        run = run_rows(model, frame) if plan is None else run_fused(model, plan, frame)
        seconds.append(process_time() - begin)
    status = Path("/proc/self/status").read_text().splitlines()
    peak = next(int(line.split()[1]) for line in status if line.startswith("VmHWM:"))
    return name, run.arena_bytes, run.touched, peak * 1024, round(min(seconds) * 1000, 1)


def measure_all() -> None:
    """Write the table of all configurations."""
    chain = yolo()
    names = [*manual_sweep(chain), "rows"]
    names += [f"ours {limit}" for limit in LIMITS_MB if our_plan(chain, limit) is not None]
    threads = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    with MEASURED.open("w", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(COLUMNS)
        for name in names:
            command = [sys.executable, "-m", "figures.mafat_measure", *name.split()]
            found = subprocess.run(
                command, env={**os.environ, **threads}, capture_output=True, text=True, check=True
            )
            table.writerow(found.stdout.strip().split(","))
            file.flush()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        sys.stdout.write(",".join(map(str, measure(" ".join(sys.argv[1:])))))
    else:
        measure_all()
