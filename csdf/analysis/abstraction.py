"""Abstractions with a proved bound of the period: fewer phases (slower or faster), merged actors.

Phases of an actor that follow one another in its cycle become one phase, a block. Two graphs can be
made from the same blocks.

- The **slower** graph takes all tokens and all space of a block at its start and gives them at its end.
  Whatever it can do, the given graph can do with the same starts of blocks: each phase of the block
  finds its tokens, and ends no later than the block. So the period of the slower graph is at least the
  period of the given graph, its latest tokens are never earlier, and capacities in which it runs are
  capacities in which the given graph runs at least as fast. It may deadlock where the given graph does
  not, because tokens that went to and fro within a block now have to be there before it.
- The **faster** graph may start a block with the tokens of its first phase alone, and shows its tokens
  as soon as the first phase may have ended: each channel has as many tokens more as a block lacks
  then. It is never behind the given graph, so that its period is never above it. Where the faster
  graph deadlocks, the given one does. In a search for capacities, each channel counts this many tokens
  more than it needs.

How long a block lasts: where the phases of an actor follow one another, the sum of their durations.
Where they may overlap, the longest of them in the slower graph. In the faster one each channel that
gets tokens from the block, or space, has a longest duration among the phases that give it some; the
block lasts as long as the least of these.

Why the faster graph is never behind: let each of its blocks start when the first phase of the block
starts in the given graph. A block then asks for no token that the given graph did not ask for until
then, because the channel has the tokens of the other phases in addition. Let a firing at time t ask for
the n-th token of a channel, and let B be the last block that has to end for it in the faster graph. The
channel has as many tokens more as B makes before its last phase. So the given graph asks for a token of
that last phase or of a later one. Tokens never overtake: all phases of B, and of blocks before it, that
give to the channel have ended by t. None of them started before its block, and the block lasts no
longer than
the longest of them: it has ended as well. A phase that gives nothing to the channel may go on after t,
so that its duration does not count. (Where phases follow one another, the last phase of B has ended
before a later phase starts.) These starts are therefore possible in the faster graph, and its
self-timed execution is never after them. Space is a channel in the opposite direction. Self-loops are
unbounded in all of this.

Sources: Geilen, Tripakis, Wiggers, The earlier the better: a theory of timed actor interfaces, HSCC
2011 (refinement: tokens no later, demands no earlier); Geilen, Reduction techniques for synchronous
dataflow graphs, DAC 2009, sections 4 and 5; Parks, Pino, Lee, A comparison of synchronous and
cyclo-static dataflow, Asilomar 1995; de Groote et al., Single-rate approximations of cyclo-static
synchronous dataflow graphs, SCOPES 2014, for bounds on both sides by tokens.

Several actors become one that does their firings in sequence. The firings are ordered by their
starts in the self-timed execution, so that it can be carried out by a graph that is live: merging
actors makes no deadlock. One firing of the merged actor is a firing of one of them; it takes the tokens
of that firing, lasts as long, and gives its tokens. Each schedule of the new graph is a schedule of the
given one in which these actors take turns, so that its period is never below the period of
the given graph: it is the period with these actors on one processor in this order. Channels between
the merged actors are gone, for the order has their tokens ready; their storage is not counted any
more.

Sources: Sriram, Bhattacharyya, Embedded Multiprocessors, 2nd ed. 2009, chapter 5 (static orders);
Geilen, Reduction techniques for synchronous dataflow graphs, DAC 2009, section 4 (merging actors is
conservative).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from math import gcd

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
BEHIND_FIRST, BEFORE_LAST = slice(1, None), slice(None, -1)  # phases of a block


@dataclass(frozen=True, slots=True, kw_only=True)
class FasterGraph:
    """A graph that is never slower than the given graph.

    extra: of each channel between two actors, how many tokens its capacity here is larger than the
    one that it stands for; the given graph needs at least that many less.
    """

    graph: Graph
    extra: dict[str, int]


@public
def slower_graph(graph: Graph, phases: Positive | Mapping[str, Positive] = 1) -> Graph:
    """Return the graph with at most this many phases for each actor, or for the named actors.

    Its period is never below the period of the given graph, and it never needs less storage; it may
    deadlock where the given graph does not. Self-loops that would hold up a block are replaced by one
    that lets one block at a time go on, called "<actor> (limit)". Raises InvalidGraph for an unknown
    actor or a number below one.
    """
    blocks = _blocks(graph, phases)
    loops: dict[str, list[Channel]] = defaultdict(list)
    for channel in graph.channels:
        if channel.is_self_loop:
            loops[channel.producer].append(channel)
    alone = [  # whose blocks, one after the other, would not find the tokens of its self-loops
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
            # What a block may lack at its start, and what it may give before its end. Space flows
            # from the consumer to the producer.
            tokens = _most_moved(channel.consumption, takers, BEHIND_FIRST)
            tokens += _most_moved(channel.production, makers, BEFORE_LAST)
            space = _most_moved(channel.production, makers, BEHIND_FIRST)
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
    """The blocks of each actor that has more phases than it may have."""
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
    """Whether phases, or blocks, that follow one another always find the tokens of the self-loop."""
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
    """The actor whose blocks last as long as their phases together, or as the longest of them."""
    if blocks is None:
        return actor
    together = sum if sums else max

    def merged(durations: Sequence[int]) -> tuple[int, ...]:
        return tuple(together([durations[phase] for phase in block]) for block in blocks)

    processors = tuple(
        replace(processor, durations=merged(processor.durations)) for processor in actor.processors
    )
    return replace(actor, durations=merged(actor.durations), processors=processors)


def _merged_channel(channel: Channel, blocks: Mapping[str, Sequence[Block]]) -> Channel:
    """The channel that moves in a block what its phases move; one firing's self-loop stays one."""
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
    """How long each block of overlapping phases lasts at most when its last tokens are asked for.

    By channel the longest of the phases that give something; the least of these over all channels.
    """
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
    """The most tokens that a part of a block moves."""
    return max((sum(rates[phase] for phase in block[part]) for block in blocks or ()), default=0)


