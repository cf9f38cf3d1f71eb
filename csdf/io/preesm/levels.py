"""A level of a PREESM graph with the values of its parameters, and how often its actors fire."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from fractions import Fraction

from csdf.errors import UnreadableFile
from csdf.io.preesm import expressions
from csdf.io.preesm.document import INTERFACES, Node, PiGraph
from csdf.io.preesm.scenario import PiScenario
from csdf.model.exact import MalformedText, shown

SET_OUTSIDE = "cfg_in_iface"


class Level:
    """A graph, or the graph within an actor: parameters and rates as numbers.

    given: the parameters that the graph around it sets.
    """

    def __init__(self, graph: PiGraph, given: Mapping[str, Fraction], scenario: PiScenario) -> None:
        self.graph = graph
        self._given = given
        self._scenario = scenario
        self._values: dict[str, Fraction] = {}
        for node in graph.nodes.values():
            if node.kind in ("param", SET_OUTSIDE):
                self._find(node)

    def _find(self, first: Node) -> None:
        """Find the value of a parameter, after those that it needs."""
        waiting, open_names = [first], set()
        while waiting:
            node = waiting[-1]
            if node.name in self._values:
                waiting.pop()
                continue
            needed = self._needed(node)
            if not needed:
                self._values[node.name] = self._value(node)
                waiting.pop()
            elif node.name in open_names:
                raise self.graph.refusal(
                    node.line, f"parameter {shown(node.name)} depends on itself"
                )
            else:
                open_names.add(node.name)
                waiting += needed

    def _needed(self, node: Node) -> list[Node]:
        """The parameters without a value that the expression of this one names."""
        if node.name in self._given or self._override(node) is not None or not node.expression:
            return []
        inputs = self.graph.configured[node.name]
        try:
            names = expressions.names_in(node.expression)
        except MalformedText as error:
            raise self.graph.refusal(node.line, f"parameter {shown(node.name)}: {error}") from None
        found = (self.graph.nodes.get(inputs.get(name, name)) for name in names)
        return [
            one
            for one in found
            if one is not None
            and one.kind in ("param", SET_OUTSIDE)
            and one.name not in self._values
        ]

    def _override(self, node: Node) -> tuple[str, int] | None:
        return self._scenario.parameters.get((self.graph.name, node.name))

    def _value(self, node: Node) -> Fraction:
        if node.name in self._given:
            return self._given[node.name]
        override = self._override(node)
        if override is not None:
            text, line = override
            try:
                return expressions.value_of(text, {})
            except MalformedText as error:
                where = f"{self._scenario.file}:{line}:"
                raise UnreadableFile(f"{where} parameter {shown(node.name)}: {error}") from None
        if not node.expression:
            raise self.graph.refusal(
                node.line,
                f"parameter {shown(node.name)} is set by the graph around this one; read that one",
            )
        try:
            return expressions.value_of(node.expression, self._names(node.name))
        except MalformedText as error:
            raise self.graph.refusal(node.line, f"parameter {shown(node.name)}: {error}") from None

    def _names(self, node: str) -> dict[str, Fraction]:
        """Return the meaning of a name at a node: a configuration port of it, or else a parameter."""
        ports = self.graph.configured.get(node, {})
        return self._values | {
            port: self._values[name] for port, name in ports.items() if name in self._values
        }

    def natural(self, text: str, node: str, line: int, what: str) -> int:
        """Return the integer >= 0 that an expression at a node is."""
        try:
            return expressions.natural_of(text, self._names(node))
        except MalformedText as error:
            raise self.graph.refusal(line, f"{what}: {error}") from None

    def from_zero(self, text: str, node: str) -> Fraction:
        """Return the number >= 0 that an expression at a node is. Raises MalformedText."""
        return expressions.from_zero(text, self._names(node))

    def rate(self, node: str, port: str) -> int:
        """Return how many tokens a firing of the node moves through a port."""
        found = self.graph.nodes[node].ports[port]
        what = f"port {shown(port)} of {shown(node)}"
        return self.natural(found.rate, node, found.line, what)

    def interface_rate(self, node: Node, direction: str) -> int:
        """Return how many tokens an interface moves for a port of the given direction around it."""
        for name, port in node.ports.items():
            if port.direction != direction:  # what comes in outside goes out of it inside
                return self.rate(node.name, name)
        raise self.graph.refusal(node.line, f"interface {shown(node.name)} has no port for that")

    def configuration(self, node: str) -> dict[str, Fraction]:
        """Return the parameters that reach the configuration ports of a node, by port."""
        ports = self.graph.configured[node].items()
        return {port: self._values[name] for port, name in ports if name in self._values}

    def require_whole_firings(self) -> None:
        """Refuse a graph within an actor that would need its interfaces several times, or in part."""
        steps: dict[str, list[tuple[str, Fraction, int]]] = defaultdict(list)
        for fifo in self.graph.fifos:
            made, taken = self.rate(*fifo.source), self.rate(*fifo.target)
            if made and taken:
                (giver, _), (taker, _) = fifo.source, fifo.target
                steps[giver].append((taker, Fraction(made, taken), fifo.line))
                steps[taker].append((giver, Fraction(taken, made), fifo.line))
        interfaces = [node.name for node in self.graph.nodes.values() if node.kind in INTERFACES]
        firings = dict.fromkeys(interfaces, Fraction(1))
        waiting = list(interfaces)
        while waiting:
            name = waiting.pop()
            for other, ratio, line in steps[name]:
                if other not in firings:
                    firings[other] = firings[name] * ratio
                    waiting.append(other)
                if firings[other] != firings[name] * ratio or firings[other].denominator > 1:
                    raise self.graph.refusal(
                        line,
                        f"between {shown(name)} and {shown(other)}: one firing of the actor that this "
                        "graph stands for is no whole iteration of it; such a graph is not flattened",
                    )
        for node in self.graph.nodes.values():
            if node.ports and node.kind != "delay" and node.name not in firings:
                raise self.graph.refusal(
                    node.line,
                    f"{shown(node.name)} is connected with no interface, so that nothing says how "
                    "often it fires; such a graph is not flattened",
                )
