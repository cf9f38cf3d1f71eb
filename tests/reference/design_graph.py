"""A FIFO design in given depths as a CSDF graph, whose throughput the engine computes.

Every series becomes an actor whose firings take no time and happen at its events, in order. Every
wait becomes an actor that a token passes in the wait's delay; so does the gap between events.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from csdf.model.graph import Actor, Channel, Graph
from planners.fifo.design import Design
from planners.fifo.timing.cluster import EventSequence, Numbers, Wait, WordPort, counting
from planners.kernels.event_times import NONE


def design_graph(design: Design, depths: Sequence[int]) -> Graph:
    """Return the graph of a design with FIFOs of these depths; an iteration is a frame."""
    actors: list[Actor] = []
    channels: list[Channel] = []
    series: list[tuple[str, EventSequence]] = []
    waits: list[tuple[str, Wait]] = []
    begins = []
    for layer in design.layers:
        begin = len(series)
        begins.append(begin)
        series += [(f"{layer.name}.{one.name}", one) for one in layer.cluster.sequences]
        waits += [
            (f"{layer.name}: wait {number}", _moved(one, begin))
            for number, one in enumerate(layer.cluster.waits)
        ]
    for fifo, depth in zip(design.fifos, depths, strict=True):
        written, read = design.ports(fifo)
        start, end = begins[fifo.producer] + written.sequence, begins[fifo.consumer] + read.sequence
        put, taken = series[start][1].events, series[end][1].events
        waits += [
            (fifo.name, _passing(end, taken, read, start, put, written, 0)),
            (f"{fifo.name} (space)", _passing(start, put, written, end, taken, read, depth)),
        ]
        if (lock := written.lock) is not None:
            stopped = begins[fifo.producer] + lock.sequence
            word = np.full(series[stopped][1].events, NONE, dtype=np.int64)
            word[lock.events] = lock.words - lock.held - depth
            space = _waiting(stopped, word, end, taken, read)
            waits.append((f"{fifo.name} (lock)", replace(space, delay=lock.delay)))
    for name, one in series:
        actors.append(Actor(name=name, durations=(0,) * one.events))
        _add_gap(name, one, actors, channels)
    for name, wait in waits:
        _add_wait(name, wait, series, actors, channels)
    return Graph(name=design.name, actors=tuple(actors), channels=tuple(channels))


def _moved(wait: Wait, begin: int) -> Wait:
    return Wait(
        waiter=begin + wait.waiter, source=begin + wait.source, events=wait.events,
        delay=wait.delay, delays=wait.delays,
    )  # fmt: skip


def _passing(
    waiter: int, events: int, own: WordPort, source: int, others: int, other: WordPort, depth: int
) -> Wait:
    """The wait of one end of a FIFO: for the same word, or for the word a depth before it."""
    word = np.full(events, NONE, dtype=np.int64)
    word[slice(None) if own.events is None else own.events] = counting(own.words) - depth
    return _waiting(waiter, word, source, others, other)


def _waiting(waiter: int, words: Numbers, source: int, others: int, other: WordPort) -> Wait:
    """The wait of each event for a word at the other port, NONE for no word."""
    frames, word = np.divmod(words, other.words)
    event = word if other.events is None else other.events[word]
    table = np.where(words == NONE, NONE, event + frames * others)
    return Wait(waiter=waiter, source=source, events=table)


def _add_gap(
    name: str, series: EventSequence, actors: list[Actor], channels: list[Channel]
) -> None:
    gaps = np.full(series.events, series.gap) if series.gaps is None else series.gaps
    ones = (1,) * series.events
    after = tuple(int(one) for one in np.roll(gaps, -1))
    actors.append(Actor(name=f"{name}: gap", durations=after))
    for start, end, tokens in ((name, f"{name}: gap", 0), (f"{name}: gap", name, 1)):
        channels.append(
            Channel(
                name=f"{start} to {end}", producer=start, consumer=end, production=ones,
                consumption=ones, initial_tokens=tokens,
            )
        )  # fmt: skip


def _add_wait(
    name: str,
    wait: Wait,
    series: Sequence[tuple[str, EventSequence]],
    actors: list[Actor],
    channels: list[Channel],
) -> None:
    """The tokens that a wait needs: up to each event all that earlier ones need, and its own."""
    source, waiter = series[wait.source], series[wait.waiter]
    events, others = waiter[1].events, source[1].events
    needed = _needed(wait.events, others)
    rates = np.diff(needed, prepend=needed[-1] - others)
    delays = np.full(events, wait.delay) if wait.delays is None else wait.delays
    actors.append(Actor(name=name, durations=tuple(int(one) for one in delays)))
    channels.append(
        Channel(
            name=f"{name}: asked", producer=source[0], consumer=name, production=(1,) * others,
            consumption=tuple(int(one) for one in rates),
            initial_tokens=int(others - needed[-1]),
        )
    )  # fmt: skip
    ones = (1,) * events
    channels.append(
        Channel(
            name=f"{name}: told",
            producer=name,
            consumer=waiter[0],
            production=ones,
            consumption=ones,
        )
    )


def _needed(events: Numbers, others: int) -> Numbers:
    """How many events of the source come first, at each event; those of the frame before included."""
    last = int(events[events != NONE].max()) - others
    return np.maximum(np.maximum.accumulate(np.where(events == NONE, last, events)), last) + 1
