"""Subgraphs between tensors: the nodes that outputs depend on, and cuts around unsupported nodes.

Here a graph is a sequence of nodes in execution order, and a place is the index of a node in it; a
tensor is a name or a number. If node 1 of `b = f(a); c = g(b); d = h(c)` is not supported, a subgraph
computes b from the input a of the graph (until b), another the output d from c (begin c).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence, Set
from dataclasses import dataclass
from shlex import quote
from typing import Generic, Protocol, TypeVar

from csdf.errors import CsdfError, UnreadableFile, counted
from csdf.names import meant

Tensor = TypeVar("Tensor", bound=Hashable)
TensorOf = TypeVar("TensorOf", bound=Hashable, covariant=True)


class GraphNode(Protocol[TensorOf]):
    """A node of a graph in a file."""

    @property
    def inputs(self) -> Sequence[TensorOf]:
        """Tensors that the node reads."""

    @property
    def outputs(self) -> Sequence[TensorOf]:
        """Tensors that the node writes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorCut(Generic[Tensor]):
    """Tensors that bound a subgraph without unsupported nodes. nodes: the size of the subgraph.

    begin, until: empty for the inputs or the outputs of the whole graph.
    """

    begin: tuple[Tensor, ...]
    until: tuple[Tensor, ...]
    nodes: int


def needed_nodes(
    nodes: Sequence[GraphNode[Tensor]], begin: Set[Tensor], until: Sequence[Tensor]
) -> list[int]:
    """Return the places of the nodes that compute the tensors `until` from the tensors `begin`."""
    wanted, places = set(until) - begin, []
    for place in reversed(range(len(nodes))):
        node = nodes[place]
        if not wanted.isdisjoint(node.outputs):
            places.append(place)
            wanted.update(tensor for tensor in node.inputs if tensor not in begin)
    return places[::-1]


def cuts_around(
    nodes: Sequence[GraphNode[Tensor]], refused: Set[int], outputs: Sequence[Tensor]
) -> list[TensorCut[Tensor]]:
    """Return the subgraphs before and after the unsupported nodes, the larger subgraph first.

    refused: places of unsupported nodes. outputs: of the graph.
    """
    writers = {tensor: place for place, node in enumerate(nodes) for tensor in node.outputs}
    after, before = set(refused), set(refused)  # what depends on a refused node; what it depends on
    for place, node in enumerate(nodes):
        if any(writers.get(tensor) in after for tensor in node.inputs):
            after.add(place)
    for place in reversed(range(len(nodes))):
        if place in before:
            sources = (writers.get(tensor) for tensor in nodes[place].inputs)
            before.update(source for source in sources if source is not None)
    read_after = (tensor for place in sorted(after) for tensor in nodes[place].inputs)
    until = [
        tensor
        for tensor in (*read_after, *outputs)
        if tensor in writers and writers[tensor] not in after
    ]
    begin = [
        tensor
        for place, node in enumerate(nodes)
        if place not in before
        for tensor in node.inputs
        if writers.get(tensor) in before
    ]
    rest = [tensor for tensor in outputs if tensor in writers and writers[tensor] not in before]
    head: TensorCut[Tensor] = TensorCut(
        begin=(),
        until=tuple(dict.fromkeys(until)),
        nodes=len(needed_nodes(nodes, set(), until)),
    )
    tail = TensorCut(
        begin=tuple(dict.fromkeys(begin)),
        until=() if rest == list(outputs) else tuple(rest),
        nodes=len(needed_nodes(nodes, set(begin), rest)),
    )
    cuts = [head] if until else []
    cuts += [tail] if begin and rest else []
    return sorted(cuts, key=lambda cut: -cut.nodes)


def words_that_read(
    cuts: Sequence[TensorCut[Tensor]],
    name_of: Callable[[Tensor], str],
    read: Callable[[Sequence[str], Sequence[str]], object],
) -> str:
    """Return a clause with the words of the first cut that is read; empty where none is.

    read: reads the part between tensors by name.
    """
    for cut in cuts:
        begin, until = ([name_of(tensor) for tensor in side] for side in (cut.begin, cut.until))
        try:
            read(begin, until)
        except CsdfError:
            continue
        words = [f"--from {quote(name)}" for name in begin]
        words += [f"--until {quote(name)}" for name in until]
        return f"; {' '.join(words)} reads the other {counted(cut.nodes, 'operator')}"
    return ""


def tensor_named(name: str, tensors: dict[str, Tensor]) -> Tensor:
    """Return the tensor of that name. Raises UnreadableFile for a name that no tensor has."""
    if name not in tensors:
        raise UnreadableFile(f"there is no tensor {name!r}{meant(name, tensors)}")
    return tensors[name]
