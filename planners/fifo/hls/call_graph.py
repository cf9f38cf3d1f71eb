"""A design as a CSDF graph: an iteration is one call of the top function.

A stage with accesses is a firing of one cycle; the stages between two accesses are a firing without
tokens. A FIFO that is a memory has an actor of one cycle for its latency. An array between two
processes is a channel of capacity two, the two buffers of a PIPO. Iterations overlap like calls of the
hardware that start as soon as its processes allow.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import add

from csdf.errors import InvalidGraph
from csdf.model.graph import Actor, Channel, Graph
from planners.fifo.hls.call import CallModel, is_memory
from planners.fifo.hls.pipelines import Event, Repeat, StagedFifo, Track, stages_of
from planners.kernels.stage_times import NEED, READ, RELEASE, WRITE

# Phases of all processes above which the graph is rejected: rates are written phase by phase.
MOST_PHASES = 200_000
PIPO_BUFFERS = 2

Rates = dict[tuple[int, int], list[int]]  # by FIFO and kind: tokens of each phase


def call_graph(model: CallModel, depths: Sequence[int]) -> Graph:
    """Return the graph of a design with FIFOs of these depths. Raises InvalidGraph if too large."""
    design = model.design
    if 2 * model.events > MOST_PHASES:
        raise InvalidGraph(
            f"{design.name}: {model.events} stages with accesses in a call; a CSDF graph with a "
            f"phase for each is written up to {MOST_PHASES // 2}"
        )
    if len({process.name for process in design.processes}) < len(design.processes):
        raise InvalidGraph(f"{design.name}: two processes have one name, so they cannot be actors")
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
    processes = list(actors)
    for number, fifo in enumerate(design.fifos):
        production = rates[fifo.writer].get((number, WRITE))
        zeros = [0] * processes[fifo.reader].phases
        read, needed, freed = (
            rates[fifo.reader].get((number, kind), zeros) for kind in (READ, NEED, RELEASE)
        )
        consumption = tuple(map(add, read, needed))
        if production is None or not sum(consumption):
            continue
        fifo_actors, fifo_channels = _fifo_parts(
            fifo, depths[model.group_of[number]], processes[fifo.writer].name,
            processes[fifo.reader].name, tuple(production), consumption, tuple(map(add, read, freed)),
        )  # fmt: skip
        actors += fifo_actors
        channels += fifo_channels
    for number, process in enumerate(design.processes):
        channels += [
            _array_channel(processes[before], processes[number]) for before in process.after
        ]
    return Graph(name=design.name, actors=tuple(actors), channels=tuple(channels))


def _fifo_parts(
    fifo: StagedFifo,
    depth: int,
    writer: str,
    reader: str,
    production: tuple[int, ...],
    consumption: tuple[int, ...],
    release: tuple[int, ...],
) -> tuple[list[Actor], list[Channel]]:
    """Return a FIFO as channels of words and of space, with an actor for the latency of a memory."""
    actors, channels = [], []
    source, words = writer, production
    size = -(-fifo.bits // 8)
    # The latency of a memory is an actor in the data path; space is freed without it.
    if is_memory(depth, fifo.bits, fifo.kind):
        source, words = f"{fifo.name}: memory", (1,)
        actors.append(Actor(name=source, durations=(1,)))
        channels.append(
            Channel(
                name=f"{fifo.name}: into memory", producer=writer, consumer=source,
                production=production, consumption=(1,), token_size=size,
            )
        )  # fmt: skip
    channels += [
        Channel(
            name=fifo.name, producer=source, consumer=reader, production=words,
            consumption=consumption, token_size=size,
        ),
        Channel(
            name=f"{fifo.name}: space", producer=reader, consumer=writer, production=release,
            consumption=production, initial_tokens=depth,
        ),
    ]  # fmt: skip
    return actors, channels


def _array_channel(producer: Actor, consumer: Actor) -> Channel:
    """Return the channel of an array: written as a whole, read as a whole, with two buffers."""
    rest = (0,) * (consumer.phases - 1)
    return Channel(
        name=f"array of {producer.name} for {consumer.name}", producer=producer.name,
        consumer=consumer.name, production=(*[0] * (producer.phases - 1), 1),
        consumption=(1, *rest), capacity=PIPO_BUFFERS, release=(*rest, 1) if rest else None,
    )  # fmt: skip


def _phases(tracks: Sequence[Track], last: int) -> tuple[list[int], Rates]:
    """Return the durations of the phases of a process, and the tokens of each phase by FIFO."""
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
        elif isinstance(item, Repeat):
            length = stages_of(item.items)
            for _ in range(item.times):
                yield from _events(item.items, stage)
                stage += length
        else:
            stage += item
