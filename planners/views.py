"""How values of this package look in notebooks: tables and pictures of what they hold."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module

from csdf.errors import counted
from csdf.model.shown import html
from csdf.notebook import facts, svg, table
from csdf.units import bytes_in_words, nanoseconds_in_words
from planners.arena.problem import MemoryPlan
from planners.fusion.planning import FusionAnswer, FusionPlan
from planners.memory.answer import Fit
from planners.memory.plain_plans import MemoryComparison
from planners.plan.plan import Kind, StreamingPlan
from planners.primitives.selection.problem import Objective, Selection
from planners.primitives.selection.trade_off import TradeOff
from planners.published.samos import NetworkMemory
from planners.traffic.nest import LayerTraffic
from planners.traffic.network_traffic import NetworkTraffic


@html.register
def _network_memory(value: NetworkMemory) -> str:
    """Return the needs as a table."""
    return table("bytes, and time units of a frame", [value.row()])


@html.register
def _memory_comparison(value: MemoryComparison) -> str:
    """Return the methods as a table."""
    return table("bytes, and time units of a frame", value.to_records())


@html.register
def _fit(value: Fit) -> str:
    """Return the buffers of the plan as a picture, and the methods as a table by growing RAM."""
    taken = value.shown
    rows = [
        {
            "method": method.name,
            "RAM": bytes_in_words(method.needed_ram),
            "arena": bytes_in_words(method.ram_bytes),
            "MACs": f"{float(method.mac_ratio):.4g}x",
            "time": _time(method.nanoseconds),
            "taken": "<" if method is taken else "",
        }
        for method in value.methods
    ]
    flash = f"{bytes_in_words(value.flash_bytes)} of flash"
    head = f"{value.network}: {value.status}: {value.reason}; {flash}"
    return _buffers(taken.plan) + table(head, rows)


@html.register
def _streaming_plan(value: StreamingPlan) -> str:
    """Return the buffers over the groups of layers as a picture and as a table."""
    rows = [
        {
            "buffer": buffer.name,
            "kind": buffer.kind.value,
            "offset": buffer.offset,
            "size": bytes_in_words(buffer.size),
            "groups": f"{buffer.begin + 1} to {buffer.end}",
        }
        for buffer in value.buffers
        if buffer.size
    ]
    groups = counted(len(value.groups), "group")
    head = f"{value.network}: arena of {bytes_in_words(value.arena_bytes)}, {groups} of layers"
    return _buffers(value) + table(head, rows)


def _buffers(plan: StreamingPlan) -> str:
    """Return the buffers of a plan over its groups, as a picture; nothing of one without bytes."""
    draw = import_module("planners.arena.command.picture")  # with Matplotlib, slow to import
    boxes = [
        draw.DrawnBuffer(buffer.name, buffer.begin + 1, buffer.end + 1, buffer.offset, buffer.size)
        for buffer in plan.buffers
        if buffer.size and buffer.kind is not Kind.EXTERNAL
    ]
    about = {"bound": None, "capacity": None, "across": "groups of layers"}
    title = f"{plan.network}: arena of {bytes_in_words(plan.arena_bytes)}"
    return svg(draw.arena_picture, title, boxes, **about) if boxes else ""


def _time(nanoseconds: int | None) -> str | None:
    return None if nanoseconds is None else nanoseconds_in_words(nanoseconds)


@html.register
def _fusion_plan(value: FusionPlan) -> str:
    """Return the groups, and the arena over the steps of the plan."""
    time = nanoseconds_in_words(value.nanoseconds)
    head = f"{value.chain.network.name}: {bytes_in_words(value.memory)}, {time}"
    return table(head, value.to_records()) + _memory_plan(value.arena)


@html.register
def _fusion_answer(value: FusionAnswer) -> str:
    """Return the front as picture and table."""
    points = [(candidate.memory, candidate.nanoseconds) for candidate in value.front]
    return _front(points, "arena") + table(f"{value.status}: {value.reason}", value.to_records())


@html.register
def _selection(value: Selection) -> str:
    """Return the choice for each layer as a table."""
    network, workspace = (value.memory(objective) for objective in Objective)
    time, size = nanoseconds_in_words(value.nanoseconds), bytes_in_words(network)
    title = f"{time}, {size}, largest workspace {bytes_in_words(workspace)}"
    return table(f"{value.problem.name}: {title}", value.to_records())


@html.register
def _trade_off(value: TradeOff) -> str:
    """Return the front as picture and table."""
    points = [(pair.memory, pair.nanoseconds) for pair in value.pairs]
    picture = _front(points, value.objective.value)
    return picture + table(f"{value.problem.name}: all points, proved", value.to_records())


def _front(points: Sequence[tuple[int, int]], across: str) -> str:
    """Return pairs of bytes and nanoseconds as a picture."""
    draw = import_module("planners.fusion.command.picture")  # with Matplotlib, slow to import
    return svg(draw.front_picture, "front", points, across=across)


@html.register
def _memory_plan(value: MemoryPlan) -> str:
    """Return the arena over time and the offsets."""
    head = f"{value.problem.name}: {value.status}: {value.reason}"
    draw = import_module("planners.arena.command.picture")  # with Matplotlib, slow to import
    boxes = [
        draw.DrawnBuffer(buffer.name, buffer.start, buffer.end, offset, buffer.size)
        for buffer in value.problem.buffers
        if buffer.takes_bytes and (offset := value.offsets.get(buffer.name)) is not None
    ]
    about = {"bound": value.lower_bound, "capacity": None}
    picture = svg(draw.arena_picture, value.problem.name, boxes, **about) if boxes else ""
    return picture + table(head, value.to_records())


@html.register
def _network_traffic(value: NetworkTraffic) -> str:
    """Return the groups as a table."""
    shown = ("layers", "input_bytes", "weight_bytes", "output_bytes", "traffic_bytes")
    rows = [{name: row[name] for name in shown} for row in value.to_records()]
    total, buffer = bytes_in_words(value.total_bytes), bytes_in_words(value.buffer_bytes)
    bound = bytes_in_words(value.bound_bytes)
    head = f"{value.name}: {total} with a buffer of {buffer}, at least {bound}"
    return table(f"{head}, {value.status}; in bytes", rows)


@html.register
def _layer_traffic(value: LayerTraffic) -> str:
    """Return traffic, nest and bounds as a table."""
    return facts(value.convolution.name, value.to_json())
