"""Rematerialisation: producers of a global reduction are recomputed instead of keeping a whole map.

A squeeze-and-excitation gate multiplies a feature map by factors computed from all of that map. Either
the whole map is kept, or its producers are executed twice: first for the sums, which need a few rows at
a time, and again after the sums, row by row into the multiplication. The second variant is a rewritten
network: the producers of the sums have copies with the same parameters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from cnn2csdf.network import Layer, Network
from cnn2csdf.parameters import parameter_shapes, with_named_arrays
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
)

MOST_AGAIN = 6  # layers in front of the sums
LONGEST_SPAN = 14  # layers between the two tensors, each counted once
TIMES_LONGER = 3  # with attention: a normalisation that is written out has ten layers


def rematerialised_between(
    layer_order: TopologicalOrder, begin: int, end: int
) -> Rewritten[tuple[str, ...]] | None:
    """Return the network where the reductions between two separators have producers of their own.

    Its one part is the span in execution order, all copies and reductions first. The span is the layers
    behind separator `begin`, up to separator `end`. None in these cases:

    - the span has more than LONGEST_SPAN layers, or a result of the network before its end;
    - no map of the span is reduced over all its rows, or more than MOST_AGAIN layers produce the maps;
    - a producer is a part of a layer, is not needed behind the reductions, or reads a reduction;
    - the end of the span is a reduction, or does not depend on all reductions.
    """
    network = layer_order.network
    span = _span_between(layer_order, begin, end)
    *inner, result = span
    has_attention = any(network.layer(name).operator.rereads_rows for name in span)
    times = TIMES_LONGER if has_attention else 1
    if len(span) > times * LONGEST_SPAN or layer_order.results & set(inner):
        return None
    groups = _sums(network, span)
    sums = set().union(*groups)
    producers = needed_for(network, span, sums) - sums
    needed = needed_for(network, span, {result})
    if not 0 < len(producers) <= times * MOST_AGAIN:
        return None
    if producers & layer_order.parts or not producers <= needed:
        return None
    if any(sums & set(network.layer(name).inputs) for name in producers):
        return None
    if result in sums or not sums <= needed:
        return None
    early, copies = _early_layers(network, span, groups, producers)
    order = (*(layer.name for layer in early), *(name for name in span if name not in sums))
    layers = replaced_layers(
        network,
        span[0],
        early,
        without={layer.name for layer in early},
        shared={copy.layer for copy in copies.values()},
    )
    rewritten = replace(network, layers=layers)
    return Rewritten(network=rewritten, copies=copies, parts=(order,))


def _span_between(layer_order: TopologicalOrder, begin: int, end: int) -> tuple[str, ...]:
    """Return the layers behind separator `begin` up to separator `end`."""
    separators = layer_order.separators
    return layer_order.layers[separators[begin] + 1 : separators[end] + 1]


def _early_layers(
    network: Network, span: Sequence[str], groups: Sequence[set[str]], producers: set[str]
) -> tuple[list[Layer], dict[str, Copy]]:
    """Return the layers that compute the groups of reductions, and the originals of copied layers.

    Each group has its own copies of the producers that it needs. The reductions keep their names.
    """
    taken = {layer.name for layer in network.layers}
    early: list[Layer] = []
    copies: dict[str, Copy] = {}
    for group in groups:
        needed = needed_for(network, span, group)
        copy_of: dict[str, str] = {}  # name of the copy by name of the producer
        for name in span:
            if name not in needed:
                continue
            if name in producers:
                copy_of[name] = longer_name(f"{name} again", {*taken, *copies}, by=" again")
                copies[copy_of[name]] = Copy(name)
            layer = network.layer(name)
            early.append(
                replace(
                    with_named_arrays(network, layer),
                    name=copy_of.get(name, name),
                    inputs=tuple(copy_of.get(source, source) for source in layer.inputs),
                )
            )
    return early, copies


def heads_between(
    layer_order: TopologicalOrder, begin: int, end: int
) -> Rewritten[HeadLayers] | None:
    """Return the network where the attention heads between two separators have their own layers."""
    span = _span_between(layer_order, begin, end)
    names = {layer.name for layer in layer_order.network.layers}
    if layer_order.results & set(span[:-1]) or not names.issuperset(span):
        return None
    if layer_order.parts & set(span):
        return None
    return head_by_head(layer_order.network, span)


def executed_network(network: Network, spans: tuple[Span, ...]) -> Network:
    """Return the network that a plan executes, with the copies of layers in its spans.

    Raises InvalidPlan where a span does not exist in the network.
    """
    return executed_layers(network, spans)[0]


def executed_model(model: Model, spans: tuple[Span, ...]) -> Model:
    """Return the model that a plan executes; copies have the parameters of their originals."""
    network, copies = executed_layers(model.network, spans)
    if model.weights is None:
        return Model(network=network, weights=None)
    weights = dict(model.weights)
    for name, copy in copies.items():
        if copy.layer in model.weights:
            layer = network.layer(name)
            shapes = parameter_shapes(layer, network.input_shapes(layer))
            weights[name] = arrays_of(copy, model.weights[copy.layer], shapes)
    return Model(network=network, weights=weights)


def executed_layers(
    network: Network, spans: tuple[Span, ...]
) -> tuple[Network, Mapping[str, Copy]]:
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
    # The spans of a plan are disjoint, so a rewrite of a span leaves the separators of the others.
    layer_order = replace(topological_order(network, carries=True), parts=parts)
    for span in spans:
        if not span.by_inputs:
            rewritten = _rewritten_span(replace(layer_order, network=network), span)
            network, copies = rewritten.network, copies | dict(rewritten.copies)
    return network, copies


def _rewritten_span(layer_order: TopologicalOrder, span: Span) -> Rewritten[Any]:
    """Return the network with copies of the layers of a span, other than a span by inputs.

    Raises InvalidPlan where the span does not exist.
    """
    network = layer_order.network
    cuts = {layer_order.at(cut): cut for cut in range(len(layer_order.separators))}
    begin, end = cuts.get(span.source), cuts.get(span.result)
    rewritten: Rewritten[Any] | None = None
    if span.layers:
        if layer_order.parts.isdisjoint(span.layers):
            rewritten = in_columns(network, span.layers, span.tiles)
    elif begin is not None and end is not None and begin < end:
        rewrite = heads_between if span.by_heads else rematerialised_between
        rewritten = rewrite(layer_order, begin, end)
    if rewritten is not None:
        return rewritten
    what, deed = "sums of a map", "be computed twice"
    if span.layers:
        what, deed = "layers", f"work in {span.tiles} tiles of columns"
    elif span.by_heads:
        what, deed = "heads of attention", "work one after another"
    raise InvalidPlan(
        f"network {network.name!r} has no {what} between {span.source!r} and {span.result!r} that "
        f"could {deed}"
    )


def _sums(network: Network, span: tuple[str, ...]) -> list[set[str]]:
    """Groups of layers to compute first: reductions over all rows, with layers of reductions only.

    Keys and values of attention are groups as well, each by itself. All their rows are computed before
    the first is read, one tensor after the other; without copies, a common source would be kept whole
    for the second.
    """
    sums: set[str] = set()
    names_in_span, keys_and_values = set(span), dict[str, None]()
    for name in span:
        layer = network.layer(name)
        reads_only_sums = bool(layer.inputs) and set(layer.inputs) <= sums
        if reads_only_sums or (layer.inputs[0] in names_in_span and sums_over_rows(network, layer)):
            sums.add(name)
        if layer.operator.rereads_rows:
            keys_and_values |= dict.fromkeys(
                source for source in layer.inputs[1:] if source in names_in_span
            )
    return [
        group
        for group in (sums, *({name} for name in keys_and_values if name not in sums))
        if group
    ]
