"""From a mapped graph to a program: what each processor carries out, and buffers that suffice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import groupby
from math import lcm
from typing import Any, NamedTuple

from csdf.analysis.consistency import repetition_vector
from csdf.analysis.mapping.validity import require_valid
from csdf.errors import CsdfError, GaveUp
from csdf.model.graph import Channel, Graph
from csdf.model.mapping import Core, InvalidMapping, Mapping, Platform
from csdf.stopping import Budget, Stop, stop_of
from planners.code.graph.storage import ALIGNMENT, MOST_BYTES, Ring, arena_bytes

MOST_FIRINGS = 2_000_000  # that are looked at
Turn = tuple[str, int]  # an actor, and how often it fires in a row


@dataclass(frozen=True, slots=True, kw_only=True)
class CoreOrder:
    """What a processor carries out: some turns once, others again and again.

    first: firings before the first block. firings: of a block, after which every channel holds what it
    held before, and all processors have done the same number of iterations.
    """

    name: str
    prefix: tuple[Turn, ...]
    periodic: tuple[Turn, ...]
    first: int
    firings: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MappedGraph:
    """A graph on several processors, with buffers under which the orders never stand still.

    iterations: of a block.
    """

    graph: Graph
    cores: tuple[CoreOrder, ...]
    rings: tuple[Ring, ...]
    iterations: int

    @property
    def arena_bytes(self) -> int:
        """Bytes of all buffers together; none shares its bytes, as processors run at the same time."""
        return arena_bytes(self.rings)

    def to_json(self) -> dict[str, Any]:
        """Return orders and buffers as a JSON value."""
        return {
            "graph": self.graph.name,
            "iterations": self.iterations,
            "processors": [
                {"name": core.name, "firings": core.firings, "turns": len(core.periodic)}
                for core in self.cores
            ],
            "arena_bytes": self.arena_bytes,
            "buffers": [
                {
                    "channel": ring.channel,
                    "capacity": ring.capacity,
                    "token_bytes": ring.token_bytes,
                    "offset": ring.offset,
                }
                for ring in self.rings
            ],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class OrdersBlock:
    """Why the orders of a mapping come to a stand: for each processor the firing that cannot start."""

    waiting: dict[str, str]

    def __str__(self) -> str:
        return "; ".join(f"{core} waits to fire {actor!r}" for core, actor in self.waiting.items())


def mapped_graph(
    graph: Graph, mapping: Mapping, *, token_bytes: int = 4, budget: Budget = None
) -> MappedGraph | OrdersBlock:
    """Return what the processors of a mapping carry out, with buffers; or why they come to a stand.

    Capacities of the graph, and buffers of the mapping, are kept; of a channel between processors
    its two buffers are one. A channel without a capacity gets what one order of all firings needs,
    so that the program never stands still. token_bytes: of tokens whose size the graph does not say.

    Raises InvalidMapping, and GaveUp where too many firings would have to be looked at.
    """
    _require_bound(graph, mapping)
    used = tuple(dict.fromkeys(mapping.binding[actor.name] for actor in graph.actors))
    cores = tuple(Core(name=name) for name in used)
    require_valid(graph, Platform(name="processors", cores=cores), mapping)
    blocks = _blocks(graph, mapping, used)
    run = _Run(graph, mapping, blocks, stop_of(budget))
    found = run.until_it_recurs()
    if isinstance(found, OrdersBlock):
        return found
    counts = repetition_vector(graph)
    turns = found.times * blocks[used[0]] // len(mapping.orders[used[0]].periodic)
    actor = mapping.orders[used[0]].periodic[0]
    return MappedGraph(
        graph=graph,
        cores=tuple(
            CoreOrder(
                name=core,
                prefix=_turns(mapping.orders[core].prefix),
                periodic=_turns(mapping.orders[core].periodic),
                first=found.first[core],
                firings=found.times * blocks[core],
            )
            for core in used
        ),
        rings=_rings(graph, {**run.most, **run.limits}, token_bytes),
        iterations=turns * mapping.orders[used[0]].periodic.count(actor) // counts[actor],
    )


def _require_bound(graph: Graph, mapping: Mapping) -> None:
    for actor in graph.actors:
        if actor.name not in mapping.binding:
            raise InvalidMapping(
                f"actor {actor.name!r} is bound to no processor; a program has one for each"
            )


def _blocks(graph: Graph, mapping: Mapping, cores: Sequence[str]) -> dict[str, int]:
    """Firings of each processor until all have done the same whole number of iterations."""
    repetitions = repetition_vector(graph)
    done = {}
    for core in cores:
        periodic = mapping.orders[core].periodic
        done[core] = Fraction(periodic.count(periodic[0]), repetitions[periodic[0]])
    iterations = lcm(*(one.numerator for one in done.values()))
    return {
        core: int(iterations / done[core]) * len(mapping.orders[core].periodic) for core in cores
    }


def _turns(actors: Sequence[str]) -> tuple[Turn, ...]:
    return tuple((name, len(list(same))) for name, same in groupby(actors))


class _Recurrence(NamedTuple):
    """Firings of each processor until a state that recurs, and after how many blocks it does."""

    first: dict[str, int]
    times: int


class _Run:
    """One order of all firings, and the most tokens of each channel in it.

    A firing claims the space of its output before it gives its input back. Of the processors that
    can go on the one that is furthest behind does. As each keeps its order, the choice does not
    decide whether they come to a stand.
    """

    def __init__(self, graph: Graph, mapping: Mapping, blocks: dict[str, int], stop: Stop) -> None:
        self._stop, self._blocks = stop, blocks
        self._orders = {core: mapping.orders[core] for core in blocks}
        self._place = dict.fromkeys(blocks, 0)
        self._held = {one.name: one.initial_tokens for one in graph.channels}
        self._free = dict(self._held)  # not consumed yet
        self.most = dict(self._held)
        self.limits = {
            one.name: limit
            for one in graph.channels
            if (limit := _capacity(one, mapping)) is not None
        }
        self._fired = dict.fromkeys((one.name for one in graph.actors), 0)
        self._phases = {one.name: one.phases for one in graph.actors}
        self._inputs: dict[str, list[Channel]] = {name: [] for name in self._fired}
        self._outputs: dict[str, list[Channel]] = {name: [] for name in self._fired}
        for channel in graph.channels:
            self._inputs[channel.consumer].append(channel)
            self._outputs[channel.producer].append(channel)

    def until_it_recurs(self) -> _Recurrence | OrdersBlock:
        """Fire until a state recurs, or nothing can go on."""
        seen: dict[tuple[int, ...], dict[str, int]] = {self._state(): dict(self._place)}
        leader = next(iter(self._blocks))
        for _ in range(MOST_FIRINGS):
            self._stop.look()
            able = [core for core in self._blocks if self._can_fire(self._next(core))]
            if not able:
                return OrdersBlock(waiting={core: self._next(core) for core in self._blocks})
            core = min(able, key=self._progress)
            self._fire(self._next(core))
            self._place[core] += 1
            if self._place[leader] % self._blocks[leader] or core != leader:
                continue
            first = seen.setdefault(self._state(), dict(self._place))
            if first != self._place:
                times = (self._place[leader] - first[leader]) // self._blocks[leader]
                return _Recurrence(first, times)
        raise GaveUp(f"no state of the orders recurs within {MOST_FIRINGS} firings")

    def _state(self) -> tuple[int, ...]:
        """Where processors stand in their lists, and how far they are ahead of the first one."""
        leader = next(iter(self._blocks))
        blocks = self._place[leader] // self._blocks[leader]
        begun = (min(self._place[core], len(self._orders[core].prefix)) for core in self._blocks)
        places = (self._place[core] - blocks * size for core, size in self._blocks.items())
        return (*begun, *places)

    def _next(self, core: str) -> str:
        return self._orders[core].actor(self._place[core])

    def _progress(self, core: str) -> Fraction:
        done = self._place[core] - len(self._orders[core].prefix)
        return Fraction(done, self._blocks[core])

    def _phase(self, actor: str) -> int:
        return self._fired[actor] % self._phases[actor]

    def _can_fire(self, actor: str) -> bool:
        phase = self._phase(actor)
        return all(
            self._free[one.name] >= one.consumption[phase] for one in self._inputs[actor]
        ) and all(
            self._held[one.name] + one.production[phase] <= self.limits[one.name]
            for one in self._outputs[actor]
            if one.name in self.limits
        )

    def _fire(self, actor: str) -> None:
        phase = self._phase(actor)
        for one in self._outputs[actor]:
            self._held[one.name] += one.production[phase]
            self.most[one.name] = max(self.most[one.name], self._held[one.name])
        for one in self._inputs[actor]:
            self._free[one.name] -= one.consumption[phase]
            self._held[one.name] -= one.release_rates[phase]
        for one in self._outputs[actor]:
            self._free[one.name] += one.production[phase]
        self._fired[actor] += 1


def _capacity(channel: Channel, mapping: Mapping) -> int | None:
    """The tokens that a channel has room for, where the graph or the mapping says so."""
    if channel.is_self_loop:
        return None
    known = [] if channel.capacity is None else [channel.capacity]
    buffer = mapping.buffers.get(channel.name)
    if buffer is not None:
        known += [] if buffer.memory is None else [buffer.memory]
        if buffer.source is not None and buffer.target is not None:
            known.append(buffer.source + buffer.target)
    return min(known, default=None)


def _rings(graph: Graph, capacities: dict[str, int], token_bytes: int) -> tuple[Ring, ...]:
    """Buffers one behind the other, each at a word."""
    found, offset = [], 0
    for channel in graph.channels:
        size = token_bytes if channel.token_size is None else channel.token_size
        ring = Ring(
            channel=channel.name, capacity=capacities[channel.name], token_bytes=size, offset=offset
        )
        found.append(ring)
        offset += -(-ring.size // ALIGNMENT) * ALIGNMENT
    if max(offset, *capacities.values(), 0) > MOST_BYTES:
        raise CsdfError(f"the buffers take {offset} bytes; at most {MOST_BYTES}")
    return tuple(found)
