"""Firings of an iteration of a dataflow graph as a graph of tensors: tokens are tensors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise

from csdf.analysis.consistency import repetition_vector
from csdf.arguments import public
from csdf.errors import CsdfError
from csdf.model.graph import Channel, Graph, space_channel
from csdf.names import free_name
from planners.order.problem import OrderProblem, Step

MOST_FIRINGS = 2000  # of an iteration; a search of 1,000 steps takes 12 s
MOST_TOKENS = 1_000_000


@public
def firing_graph(graph: Graph) -> OrderProblem:
    """Return the firings of one iteration as steps, actor by actor, and their tokens as tensors.

    An order of minimum peak is a schedule for one processor with the fewest bytes of live tokens in one
    memory. A firing holds its input tokens until its end, while the space of its output is claimed from
    its start. Tokens of one channel with the same producing, consuming and releasing firing are one
    tensor; a token without a size has 1 byte. Initial tokens are live from the start, and as many to
    the end. The firings of an actor keep their sequence; a channel with a capacity also keeps its
    producer waiting. Where the file lists actors in topological order, an order by file is a flat
    single appearance schedule, if there is one.

    Raises InconsistentGraph, InvalidGraph for a deadlock, CsdfError for more than 2,000 firings.
    """
    repetitions = repetition_vector(graph)
    firings = sum(repetitions.values())
    if firings > MOST_FIRINGS:
        raise CsdfError(
            f"graph {graph.name!r}: an iteration has {firings} firings; expected at most "
            f"{MOST_FIRINGS} to order"
        )
    sizes: dict[str, int] = {}
    reads: dict[str, list[str]] = {}
    writes: dict[str, list[str]] = {}
    retained = []
    for actor in graph.actors:
        names = [_firing(actor.name, number) for number in range(repetitions[actor.name])]
        reads |= {name: [] for name in names}
        writes |= {name: [] for name in names}
        for earlier, later in pairwise(names):  # the firings of an actor keep their sequence
            tensor = f"{earlier} before {later}"
            sizes[tensor] = 0
            writes[earlier].append(tensor)
            reads[later].append(tensor)
    for channel, size in _channels(graph):
        counts = _tokens(channel, repetitions)
        for number, ((producer, consumer, releasing), count) in enumerate(counts.items()):
            tensor = free_name(f"{channel.name} {number}", sizes)
            sizes[tensor] = count * size
            if producer is not None:
                writes[_firing(channel.producer, producer)].append(tensor)
            for firing in dict.fromkeys((consumer, releasing)):
                if firing is not None:
                    reads[_firing(channel.consumer, firing)].append(tensor)
            if consumer is None:
                retained.append(tensor)
    steps = (
        Step(name=name, reads=tuple(reads[name]), writes=tuple(writes[name])) for name in reads
    )
    return OrderProblem(name=graph.name, sizes=sizes, steps=tuple(steps), outputs=tuple(retained))


def _firing(actor: str, number: int) -> str:
    """The name of a firing, counted from 1."""
    return f"{actor} {number + 1}"


def _channels(graph: Graph) -> Iterator[tuple[Channel, int]]:
    """Yield the channels with the bytes of a token.

    A capacity is a second channel, from consumer to producer: its tokens are free space, of 0 bytes.
    """
    for channel in graph.channels:
        yield channel, 1 if channel.token_size is None else channel.token_size
        if channel.capacity is not None:
            yield space_channel(channel, channel.capacity, f"{channel.name} space"), 0


def _tokens(
    channel: Channel, repetitions: dict[str, int]
) -> Counter[tuple[int | None, int | None, int | None]]:
    """Return the number of tokens by producing, consuming and releasing firing of an iteration.

    None: an initial token, or a token that remains for the next iteration.
    """
    initial = channel.initial_tokens
    produced = _by_token(channel.production, repetitions[channel.producer])
    if len(produced) + initial > MOST_TOKENS:
        raise CsdfError(
            f"channel {channel.name!r}: {len(produced) + initial} tokens in an iteration; expected "
            f"at most {MOST_TOKENS}"
        )
    remaining: list[int | None] = [None] * initial
    consumed = [*_by_token(channel.consumption, repetitions[channel.consumer]), *remaining]
    released = [*_by_token(channel.release_rates, repetitions[channel.consumer]), *remaining]
    return Counter(zip([*remaining, *produced], consumed, released, strict=True))


def _by_token(rates: Sequence[int], firings: int) -> list[int]:
    """Return the firing of each token that rates of a cycle produce or consume, in sequence."""
    return [firing for firing in range(firings) for _ in range(rates[firing % len(rates)])]
