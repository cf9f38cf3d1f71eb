"""Capacities as channels, for file formats that cannot hold release rates."""

from __future__ import annotations

from csdf.model.graph import Channel, Graph
from csdf.model.space import with_space_channels

SUFFIX = "_space"


def without_release_rates(graph: Graph) -> Graph:
    """Return the graph with each bounded sliding window as a channel and its reverse channel.

    Without a capacity, release rates have no effect and are dropped.
    """
    windows = {channel.name for channel in graph.channels if _is_window(channel)}
    return with_space_channels(graph, windows, suffix=SUFFIX)


def without_capacities(graph: Graph) -> Graph:
    """Return the graph with each bounded channel as a channel and its reverse channel."""
    bounded = {channel.name for channel in graph.channels if channel.capacity is not None}
    return with_space_channels(graph, bounded, suffix=SUFFIX)


def _is_window(channel: Channel) -> bool:
    return channel.capacity is not None and channel.release_rates != channel.consumption
