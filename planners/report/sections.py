"""The parts of the page about the memory of a network."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from csdf.draw.report.markup import Html, element, joined
from csdf.draw.report.tables import Cell, Row, sortable
from csdf.outcome import Status
from csdf.words import bytes_in_words
from planners.memory_ways import FIT_ARENA, MemoryWay
from planners.parts_memory import NetworkMemory
from planners.report import words
from planners.report.findings import LayerFigures, Limit, Mark, NetworkFindings

BARS = 12  # layers with a bar
LEGIBLE = 20  # the longest bar of a list has at least this part of the full width


def memory_bars(findings: NetworkFindings) -> Html:
    """Return a bar for each way to lay the network into memory: buffers upon parameters."""
    most = full_width(findings)
    limit = findings.limit
    rows = [
        element(
            "li",
            element("span", way.title, class_="bar-title"),
            element(
                "span",
                element("span", class_="bar weights", style=_width(way.parameters, most)),
                element("span", class_="bar buffers", style=_width(way.buffers, most)),
                *_marks(limit, most),
                class_="bar-space", aria_hidden="true",
            ),
            element(
                "span",
                f"{bytes_in_words(way.buffers)} + {bytes_in_words(way.parameters)} = "
                f"{bytes_in_words(way.total)}",
                class_="bar-number",
            ),
            _verdict(way, limit),
        )
        for way in findings.ways
    ]  # fmt: skip
    key = element(
        "p",
        element("span", "buffers", class_="key buffers"),
        element("span", "parameters", class_="key weights"),
        *(element("span", mark.title, class_="key limit") for mark in _all_marks(limit)),
        element("span", f"full width: {bytes_in_words(most)}"),
        class_="keys",
    )
    return joined([key, element("ul", *rows, class_="bars")])


def full_width(findings: NetworkFindings) -> int:
    """Return the bytes that a bar of full width stands for: one scale for all bars of a page."""
    places = [mark.place for mark in _all_marks(findings.limit)]
    return max([1, *(way.total for way in findings.ways), *places])


def _all_marks(limit: Limit | None) -> tuple[Mark, ...]:
    return () if limit is None else limit.marks


def _width(part: int, whole: float) -> str:
    return f"width:{100 * part / whole:.3f}%"


def _marks(limit: Limit | None, most: int) -> Iterator[Html]:
    for mark in _all_marks(limit):
        yield element("span", class_="bar-limit", style=f"left:{100 * mark.place / most:.3f}%")


def _verdict(way: MemoryWay, limit: Limit | None) -> Html:
    """Whether a way fits; empty without a limit, so that all rows have the same columns."""
    if limit is None:
        return element("span", class_="verdict")
    is_good = way.buffers <= limit.room
    return element(
        "span", "fits" if is_good else "too large", class_=f"verdict {'yes' if is_good else 'no'}"
    )


def largest_layers(findings: NetworkFindings) -> Html:
    """Return bars for the layers that read the largest buffers, by parts beside as a whole.

    On the scale of the other bars; where they would be too short to see, some times as long.
    """
    chosen = sorted(findings.layers, key=lambda layer: -layer.whole_buffers)[:BARS]
    longest = max((max(one.whole_buffers, one.parts_buffers) for one in chosen), default=1) or 1
    factor = _factor(longest, full_width(findings))
    most = max(full_width(findings), longest) / factor
    rows = [
        element(
            "li",
            element("span", layer.name, class_="bar-title", data_actor=layer.name),
            element(
                "span",
                element("span", class_="bar whole", style=_width(layer.whole_buffers, most)),
                element("span", class_="bar buffers", style=_width(layer.parts_buffers, most)),
                class_="bar-space two", aria_hidden="true",
            ),
            element(
                "span",
                f"{bytes_in_words(layer.whole_buffers)} whole, "
                f"{bytes_in_words(layer.parts_buffers)} by parts",
                class_="bar-number",
            ),
            element("span", class_="verdict"),
        )
        for layer in chosen
    ]  # fmt: skip
    scale = "the scale of the bars above"
    key = element(
        "p",
        element("span", "whole", class_="key whole"),
        element("span", "by parts", class_="key buffers"),
        element("span", scale if factor == 1 else f"{factor} times {scale}"),
        class_="keys",
    )
    return joined([key, element("ul", *rows, class_="bars")])


def _factor(longest: int, most: int) -> int:
    """The largest round factor with which a bar has at most the full width; 1 if it is legible."""
    factor = 1
    if longest * LEGIBLE < most:
        while longest * factor * 10 <= most:
            factor *= 10
        factor *= max(step for step in (1, 2, 5) if longest * factor * step <= most)
    return factor


def ways_table(findings: NetworkFindings) -> Html:
    """Return the figures of `csdf cnn memory` as a table."""
    titles = ("", "buffers", "parameters", "total", "frames/s", "pipelined frames/s", "buffers are")
    rows = [
        element(
            "tr",
            element("th", way.title, scope="row"),
            *(_bytes(count) for count in (way.buffers, way.parameters, way.total)),
            *(element("td", text, class_="number") for text in speed),
            element("td", proof),
        )
        for way, (speed, proof) in zip(findings.ways, _speeds(findings), strict=True)
    ]
    head = element(
        "tr",
        *(
            element("th", title, scope="col", class_="number" if 0 < place < 6 else None)
            for place, title in enumerate(titles)
        ),
    )
    table = element("table", element("thead", head), element("tbody", *rows), class_="plain")
    return element(
        "div", table, class_="scroller", tabindex=0, role="region", aria_label="memory and speed"
    )


def _speeds(findings: NetworkFindings) -> Iterator[tuple[tuple[str, str], str]]:
    """Speed and proof of each way; only with buffers apart is there a pipeline of layers."""
    apart = dict(findings.ways_apart)
    works = {way.is_whole: work for way, work in findings.ways_apart}
    for way in findings.ways:
        work = None if way.title == FIT_ARENA else works.get(way.is_whole)
        speed = ("", "") if work is None else words.frames(work)
        if way in apart:
            yield speed, _proof(apart[way])
        else:
            yield (speed[0], ""), _proof_of_arena(way)


def _proof_of_arena(way: MemoryWay) -> str:
    if way.title == FIT_ARENA:
        return f"the least found; no plan is below {bytes_in_words(way.lower_bound)}"
    if way.buffers == way.lower_bound:
        return "the smallest arena, proved"
    gap = (way.buffers - way.lower_bound) / max(way.lower_bound, 1)
    return f"at most {gap:.2%} above the smallest arena"


def _bytes(count: int) -> Html:
    return element("td", bytes_in_words(count), class_="number", title=f"{count} bytes")


def _proof(way: NetworkMemory) -> str:
    if way.status is Status.OPTIMAL:
        return "the smallest, proved"
    return f"at most {float(way.gap or 0):.2%} above the smallest"


def layer_table(layers: Sequence[LayerFigures], critical: Sequence[str]) -> Html:
    """Return the layers of a network in their order."""
    marked = set(critical)
    rows = [
        Row(
            cells=(
                Cell(text=layer.name),
                Cell(text=layer.operator),
                Cell(text=layer.output),
                Cell(text=str(layer.phases), value=layer.phases),
                _size(layer.parameters),
                Cell(text=str(layer.multiply_accumulates), value=layer.multiply_accumulates),
                _size(layer.output_bytes),
                _size(layer.whole_buffers),
                _size(layer.parts_buffers),
                Cell(text=f"{layer.nanoseconds / 1000:.1f}", value=layer.nanoseconds),
            ),
            is_marked=layer.name in marked,
        )
        for layer in layers
    ]
    titles = (
        *("layer", "operator", "output", "parts", "parameters", "MACs", "output size"),
        *("inputs whole", "inputs by parts", "time (µs)"),
    )
    return sortable("layers", "layer", titles, rows)


def _size(count: int) -> Cell:
    return Cell(text=bytes_in_words(count), value=count)
