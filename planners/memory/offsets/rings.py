"""A ring of rows for a concatenation and all that it joins, inside a group.

Kept as lines of their own, the inputs of a concatenation hold rows until it has copied them. In one
ring they write into the rows of the result, ahead of it: the ring has as many rows as the longest wait
takes, from the writing of a row to its last reading by whoever reads that part of it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from cnn2csdf.network import Network
from planners.inlays import channels_of
from planners.streaming.firing import Firings, Reading, firing_order
from planners.streaming.plan import Inlay


class Ring(NamedTuple):
    """The rows of a ring, and the tensors in it beside its own."""

    rows: int
    inlays: tuple[Inlay, ...]


def rings_of(
    network: Network,
    firings: Sequence[Firings],
    inlays: Collection[Inlay],
    lines: Mapping[str, int],
    row_bytes: Mapping[str, int],
) -> dict[str, Ring]:
    """Return the rings that take no more bytes than the lines in their place.

    lines: rows of each line of the group; row_bytes: of each result.
    """
    members: dict[str, list[Inlay]] = {}
    for one in inlays:
        if one.tensor in lines and one.host in lines and one.row == 0:
            members.setdefault(one.host, []).append(one)
    found = {}
    order = firing_order(firings) if members else ()
    for host, some in members.items():
        some = [one for one in some if _height(network, one.tensor) == _height(network, host)]
        rows = min(_rows(network, firings, order, host, some), _height(network, host))
        apart = sum(lines[name] * row_bytes[name] for name in (host, *(one.tensor for one in some)))
        if some and pays(rows * row_bytes[host], apart):
            found[host] = Ring(rows, tuple(some))
    return found


def pays(ring: int, apart: int) -> bool:
    """Whether a ring of some bytes is to stand in the place of lines."""
    return ring <= apart


def _height(network: Network, tensor: str) -> int:
    return network.layer(tensor).shape.rows


def _rows(
    network: Network,
    firings: Sequence[Firings],
    order: Sequence[int],
    host: str,
    inlays: Sequence[Inlay],
) -> int:
    """Rows from the first that is still read to the last that is written, at any time."""
    readers = _readers(network, firings, [Inlay(host, host), *inlays])
    fired, most = [0] * len(firings), 0
    for place in order:
        stage = firings[place]
        if stage.result in readers:
            made = stage.made[fired[place] + 1]
            first = min(
                (reading.first[fired[who]] for who, reading in readers[stage.result]), default=made
            )
            most = max(most, made - first)
        fired[place] += 1
    return most


def _readers(
    network: Network, firings: Sequence[Firings], inlays: Sequence[Inlay]
) -> dict[str, list[tuple[int, Reading]]]:
    """For each tensor of a ring whoever reads some of its bytes, as it or as another tensor."""
    readings: dict[str, list[tuple[int, Reading]]] = {one.tensor: [] for one in inlays}
    for place, stage in enumerate(firings):
        for reading in stage.readings:
            if reading.tensor in readings:
                readings[reading.tensor].append((place, reading))
    return {
        one.tensor: [
            found
            for other in inlays
            if _overlap(network, one, other)
            for found in readings[other.tensor]
        ]
        for one in inlays
    }


def _overlap(network: Network, one: Inlay, other: Inlay) -> bool:
    """Whether two tensors of a host have places of it in common."""
    shapes = [network.layer(inlay.tensor).shape for inlay in (one, other)]
    sizes = [(shape.width, channels_of(shape)) for shape in shapes]
    begins = [(inlay.column, inlay.channel) for inlay in (one, other)]
    return all(
        begins[0][axis] < begins[1][axis] + sizes[1][axis]
        and begins[1][axis] < begins[0][axis] + sizes[0][axis]
        for axis in (0, 1)
    )
