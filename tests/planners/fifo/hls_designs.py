"""Small HLS designs as traces and reports, written by hand: no compiler is needed."""

import random
from pathlib import Path

from planners.fifo.hls.call import CallModel
from planners.fifo.hls.pipelines import staged
from planners.fifo.hls.synthesis_report import ReportedLoop, SynthesisReport
from planners.fifo.hls.trace import (
    Access,
    LoopExecution,
    RepeatedIterations,
    Trace,
    TracedArray,
    TracedFifo,
    TracedProcess,
)

FILE = Path("design.cpp")


def loop(label, iterations, line=1):
    """A loop of the source that ran once."""
    trips = sum(
        one.count * len(one.pattern) if isinstance(one, RepeatedIterations) else 1
        for one in iterations
    )
    return LoopExecution(
        label=label, line=line, function="f", number=0, trips=trips, iterations=tuple(iterations)
    )


def read(fifo):
    return Access(fifo, is_write=False)


def write(fifo):
    return Access(fifo, is_write=True)


def fifos(*groups, bits=32, depth=None):
    """FIFOs of arrays: pairs of a name and how many."""
    names = [(group, f"{group}[{lane}]") for group, lanes in groups for lane in range(lanes)]
    return tuple(
        TracedFifo(
            name=name, group=group, bits=bits, depth=depth, kind="", line=9
        )
        for group, name in names
    )  # fmt: skip


def design(processes, streams, arrays=()):
    """A trace, and its report: processes are (name, loops), loops are (loop, tag, interval, depth)."""
    traced, loops = [], {}
    for line, (name, own) in enumerate(processes, 20):
        body = tuple(one for one, *_ in own)
        traced.append(TracedProcess(name=name, line=line, body=body))
        loops[name] = tuple(
            ReportedLoop(module=name, tag=tag, interval=interval, depth=depth, trips=None)
            for _, tag, interval, depth in own
        )
    trace = Trace(
        top="top", file=FILE, fifos=streams, processes=tuple(traced), arrays=tuple(arrays)
    )
    report = SynthesisReport(
        file=Path("csynth.xml"), top="top", loops=loops, latencies={}, clock_ns=None
    )
    return trace, report


def pipe(words, lanes=2, reader_depth=6):
    """A process that writes all lanes in each iteration, and one that reads them."""
    put = loop("put", [RepeatedIterations(words, (tuple(map(write, range(lanes))),))])
    take = loop("take", [RepeatedIterations(words, (tuple(map(read, range(lanes))),))])
    return design(
        [("source", [(put, "put", 1, 3)]), ("sink", [(take, "take", 1, reader_depth)])],
        fifos(("lane", lanes)),
    )


def branch(rows=4, columns=6):
    """A fork whose one way has a result only at the end of a row: 0 direct, 1 for the mean, 2 means."""
    fork = loop("fork", [RepeatedIterations(rows * columns, ((write(0), write(1)),))])
    row = (RepeatedIterations(columns - 1, ((read(1),),)), (read(1), write(2)))
    mean = loop("mean", [RepeatedIterations(rows, ((loop("inner", row),),))])
    first = ((read(2), read(0)), RepeatedIterations(columns - 1, ((read(0),),)))
    join = loop("join", [RepeatedIterations(rows, ((loop("each", first),),))])
    return design(
        [
            ("split", [(fork, "fork", 1, 2)]),
            ("average", [(mean, "mean_inner", 1, 4)]),
            ("subtract", [(join, "join_each", 1, 3)]),
        ],
        fifos(("direct", 1), ("to_mean", 1), ("means", 1)),
    )


def random_design(rng: random.Random, words: int | None = None):
    """A chain of processes with a fork and random guards, intervals, depths and a second loop."""
    words = words or rng.randint(4, 12)
    lanes = rng.randint(1, 3)
    first = tuple(map(write, range(lanes)))
    put = loop("put", [RepeatedIterations(words, ((*first, write(lanes)),))])
    half = rng.randint(1, words - 1)
    head = loop("head", [RepeatedIterations(half, (tuple(map(read, range(lanes))),))])
    rest = [tuple(map(read, range(lanes))) for _ in range(words - half)]
    rest[-1] += (write(lanes + 1), write(lanes + 1))
    tail = loop("tail", rest)
    late = [(read(lanes + 1), read(lanes + 1), read(lanes))] + [(read(lanes),)] * (words - 1)
    inner = loop("inner", late)
    join = loop("join", [(inner,)])
    depth = lambda: rng.randint(1, 7)  # noqa: E731
    arrays = (
        [TracedArray(name="a", line=3, writers=(0,), readers=(2,))] if rng.random() < 0.2 else []
    )
    return design(
        [
            ("source", [(put, "put", rng.randint(1, 3), depth())]),
            ("middle", [(head, "head", rng.randint(1, 2), depth()), (tail, "tail", 2, depth())]),
            ("sink", [(join, "join_inner", 2, depth() + 1)]),
        ],
        fifos(("lane", lanes), ("direct", 1), ("late", 1), bits=rng.choice((16, 32, 300))),
        arrays,
    )


def model(pair, skew=0, **options):
    """The model of a call of a design."""
    return CallModel(staged(*pair, skew), **options)
