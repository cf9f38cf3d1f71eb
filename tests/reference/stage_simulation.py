"""A dataflow design of HLS, simulated cycle by cycle: slow, and without tracks, sets or recurrences.

The stages of a process are a list: what it reads and writes in each. In every cycle each process looks
at the FIFOs as they were before the cycle, and goes to its next stage if all of that can happen. A
word that is written enters the FIFO at once, and is seen one cycle later, or two in a memory; a word
that is read leaves its place to the cycle after.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from planners.fifo.hls.synthesis_report import ReportedLoop, SynthesisReport
from planners.fifo.hls.trace import Access, LoopExecution, RepeatedIterations, Trace

Stage = list[tuple[int, str]]  # FIFOs, and what happens: need, free, write


def unrolled(body):
    """Return a body without repeats: its iterations one by one."""
    found = []
    for part in body:
        if isinstance(part, RepeatedIterations):
            found += unrolled(part.pattern) * part.count
        else:
            found.append(part)
    return found


def accesses(iteration):
    """Return the accesses of an iteration, inner loops unrolled."""
    found = []
    for item in iteration:
        if isinstance(item, Access):
            found.append(item)
        else:
            for inner in unrolled(item.iterations):
                found += accesses(inner)
    return found


def nest(loop: LoopExecution, tag: str):
    """Return the labels of nested loops that a tag joins; empty if it is not of this nest."""
    if loop.label == tag:
        return [tag]
    if not tag.startswith(f"{loop.label}_"):
        return []
    inner = [
        item for one in unrolled(loop.iterations) for item in one if isinstance(item, LoopExecution)
    ]
    rest = nest(inner[0], tag[len(loop.label) + 1 :]) if inner else []
    return [loop.label, *rest] if rest else []


def pipelined_iterations(loop: LoopExecution, labels: Sequence[str]):
    """Return the iterations of the last of these nested loops, in order.

    Accesses of the loops around it belong to its next iteration, at the end to the last one before.
    """
    if loop.label == labels[-1]:
        return [accesses(one) for one in unrolled(loop.iterations)]
    rows = []
    for iteration in unrolled(loop.iterations):
        waiting, last = [], None
        for item in iteration:
            if isinstance(item, Access):
                (waiting if last is None else last).append(item)
                continue
            inner = pipelined_iterations(item, labels)
            inner[0][:0], waiting, last = waiting, [], inner[-1]
            rows += inner
    return rows


def stages_of(
    loop: LoopExecution, reported: ReportedLoop, groups: Sequence[str], skew: int
) -> list[Stage]:
    """Return what happens in each stage of a pipelined loop."""
    labels = nest(loop, reported.tag)
    rows = pipelined_iterations(loop, labels)
    last = reported.depth - 1
    stages: list[Stage] = [[] for _ in range((len(rows) - 1) * reported.interval + reported.depth)]
    read = {one.fifo for row in rows for one in row if not one.is_write}
    lanes = Counter(groups[one] for one in read)
    counts = [Counter(one.fifo for one in row if not one.is_write) for row in rows]
    for number, row in enumerate(rows):
        begin = number * reported.interval
        for fifo in dict.fromkeys(one.fifo for one in row if not one.is_write):
            is_always = len({one[fifo] for one in counts}) == 1
            most = max(one[fifo] for one in counts)
            first = min(max(0, last - most + 1), 1 if is_always or len(labels) == 1 else 2)
            later = min(skew, last - first) if lanes[groups[fifo]] > 1 else 0
            for turn in range(counts[number][fifo]):
                latest = max(0, last - most + 1 + turn)
                stages[begin + min(first + turn, latest)].append((fifo, "need"))
                stages[begin + min(first + turn + later, latest)].append((fifo, "free"))
        for fifo in dict.fromkeys(one.fifo for one in row if one.is_write):
            count = sum(a.is_write and a.fifo == fifo for a in row)
            for turn in range(count):
                stages[begin + max(0, last - count + 1 + turn)].append((fifo, "write"))
    return stages


def processes_of(trace: Trace, report: SynthesisReport, skew: int) -> list[list[Stage]]:
    """Return the stages of each process; a process is a call of a module of its name."""
    groups = [one.group for one in trace.fifos]
    found = []
    for process in trace.processes:
        stages: list[Stage] = []
        reported_loops = report.loops[process.name]
        for part in parts_of(process.body):
            if stages:
                stages.append([])  # the next loop begins 2 stages after the last one
            if isinstance(part, LoopExecution):
                reported = next(one for one in reported_loops if nest(part, one.tag))
                stages += stages_of(part, reported, groups, skew)
                continue
            # Accesses outside loops are a loop of one iteration.
            depth = 1 if reported_loops else report.latencies[process.name] + 1
            depth = max(depth, *Counter((one.fifo, one.is_write) for one in part).values())
            once = LoopExecution(
                label="", line=0, function="", number=0, trips=1, iterations=(tuple(part),)
            )
            reported = ReportedLoop(module="", tag="", interval=1, depth=depth, trips=1)
            stages += stages_of(once, reported, groups, skew)
        found.append(stages)
    return found


def parts_of(body):
    """Return the loops of a body, and lists of the accesses between them."""
    parts = []
    for item in body:
        if isinstance(item, Access) and parts and isinstance(parts[-1], list):
            parts[-1].append(item)
        else:
            parts.append([item] if isinstance(item, Access) else item)
    return parts


def simulated_cycles(
    trace: Trace,
    processes: Sequence[list[Stage]],
    depths: Sequence[int],
    levels: list[list[int]] | None = None,
) -> int | None:
    """Return the last cycle of the last process, None for a deadlock. depths: of each FIFO.

    levels: gets the words in each FIFO in each cycle, those that are read in it included.
    """
    after = [
        {
            w
            for array in trace.arrays
            if number in array.readers
            for w in array.writers
            if w != number
        }
        for number in range(len(processes))
    ]
    latency = [
        1 if depth <= 2 or depth * fifo.bits <= 1024 else 2
        for depth, fifo in zip(depths, trace.fifos, strict=True)
    ]
    words: list[list[int]] = [[] for _ in depths]  # when each was written
    taken = [0] * len(depths)
    freed = [0] * len(depths)
    here = [-1] * len(processes)  # the stage of each process
    ended: list[int | None] = [None] * len(processes)
    quiet = 0
    cycle = 0
    while any(one is None for one in ended):
        can_go = []
        for number, stages in enumerate(processes):
            if ended[number] is not None:
                continue
            if here[number] < 0 and any(
                (ended[one] is None or ended[one] >= cycle) for one in after[number]
            ):
                continue
            need = Counter(f for f, what in stages[here[number] + 1] if what == "need")
            write = Counter(f for f, what in stages[here[number] + 1] if what == "write")
            is_ready = all(
                len(words[f]) >= taken[f] + count
                and words[f][taken[f] + count - 1] + latency[f] <= cycle
                for f, count in need.items()
            ) and all(len(words[f]) - freed[f] + count <= depths[f] for f, count in write.items())
            if is_ready:
                can_go.append(number)
        before = [*freed]
        for number in can_go:  # all at once: none of them has seen what the others do now
            here[number] += 1
            for fifo, what in processes[number][here[number]]:
                if what == "need":
                    taken[fifo] += 1
                elif what == "free":
                    freed[fifo] += 1
                else:
                    words[fifo].append(cycle)
            if here[number] == len(processes[number]) - 1:
                ended[number] = cycle
        quiet = 0 if can_go else quiet + 1
        if quiet > 3:
            return None
        if levels is not None:
            levels.append([len(row) - count for row, count in zip(words, before, strict=True)])
        cycle += 1
    return max(one for one in ended if one is not None)
