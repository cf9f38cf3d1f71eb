"""How values of this package look in notebooks: tables and pictures of what they hold."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module

from csdf.model.shown import html
from csdf.notebook import facts, svg, table
from planners.arena.problem import MemoryPlan
from planners.fusion.planning import FusionAnswer, FusionPlan
from planners.memory.answer import Fit
from planners.memory.plain_plans import MemoryComparison
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
    """Return the methods as a table, by growing RAM."""
    rows = [
        {
            "method": method.name,
            "RAM": method.ram_bytes,
            "MACs": float(method.mac_ratio),
            "ns": method.nanoseconds,
        }
        for method in value.methods
    ]
    return table(f"{value!r}: {value.reason}", rows)


@html.register
def _fusion_plan(value: FusionPlan) -> str:
    """Return the groups, and the arena over the steps of the plan."""
    head = f"{value.chain.network.name}: {value.memory} bytes, {value.cost.nanoseconds} ns"
    return table(head, value.to_records()) + _memory_plan(value.arena)


@html.register
def _fusion_answer(value: FusionAnswer) -> str:
    """Return the front as picture and table."""
    places = ((one.memory, one.cost.nanoseconds) for one in value.front)
    return _front(places, "arena (bytes)") + table(
        f"{value.status}: {value.reason}", value.to_records()
    )


@html.register
def _selection(value: Selection) -> str:
    """Return the choice for each layer as a table."""
    network, workspace = (value.memory(one) for one in Objective)
    title = f"{value.nanoseconds} ns, {network} bytes, largest workspace {workspace} bytes"
    return table(f"{value.problem.name}: {title}", value.to_records())


@html.register
def _trade_off(value: TradeOff) -> str:
    """Return the front as picture and table."""
    places = ((pair.memory, pair.nanoseconds) for pair in value.pairs)
    picture = _front(places, f"{value.objective.value} (bytes)")
    return picture + table(f"{value.problem.name}: all points, proved", value.to_records())


def _front(places: Iterable[tuple[int, int]], across: str) -> str:
    """Return pairs of bytes and nanoseconds as a picture."""
    memory, times = [list(column) for column in zip(*places, strict=True)] or ([], [])
    draw = import_module("planners.fusion.command.picture")  # with Matplotlib, slow to import
    line = draw.Line("front", memory, [time / 10**6 for time in times], "steps")
    return svg(draw.lines_picture, "front", [line], across=across, up="time (ms)", is_front=True)


@html.register
def _memory_plan(value: MemoryPlan) -> str:
    """Return the arena over time and the offsets."""
    head = f"{value.problem.name}: {value.status}: {value.reason}"
    draw = import_module("planners.arena.command.picture")  # with Matplotlib, slow to import
    boxes = [
        draw.Box(buffer.name, buffer.start, buffer.end, offset, buffer.size)
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
    head = f"{value.name}: {value.total_bytes} bytes with a buffer of {value.buffer_bytes}"
    return table(f"{head}, at least {value.bound_bytes}, {value.status}", rows)


@html.register
def _layer_traffic(value: LayerTraffic) -> str:
    """Return traffic, nest and bounds as a table."""
    return facts(value.convolution.name, value.to_json())
