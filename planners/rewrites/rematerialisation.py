"""Rematerialisation: producers of a global reduction are recomputed instead of keeping a whole map.

A squeeze-and-excitation gate multiplies a feature map by factors computed from all of that map. Either
the whole map is kept, or its producers are executed twice: first for the sums, which need a few rows at
a time, and again after the sums, row by row into the multiplication. The second variant is a rewritten
network: the producers of the sums have copies with the same parameters.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from cnn2csdf.network import Layer, Network
from cnn2csdf.parameters import parameter_shapes
from cnn2csdf.weights import Model
from csdf.errors import InvalidPlan
from csdf.names import longer_name
from planners.memory.order import TopologicalOrder, topological_order
from planners.plan.accumulators import sums_over_rows
from planners.plan.plan import Span
from planners.rewrites.column_tiles import in_columns
from planners.rewrites.concatenation_inputs import for_each_input, layers_in_parts
from planners.rewrites.head_by_head import HeadLayers, head_by_head
from planners.rewrites.layer_copies import (
    Copy,
    Rewritten,
    arrays_of,
    needed_for,
    replaced_layers,
    sharing,
)

MOST_AGAIN = 6  # layers in front of the sums
LONGEST_SPAN = 14  # layers between the two tensors, each counted once
TIMES_LONGER = 3  # with attention: a normalisation that is written out has ten layers


def done_twice(
    layer_order: TopologicalOrder, begin: int, end: int
) -> Rewritten[tuple[str, ...]] | None:
    """Return the network where the reductions between two separators have producers of their own.

    Its one part is the span in execution order, all copies and reductions first. None where no map
    between the separators is both reduced over all its rows and read again, where a reduction depends
    on the result of another reduction, where a producer is a part of a layer, or where the span exceeds
    LONGEST_SPAN and MOST_AGAIN.
    """
    network = layer_order.network
    inside = layer_order.layers[layer_order.separators[begin] + 1 : layer_order.separators[end] + 1]
    has_attention = any(network.layer(name).operator.rereads_rows for name in inside)
    times = TIMES_LONGER if has_attention else 1
    if len(inside) > times * LONGEST_SPAN or layer_order.results & set(inside[:-1]):
        return None
    groups = _sums(network, inside)
    sums = set().union(*groups)
    before = needed_for(network, inside, sums) - sums
    after = needed_for(network, inside, {inside[-1]})
    if not 0 < len(before) <= times * MOST_AGAIN or not before <= after or inside[-1] in sums:
        return None
    if before & layer_order.parts:
        return None
    if any(sums & set(network.layer(name).inputs) for name in before):
        return None
    if not sums <= after:
        return None
    taken = {layer.name for layer in network.layers}
    early: list[Layer] = []
    copies: dict[str, Copy] = {}
    for group in groups:
        needed, names = needed_for(network, inside, group), dict[str, str]()
        for name in (candidate for candidate in inside if candidate in needed):
            if name in before:
                names[name] = longer_name(f"{name} again", {*taken, *copies}, by=" again")
                copies[names[name]] = Copy(name)
            inputs = tuple(names.get(source, source) for source in network.layer(name).inputs)
            early_layer = sharing(network, network.layer(name))
            early.append(replace(early_layer, name=names.get(name, name), inputs=inputs))
    order = (*(layer.name for layer in early), *(name for name in inside if name not in sums))
    layers = replaced_layers(
        network,
        inside[0],
        early,
        without={layer.name for layer in early},
        shared={copy.layer for copy in copies.values()},
    )
    rewritten = replace(network, layers=layers)
    return Rewritten(network=rewritten, copies=copies, parts=(order,))


def heads_between(
    layer_order: TopologicalOrder, begin: int, end: int
) -> Rewritten[HeadLayers] | None:
    """Return the network where the attention heads between two separators have their own layers."""
    inside = layer_order.layers[layer_order.separators[begin] + 1 : layer_order.separators[end] + 1]
    names_of_layers = {layer.name for layer in layer_order.network.layers}
    if layer_order.results & set(inside[:-1]) or not names_of_layers.issuperset(inside):
        return None
    if layer_order.parts & set(inside):
        return None
    return head_by_head(layer_order.network, inside)


def worked_network(network: Network, spans: tuple[Span, ...]) -> Network:
    """Return the network that a plan executes, with the copies of layers in its spans.

    Raises InvalidPlan where a span does not exist in the network.
    """
    return worked_layers(network, spans)[0]


def worked_model(model: Model, spans: tuple[Span, ...]) -> Model:
    """Return the model that a plan executes; copies have the parameters of their originals."""
    network, copies = worked_layers(model.network, spans)
    weights = model.weights
    if weights is not None:
        arrays = {}
        for layer in (
            network.layer(name) for name, copy in copies.items() if copy.layer in weights
        ):
            copy = copies[layer.name]
            shapes = parameter_shapes(layer, network.input_shapes(layer))
            arrays[layer.name] = arrays_of(copy, weights[copy.layer], shapes)
        weights = {**weights, **arrays}
    return Model(network=network, weights=weights)


def worked_layers(network: Network, spans: tuple[Span, ...]) -> tuple[Network, Mapping[str, Copy]]:
    """Return the network that a plan executes, and the original of each copied layer in it.

    Raises InvalidPlan where a span does not exist in the network.
    """
    copies: dict[str, Copy] = {}
    if not spans:
        return network, copies
    original = network
    for span in filter(lambda span: span.by_inputs, spans):
        by_inputs = for_each_input(network, span)
        if by_inputs is None:
            raise InvalidPlan(
                f"network {network.name!r} has no concatenation {span.source!r} whose inputs the "
                f"layers up to {span.result!r} could be computed for"
            )
        network, copies = by_inputs.network, copies | dict(by_inputs.copies)
    parts = layers_in_parts(original, network)
    layer_order = replace(topological_order(network, carries=True), parts=parts)
    cuts = {layer_order.at(cut): cut for cut in range(len(layer_order.separators))}
    for span in (span for span in spans if not span.by_inputs):
        recomputed: Rewritten[Any] | None = None
        if span.layers:
            has_parts = not parts.isdisjoint(span.layers)
            recomputed = None if has_parts else in_columns(network, span.layers, span.tiles)
        elif span.source in cuts and cuts[span.source] < cuts.get(span.result, 0):
            # The spans of a plan follow one another, so none changes the cuts of the next.
            part, ends = (
                replace(layer_order, network=network),
                (cuts[span.source], cuts[span.result]),
            )
            recomputed = (heads_between if span.by_heads else done_twice)(part, *ends)
        if recomputed is None:
            what, deed = ("sums of a map", "be computed twice")
            if span.layers:
                what, deed = ("layers", f"work in {span.tiles} tiles of columns")
            elif span.by_heads:
                what, deed = ("heads of attention", "work one after another")
            raise InvalidPlan(
                f"network {network.name!r} has no {what} between {span.source!r} and "
                f"{span.result!r} that could {deed}"
            )
        network = recomputed.network
        copies |= recomputed.copies
    return network, copies


def _sums(network: Network, inside: tuple[str, ...]) -> list[set[str]]:
    """Groups of layers to compute first: reductions over all rows, with layers of reductions only.

    Keys and values of attention are groups as well, each by itself. All their rows are computed before
    the first is read, one tensor after the other; without copies, a common source would be kept whole
    for the second.
    """
    made: set[str] = set()
    names_inside, kept = set(inside), dict[str, None]()
    for name in inside:
        layer = network.layer(name)
        of_sums = bool(layer.inputs) and set(layer.inputs) <= made
        if of_sums or (layer.inputs[0] in names_inside and sums_over_rows(network, layer)):
            made.add(name)
        if layer.operator.rereads_rows:
            kept |= dict.fromkeys(source for source in layer.inputs[1:] if source in names_inside)
    return [group for group in (made, *({name} for name in kept if name not in made)) if group]