MOST_PHASES = 100_000  # of a merged actor


@public
def merge_actors(
    graph: Graph, names: Sequence[str], *, name: str | None = None, budget: Budget = None
) -> Graph:
    """Return the graph with the named actors as one that does their firings in sequence.

    name: of the new actor; by default the names with `+` between them. Its period is never below the
    period of the given graph, and it is live where the given graph is. budget: a stop, or seconds.
    Raises InvalidGraph for an unknown actor, one given twice, or actors that no channels connect;
    Deadlocked; CsdfError for a graph with too many firings per iteration.
    """
    chosen = _chosen(graph, names)
    order = _shortest(_order(graph, chosen, budget))
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
    """The names as keys, checked."""
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
    strangers = set(chosen) - reached
    if strangers:
        raise InvalidGraph(
            f"actors {names[0]!r} and {min(strangers)!r}: no channels connect them, "
            "so that nothing says how often one fires for the other"
        )
    return chosen


def _order(graph: Graph, chosen: Mapping[str, None], budget: Budget) -> list[tuple[str, int]]:
    """Actor and phase of each firing of the chosen actors in one iteration, as they may follow."""
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
    in_turn = _in_turn(bound_channels(graph), run.firings)
    return [(firing.actor, firing.phase) for firing in in_turn if firing.actor in chosen]


def _in_turn(graph: Graph, firings: Sequence[Firing]) -> Iterator[Firing]:
    """Yield the firings by their starts; of firings that start together, the waiting ones last."""
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
                raise AssertionError("firings that start together wait for one another")
            waiting = still


def _shortest(order: Sequence[tuple[str, int]]) -> Sequence[tuple[str, int]]:
    """The shortest part of the order that, repeated, is the order."""
    rounds = gcd(*(order.count(firing) for firing in set(order)))
    for times in range(rounds, 1, -1):
        if rounds % times == 0:
            part = order[: len(order) // times]
            if list(part) * times == list(order):
                return part
    return order


def _moved(
    channel: Channel, order: Sequence[tuple[str, int]], chosen: Mapping[str, None], merged: str
) -> Channel:
    """The channel at the merged actor, which moves in each phase what that firing moved."""

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
