"""Abstractions with a proved bound of the period: fewer phases (slower or faster), merged actors.

Consecutive phases of an actor become one phase, a block. Two graphs are derived from the same blocks:

- The **slower** graph consumes all tokens and claims all space of a block at its start, and produces
  and releases at its end. If its blocks can start at certain times, so can the blocks of the given
  graph: each phase has its tokens, and ends no later than the block. So the period of the slower graph
  is at least the period of the given graph, and capacities with which it is live make the given graph
  live and at least as fast. The slower graph may deadlock where the given graph does not: tokens that
  circulate within a block have to be present before it.
- In the **faster** graph a block needs only the tokens of its first phase, and its output is available
  when the first phase may have ended: each channel has as many extra tokens as a block moves in its
  other phases. Its period is at most the period of the given graph, and if it deadlocks, so does the
  given graph. In a search for capacities, each capacity includes the extra tokens.

The duration of a block is the sum of the durations of its phases if they cannot overlap. If they can,
it is the maximum in the slower graph. In the faster graph, take for each channel the maximum duration
of the phases that produce on it (or release space); the block lasts as long as the minimum of these.

Proof that the faster graph is never later. Let each of its blocks start with the first phase of the
block in the given graph. No block then needs a token earlier than the given graph does, because the
extra tokens replace the tokens of the other phases. Let a firing at time t need the n-th token of a
channel, and let B be the last block that has to end for it in the faster graph. The channel has as
many extra tokens as B produces before its last phase, so the given graph needs a token of that last
phase or of a later phase. Tokens do not overtake each other: by t all phases of B, and of earlier
blocks, that produce on the channel have ended. No phase starts before its block, and the block lasts
no longer than the longest of these phases, so it has ended by t. (A phase that does not produce on the
channel may end after t; its duration does not count. If phases cannot overlap, the last phase of B
ends before a later phase starts.) So these starts are possible in the faster graph, and its self-timed
execution is never later. Space is a channel in the opposite direction. Self-loops are unbounded
throughout.

Sources: Geilen, Tripakis, Wiggers, The earlier the better: a theory of timed actor interfaces, HSCC
2011 (refinement: tokens no later, demands no earlier); Geilen, Reduction techniques for synchronous
dataflow graphs, DAC 2009, sections 4 and 5; Parks, Pino, Lee, A comparison of synchronous and
cyclo-static dataflow, Asilomar 1995; de Groote et al., Single-rate approximations of cyclo-static
synchronous dataflow graphs, SCOPES 2014, for bounds on both sides by tokens.

**Merged** actors become one actor that executes their firings sequentially, in the order of their
starts in the self-timed execution. So merging preserves liveness. Each phase of the merged actor is a
firing of one of them, with its tokens and its duration. A schedule of the new graph is a schedule of
the given graph in which these actors exclude each other: its period is the period with these actors on
one processor in this order. Channels between merged actors are removed, and their storage does not
count.

Sources: Sriram, Bhattacharyya, Embedded Multiprocessors, 2nd ed. 2009, chapter 5 (static orders);
Geilen, DAC 2009, section 4 (merging actors is conservative).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from math import gcd
from typing import TypeVar

from csdf.analysis.bound_channels import bound_channels, is_single_firing_loop, limit_concurrency
from csdf.analysis.consistency import repetition_vector
from csdf.analysis.self_timed import self_timed_execution
from csdf.arguments import Positive, public
from csdf.errors import CsdfError, Deadlocked, InvalidGraph, counted
from csdf.model.graph import Actor, Channel, Graph
from csdf.model.indexed import indexed
from csdf.model.schedule import Firing
from csdf.model.untimed import UntimedRun
from csdf.names import free_name
from csdf.time_limit import Budget

Block = range  # phases of one actor that become one
Item = TypeVar("Item")
AFTER_FIRST, BEFORE_LAST = slice(1, None), slice(None, -1)  # phases of a block


@dataclass(frozen=True, slots=True, kw_only=True)
class FasterGraph:
    """A graph that is never slower than the given graph.

    extra: for each channel between two actors, its capacity here less its capacity in the given graph.
    """

    graph: Graph
    extra: dict[str, int]


@public
def slower_graph(graph: Graph, phases: Positive | Mapping[str, Positive] = 1) -> Graph:
    """Return the graph with at most this many phases for each actor, or for the named actors.

    Its period is never below the period of the given graph, and it never needs less storage; it may
    deadlock where the given graph does not. Self-loops that would block a block of phases are replaced
    by the self-loop "<actor> (limit)" without auto-concurrency. Raises InvalidGraph for an unknown
    actor or a number below one.
    """
    blocks = _blocks(graph, phases)
    loops: dict[str, list[Channel]] = defaultdict(list)
    for channel in graph.channels:
        if channel.is_self_loop:
            loops[channel.producer].append(channel)
    alone = [  # actors whose blocks, even sequentially, lack tokens of a self-loop
        name
        for name, parts in blocks.items()
        if not all(is_single_firing_loop(loop) or _never_lacks(loop, parts) for loop in loops[name])
    ]
    single = {
        name for name, self_loops in loops.items() if any(map(is_single_firing_loop, self_loops))
    }
    merged = replace(
        graph,
        name=f"{graph.name} (fewer phases, slower)",
        actors=tuple(
            _merged_actor(actor, blocks.get(actor.name), sums=actor.name in single | {*alone})
            for actor in graph.actors
        ),
        channels=tuple(
            _merged_channel(channel, blocks)
            for channel in graph.channels
            if not (channel.is_self_loop and channel.producer in alone and _never_lacks(channel))
        ),
        origin=None,
    )
    return limit_concurrency(merged, dict.fromkeys(alone, 1))


@public
def faster_graph(graph: Graph, phases: Positive | Mapping[str, Positive] = 1) -> FasterGraph:
    """Return a graph with at most this many phases for each actor that is never slower.

    Its period is never above the period of the given graph; where it deadlocks, the given graph does.
    Raises InvalidGraph for an unknown actor or a number below one.
    """
    blocks = _blocks(graph, phases)
    single = {c.producer for c in graph.channels if is_single_firing_loop(c)}
    actors = tuple(
        _merged_actor(actor, parts, sums=True)
        if (parts := blocks.get(actor.name)) is None or actor.name in single
        else replace(actor, durations=_early_durations(graph, actor, parts), processors=())
        for actor in graph.actors
    )
    extra: dict[str, int] = {}
    channels = []
    for channel in graph.channels:
        merged = _merged_channel(channel, blocks)
        if not is_single_firing_loop(channel):
            makers, takers = blocks.get(channel.producer), blocks.get(channel.consumer)
            # Extra tokens: consumed after the first phase of a block, or produced before its last
            # phase. Extra space likewise; space flows from the consumer to the producer.
            tokens = _most_moved(channel.consumption, takers, AFTER_FIRST)
            tokens += _most_moved(channel.production, makers, BEFORE_LAST)
            space = _most_moved(channel.production, makers, AFTER_FIRST)
            space += _most_moved(channel.release_rates, takers, BEFORE_LAST)
            more, capacity = tokens + space, channel.capacity
            merged = replace(
                merged,
                initial_tokens=channel.initial_tokens + tokens,
                capacity=None if capacity is None else capacity + more,
            )
            if not channel.is_self_loop:
                extra[channel.name] = more
        channels.append(merged)
    name = f"{graph.name} (fewer phases, faster)"
    merged_graph = replace(graph, name=name, actors=actors, channels=tuple(channels), origin=None)
    return FasterGraph(graph=merged_graph, extra=extra)


def _blocks(graph: Graph, phases: int | Mapping[str, int]) -> dict[str, list[Block]]:
    """Return the blocks of each actor with more phases than its maximum."""
    if isinstance(phases, int):
        phases = {actor.name: phases for actor in graph.actors}
    blocks = {}
    for name, maximum in phases.items():
        count = graph.actor(name).phases
        if maximum < count:
            ends = [count * number // maximum for number in range(maximum + 1)]
            blocks[name] = [range(begin, end) for begin, end in pairwise(ends)]
    return blocks


def _never_lacks(loop: Channel, blocks: Sequence[Block] | None = None) -> bool:
    """Whether sequential phases, or blocks, always have the tokens of the self-loop."""
    tokens = loop.initial_tokens
    rates = zip(_sums(loop.production, blocks), _sums(loop.consumption, blocks), strict=True)
    for produced, consumed in rates:
        if tokens < consumed:
            return False
        tokens += produced - consumed
    return True


def _sums(rates: Sequence[int], blocks: Sequence[Block] | None) -> tuple[int, ...]:
    if blocks is None:
        return tuple(rates)
    return tuple(sum(rates[phase] for phase in block) for block in blocks)


def _merged_actor(actor: Actor, blocks: Sequence[Block] | None, *, sums: bool) -> Actor:
    """Return the actor with its blocks as phases; they last the sum of their phases, or the maximum."""
    if blocks is None:
        return actor
    total = sum if sums else max

    def merged(durations: Sequence[int]) -> tuple[int, ...]:
        return tuple(total([durations[phase] for phase in block]) for block in blocks)

    processors = tuple(
        replace(processor, durations=merged(processor.durations)) for processor in actor.processors
    )
    return replace(actor, durations=merged(actor.durations), processors=processors)


def _merged_channel(channel: Channel, blocks: Mapping[str, Sequence[Block]]) -> Channel:
    """Return the channel with the rates of blocks; a self-loop of one token remains one."""
    makers, takers = blocks.get(channel.producer), blocks.get(channel.consumer)
    if is_single_firing_loop(channel):
        ones = (1,) * (len(channel.production) if makers is None else len(makers))
        return replace(channel, production=ones, consumption=ones, release=None)
    return replace(
        channel,
        production=_sums(channel.production, makers),
        consumption=_sums(channel.consumption, takers),
        release=None if channel.release is None else _sums(channel.release, takers),
    )


def _early_durations(graph: Graph, actor: Actor, blocks: Sequence[Block]) -> tuple[int, ...]:
    """Return the durations of blocks of overlapping phases in the faster graph; see the module."""
    outputs = [c.production for c in graph.channels if c.producer == actor.name]
    outputs += [
        c.release_rates
        for c in graph.channels
        if c.consumer == actor.name and not c.is_self_loop  # space
    ]
    return tuple(
        min(
            (
                max(actor.durations[phase] for phase in block if rates[phase])
                for rates in outputs
                if any(rates[phase] for phase in block)
            ),
            default=max(actor.durations[phase] for phase in block),
        )
        for block in blocks
    )


def _most_moved(rates: Sequence[int], blocks: Sequence[Block] | None, part: slice) -> int:
    """Return the maximum number of tokens that a part of a block moves."""
    return max((sum(rates[phase] for phase in block[part]) for block in blocks or ()), default=0)


MOST_PHASES = 100_000  # of a merged actor


@public
def merge_actors(
    graph: Graph, names: Sequence[str], *, name: str | None = None, budget: Budget = None
) -> Graph:
    """Return the graph in which one actor executes the firings of the named actors sequentially.

    name: of the new actor; by default the names joined by `+`. The period is never below the period of
    the given graph, and liveness is preserved. budget: a stop, or seconds. Raises InvalidGraph for an
    unknown actor, a repeated actor, or actors that no channels connect; Deadlocked; CsdfError for a
    graph with too many firings per iteration.
    """
    chosen = _chosen(graph, names)
    order = repeated_part(_order(graph, chosen, budget))
    unmerged_actors = [actor for actor in graph.actors if actor.name not in chosen]
    merged_name = "+".join(chosen) if name is None else name
    merged = free_name(merged_name, {actor.name for actor in unmerged_actors})
    durations = tuple(graph.actor(actor).durations[phase] for actor, phase in order)
    first = next(at for at, actor in enumerate(graph.actors) if actor.name in chosen)
    position = sum(actor.name not in chosen for actor in graph.actors[:first])
    unmerged_actors.insert(position, Actor(name=merged, durations=durations))
    sequential = replace(
        graph,
        name=f"{graph.name} (actors merged)",
        actors=tuple(unmerged_actors),
        channels=tuple(
            _moved(channel, order, chosen, merged)
            for channel in graph.channels
            if not (channel.producer in chosen and channel.consumer in chosen)
        ),
        origin=None,
    )
    return limit_concurrency(sequential, {merged: 1})


def _chosen(graph: Graph, names: Sequence[str]) -> dict[str, None]:
    """Return the names as keys. Raises InvalidGraph as `merge_actors` does."""
    chosen = dict.fromkeys(names)
    for name in chosen:
        graph.actor(name)
    if len(chosen) < len(names):
        raise InvalidGraph(f"actors to merge: {', '.join(names)}; one is named twice")
    if len(chosen) < 2:
        raise InvalidGraph(f"{counted(len(chosen), 'actor')} to merge; at least 2")
    neighbours: dict[str, set[str]] = defaultdict(set)
    for channel in graph.channels:
        neighbours[channel.producer].add(channel.consumer)
        neighbours[channel.consumer].add(channel.producer)
    reached, waiting = {names[0]}, [names[0]]
    while waiting:
        reached_now = neighbours[waiting.pop()] - reached
        reached |= reached_now
        waiting += reached_now
    unconnected = set(chosen) - reached
    if unconnected:
        raise InvalidGraph(
            f"actors {names[0]!r} and {min(unconnected)!r}: no channels connect them, "
            "so that nothing says how often one fires for the other"
        )
    return chosen


def _order(graph: Graph, chosen: Mapping[str, None], budget: Budget) -> tuple[tuple[str, int], ...]:
    """Return actor and phase of each firing of the chosen actors in one iteration, in order."""
    repetitions = repetition_vector(graph)
    count = sum(repetitions[name] for name in chosen)
    if count > MOST_PHASES:
        raise CsdfError(
            f"the merged actor would have {count} phases, its firings in one iteration; "
            f"at most {MOST_PHASES}"
        )
    run = self_timed_execution(graph, iterations=1, budget=budget)
    if run.deadlock is not None:
        raise Deadlocked(f"no order of firings: the graph deadlocks: {run.deadlock}")
    sequence = _sequence(bound_channels(graph), run.firings)
    return tuple((firing.actor, firing.phase) for firing in sequence if firing.actor in chosen)


def _sequence(graph: Graph, firings: Sequence[Firing]) -> Iterator[Firing]:
    """Yield the firings by their starts; of simultaneous firings, producers before consumers."""
    numbers = indexed(graph)
    number = {name: index for index, name in enumerate(numbers.actor_names)}
    run = UntimedRun(numbers, [len(firings)] * len(number))
    for _, together in groupby(firings, key=lambda firing: firing.start):
        waiting = sorted(together, key=lambda firing: firing.index)
        while waiting:
            still = []
            for firing in waiting:
                actor = number[firing.actor]
                if run.firings[actor] == firing.index and run.advance(actor):
                    yield firing
                else:
                    still.append(firing)
            if len(still) == len(waiting):
                raise AssertionError("simultaneous firings wait for each other")
            waiting = still


def repeated_part(sequence: tuple[Item, ...]) -> tuple[Item, ...]:
    """Return the shortest sequence whose repetition is this sequence."""
    most = gcd(*Counter(sequence).values())  # the repetitions divide the count of each item
    for times in range(most, 1, -1):
        part = sequence[: len(sequence) // times]
        if most % times == 0 and part * times == sequence:
            return part
    return sequence


def _moved(
    channel: Channel, order: Sequence[tuple[str, int]], chosen: Mapping[str, None], merged: str
) -> Channel:
    """Return the channel with the merged actor at its end, and a rate for each of its phases."""

    def rates(own: Sequence[int], end: str) -> tuple[int, ...]:
        return tuple(own[phase] if actor == end else 0 for actor, phase in order)

    if channel.producer in chosen:
        production = rates(channel.production, channel.producer)
        return replace(channel, producer=merged, production=production)
    if channel.consumer in chosen:
        return replace(
            channel,
            consumer=merged,
            consumption=rates(channel.consumption, channel.consumer),
            release=None if channel.release is None else rates(channel.release, channel.consumer),
        )
    return channel
