"""Kernel-wise partition: layers after a concatenation are computed for each input of it alone.

A depthwise convolution, a pooling or an elementwise function computes each channel from the same
channel of its input. After a concatenation of channels, such a layer is split into one layer for each
input of the concatenation, with the slices of its parameters, and the results are concatenated. No
arithmetic changes, no weight is stored twice, and no MAC is repeated. An input of the concatenation is
then freed before the next input is computed, and the results may be smaller than the inputs.

Source: identity graph rewriting of Ahn et al., Ordering chaos, MLSys 2020.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import accumulate

from cnn2csdf.network import Layer, Network
from planners.plan.plan import Span
from planners.rewrites.layer_copies import (
    CHANNELS,
    Copy,
    LayerCopies,
    Rewritten,
    side_by_side,
)


def input_spans(network: Network) -> tuple[Span, ...]:
    """Return the spans of layers that can be computed for each input of a concatenation.

    A span has all layers that compute each channel of the concatenation alone. Concatenations with a
    further reader are left out, because their inputs stay live; so are spans of elementwise layers,
    which can overwrite their input, and spans that share a parameter with another layer, because its
    slices would be stored besides.
    """
    spans: list[Span] = []
    for joined in filter(_joins_channels, network.layers):
        inside = _channelwise_readers(network, joined)
        is_freed = inside and set(network.consumers[joined.name]) <= set(inside)
        overwrites = all(network.layer(name).operator.is_elementwise for name in inside)
        if is_freed and not overwrites and not _shares_parameters(network, inside):
            span = Span(joined.name, inside[-1], layers=tuple(inside), tiles=0)
            rewritten = for_each_input(network, span)
            if rewritten is not None:
                spans.append(span)
                network = rewritten.network
    return tuple(spans)


def for_each_input(network: Network, span: Span) -> Rewritten[tuple[str, ...]] | None:
    """Return the network where the layers of a span are computed for each input of a concatenation.

    Its parts are the copies for each input. None where a layer of the span does not exist, or needs
    several channels of an input for a channel.
    """
    layers = {layer.name: layer for layer in network.layers}
    if span.source not in layers or not layers.keys() >= set(span.layers):
        return None
    joined, inside = layers[span.source], [layers[name] for name in span.layers]
    if not _joins_channels(joined) or len(set(span.layers)) < len(inside) or not inside:
        return None
    for number, layer in enumerate(inside):
        computed = {span.source, *span.layers[:number]}
        if not set(layer.inputs) <= computed or not _is_channelwise(network, layer):
            return None
    return _InputSpan(network, joined, inside).rewritten()


def layers_in_parts(network: Network, rewritten: Network) -> frozenset[str]:
    """Return the layers of a rewritten network that compute or join parts of layers of the network."""
    layers = {layer.name: layer for layer in network.layers}
    return frozenset(layer.name for layer in rewritten.layers if layer != layers.get(layer.name))


def _joins_channels(layer: Layer) -> bool:
    """Whether a layer concatenates feature maps along the channels."""
    return (
        layer.operator.joined_axis == CHANNELS
        and layer.shape.is_map
        and len(layer.inputs) > 1
        and not layer.epilogue
    )


def _channelwise_readers(network: Network, joined: Layer) -> list[str]:
    """The layers that compute each channel of a concatenation alone, in topological order."""
    names = {joined.name}
    for layer in network.layers:
        if layer.inputs and names >= set(layer.inputs) and _is_channelwise(network, layer):
            names.add(layer.name)
    return [layer.name for layer in network.layers if layer.name in names and layer != joined]


def _shares_parameters(network: Network, inside: Sequence[str]) -> bool:
    """Whether a layer outside the span has a parameter of a layer of the span."""
    names = {stored.name for name in inside for stored in network.layer(name).stored} - {None}
    outside = (layer for layer in network.layers if layer.name not in inside)
    return any(stored.name in names for layer in outside for stored in layer.stored)


def _is_channelwise(network: Network, layer: Layer) -> bool:
    """Whether a layer computes its channels, or groups of them, from channels of each input alone."""
    shapes = network.input_shapes(layer)
    if layer.is_end or not layer.shape.is_map or not all(shape.is_map for shape in shapes):
        return False
    if layer.quantization is not None and len(layer.quantization.scales) > 1:
        return False
    channels = {shape.channels for shape in shapes}
    steps = _steps_on(layer, 1, shapes[0].channels)
    return steps is not None and len(channels) == 1 and layer.shape.channels % min(channels) == 0


def _steps_on(layer: Layer, count: int, whole: int) -> Layer | None:
    """Return a layer on `count` of `whole` channels of its inputs; None if they depend on others."""
    operator = layer.operator.on_channels(count, whole)
    scale = layer.shape.channels // whole
    steps = [step.on_channels(count * scale, whole * scale) for step in layer.epilogue]
    epilogue = tuple(step for step in steps if step is not None)
    if operator is None or len(epilogue) < len(steps):
        return None
    return replace(layer, operator=operator, epilogue=epilogue)


class _InputSpan:
    """A concatenation and the layers after it that are computed for each of its inputs."""

    def __init__(self, network: Network, joined: Layer, inside: Sequence[Layer]) -> None:
        self._network, self._joined, self._inside = network, joined, inside
        self._names = {layer.name for layer in inside}
        self._gone = set(self._names)
        if set(network.consumers[joined.name]) <= self._names:
            self._gone.add(joined.name)
        self._sources = tuple(self._inputs_of(joined))
        self._added = LayerCopies(network)

    def _inputs_of(self, joined: Layer) -> Iterator[str]:
        """The inputs of a concatenation; of concatenations that only this one reads, their inputs."""
        for name in joined.inputs:
            source = self._network.layer(name)
            if (
                set(self._network.consumers[name]) <= self._gone
                and _joins_channels(source)
                and _has_type_of(source, joined)
            ):
                self._gone.add(name)
                yield from self._inputs_of(source)
            else:
                yield name

    def rewritten(self) -> Rewritten[tuple[str, ...]] | None:
        """Return the rewritten network; None where an input cannot be requantised alone."""
        layers = [self._network.layer(name) for name in self._sources]
        if not all(_is_requantised_alone(layer, self._joined) for layer in layers):
            return None
        channels = [layer.shape.channels for layer in layers]
        begins = [Fraction(end, sum(channels)) for end in accumulate(channels, initial=0)]
        names = {
            (self._joined.name, number): self._requantised(layer, begins[number])
            for number, layer in enumerate(layers)
        }
        parts: dict[str, list[Layer]] = {self._inside[0].name: list(self._added.made.values())}
        for layer in self._inside:
            copies = parts.get(layer.name, [])
            for number in range(len(layers)):
                inputs = tuple(names[name, number] for name in layer.inputs)
                name = names[layer.name, number] = self._copy(layer, inputs, begins[number])
                copies.append(self._added.made[name])
            readers = self._network.consumers[layer.name]
            if not readers or set(readers) - self._names:
                results = [names[layer.name, number] for number in range(len(layers))]
                copies.append(side_by_side(layer, results, CHANNELS))
            parts[layer.name] = copies
        network_layers: list[Layer] = []
        for layer in self._network.layers:
            network_layers += parts.get(layer.name, [layer] * (layer.name not in self._gone))
        return Rewritten(
            network=replace(self._network, layers=tuple(network_layers)),
            copies=self._added.copies,
            parts=tuple(
                tuple(names[layer.name, number] for layer in self._inside)
                for number in range(len(layers))
            ),
        )

    def _requantised(self, source: Layer, begin: Fraction) -> str:
        """The input of a concatenation, in the type of the concatenation; its name."""
        joined = self._joined
        if _has_type_of(source, joined):
            return source.name
        copy = replace(joined, inputs=(source.name,))
        place = int(begin * joined.shape.channels)
        return self._added.add(copy, f"{joined.name}, channels {place}", Copy(joined.name, begin))

    def _copy(self, layer: Layer, inputs: tuple[str, ...], begin: Fraction) -> str:
        """Add the copy of a layer that reads parts of its inputs. begin: of the part, as in Copy."""
        count = self._added.layer(inputs[0]).shape.channels
        part = _steps_on(layer, count, self._network.input_shapes(layer)[0].channels)
        assert part is not None
        part = replace(part, inputs=inputs)
        first = int(begin * layer.shape.channels)
        words = f"channels {first}"
        suffix = f"{words} to {first + self._added.shape_of(part).channels}"
        name = f"{layer.name}, {words}"
        return self._added.add_part(part, name, Copy(layer.name, begin), suffix)


def _has_type_of(layer: Layer, joined: Layer) -> bool:
    """Whether the elements of a concatenation are those of an input, without requantisation."""
    return (layer.element, layer.quantization) == (joined.element, joined.quantization)


def _is_requantised_alone(layer: Layer, joined: Layer) -> bool:
    """Whether a concatenation of an input alone gives the elements that the input has in it."""
    types, wanted = layer.quantization, joined.quantization
    if types is None or wanted is None:
        return _has_type_of(layer, joined)
    return (layer.element, types.arithmetic) == (joined.element, wanted.arithmetic)
