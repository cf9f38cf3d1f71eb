"""A graph as text for Graphviz."""

from __future__ import annotations

from collections.abc import Collection

from csdf.io import sequences
from csdf.model.graph import Actor, Channel, Graph

MOST_DOTS = 4  # more initial tokens are a number
HIGHLIGHT = 'color="red", penwidth=2'


def graph_to_dot(
    graph: Graph,
    *,
    highlighted_actors: Collection[str] = (),
    highlighted_channels: Collection[str] = (),
) -> str:
    """Return the graph in the DOT language.

    An actor shows its durations (in its time unit), a channel its rates at its ends, its initial
    tokens as dots or a number, and its capacity. Equal neighbours in a sequence are run together:
    `3*2,0`. Raises InvalidGraph if something highlighted is not in the graph.
    """
    marked_actors = {graph.actor(name).name for name in highlighted_actors}
    marked_channels = {graph.channel(name).name for name in highlighted_channels}
    lines = [f"digraph {_quoted(graph.name)} {{", "  rankdir=LR;", "  node [shape=circle];"]
    for actor in graph.actors:
        lines.append(_node(actor, is_marked=actor.name in marked_actors))
    for channel in graph.channels:
        lines.append(_edge(channel, is_marked=channel.name in marked_channels))
    return "\n".join([*lines, "}", ""])


def _node(actor: Actor, *, is_marked: bool) -> str:
    label = f"{actor.name}\n{sequences.abbreviate_sequence(actor.durations)}"
    return f"  {_quoted(actor.name)} [label={_quoted(label)}{_mark(is_marked=is_marked)}];"


def _edge(channel: Channel, *, is_marked: bool) -> str:
    attributes = {
        "label": _channel_label(channel),
        "taillabel": sequences.abbreviate_sequence(channel.production),
        "headlabel": sequences.abbreviate_sequence(channel.consumption),
    }
    shown = ", ".join(f"{key}={_quoted(text)}" for key, text in attributes.items())
    ends = f"{_quoted(channel.producer)} -> {_quoted(channel.consumer)}"
    return f"  {ends} [{shown}{_mark(is_marked=is_marked)}];"


def _channel_label(channel: Channel) -> str:
    lines = [channel.name]
    if 0 < channel.initial_tokens <= MOST_DOTS:
        lines.append("\N{BLACK CIRCLE}" * channel.initial_tokens)
    elif channel.initial_tokens:
        lines.append(f"\N{BLACK CIRCLE}{channel.initial_tokens}")
    if channel.capacity is not None:
        lines.append(f"capacity {channel.capacity}")
    if channel.release is not None:
        lines.append(f"releases {sequences.abbreviate_sequence(channel.release)}")
    return "\n".join(lines)


def _mark(*, is_marked: bool) -> str:
    return f", {HIGHLIGHT}" if is_marked else ""


def _quoted(text: str) -> str:
    """Return a DOT string that shows exactly this text."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
