"""A PREESM graph and the graphs within its actors as one: actors with times, and paths of FIFOs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction

from csdf.errors import UnreadableFile, counted
from csdf.io import files
from csdf.io.preesm.document import INTERFACES, SPECIAL, Fifo, Node, PiGraph, parse_document
from csdf.io.preesm.levels import Level
from csdf.io.preesm.project import found_file
from csdf.io.preesm.scenario import PiScenario
from csdf.model.exact import MalformedText, shown

MOST_ACTORS = 100_000
MOST_LEVELS = 20
MOST_GRAPHS = 10_000

End = tuple[str, str]  # an actor, or an actor that stands for a graph, and its port


@dataclass(frozen=True, slots=True, kw_only=True)
class Path:
    """FIFOs through interfaces from one actor to another; refused where its first one stands."""

    source: End
    target: End
    tokens: int
    type: str
    graph: PiGraph
    line: int

    def refusal(self, message: str) -> UnreadableFile:
        """Return the error that blames the first fifo of the path."""
        return self.graph.refusal(self.line, message)


class Flattening:
    """All actors of a graph and of the graphs within them.

    times: of each actor by type of processor; under no name, 0, where nothing says them. rates: of
    each port of an actor. Raises UnreadableFile.
    """

    def __init__(
        self, document: PiGraph, scenario: PiScenario, most: int, *, assume_zero_times: bool
    ) -> None:
        self.times: dict[str, dict[str, Fraction]] = {}
        self.rates: dict[End, int] = {}
        self._scenario = scenario
        self._most = most
        self._assume_zero_times = assume_zero_times
        self._outputs: list[End] = []
        self._onward: dict[End, tuple[End, int, Fifo, PiGraph]] = {}  # where fifos lead
        self._reached: set[End] = set()
        self._files: dict[str, PiGraph] = {}
        self._graphs = 0
        self._add(document, {}, (), 0)

    def paths(self) -> Iterator[Path]:
        """Yield the ways from actor to actor, by their sources."""
        left = len(self._onward)
        for source in self._outputs:
            target, tokens, fifo, graph = self._onward[source]
            left -= 1
            while target not in self.rates:
                target, more, _, _ = self._onward[target]
                tokens += more
                left -= 1
            yield Path(
                source=source, target=target, tokens=tokens, type=fifo.type, graph=graph,
                line=fifo.line,
            )  # fmt: skip
        if left:
            _, _, fifo, graph = next(iter(self._onward.values()))
            raise graph.refusal(fifo.line, "fifos lead from interface to interface for ever")

    def _add(
        self, graph: PiGraph, given: Mapping[str, Fraction], above: tuple[str, ...], depth: int
    ) -> Level:
        """Collect the actors and fifos of a level; above: the actors that it is in."""
        level = Level(graph, given, self._scenario)
        connected = {end for fifo in graph.fifos for end in (fifo.source, fifo.target)}
        for node in graph.nodes.values():
            for port, one in node.ports.items():
                if node.kind != "delay" and (node.name, port) not in connected:
                    raise graph.refusal(
                        one.line, f"port {shown(port)} of {shown(node.name)} has no fifo"
                    )
            if node.refinement is not None:
                self._add_within(level, node, above, depth)
            elif node.kind in ("actor", *SPECIAL):
                self._add_actor(level, node, above)
        for fifo in graph.fifos:
            self._add_fifo(level, fifo, above)
        return level

    def _add_actor(self, level: Level, node: Node, above: tuple[str, ...]) -> None:
        name = "/".join((*above, node.name))
        if len(self.times) >= MOST_ACTORS:
            raise level.graph.refusal(node.line, f"more than {MOST_ACTORS} actors")
        if name in self.times:
            raise level.graph.refusal(node.line, f"two actors are named {shown(name)}")
        self.times[name] = self._times(level, node, name)
        for port, one in node.ports.items():
            self.rates[name, port] = level.rate(node.name, port)
            if one.direction == "output":
                self._outputs.append((name, port))

    def _times(self, level: Level, node: Node, name: str) -> dict[str, Fraction]:
        texts = self._scenario.texts_of(name)
        if texts:
            return {
                processor: self._time(level, node, text, line)
                for processor, (text, line) in texts.items()
            }
        if node.kind == "actor" and not self._assume_zero_times:
            raise level.graph.refusal(
                node.line,
                f"actor {shown(name)} has no time; read a .scenario file of the project that has "
                "one, or let actors without a time take none (--assume-zero-times)",
            )
        return {"": Fraction(0)}

    def _time(self, level: Level, node: Node, text: str, line: int) -> Fraction:
        try:
            return level.from_zero(text, node.name)
        except MalformedText as error:
            where = f"{self._scenario.file}:{line}:"
            raise UnreadableFile(f"{where} time of {shown(node.name)}: {error}") from None

    def _add_within(self, level: Level, node: Node, above: tuple[str, ...], depth: int) -> None:
        """Flatten the graph that an actor stands for."""
        self._graphs += 1
        if depth == MOST_LEVELS or self._graphs > MOST_GRAPHS:
            most = f"{MOST_LEVELS} graphs within one another, or {MOST_GRAPHS} in all"
            raise level.graph.refusal(node.line, f"{shown(node.name)}: more than {most}")
        inner = self._read(level.graph, node)
        given = level.configuration(node.name)
        below = self._add(inner, given, (*above, node.name), depth + 1)
        below.require_whole_firings()
        interfaces = {one.name: one for one in inner.nodes.values() if one.kind in INTERFACES}
        if interfaces.keys() != node.ports.keys():
            name = min(interfaces.keys() ^ node.ports.keys())
            raise level.graph.refusal(
                node.line,
                f"{shown(node.name)}: the port {shown(name)} is only one of the actor, or only an "
                "interface of its graph",
            )
        for port, one in node.ports.items():
            inside = below.interface_rate(interfaces[port], one.direction)
            outside = level.rate(node.name, port)
            if outside != inside:
                raise level.graph.refusal(
                    one.line,
                    f"port {shown(port)} of {shown(node.name)} moves "
                    f"{counted(outside, 'token')}, the interface of its graph {inside}",
                )

    def _read(self, graph: PiGraph, node: Node) -> PiGraph:
        path = found_file(node.refinement or "", graph.file)
        if path is None:
            raise graph.refusal(
                node.line,
                f"{shown(node.name)} stands for the graph {shown(node.refinement or '')}, which is "
                "in none of the folders around this file",
            )
        if path not in self._files:
            self._files[path] = parse_document(files.read_found(path, self._most), path, self._most)
        return self._files[path]

    def _add_fifo(self, level: Level, fifo: Fifo, above: tuple[str, ...]) -> None:
        source, target = (_end(level, end, above) for end in (fifo.source, fifo.target))
        tokens = 0
        if fifo.delay is not None:
            at = fifo.source[0] if fifo.delay_node is None else fifo.delay_node
            tokens = level.natural(fifo.delay, at, fifo.line, "delay")
        for end, known in ((source, self._onward), (target, self._reached)):
            if end in known:
                raise level.graph.refusal(
                    fifo.line, f"port {shown(end[1])} of {shown(end[0])} has two fifos"
                )
        self._onward[source] = (target, tokens, fifo, level.graph)
        self._reached.add(target)


def _end(level: Level, end: tuple[str, str], above: tuple[str, ...]) -> End:
    """An end under the name that both sides of an interface share."""
    node, port = end
    if level.graph.nodes[node].kind in INTERFACES:
        return "/".join(above), node
    return "/".join((*above, node)), port
