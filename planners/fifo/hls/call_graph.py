"""A design as a CSDF graph: an iteration is one call of the top function.

A stage with accesses is a firing of one cycle; the stages between two accesses are a firing without
tokens. A word of a memory passes an actor of one cycle more. Arrays that processes hand on are channels
of two tokens, the two buffers of a PIPO. Calls of the graph overlap as calls of the hardware do that is
started again as soon as its processes allow.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from csdf.errors import InvalidGraph
from csdf.model.graph import Actor, Channel, Graph
from planners.fifo.hls.call import CallModel, is_memory
from planners.fifo.hls.pipelines import Again, Event, Track
from planners.kernels.stage_times import NEED, READ, RELEASE, WRITE

MOST_PHASES = 200_000  # of all processes
PIPO_BUFFERS = 2

Rates = dict[tuple[int, int], list[int]]  # by FIFO and kind: tokens of each phase


def call_graph(model: CallModel, depths: Sequence[int]) -> Graph:
    """Return the graph of a design with FIFOs of these depths. Raises InvalidGraph if too large."""
    if 2 * model.events > MOST_PHASES:
        raise InvalidGraph(
            f"{model.design.name}: {model.events} stages with accesses in a call; a CSDF graph with a "
            f"phase for each is written up to {MOST_PHASES // 2}"
        )
    design = model.design
    actors, channels = [], []
    rates: list[Rates] = []
    for process in design.processes:
        durations, process_rates = _phases(process.tracks, process.stages)
        actors.append(Actor(name=process.name, durations=tuple(durations)))
        rates.append(process_rates)
        once = (1,) * len(durations)
        channels.append(
            Channel(
                name=f"{process.name}: one at a time", producer=process.name, consumer=process.name,
                production=once, consumption=once, initial_tokens=1,
            )
        )  # fmt: skip
    names = [process.name for process in design.processes]
    if len(set(names)) < len(names):
        raise InvalidGraph(f"{design.name}: two processes have one name, so they cannot be actors")
    phases = [actor.phases for actor in actors]
    for number, fifo in enumerate(design.fifos):
        put = rates[fifo.writer].get((number, WRITE))
        if put is None:
            continue
        depth = depths[model.group_of[number]]
        writer, reader = names[fifo.writer], names[fifo.reader]
        zeros = [0] * phases[fifo.reader]
        both = rates[fifo.reader].get((number, READ), zeros)
        needed = [
            rate + more
            for rate, more in zip(both, rates[fifo.reader].get((number, NEED), zeros), strict=True)
        ]
        freed = [
            rate + more
            for rate, more in zip(
                both, rates[fifo.reader].get((number, RELEASE), zeros), strict=True
            )
        ]
        if not sum(needed):
            continue
        source, production = writer, tuple(put)
        size = -(-fifo.bits // 8)
        # The latency of a memory is an actor in the data path; space is freed without it.
        if is_memory(depth, fifo.bits, fifo.kind):
            source, production = f"{fifo.name}: memory", (1,)
            actors.append(Actor(name=source, durations=(1,)))
            channels.append(
                Channel(
                    name=f"{fifo.name}: into memory", producer=writer, consumer=source,
                    production=tuple(put), consumption=(1,), token_size=size,
                )
            )  # fmt: skip
        channels.append(
            Channel(
                name=fifo.name, producer=source, consumer=reader, production=production,
                consumption=tuple(needed), token_size=size,
            )
        )  # fmt: skip
        channels.append(
            Channel(
                name=f"{fifo.name}: space", producer=reader, consumer=writer, production=tuple(freed),
                consumption=tuple(put), initial_tokens=depth,
            )
        )  # fmt: skip
    for number, process in enumerate(design.processes):
        for before in process.after:
            last = (*[0] * (phases[before] - 1), 1)
            first = (1, *[0] * (phases[number] - 1))
            channels.append(
                Channel(
                    name=f"array of {names[before]} for {process.name}", producer=names[before],
                    consumer=process.name, production=last, consumption=first, capacity=PIPO_BUFFERS,
                    release=(*[0] * (phases[number] - 1), 1) if phases[number] > 1 else None,
                )
            )  # fmt: skip
    return Graph(name=design.name, actors=tuple(actors), channels=tuple(channels))


def _phases(tracks: Sequence[Track], last: int) -> tuple[list[int], Rates]:
    """Durations of the phases of a process, and what each FIFO has of each."""
    accesses: dict[int, list[tuple[int, int]]] = {}
    for track in tracks:
        for stage, event in _events(track, 0):
            accesses.setdefault(stage, []).extend(event.accesses)
    durations: list[int] = []
    rates: Rates = {}
    next_stage = 0
    for stage in sorted(accesses):
        if stage > next_stage:
            durations.append(stage - next_stage)
        for access in accesses[stage]:
            row = rates.setdefault(access, [])
            row += [0] * (len(durations) + 1 - len(row))
            row[len(durations)] += 1
        durations.append(1)
        next_stage = stage + 1
    if last + 1 > next_stage:
        durations.append(last + 1 - next_stage)
    for row in rates.values():
        row += [0] * (len(durations) - len(row))
    return durations, rates


def _events(track: Track, begin: int) -> Iterator[tuple[int, Event]]:
    """Yield the events of a track with their stages."""
    stage = begin
    for item in track:
        if isinstance(item, Event):
            yield stage, item
        elif isinstance(item, Again):
            length = _length(item.items)
            for _ in range(item.times):
                yield from _events(item.items, stage)
                stage += length
        else:
            stage += item


def _length(items: Track) -> int:
    return sum(
        item
        if isinstance(item, int)
        else 0
        if isinstance(item, Event)
        else item.times * _length(item.items)
        for item in items
    )
