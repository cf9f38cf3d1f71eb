"""Conversion of a network to a CSDF graph, with rates by the row rule of `cnn2csdf.granularity`.

`lower` makes an actor for each layer, a phase for each part of its output, and a channel for each
input, whose tokens are elements. A network that keeps a state becomes a graph of whole frames, in which
each actor fires once a frame (`frame_graph`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod

from cnn2csdf.geometry import Overlap
from cnn2csdf.granularity import (
    ROWS,
    Granularity,
    ReadingRates,
    parts,
    reading_rates,
    require_few_parts,
    written_rows,
)
from cnn2csdf.network import Connection, Layer, Network, Shape
from cnn2csdf.rings import rings_of
from csdf.arguments import Positive, public
from csdf.errors import InvalidNetwork, counted
from csdf.model.graph import Actor, Channel, Graph
from csdf.names import free_name

Durations = Mapping[str, Sequence[int]]  # layer name: time units, one per phase


@public
def lower(
    network: Network,
    granularity: Granularity = ROWS,
    *,
    durations: Durations | None = None,
    overlap: Overlap = Overlap.WINDOW,
    element_bytes: Positive | None = None,
) -> Graph:
    """Return the graph of a network that runs row by row.

    A self-loop with one token serialises the firings of a layer. durations: by default every phase
    takes one time unit. overlap: the channel that stores the rows that neighbouring windows share.
    element_bytes: of all tensors; by default each has elements of its own type. A network that keeps a
    state is lowered by frame_graph, whatever the granularity and the overlap.

    Raises InvalidNetwork where durations do not fit the phases, and for too many parts.
    """
    if network.keeps_state:
        return frame_graph(network, durations=durations, element_bytes=element_bytes)
    granularity.check_names(network)
    require_few_parts(network, granularity)
    names = channel_names(network)
    channels: list[Channel] = []
    for layer in network.layers:
        unit_rates = (1,) * len(_parts(network, layer, granularity))
        channels.append(
            Channel(
                name=f"{layer.name} state",
                producer=layer.name,
                consumer=layer.name,
                production=unit_rates,
                consumption=unit_rates,
                initial_tokens=1,
            )
        )
        channels += _reading_channels(network, layer, names, granularity, overlap, element_bytes)
    return Graph(
        name=network.name,
        actors=tuple(_actor(network, layer, granularity, durations) for layer in network.layers),
        channels=tuple(_distinct(channels, names.values())),
    )


def frame_graph(
    network: Network, *, durations: Durations | None = None, element_bytes: int | None = None
) -> Graph:
    """Return the graph of a network that keeps a state: the state of a frame is initial tokens.

    One actor a layer, which fires once a frame. State is in three kinds of channels with initial
    tokens: self-loops of the layers that read the window of a ring, self-loops of layers with a state
    of their own, and for any other variable a channel from the layer that writes it back to the layer
    that reads it. durations: of the phases of each layer, which are added up; by default a time unit a
    layer.
    """
    rings = rings_of(network)
    without_actor = {
        name for ring in rings.values() for name in (ring.previous, ring.window, ring.following)
    }
    layers = [layer for layer in network.layers if layer.name not in without_actor]
    channels: list[Channel] = []
    taken: set[str] = set()

    def add(
        name: str, ends: tuple[str, str], tokens: int, *, token_size: int, is_state: bool
    ) -> None:
        """Add a channel from a producer to a consumer. is_state: whether its tokens are initial."""
        taken.add(free := free_name(name, taken))
        channels.append(
            Channel(
                name=free,
                producer=ends[0],
                consumer=ends[1],
                production=(tokens,),
                consumption=(tokens,),
                initial_tokens=tokens if is_state else 0,
                token_size=token_size,
            )
        )

    for layer in layers:
        loop = layer.name, layer.name
        add(f"{layer.name} state", loop, 1, token_size=1, is_state=True)
        for role, kept in layer.operator.kept(network.input_shapes(layer)).items():
            size = kept.element.bytes
            add(f"{layer.name} {role}", loop, prod(kept.dims), token_size=size, is_state=True)
        for source in layer.inputs:
            ring = rings.get(source)
            producer = network.layer(source if ring is None else ring.new)
            size = element_bytes or producer.element_bytes
            name, ends = f"{producer.name} to {layer.name}", (producer.name, layer.name)
            add(name, ends, producer.shape.elements, token_size=size, is_state=False)
            if ring is not None:
                count = network.layer(ring.previous).shape.elements
                add(f"{name} kept", loop, count, token_size=size, is_state=True)
    for previous, following in network.variables:
        if previous.name not in without_actor:
            count, size = previous.shape.elements, element_bytes or previous.element_bytes
            ends = following.name, previous.name
            add(f"{previous.name} kept", ends, count, token_size=size, is_state=True)
    actors = tuple(
        Actor(
            name=layer.name,
            durations=(1 if durations is None else sum(durations[layer.name]),),
        )
        for layer in layers
    )
    return Graph(name=network.name, actors=actors, channels=tuple(channels))


def channel_names(network: Network) -> dict[Connection, str]:
    """Return the name of the channel of each connection; a number where two would be the same."""
    names: dict[Connection, str] = {}
    taken: set[str] = set()
    for connection in network.connections:
        wanted = f"{connection.producer} to {connection.consumer}"
        names[connection] = free_name(wanted, taken)
        taken.add(names[connection])
    return names


def _parts(network: Network, layer: Layer, granularity: Granularity) -> tuple[int, ...]:
    return parts(layer, network.input_shapes(layer), granularity)


def _actor(
    network: Network, layer: Layer, granularity: Granularity, durations: Durations | None
) -> Actor:
    phases = len(_parts(network, layer, granularity))
    if durations is None:
        return Actor(name=layer.name, durations=(1,) * phases)
    if layer.name not in durations:
        raise InvalidNetwork(f"layer {layer.name!r} has no durations")
    times = tuple(durations[layer.name])
    if len(times) != phases:
        raise InvalidNetwork(
            f"layer {layer.name!r}: {counted(len(times), 'duration')} for {counted(phases, 'phase')}"
        )
    return Actor(name=layer.name, durations=times)


def _reading_channels(
    network: Network,
    layer: Layer,
    names: Mapping[Connection, str],
    granularity: Granularity,
    overlap: Overlap,
    element_bytes: int | None,
) -> Iterator[Channel]:
    inputs = network.input_shapes(layer)
    for index, source in enumerate(layer.inputs):
        producer = network.layer(source)
        rates = reading_rates(layer, index, inputs, granularity)
        written = written_rows(producer, network.input_shapes(producer), granularity)
        shape = producer.shape
        token_size = element_bytes or producer.element_bytes
        name = names[Connection(producer=source, consumer=layer.name, index=index)]
        is_window = overlap is Overlap.WINDOW and rates.released != rates.consumed
        yield Channel(
            name=name,
            producer=source,
            consumer=layer.name,
            production=_elements(written, shape),
            consumption=_elements(rates.consumed, shape),
            release=_elements(rates.released, shape) if is_window else None,
            token_size=token_size,
        )
        if overlap is Overlap.SELF_LOOP and any(rates.kept):
            yield _overlap_channel(name, layer, rates, shape, token_size)


def _overlap_channel(
    channel: str, layer: Layer, rates: ReadingRates, shape: Shape, token_size: int
) -> Channel:
    """The rows a phase keeps are written back, for the next phase to take."""
    return Channel(
        name=f"{channel} overlap",
        producer=layer.name,
        consumer=layer.name,
        production=_elements(rates.kept, shape),
        consumption=_elements((0, *rates.kept[:-1]), shape),
        token_size=token_size,
    )


def _elements(rows: Sequence[int], shape: Shape) -> tuple[int, ...]:
    return tuple(count * shape.row_elements for count in rows)


def _distinct(channels: Sequence[Channel], kept: Collection[str]) -> Iterator[Channel]:
    """The channels; a channel that is not kept gets a number if its name is taken."""
    taken = set(kept)
    for channel in channels:
        name = free_name(channel.name, taken) if channel.is_self_loop else channel.name
        taken.add(name)
        yield channel if name == channel.name else replace(channel, name=name)
