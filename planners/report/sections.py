"""The parts of the page about the memory of a network."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from csdf.draw.report.markup import Html, element, joined
from csdf.draw.report.tables import Cell, Row, sortable
from csdf.draw.report.words import byte_count
from planners.parts_memory import NetworkMemory
from planners.report import words
from planners.report.findings import LayerFigures, NetworkFindings

BARS = 12  # layers with a bar


def memory_bars(findings: NetworkFindings) -> Html:
    """Return a bar for each way to lay the network into memory: buffers upon parameters."""
    found = words.needs(findings)
    weights = words.parameters(findings)
    most = max((need.buffers + weights for need in found), default=1) or 1
    most = max(most, findings.capacity or 0)
    rows = [
        element(
            "li",
            element("span", need.title, class_="bar-title"),
            element(
                "span",
                element("span", class_="bar weights", style=_width(weights, most)),
                element("span", class_="bar buffers", style=_width(need.buffers, most)),
                *_limit(findings.capacity, most),
                class_="bar-space", aria_hidden="true",
            ),
            element(
                "span",
                f"{byte_count(need.buffers)} + {byte_count(weights)} = "
                f"{byte_count(need.buffers + weights)}",
                class_="bar-number",
            ),
            *_verdict(need.buffers + weights, findings.capacity),
        )
        for need in found
    ]  # fmt: skip
    key = element(
        "p",
        element("span", "buffers", class_="key buffers"),
        element("span", "parameters", class_="key weights"),
        *([element("span", f"--memory {byte_count(findings.capacity)}", class_="key limit")]
          if findings.capacity is not None else []),
        class_="keys",
    )  # fmt: skip
    return joined([key, element("ul", *rows, class_="bars")])


def _width(part: int, whole: int) -> str:
    return f"width:{100 * part / whole:.3f}%"


def _limit(capacity: int | None, most: int) -> Iterator[Html]:
    if capacity is not None:
        yield element("span", class_="bar-limit", style=f"left:{100 * capacity / most:.3f}%")


def _verdict(total: int, capacity: int | None) -> Iterator[Html]:
    if capacity is not None:
        yield element(
            "span", "fits" if total <= capacity else "too large",
            class_="verdict yes" if total <= capacity else "verdict no",
        )  # fmt: skip


def largest_layers(findings: NetworkFindings) -> Html:
    """Return bars for the layers that read the largest buffers, by parts beside as a whole."""
    chosen = sorted(findings.layers, key=lambda layer: -layer.whole_buffers)[:BARS]
    most = max((layer.whole_buffers for layer in chosen), default=1) or 1
    rows = [
        element(
            "li",
            element("span", layer.name, class_="bar-title"),
            element(
                "span",
                element("span", class_="bar whole", style=_width(layer.whole_buffers, most)),
                element("span", class_="bar buffers", style=_width(layer.parts_buffers, most)),
                class_="bar-space two", aria_hidden="true",
            ),
            element(
                "span",
                f"{byte_count(layer.whole_buffers)} whole, {byte_count(layer.parts_buffers)} by parts",
                class_="bar-number",
            ),
        )
        for layer in chosen
    ]  # fmt: skip
    key = element(
        "p",
        element("span", "whole", class_="key whole"),
        element("span", "by parts", class_="key buffers"),
        class_="keys",
    )
    return joined([key, element("ul", *rows, class_="bars")])


def ways_table(findings: NetworkFindings) -> Html:
    """Return the figures of `csdf cnn memory` as a table."""
    titles = ("", "buffers", "parameters", "total", "frames/s", "pipelined frames/s", "buffers are")
    rows = [
        element(
            "tr",
            element("th", title, scope="row"),
            *(_bytes(count) for count in (way.buffers, way.parameters, way.total)),
            *(element("td", text, class_="number") for text in words.frames(way)),
            element("td", _proof(way)),
        )
        for title, way in words.ways(findings)
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


def _bytes(count: int) -> Html:
    return element("td", byte_count(count), class_="number", title=f"{count} bytes")


def _proof(way: NetworkMemory) -> str:
    if way.status == "optimal":
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
    return Cell(text=byte_count(count), value=count)
