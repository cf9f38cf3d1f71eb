"""Capacities as channels, for file formats that cannot hold release rates."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from csdf.model.graph import Channel, Graph
from csdf.model.space import with_space_channels

SUFFIX = "_space"


def without_release_rates(graph: Graph) -> Graph:
    """Return the graph with each bounded sliding window as a channel and its reverse channel."""
    return _with_reverse_channels(graph, [one.name for one in graph.channels if _is_window(one)])


def without_capacities(graph: Graph) -> Graph:
    """Return the graph with each bounded channel as a channel and its reverse channel."""
    bounded = [one.name for one in graph.channels if one.capacity is not None]
    return _with_reverse_channels(graph, bounded)


def _with_reverse_channels(graph: Graph, names: Collection[str]) -> Graph:
    """The graph with these as channels and their reverse channels; others stay as they are.

    A self-loop stays, too: its capacity is no limit unless it is asked for, a reverse channel would be.
    """
    kept = {one.name: one for one in graph.channels if one.is_self_loop or one.name not in names}
    found = with_space_channels(graph, {*names} - kept.keys(), suffix=SUFFIX)
    channels = tuple(kept.get(one.name, one) for one in found.channels)
    return replace(found, channels=channels)


def _is_window(channel: Channel) -> bool:
    return channel.capacity is not None and channel.release_rates != channel.consumption
