"""Offsets beside the allocators of other packages, on the same problems in one run.

    python -m tests.benchmarks.bench_allocators [--limit SECONDS]

Needs in one environment: this package, `omnimalloc`, `ethos-u-vela` and, with PyTorch, `executorch`;
what is missing is left out. The problems are MiniMalloc's and the tensors of the TensorFlow Lite files
of the shared data, with scratch, as its interpreter for microcontrollers sees them. Prints a Markdown
table: the bytes that each allocator needs above the proved bound, and its processor seconds, in a
process of its own.
"""

import argparse
import multiprocessing
from functools import partial
from pathlib import Path
from time import process_time
from types import SimpleNamespace

from planners.arena.allocation import plan_arena
from planners.formats.allocation_traces import parse_buffers
from planners.formats.tflite_micro_arena import DEVICE, InterpreterArena, interpreter_arena

SHARED = Path(__file__).parents[2].parent / "shared"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--limit", type=float, default=60, help="seconds for each; default 60")
    options = parser.parse_args()
    print("| problem | buffers | lower bound | " + " | ".join(ALLOCATORS) + " |")
    print("|---" * (3 + len(ALLOCATORS)) + "|")
    for problem in problems():
        bound = plan_arena(problem, budget=options.limit).lower_bound
        cells = [cell(solve, problem, bound, options.limit) for solve in ALLOCATORS.values()]
        row = [problem.name, str(len(problem.buffers)), f"{bound:,}", *cells]
        print("| " + " | ".join(row) + " |", flush=True)


def problems():
    """Return MiniMalloc's problems, and those of the networks of the shared data."""
    for path in sorted((SHARED / "alloc" / "minimalloc").glob("*.csv")):
        yield parse_buffers(path.read_text(), path.name, path.stem)
    for path in sorted((SHARED / "networks" / "tflite").glob("*_int8.tflite")):
        yield interpreter_arena(path.read_bytes(), path.stem, DEVICE).problem


def cell(solve, problem, bound, limit):
    """Return what one allocator needs above the bound, and its seconds."""
    answers = multiprocessing.Queue()
    process = multiprocessing.Process(target=_run, args=(solve, problem, limit, answers))
    process.start()
    process.join(3 * limit)
    if process.is_alive():
        process.kill()
        return f"none in {3 * limit:.0f} s"
    if answers.empty():
        return "-"
    peak, seconds = answers.get()
    return f"{100 * (peak - bound) / max(bound, 1):.2f}%, {seconds:.2f} s"


def _run(solve, problem, limit, answers):
    try:
        solve(problem, 0)  # imports, which are not timed
    except ImportError:
        return
    except _Ready:
        pass
    begin = process_time()
    answers.put((solve(problem, limit), process_time() - begin))


class _Ready(Exception):
    """All is imported."""


def ours(problem, limit):
    if not limit:
        raise _Ready
    return plan_arena(problem, budget=limit).peak


def interpreter(problem, limit):
    """The rule of TensorFlow Lite Micro, in the model that gives its recorded arenas."""
    arena = InterpreterArena(
        problem=problem, tensors=0, persistent=0, temporary=0, not_known=(), kinds=()
    )
    if not limit:
        raise _Ready
    return arena.head(arena.placed({}))


def executorch(problem, limit):
    from executorch.exir.memory_planning import greedy
    from executorch.exir.tensor import TensorSpec
    from torch import int8

    if not limit:
        raise _Ready
    specs = []
    for one in problem.buffers:
        spec = TensorSpec(int8, [one.size])
        spec.lifetime = [one.start, one.end - 1]
        specs.append(spec)
    graph = SimpleNamespace(input_mem_buffer_sizes=None, meta={})
    return max(greedy(1, specs, graph, None, 0).bufsizes)


def vela(problem, limit, *, is_greedy):
    from ethosu.vela import greedy_allocation, hillclimb_allocation
    from ethosu.vela.live_range import LiveRange, LiveRangeGraph

    if not limit:
        raise _Ready
    lives = LiveRangeGraph()
    for one in problem.buffers:
        life = LiveRange(None, 1)
        life.start_time, life.end_time, life.size = one.start, one.end - 1, one.size
        life.set_address = partial(setattr_and_return, life)
        lives.lrs.append(life)
    if is_greedy:
        return greedy_allocation.allocate_live_ranges(lives, 1)
    offsets = hillclimb_allocation.allocate_live_ranges(lives.lrs, None, 1 << 62)
    return max(at + one.size for at, one in zip(offsets, problem.buffers, strict=True))


def setattr_and_return(life, address):
    life.address = address
    return address


def omnimalloc(problem, limit, *, allocator):
    import omnimalloc as omni

    if not limit:
        raise _Ready
    buffers = tuple(
        omni.Allocation(id=number, size=one.size, start=one.start, end=one.end)
        for number, one in enumerate(problem.buffers)
        if one.size
    )
    return omni.allocate(omni.Pool(id="all", allocations=buffers), allocator=allocator).size


ALLOCATORS = {
    "csdf": ours,
    "TFLM": interpreter,
    "ExecuTorch": executorch,
    "Vela, greedy": partial(vela, is_greedy=True),
    "Vela, hill climbing": partial(vela, is_greedy=False),
    "OmniMalloc, greedy by size": partial(omnimalloc, allocator="greedy_by_size"),
    "OmniMalloc, omni": partial(omnimalloc, allocator="omni"),
    "OmniMalloc, supermalloc": partial(omnimalloc, allocator="supermalloc"),
}

if __name__ == "__main__":
    main()
