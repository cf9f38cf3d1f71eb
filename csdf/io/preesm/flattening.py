"""Flattening of a PREESM graph: the graphs within its actors become part of one graph.

An actor may stand for a graph of another file. Such a graph, or the outermost, is a level. A FIFO to a
port of this actor continues inside, at the interface of the same name: both have the end (full name of
the actor, port). The full name of an actor has the names of all enclosing actors: `outer/inner/fft`.

`FlattenedGraph` computes the parameters, rates and firings of one level; `Flattening` connects the
levels through their interfaces.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import product
from math import gcd, lcm

from csdf.errors import UnreadableFile, counted
from csdf.io import files
from csdf.io.preesm.document import (
    INTERFACES,
    SPECIAL,
    PiGraph,
    PreesmFifo,
    PreesmNode,
    found_file,
    parse_document,
)
from csdf.io.preesm.expressions import parameter_names, shortened, value_of
from csdf.io.preesm.scenario import PiScenario
from csdf.model.exact import MalformedText, shown

MOST_ACTORS = 100_000
MOST_LEVELS = 20  # within one another
MOST_GRAPHS = 10_000
MOST_PHASES = 100_000  # firings in an iteration of an actor at a local delay
MOST_MOVES = 2_000_000  # firings at all local delays together
SET_OUTSIDE = "cfg_in_iface"  # the kind of a parameter that the enclosing graph sets

End = tuple[str, str]  # an actor, or an actor that stands for a graph, and its port


@dataclass(frozen=True, slots=True, kw_only=True)
class Path:
    """A path of FIFOs through interfaces from one actor to another; line: of its first FIFO."""

    source: End
    target: End
    tokens: int
    type: str
    graph: PiGraph
    line: int

    def refusal(self, message: str) -> UnreadableFile:
        """Return an error at the first FIFO of the path."""
        return self.graph.refusal(self.line, message)


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """Tokens from one port to another in each iteration of a level, by firing of both actors."""

    source: End
    target: End
    production: tuple[int, ...]
    consumption: tuple[int, ...]
    type: str


class Flattening:
    """All actors of a graph and of the graphs within them.

    times: durations of each actor, by type of processor; {"": 0} for an actor without durations.
    rates: tokens that a firing moves through each port of an actor.
    flows: the tokens of FIFOs with a local delay (PREESM's term; here a delay that starts anew).
    phases: firings of each actor with a port in `flows`, in its level. Raises UnreadableFile.
    """

    def __init__(
        self, document: PiGraph, scenario: PiScenario, maximum: int, *, assume_zero_times: bool
    ) -> None:
        self.times: dict[str, dict[str, Fraction]] = {}
        self.rates: dict[End, int] = {}
        self.phases: dict[str, int] = {}
        self.flows: list[Flow] = []
        self._scenario = scenario
        self._most = maximum
        self._assume_zero_times = assume_zero_times
        self._outputs: list[End] = []  # of actors, at which paths begin
        # By source, the target of each FIFO and the tokens of its delay.
        self._fifo_from: dict[End, tuple[End, int, PreesmFifo, PiGraph]] = {}
        self._ends: set[tuple[str, str, str]] = set()  # source or target, node, port
        self._files: dict[str, PiGraph] = {}
        self._graphs = 0
        self._moves = 0
        self._add_level(FlattenedGraph(document, scenario, {}, ()))

    def paths(self) -> Iterator[Path]:
        """Yield the paths from actor to actor, by their sources."""
        left = len(self._fifo_from)
        for source in self._outputs:
            target, tokens, fifo, graph = self._fifo_from[source]
            left -= 1
            while target not in self.rates:
                target, more, _, _ = self._fifo_from[target]
                tokens += more
                left -= 1
            yield Path(
                source=source, target=target, tokens=tokens, type=fifo.type, graph=graph,
                line=fifo.line,
            )  # fmt: skip
        if left:
            _, _, fifo, graph = next(iter(self._fifo_from.values()))
            raise graph.refusal(fifo.line, "fifos lead from interface to interface for ever")

    def _add_level(self, level: FlattenedGraph) -> None:
        """Collect the actors and FIFOs of a level, and of the levels within it."""
        graph = level.graph
        connected = {end for fifo in graph.fifos for end in (fifo.source, fifo.target)}
        for node in graph.nodes.values():
            connected |= {end for end in (node.setter, node.getter) if end is not None}
        for node in graph.nodes.values():
            for port, port_of_node in node.ports.items():
                if node.kind != "delay" and (node.name, port) not in connected:
                    raise graph.refusal(
                        port_of_node.line, f"port {shown(port)} of {shown(node.name)} has no fifo"
                    )
            if node.refinement is not None:
                self._add_refinement(level, node)
            elif node.kind in ("actor", *SPECIAL):
                self._add_actor(level, node)
        delays = {fifo.delay_node for fifo in graph.fifos}
        for node in graph.nodes.values():
            if (node.setter or node.getter) and node.name not in delays:
                raise graph.refusal(
                    node.line, f"delay {shown(node.name)} has a setter or getter, and no fifo"
                )
        for fifo in graph.fifos:
            delay = None if fifo.delay_node is None else graph.nodes[fifo.delay_node]
            if delay is not None and delay.starts_anew:
                self._add_flows(level, fifo, delay)
            else:
                self._add_fifo(level, fifo)

    def _add_flows(self, level: FlattenedGraph, fifo: PreesmFifo, delay: PreesmNode) -> None:
        """Add the token flows of a FIFO with a local delay: its queue begins anew in each iteration.

        The queue holds the tokens of the delay, then those of the producer. The consumer takes the
        first tokens and leaves as many as the delay has; the getter takes the rest. Without a setter
        the first tokens are initial tokens; without a getter the last tokens are dropped.
        Source: Arrestier, Desnos, Pelcat, Heulot, Juarez, Menard, Delays and states in dataflow models
        of computation, SAMOS 2018.
        """
        ends = {
            "setter": delay.setter, "source": fifo.source, "target": fifo.target,
            "getter": delay.getter,
        }  # fmt: skip
        moved = self._queue_intervals(level, ends, fifo, delay)
        for writer, reader in product(("setter", "source"), ("target", "getter")):
            source, target = ends[writer], ends[reader]
            if source is None or target is None:
                continue
            produced, consumed = moved[writer], moved[reader]
            shared = max(produced[0][0], consumed[0][0]), min(produced[-1][1], consumed[-1][1])
            if shared[0] < shared[1]:
                self.flows.append(
                    Flow(
                        source=(level.full_name(source[0]), source[1]),
                        target=(level.full_name(target[0]), target[1]),
                        production=_overlaps(produced, shared),
                        consumption=_overlaps(consumed, shared),
                        type=fifo.type,
                    )
                )
        # At these outputs begins a flow, and no path from actor to actor.
        for source in (fifo.source, delay.setter):
            if source is not None:
                self._outputs.remove((level.full_name(source[0]), source[1]))

    def _queue_intervals(
        self,
        level: FlattenedGraph,
        ends: Mapping[str, End | None],
        fifo: PreesmFifo,
        delay: PreesmNode,
    ) -> dict[str, list[tuple[int, int]]]:
        """Return, for each end, the interval of queue positions that each of its firings moves."""
        firings = level.firings
        tokens = level.natural(fifo.delay or "0", delay.name, delay.line, "delay")
        produced, consumed = (
            firings.get(node, 1) * level.rate(node, port)
            for node, port in (fifo.source, fifo.target)
        )
        if produced != consumed:
            raise level.graph.refusal(
                fifo.line,
                f"an iteration puts {counted(produced, 'token')} into this fifo, and takes {consumed}; "
                "expected as many",
            )
        intervals = {}
        for role, end in ends.items():
            if end is None:
                continue
            node, name = level.graph.nodes[end[0]], level.full_name(end[0])
            rate, count = level.rate(*end), firings.get(end[0], 1)
            subject = (
                f"delay {shown(delay.name)} starts anew in each iteration, and its {role} "
                f"{shown(end[0])}"
            )
            if node.refinement is not None or node.kind in INTERFACES:
                message = f"{subject} is no plain actor, which is not read"
                raise level.graph.refusal(delay.line, message)
            if not 1 <= count <= MOST_PHASES:
                message = f"{subject} fires {count} times; expected 1 to {MOST_PHASES}"
                raise level.graph.refusal(delay.line, message)
            self._moves += count
            if self._moves > MOST_MOVES:
                message = (
                    f"actors at delays that start anew fire more than {MOST_MOVES} times in all"
                )
                raise level.graph.refusal(delay.line, f"{message}; expected at most so many")
            if role in ("setter", "getter") and rate * count != tokens:
                message = (
                    f"{subject} moves {counted(rate * count, 'token')} then; expected its {tokens}"
                )
                raise level.graph.refusal(delay.line, message)
            is_input = role in ("target", "getter")
            self._connect(level, ("target" if is_input else "source", name, end[1]), delay.line)
            begin = {"source": tokens, "getter": produced}.get(role, 0)
            intervals[role] = [(begin + k * rate, begin + (k + 1) * rate) for k in range(count)]
            self.phases[name] = count
        return intervals

    def _add_actor(self, level: FlattenedGraph, node: PreesmNode) -> None:
        name = level.full_name(node.name)
        if len(self.times) >= MOST_ACTORS:
            raise level.graph.refusal(node.line, f"more than {MOST_ACTORS} actors")
        if name in self.times:
            raise level.graph.refusal(node.line, f"two actors are named {shown(name)}")
        self.times[name] = self._times(level, node, name)
        for port, port_of_node in node.ports.items():
            self.rates[name, port] = level.rate(node.name, port)
            if port_of_node.direction == "output":
                self._outputs.append((name, port))

    def _times(self, level: FlattenedGraph, node: PreesmNode, name: str) -> dict[str, Fraction]:
        """Return the duration of an actor on each type of processor; name: its full name."""
        times = {}
        for processor, (text, line) in self._scenario.times.get(name, {}).items():
            where = f"{self._scenario.file}:{line}: time of {shown(node.name)}:"
            try:
                value = times[processor] = value_of(text, level.names(node.name))
            except MalformedText as error:
                raise UnreadableFile(f"{where} {error}") from None
            if value < 0:
                raise UnreadableFile(
                    f"{where} {shown(text)} is {shortened(value)}, which is negative"
                )
        if not times and node.kind == "actor" and not self._assume_zero_times:
            raise level.graph.refusal(
                node.line,
                f"actor {shown(name)} has no time; read a .scenario file of the project that has "
                "one, or let actors without a time take none (--assume-zero-times)",
            )
        return times or {"": Fraction(0)}

    def _add_refinement(self, level: FlattenedGraph, node: PreesmNode) -> None:
        """Flatten the graph that an actor stands for."""
        graph, file = level.graph, node.refinement or ""
        self._graphs += 1
        if len(level.enclosing) == MOST_LEVELS or self._graphs > MOST_GRAPHS:
            maximum = f"{MOST_LEVELS} graphs within one another, or {MOST_GRAPHS} in all"
            raise graph.refusal(node.line, f"{shown(node.name)}: more than {maximum}")
        path = found_file(file, graph.file)
        if path is None:
            raise graph.refusal(
                node.line,
                f"{shown(node.name)} stands for the graph {shown(file)}, which is in none of the "
                "folders around this file",
            )
        if path not in self._files:
            self._files[path] = parse_document(files.read_found(path, self._most), path, self._most)
        inner = self._files[path]
        parameters = level.ports_set(node.name)
        below = FlattenedGraph(inner, self._scenario, parameters, (*level.enclosing, node.name))
        self._add_level(below)
        below.require_whole_firings()
        interfaces = {node.name: node for node in inner.nodes.values() if node.kind in INTERFACES}
        if interfaces.keys() != node.ports.keys():
            name = min(interfaces.keys() ^ node.ports.keys())
            raise graph.refusal(
                node.line,
                f"{shown(node.name)}: the port {shown(name)} is only one of the actor, or only an "
                "interface of its graph",
            )
        for port, port_of_node in node.ports.items():
            # An input port of the actor is an interface with an output port inside.
            facing = [
                name
                for name, inner_port in interfaces[port].ports.items()
                if inner_port.direction != port_of_node.direction
            ]
            if not facing:
                line, name = interfaces[port].line, shown(port)
                raise inner.refusal(line, f"interface {name} has no port for that")
            inside, outside = below.rate(port, facing[0]), level.rate(node.name, port)
            if outside != inside:
                raise graph.refusal(
                    port_of_node.line,
                    f"port {shown(port)} of {shown(node.name)} moves "
                    f"{counted(outside, 'token')}, the interface of its graph {inside}",
                )

    def _add_fifo(self, level: FlattenedGraph, fifo: PreesmFifo) -> None:
        # An interface is the port of the enclosing actor: both have the same end.
        source, target = (
            ("/".join(level.enclosing), name)
            if level.graph.nodes[name].kind in INTERFACES
            else (level.full_name(name), port)
            for name, port in (fifo.source, fifo.target)
        )
        tokens = 0
        if fifo.delay is not None:
            at = fifo.source[0] if fifo.delay_node is None else fifo.delay_node
            tokens = level.natural(fifo.delay, at, fifo.line, "delay")
        self._connect(level, ("source", *source), fifo.line)
        self._connect(level, ("target", *target), fifo.line)
        self._fifo_from[source] = (target, tokens, fifo, level.graph)

    def _connect(self, level: FlattenedGraph, end: tuple[str, str, str], line: int) -> None:
        """Record the end of a FIFO: (side, node, port). An interface has a FIFO on each side."""
        if end in self._ends:
            raise level.graph.refusal(
                line, f"port {shown(end[2])} of {shown(end[1])} has two fifos"
            )
        self._ends.add(end)


def _overlaps(intervals: list[tuple[int, int]], shared: tuple[int, int]) -> tuple[int, ...]:
    """Return the length of the overlap of each interval with the shared interval."""
    return tuple(max(0, min(end, shared[1]) - max(begin, shared[0])) for begin, end in intervals)


class FlattenedGraph:
    """The outermost graph, or the graph within an actor: parameters and rates as numbers.

    given: the parameters that the enclosing graph sets. enclosing: the actors that this graph is
    within, the outermost first.
    """

    def __init__(
        self,
        graph: PiGraph,
        scenario: PiScenario,
        given: Mapping[str, Fraction],
        enclosing: tuple[str, ...],
    ) -> None:
        self.graph = graph
        self.enclosing = enclosing
        self._given = given
        self._scenario = scenario
        self._values: dict[str, Fraction] = {}
        for node in graph.nodes.values():
            if node.kind in ("param", SET_OUTSIDE):
                self._find(node)

    def full_name(self, node: str) -> str:
        """Return the name of a node after those of the enclosing actors."""
        return "/".join((*self.enclosing, node))

    def _find(self, first: PreesmNode) -> None:
        """Compute the value of a parameter, after the values that it depends on, depth first."""
        waiting, open_names = [first], set()  # open: its parameters are being computed
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

    def _needed(self, node: PreesmNode) -> list[PreesmNode]:
        """Return the parameters in the expression of this parameter that have no value yet."""
        is_set = node.name in self._given or self._override(node) is not None
        if is_set or not node.expression:
            return []
        inputs = self.graph.configured[node.name]
        try:
            names = parameter_names(node.expression)
        except MalformedText as error:
            raise self.graph.refusal(node.line, f"parameter {shown(node.name)}: {error}") from None
        neighbours = (self.graph.nodes.get(inputs.get(name, name)) for name in names)
        return [
            node
            for node in neighbours
            if node is not None
            and node.kind in ("param", SET_OUTSIDE)
            and node.name not in self._values
        ]

    def _override(self, node: PreesmNode) -> tuple[str, int] | None:
        return self._scenario.parameters.get((self.graph.name, node.name))

    def _value(self, node: PreesmNode) -> Fraction:
        if node.name in self._given:
            return self._given[node.name]
        override = self._override(node)
        setter = self.graph.set_by.get(node.name)
        if override is None and setter is not None:
            raise self.graph.refusal(
                node.line,
                f"{shown(setter)} sets the parameter {shown(node.name)} while the graph runs; read a "
                ".scenario file with a value for it",
            )
        if override is None and not node.expression:
            raise self.graph.refusal(
                node.line,
                f"parameter {shown(node.name)} is set by the graph around this one; read that one",
            )
        file, names = self.graph.file, self.names(node.name)
        text, line = node.expression or "", node.line
        if override is not None:
            file, names, (text, line) = self._scenario.file, {}, override
        try:
            return value_of(text, names)
        except MalformedText as error:
            where = f"{file}:{line}:"
            raise UnreadableFile(f"{where} parameter {shown(node.name)}: {error}") from None

    def names(self, node: str) -> dict[str, Fraction]:
        """Return the values of names at a node: its configuration ports, and other parameters."""
        return self._values | self.ports_set(node)

    def ports_set(self, node: str) -> dict[str, Fraction]:
        """Return the parameters that reach the configuration ports of a node, by port."""
        ports = self.graph.configured.get(node, {}).items()
        return {port: self._values[name] for port, name in ports if name in self._values}

    def natural(self, text: str, node: str, line: int, what: str) -> int:
        """Return the value of an expression at a node, a natural number. Raises UnreadableFile."""
        try:
            value = value_of(text, self.names(node))
        except MalformedText as error:
            raise self.graph.refusal(line, f"{what}: {error}") from None
        if value.denominator != 1 or value < 0:
            problem = f"{shown(text)} is {shortened(value)}, not an integer >= 0"
            raise self.graph.refusal(line, f"{what}: {problem}")
        return value.numerator

    def rate(self, node: str, port: str) -> int:
        """Return the number of tokens that a firing of the node moves through a port."""
        port_of_node = self.graph.nodes[node].ports[port]
        what = f"port {shown(port)} of {shown(node)}"
        return self.natural(port_of_node.rate, node, port_of_node.line, what)

    @cached_property
    def firings(self) -> dict[str, int]:
        """The firings of each node in an iteration of this graph.

        An interface fires once, and so does a delay with a setter. A connected component without an
        interface has the smallest integers.
        """
        ratios = self._ratios(with_delays=True)
        firings: dict[str, Fraction] = {}
        for first in sorted(ratios, key=lambda name: self.graph.nodes[name].kind not in INTERFACES):
            if first in firings:
                continue
            component = _connected_firings(ratios, [first])
            # A graph within an actor fires its interfaces once; require_whole_firings checks that.
            if self.graph.nodes[first].kind not in INTERFACES:
                scale = Fraction(
                    lcm(*(count.denominator for count in component.values())),
                    gcd(*(count.numerator for count in component.values())),
                )
                component = {name: count * scale for name, count in component.items()}
            firings |= component
        return {name: int(count) for name, count in firings.items()}

    def _ratios(self, *, with_delays: bool) -> Ratios:
        """Return the neighbours of each node by FIFOs with tokens.

        with_delays: also by setters and getters of delays.
        """
        edges = [
            (fifo.source, self.rate(*fifo.source), fifo.target, self.rate(*fifo.target), fifo.line)
            for fifo in self.graph.fifos
        ]
        for node in self.graph.nodes.values() if with_delays else ():
            for end in filter(None, (node.setter, node.getter)):
                tokens = self.natural(node.expression or "0", node.name, node.line, "delay")
                edges.append((end, self.rate(*end), (node.name, ""), tokens, node.line))
        ratios: Ratios = defaultdict(list)
        for (source, _), produced, (target, _), consumed, line in edges:
            if produced and consumed:
                ratios[source].append((target, Fraction(produced, consumed), line))
                ratios[target].append((source, Fraction(consumed, produced), line))
        return ratios

    def require_whole_firings(self) -> None:
        """Refuse a graph within an actor unless a firing of its interfaces is one iteration."""
        ratios = self._ratios(with_delays=False)
        interfaces = [node.name for node in self.graph.nodes.values() if node.kind in INTERFACES]
        firings = _connected_firings(ratios, interfaces)
        for name, count in firings.items():
            for neighbour, ratio, line in ratios[name]:
                if firings[neighbour] != count * ratio or firings[neighbour].denominator > 1:
                    raise self.graph.refusal(
                        line,
                        f"between {shown(name)} and {shown(neighbour)}: one firing of the actor that "
                        "this graph stands for is no whole iteration of it; such a graph is not "
                        "flattened",
                    )
        # The delay of a setter or getter determines its firings.
        nodes = self.graph.nodes.values()
        states = {end[0] for node in nodes for end in (node.setter, node.getter) if end is not None}
        for node in nodes:
            if node.name in states:
                continue
            if node.ports and node.kind != "delay" and node.name not in firings:
                raise self.graph.refusal(
                    node.line,
                    f"{shown(node.name)} is connected with no interface, so that nothing says how "
                    "often it fires; such a graph is not flattened",
                )


# Of each node its neighbours, with the firings of the neighbour for a firing of the node, and a line.
Ratios = dict[str, list[tuple[str, Fraction, int]]]


def _connected_firings(ratios: Ratios, first: Iterable[str]) -> dict[str, Fraction]:
    """Return the firings of all nodes connected with the first nodes, each of which fires once."""
    firings = dict.fromkeys(first, Fraction(1))
    waiting = list(firings)
    while waiting:
        name = waiting.pop()
        for neighbour, ratio, _ in ratios[name]:
            if neighbour not in firings:
                firings[neighbour] = firings[name] * ratio
                waiting.append(neighbour)
    return firings
