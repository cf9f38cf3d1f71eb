"""The answer of `csdf plan traffic` in words and as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from csdf.cli import answers
from csdf.outcome import Status
from csdf.words import bytes_in_words
from planners.traffic.answers import LayerTraffic
from planners.traffic.fused.listing import in_short
from planners.traffic.fused.listing import listing as fused_listing
from planners.traffic.group_traffic import GroupTraffic
from planners.traffic.listing import band_loops, listing, nested_loop
from planners.traffic.nested import NestedTiles
from planners.traffic.network_traffic import NetworkTraffic
from planners.traffic.published import listing as published
from planners.traffic.published.network import PublishedWhy

COLUMNS = ("input", "weights", "output", "borders", "total", "bound", "ratio")
PARTS = {"input": "input", "weight": "weights", "output": "output", "border": "borders"}  # in words


class Point(NamedTuple):
    """The findings for one buffer, by what may be fused."""

    buffer_bytes: int
    by_way: Mapping[str, NetworkTraffic]


def as_text(found: NetworkTraffic, alone: NetworkTraffic | None, *, shows_nest: bool) -> list[str]:
    """Return a line a group, and the network; beside it, what its layers move one by one."""
    names = [group_name(one) for one in found.groups]
    width = max(map(len, (*names, "kB")))
    head = "  ".join(f"{word:>9}" for word in COLUMNS)
    lines = [f"  {'kB':<{width}}  {head}"]
    for name, one in zip(names, found.groups, strict=True):
        lines.append(f"  {name:<{width}}  {_row(one)}  {schedule_in_short(one)}")
        if shows_nest:
            lines += [f"      {line}" for line in schedule_listing(one).splitlines()]
    fused = sum(len(one.stages) > 1 for one in found.groups)
    lines += [
        f"{found.name}: {_status(found)}: {answers.counted(len(found.groups), 'group')}, "
        f"{fused} of several layers",
        f"  buffer              {found.buffer_bytes} bytes ({found.buffer_bytes / 1024:g} KiB), "
        f"{_element_bytes(found)}",
        f"  traffic             {bytes_in_words(found.total_bytes)} ({found.total_bytes} bytes): "
        + ", ".join(f"{bytes_in_words(found.parts[part])} {word}" for part, word in PARTS.items()),
        f"  lower bound         {bytes_in_words(found.bound_bytes)}: inputs, weights and outputs "
        "of the network once, in any schedule; "
        f"traffic is {_ratio(found.total_bytes, found.bound_bytes)} of it",
    ]
    if alone is not None and alone is not found:
        lines.append(
            f"  layer by layer      {bytes_in_words(alone.total_bytes)}, "
            f"{_ratio(alone.total_bytes, found.total_bytes)} of that"
        )
    return lines


def _element_bytes(found: NetworkTraffic) -> str:
    """How large elements are."""
    if found.element_bytes is not None:
        return f"{answers.counted(found.element_bytes, 'byte')} an element"
    return f"{' or '.join(map(str, found.element_sizes))} bytes an element, as in the file"


def _status(found: NetworkTraffic) -> str:
    """Return what is proved, with the schedules that were searched."""
    if found.reason.has(PublishedWhy.LEAST):
        return "optimal as published, of loop nests with halos reloaded and of even cuts of pairs"
    if found.status == Status.OPTIMAL:
        return "optimal of loop nests with up to two levels of tiles and of even cuts"
    return found.status


def group_name(one: GroupTraffic) -> str:
    """Return the first and the last layer of a group."""
    layers = [name for stage in one.stages for name in stage.layers]
    return layers[0] if len(layers) == 1 else f"{layers[0]} .. {layers[-1]}"


def _row(one: GroupTraffic) -> str:
    sizes = (
        one.input_bytes,
        one.weight_bytes,
        one.output_bytes,
        one.border_bytes,
        one.total_bytes,
        one.bound_bytes,
    )
    ratio = _ratio(one.total_bytes, one.bound_bytes)
    return "  ".join(f"{text:>9}" for text in (*(f"{size / 1000:.1f}" for size in sizes), ratio))


def _ratio(one: int, other: int) -> str:
    return f"{one / other:.3f}x" if other else "-"


def schedule_in_short(one: GroupTraffic) -> str:
    """Return in a few words how a group runs."""
    if one.fused is not None:
        return in_short(one.fused.schedule)
    if one.pair is not None:
        return f"{published.in_short(one.pair)}, {one.held_bytes} bytes in the buffer"
    if one.layer is not None:
        return _nest_in_short(one.layer)
    return "streamed once"


def _nest_in_short(layer: LayerTraffic) -> str:
    """The loops that run more than once, from the outermost."""
    groups = [f"{layer.convolution.groups} groups"] if layer.convolution.groups > 1 else []
    if isinstance(layer.nest, NestedTiles):
        bands = range(len(layer.nest.order))
        steps = [
            step for place in bands for step in band_loops(layer.convolution, layer.nest, place)
        ]
        words = [nested_loop(*step).removeprefix("for ").removeprefix("each of ") for step in steps]
        return ", ".join(groups + words)
    nest, trips = layer.nest, layer.nest.trips(layer.convolution)
    loops = [
        f"{trips[loop]} {loop.words}"
        if nest.tiles[loop] == 1
        else f"{trips[loop]} tiles of {nest.tiles[loop]} {loop.words}"
        for loop in nest.order
        if trips[loop] > 1
    ]
    return ", ".join(groups + loops) or "all at once"


def schedule_listing(one: GroupTraffic) -> str:
    """Return the loops of a group."""
    if one.fused is not None:
        return fused_listing(one.fused.schedule, [stage.layers[0] for stage in one.stages])
    if one.pair is not None:
        return published.nests(one.pair, [stage.layers[0] for stage in one.stages])
    if one.layer is not None:
        return listing(one.layer.convolution, one.layer.nest)
    return "read all inputs once, write the output once"


def sweep_as_text(points: Sequence[Point]) -> list[str]:
    """Return a line a buffer, with what each way moves and how far that is above the bound."""
    ways = list(points[0].by_way)
    head = "  ".join(f"{_way_name(way):>24}" for way in ways)
    lines = [f"  {'buffer':>12}  {head}"]
    for point in points:
        cells = [
            f"{found.total_bytes} ({_ratio(found.total_bytes, found.bound_bytes)})"
            for found in point.by_way.values()
        ]
        lines.append(f"  {point.buffer_bytes:>12}  " + "  ".join(f"{cell:>24}" for cell in cells))
    bound = points[0].by_way[ways[0]].bound_bytes
    return [*lines, f"  bytes, and ratio to the lower bound of {bound} bytes"]


def _way_name(way: str) -> str:
    return {"1": "layer by layer", "2": "pairs", "chain": "groups"}[way]


def as_json(found: NetworkTraffic, *, shows_nest: bool) -> dict[str, Any]:
    """Return all of the answer."""
    groups = [_group_as_json(one, shows_nest=shows_nest) for one in found.groups]
    return {**found.to_json(), "groups": groups}


def _group_as_json(one: GroupTraffic, *, shows_nest: bool) -> dict[str, Any]:
    listed = {"nest": schedule_listing(one).splitlines()} if shows_nest else {}
    return {**one.to_json(), "schedule": schedule_in_short(one), **listed}


def sweep_as_json(points: Sequence[Point]) -> list[dict[str, Any]]:
    """Return what each way moves with each buffer."""
    return [
        {
            "buffer_bytes": point.buffer_bytes,
            "bound_bytes": next(iter(point.by_way.values())).bound_bytes,
            **{f"fuse_{way}_bytes": found.total_bytes for way, found in point.by_way.items()},
        }
        for point in points
    ]
