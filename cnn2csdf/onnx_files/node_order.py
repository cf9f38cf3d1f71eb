"""The nodes that the outputs of a graph need, in an order in which they can run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set

from cnn2csdf.onnx_files.nodes import Node
from cnn2csdf.readers.reading_order import reading_order
from csdf.errors import UnreadableFile


def ordered_nodes(nodes: Sequence[Node], given: Set[str], wanted: Sequence[str]) -> list[Node]:
    """Return the nodes behind the wanted tensors, each after those it reads, else as in the file.

    given: tensors that no node has to write. Raises UnreadableFile for a tensor that nothing writes
    or two nodes write, and for a cycle, naming its nodes.
    """
    writers = _writers(nodes, given)
    needed = _needed(nodes, writers, given, wanted)
    order = reading_order({place: _sources(nodes[place], writers) for place in needed})
    if len(order) < len(needed):
        stuck = needed - set(order)
        raise UnreadableFile(f"the graph has a cycle: {_cycle(nodes, writers, stuck)}")
    return [nodes[place] for place in order]


def _writers(nodes: Sequence[Node], given: Set[str]) -> dict[str, int]:
    writers: dict[str, int] = {}
    for place, node in enumerate(nodes):
        for output in filter(None, node.outputs):
            if output in writers or output in given:
                raise UnreadableFile(f"{node} writes {output!r}, which is already there")
            writers[output] = place
    return writers


def _sources(node: Node, writers: Mapping[str, int]) -> Iterable[int]:
    return {writers[name] for name in node.inputs if name in writers}


def _needed(
    nodes: Sequence[Node], writers: Mapping[str, int], given: Set[str], wanted: Sequence[str]
) -> set[int]:
    for name in wanted:
        if name not in writers and name not in given:
            raise UnreadableFile(f"output {name!r} is not produced by any node")
    frontier = [writers[name] for name in wanted if name in writers]
    needed: set[int] = set()
    while frontier:
        place = frontier.pop()
        if place in needed:
            continue
        needed.add(place)
        for name in filter(None, nodes[place].inputs):
            if name not in writers and name not in given:
                raise UnreadableFile(f"{nodes[place]} reads {name!r}, which nothing produces")
        frontier.extend(_sources(nodes[place], writers))
    return needed


def _cycle(nodes: Sequence[Node], writers: Mapping[str, int], stuck: Set[int]) -> str:
    """Name a cycle: every stuck node has a stuck one before it, so going back must repeat."""
    trail: dict[int, None] = {}
    place = min(stuck)
    while place not in trail:
        trail[place] = None
        place = min(source for source in _sources(nodes[place], writers) if source in stuck)
    passed = list(trail)
    cycle = passed[passed.index(place) :][::-1]
    first = cycle.index(min(cycle))
    names = [repr(nodes[one].name) for one in (*cycle[first:], *cycle[: first + 1])]
    return " -> ".join(names)
