"""The layers of a network as a block diagram: shapes, and the group and buffer of each in a plan.

Here the blocks follow the execution order of the plan: inputs first, outputs last.
"""

from __future__ import annotations

from collections.abc import Mapping

from cnn2csdf.network import Network
from cnn2csdf.operators.operator import describe
from csdf.draw.report.diagram import Block, block_diagram
from csdf.draw.report.markup import Html, element, joined
from csdf.draw.report.sections import Section
from csdf.errors import counted
from csdf.units import bytes_in_words
from planners.plan.plan import Kind, StreamBuffer
from planners.report.plans import FitAnswer, executions
from planners.rewrites.rematerialisation import executed_layers

TENSOR_KINDS = (Kind.WHOLE, Kind.EXTERNAL, Kind.LINE, Kind.RING, Kind.KEPT, Kind.TILE)


def network_section(network: Network, answer: FitAnswer | None) -> Section:
    """Return the section with the diagram. answer: of the plan that it shows, if there is one."""
    note = (
        "From top to bottom in the order of execution: each layer with its operator and the shape of "
        "its output."
    )
    if answer is not None:
        note += (
            f" A band joins layers of a group, which are executed interleaved; the plan of "
            f"{answer.title} has {counted(len(answer.plan.groups), 'group')}. Below the shape is "
            "the buffer of the output: bytes, rows, offset in the arena."
        )
    note += " A line at the right ends at the last layer that reads the tensor."
    return Section("network", "Network", joined([element("p", note), _diagram(network, answer)]))


def _diagram(network: Network, answer: FitAnswer | None) -> Html:
    layers = list(network.layers)
    groups: Mapping[str, int] = {}
    methods: Mapping[str, str] = {}
    buffers: Mapping[str, list[StreamBuffer]] = {}
    if answer is not None:
        groups, methods, buffers = _executed(answer), executions(answer), _buffers(answer)
        position = {name: number for number, name in enumerate(groups)}
        # Inputs before, outputs after all executed layers.
        layers.sort(
            key=lambda layer: (layer.is_output, not layer.is_input, position.get(layer.name, -1))
        )
    number = {layer.name: index for index, layer in enumerate(layers)}
    blocks = []
    for layer in layers:
        operator = describe(layer.operator, layer.epilogue)
        held = [_in_words(buffer) for buffer in buffers.get(layer.name, ())]
        if answer is not None and not held and layer.name in groups:
            held = ["inside its stage"]
        element_type = "" if layer.quantization is None else f" {layer.element.value}"
        shape = f"{layer.shape}{element_type}"
        facts = [layer.name, operator, shape, methods.get(layer.name, ""), *held]
        group = f"group {groups[layer.name] + 1}" if layer.name in groups else ""
        blocks.append(
            Block(
                name=layer.name,
                kind=operator,
                facts=(shape, held[0] if len(held) == 1 else ", ".join(held[:2])),
                hint="\n".join(fact for fact in (*facts, group) if fact),
                sources=tuple(number[source] for source in dict.fromkeys(layer.inputs)),
                group=group,
            )
        )
    return block_diagram(blocks, f"layers of {network.name}")


def _executed(answer: FitAnswer) -> dict[str, int]:
    """Return the group of each layer, in the order of execution; of copies of a layer, the first."""
    copies = executed_layers(answer.network, answer.plan.rematerialised)[1]
    groups: dict[str, int] = {}
    for number, group in enumerate(answer.plan.groups):
        for stage in group.stages:
            for name in stage.layers:
                groups.setdefault(copies[name].layer if name in copies else name, number)
    return groups


def _buffers(answer: FitAnswer) -> dict[str, list[StreamBuffer]]:
    """Return the buffers of the output of each layer, in the order of their groups."""
    buffers: dict[str, list[StreamBuffer]] = {}
    for buffer in sorted(answer.plan.buffers, key=lambda buffer: buffer.begin):
        if buffer.kind in TENSOR_KINDS:
            buffers.setdefault(buffer.tensor, []).append(buffer)
    return buffers


def _in_words(buffer: StreamBuffer) -> str:
    if not buffer.size:  # the next stage reads the rows of a firing where they are staged
        return "staged, no buffer of its own"
    size = bytes_in_words(buffer.size)
    if buffer.kind is Kind.EXTERNAL:
        return f"{size}, caller's memory"
    if buffer.kind in (Kind.LINE, Kind.RING):
        return f"{size}, {counted(buffer.rows, 'row')}, at {buffer.offset}"
    if buffer.kind is Kind.TILE:
        return f"{size}, a tile, at {buffer.offset}"
    return f"{size}, whole, at {buffer.offset}"
