"""Bytes between a fast and a slow memory: plans beside the split of largest tensors and the bound.

Four int8 networks in 16, 64 and 256 kB of fast memory and 8 MB of slow. Run
`python -m tests.benchmarks.bench_memory_splits [SECONDS]` (100, of the processor, for each plan): it
prints the table of docs/memories.md, every plan in it carried out byte by byte. Plans that take all of
the time depend on the machine.
"""

import sys
import time
from math import prod

from csdf.errors import GaveUp
from csdf.status import told
from csdf.time_limit import Progress, Stop
from figures.branched_networks import yolov8n_like
from figures.fit_networks import Subject, network_of
from planners.memory.answer import SlowTraffic
from planners.memory.memories import planned_in_memories
from planners.memory.request import fit_request
from planners.plan.carried_out import require_carried_out
from planners.plan.plan import Memory

SUBJECTS = (
    Subject("person_detect", "person_detection:channels=3"),
    Subject("vww96", "mobilenet_v1:width=1/4,resolution=96,classes=2"),
    Subject("mobilenet_v2", "mobilenet_v2"),
    Subject("yolov8n-like", yolov8n_like),
)
SIZES = (16, 64, 256)  # kB
HEADER = (
    "network | fast memory | all in slow memory | greedy split | plan | bound | of the bound | s"
)


def traffic_of(subject: Subject, size: int, seconds: float) -> tuple[SlowTraffic, float]:
    """Return what a frame moves in so many kB of fast memory, and seconds of the processor."""
    begin = time.process_time()

    def look(_: Progress) -> None:
        if time.process_time() > begin + seconds:
            raise GaveUp(told(f"{seconds:.0f} s are used up"))

    network = network_of(subject)
    memories = (
        Memory(name="sram", size=size * 1000),
        Memory(name="psram", size=8_000_000, is_slow=True),
    )
    found = planned_in_memories(
        fit_request(network, memories=memories, element_bytes=1, platform=None), Stop(report=look)
    )
    used = time.process_time() - begin
    assert found.plan is not None
    require_carried_out(network, found.plan)
    return found.traffic, used


def mean(values: list[float]) -> float:
    """Return the geometric mean."""
    return prod(values) ** (1 / len(values))


def say(line: str) -> None:
    """Write a line at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main(seconds: str = "100") -> None:
    """Print the table, a line at a time, and the geometric means."""
    say(f"| {HEADER} |\n|{' --- |' * len(HEADER.split('|'))}")
    beside, above = list[float](), list[float]()
    for subject in SUBJECTS:
        for size in SIZES:
            found, used = traffic_of(subject, size, float(seconds))
            moved, bound = found.moved or 0, found.lower_bound
            ratio = ""
            if moved and bound:
                beside.append(found.greedy / moved)
                above.append(moved / bound)
                ratio = f"{moved / bound:.2f}"
            numbers = (found.all_slow, found.greedy, moved, bound)
            row = (
                subject.title,
                f"{size} kB",
                *(f"{one:,}" for one in numbers),
                ratio,
                f"{used:.0f}",
            )
            say(f"| {' | '.join(row)} |")
    say(f"greedy split / plan: {mean(beside):.1f}; plan / bound: {mean(above):.2f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
