"""Which channel of a graph carries which connection of its network, and how many rows at a time."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from cnn2csdf.network import Layer, Network, Shape
from csdf.errors import ExecutionError, counted
from csdf.model.graph import Channel, Graph

Rows = tuple[int, ...]  # one number a phase


@dataclass(frozen=True, slots=True, kw_only=True)
class RowPort:
    """The end of a channel at one actor: how many rows each phase moves there."""

    channel: Channel
    rows: Rows  # written by a producer, consumed by a consumer
    released: Rows = ()  # by a consumer


@dataclass(frozen=True, slots=True, kw_only=True)
class WiredLayer:
    """A layer with its channels.

    inputs: in the order of the layer's inputs. loops: channels from the actor to itself, which
    carry no elements. rows: output rows of each phase, by the production rates; by the consumption
    rates for an output layer, and none for any other layer that nothing reads.
    """

    layer: Layer
    inputs: tuple[RowPort, ...]
    outputs: tuple[RowPort, ...]
    loops: tuple[Channel, ...]
    rows: Rows


def wired_layers(network: Network, graph: Graph) -> tuple[WiredLayer, ...]:
    """Return the layers with their channels. Raises ExecutionError where the two do not match.

    They match if layers and actors have the same names, there is one channel for each connection,
    and every rate is whole rows of the tensor. Several channels between the same two layers belong
    to the inputs in their order.
    """
    layers = {layer.name for layer in network.layers}
    phases = {actor.name: actor.phases for actor in graph.actors}
    for name in sorted(layers ^ phases.keys()):
        kind, counterpart = ("layer", "actor") if name in layers else ("actor", "layer")
        raise ExecutionError(f"{kind} {name!r} has no {counterpart} of its name")
    between: dict[tuple[str, str], list[Channel]] = defaultdict(list)
    for channel in graph.channels:
        between[channel.producer, channel.consumer].append(channel)
    wanted = Counter(
        (connection.producer, connection.consumer) for connection in network.connections
    )
    channels_found = Counter(
        (channel.producer, channel.consumer)
        for channel in graph.channels
        if not channel.is_self_loop
    )
    for ends in wanted | channels_found:
        if wanted[ends] != channels_found[ends]:
            raise ExecutionError(
                f"{counted(channels_found[ends], 'channel')} from {ends[0]!r} to {ends[1]!r}, "
                f"but {wanted[ends]} connections"
            )
    outputs: dict[str, list[RowPort]] = {name: [] for name in layers}
    for channel in graph.channels:
        if not channel.is_self_loop:
            shape = network.layer(channel.producer).shape
            rows = _whole_rows(channel, channel.production, shape)
            outputs[channel.producer].append(RowPort(channel=channel, rows=rows))
    wired = []
    for layer in network.layers:
        inputs = tuple(_input_ports(network, between, layer))
        written = outputs[layer.name] or inputs[: layer.is_output]
        for port in outputs[layer.name]:
            if port.rows != written[0].rows:
                raise ExecutionError(
                    f"layer {layer.name!r} writes {written[0].rows} rows to channel "
                    f"{written[0].channel.name!r}, but {port.rows} to {port.channel.name!r}"
                )
        rows = written[0].rows if written else (0,) * phases[layer.name]
        if layer.is_output:  # what is written may have other rows than what comes
            height = network.layer(layer.inputs[0]).shape.rows
            rows = tuple(count * layer.shape.rows // height for count in rows)
        wired_layer = WiredLayer(
            layer=layer,
            inputs=inputs,
            outputs=tuple(outputs[layer.name]),
            loops=tuple(between[layer.name, layer.name]),
            rows=rows,
        )
        wired.append(wired_layer)
    return tuple(wired)


def _input_ports(
    network: Network, between: Mapping[tuple[str, str], list[Channel]], layer: Layer
) -> Iterable[RowPort]:
    seen: Counter[str] = Counter()
    for source in layer.inputs:
        channel = between[source, layer.name][seen[source]]
        seen[source] += 1
        shape = network.layer(source).shape
        if channel.initial_tokens:
            raise ExecutionError(
                f"channel {channel.name!r} has {channel.initial_tokens} initial tokens; "
                "a run starts with empty buffers"
            )
        yield RowPort(
            channel=channel,
            rows=_whole_rows(channel, channel.consumption, shape),
            released=_whole_rows(channel, channel.release_rates, shape),
        )


def _whole_rows(channel: Channel, rates: Iterable[int], shape: Shape) -> Rows:
    rows = []
    for phase, tokens in enumerate(rates):
        count, rest = divmod(tokens, shape.row_elements)
        if rest:
            raise ExecutionError(
                f"channel {channel.name!r}, phase {phase}: a rate of {tokens} tokens, "
                f"but a row of {shape} has {shape.row_elements} elements"
            )
        rows.append(count)
    return tuple(rows)
