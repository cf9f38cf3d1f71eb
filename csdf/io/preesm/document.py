"""A `.pi` file of PREESM as its elements: nodes with ports, FIFOs, delays and parameters.

A `.pi` file is GraphML. Of each <node> the attribute `kind` says what it is: `actor`, the special
actors `broadcast`, `fork`, `join` and `roundbuffer`, `param` with an expression, `delay`, and the
interfaces `src`, `snk`, `cfg_in_iface` and `cfg_out_iface` of a graph that stands for an actor of
another graph.
Each <port> of a node has a kind and the expression of its rate. An <edge> is a `fifo` between data
ports, perhaps with a delay, or a `dependency` that takes a parameter to where it is used.

Source: the files of the project preesm-apps, and Desnos et al., PiMM: Parameterized and Interfaced
dataflow Meta-Model for MPSoCs runtime reconfiguration, SAMOS 2013.

It resolves paths between the files of a project as well.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath

from lxml import etree

from csdf.errors import UnreadableFile
from csdf.io import files
from csdf.io.sdf3 import source
from csdf.io.sdf3.document import line_of
from csdf.model.exact import shown

SPECIAL = ("broadcast", "fork", "join", "roundbuffer")
INTERFACES = {"src": "output", "snk": "input"}  # as seen from inside the graph
WITH_TOKENS = ("actor", *SPECIAL, *INTERFACES)
KINDS = (*WITH_TOKENS, "param", "delay", "cfg_in_iface", "cfg_out_iface")
SETS = "cfg_output"
IGNORED_PORTS = ("cfg_input", SETS)


@dataclass(frozen=True, slots=True, kw_only=True)
class DataPort:
    """A data port: the direction of its tokens, and the expression of their number in a firing."""

    direction: str  # input or output
    rate: str
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PreesmNode:
    """A node of the graph. refinement: the .pi file that it stands for, as written."""

    name: str
    kind: str
    line: int
    expression: str | None
    ports: dict[str, DataPort] = field(default_factory=dict)
    level: str = "permanent"  # of a delay
    sets: frozenset[str] = frozenset()  # ports of an actor that set parameters while it runs
    setter: tuple[str, str] | None = None  # of a delay, the actor and port that sets its tokens
    getter: tuple[str, str] | None = None  # and the actor and port that gets them in the end
    refinement: str | None = None

    @property
    def starts_anew(self) -> bool:
        """Whether a delay has its initial tokens again in each iteration of its graph."""
        return self.level == "local" or self.setter is not None or self.getter is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class PreesmFifo:
    """A queue between two data ports; delay: the expression of its tokens."""

    source: tuple[str, str]  # node and port
    target: tuple[str, str]
    type: str
    delay: str | None
    delay_node: str | None
    line: int

    @property
    def key(self) -> str:
        """Return the name that older files use where a parameter is for its delay."""
        return f"{'.'.join(self.source)}-{'.'.join(self.target)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PiGraph:
    """The contents of a .pi file.

    configured: of each node, the parameters that reach its ports. set_by: of a parameter that an actor
    sets while the graph runs, that actor.
    """

    file: str
    name: str
    line: int
    nodes: dict[str, PreesmNode]
    fifos: tuple[PreesmFifo, ...]
    configured: dict[str, dict[str, str]]
    set_by: dict[str, str]

    def refusal(self, line: int, message: str) -> UnreadableFile:
        """Return the error that blames a line of the file."""
        return UnreadableFile(f"{self.file}:{line}: {message}")


def parse_document(content: bytes, name: str, maximum: int = files.LARGEST_FILE_BYTES) -> PiGraph:
    """Return what a .pi file says. Raises UnreadableFile, naming the line."""
    root = _root(content, name, maximum)
    graphs = [child for child in root if child.tag == "graph"]
    if root.tag != "graphml" or len(graphs) != 1:
        excerpt = f"<{root.tag}> with {len(graphs)} <graph>"
        raise UnreadableFile(
            f"{name}:{root.sourceline}: {excerpt}; a PREESM graph (PiSDF, .pi) is <graphml> with one"
        )
    return _GraphReader(graphs[0], name).graph()


def _root(content: bytes, name: str, maximum: int) -> etree._Element:
    files.require_size(content, name, maximum)
    root = source.parse_root(content, name)
    for element in root.iter(etree.Element):
        element.tag = etree.QName(element).localname
    return root


def scenario_root(content: bytes, name: str, maximum: int) -> etree._Element:
    """Return the root of the file of a scenario."""
    root = _root(content, name, maximum)
    if root.tag != "scenario":
        raise UnreadableFile(
            f"{name}:{root.sourceline}: the root is <{root.tag}>; a PREESM scenario is <scenario>"
        )
    return root


class _GraphReader:
    """The elements of a <graph>, checked one by one."""

    def __init__(self, element: etree._Element, file: str) -> None:
        self._element = element
        self._file = file
        self._nodes: dict[str, PreesmNode] = {}

    def graph(self) -> PiGraph:
        for element in self._element.iterchildren("node"):
            node = self._node(element)
            if node.name in self._nodes:
                line = self._nodes[node.name].line
                raise self._refusal(element, f"node {shown(node.name)} is already on line {line}")
            self._nodes[node.name] = node
        edges: dict[str, list[etree._Element]] = {"fifo": [], "dependency": []}
        for element in self._element.iterchildren("edge"):
            kind = self._attribute(element, "kind", "an edge")
            if kind not in edges:
                expected = " or ".join(edges)
                raise self._refusal(
                    element, f"an edge of the kind {shown(kind)}; expected {expected}"
                )
            edges[kind].append(element)
        plain = []
        for element in edges["fifo"]:
            if not self._store_setter_or_getter(element):
                plain.append(element)
        fifos = [self._fifo(element) for element in plain]
        configured = self._configured(edges["dependency"], {fifo.key for fifo in fifos})
        return PiGraph(
            file=self._file,
            name=self._name(),
            line=line_of(self._element),
            nodes=self._nodes,
            fifos=tuple(fifos),
            configured=configured,
            set_by=self._set_by(edges["dependency"]),
        )

    def _name(self) -> str:
        name = _data(self._element, "name")
        if not name:
            raise self._refusal(self._element, "<graph> has no <data key='name'>")
        return name

    def _node(self, element: etree._Element) -> PreesmNode:
        name = self._attribute(element, "id", "a node")
        kind = self._attribute(element, "kind", f"node {shown(name)}")
        if kind not in KINDS:
            raise self._refusal(
                element,
                f"node {shown(name)} has the kind {shown(kind)}; expected one of {', '.join(KINDS)}",
            )
        described = _data(element, "graph_desc") or ""
        is_refined = kind == "actor" and described.lower().endswith(".pi")
        return PreesmNode(
            name=name,
            kind=kind,
            line=line_of(element),
            expression=element.get("expr"),
            ports=self._ports(element, name),
            sets=frozenset(
                self._attribute(port, "name", f"a port of {shown(name)}")
                for port in element.iterchildren("port")
                if port.get("kind") == SETS
            ),
            level=element.get("level") or "permanent",
            refinement=described if is_refined else None,
        )

    def _ports(self, element: etree._Element, node: str) -> dict[str, DataPort]:
        ports: dict[str, DataPort] = {}
        for port in element.iterchildren("port"):
            kind = self._attribute(port, "kind", f"a port of {shown(node)}")
            name = self._attribute(port, "name", f"a port of {shown(node)}")
            if kind in IGNORED_PORTS:
                continue
            if kind not in ("input", "output"):
                raise self._refusal(port, f"port {shown(name)} has the kind {shown(kind)}")
            if name in ports:
                raise self._refusal(port, f"{shown(node)} has two ports {shown(name)}")
            rate = self._attribute(port, "expr", f"port {shown(name)} of {shown(node)}")
            ports[name] = DataPort(direction=kind, rate=rate, line=line_of(port))
        return ports

    def _store_setter_or_getter(self, element: etree._Element) -> bool:
        """Store the actor from which a fifo leads to a delay, or to which it leads from a delay.

        False for a fifo between two other nodes.
        """
        nodes = {end: self._known(element, end) for end in ("source", "target")}
        delays = [end for end, node in nodes.items() if node.kind == "delay"]
        if not delays:
            return False
        if len(delays) > 1:
            raise self._refusal(element, "a fifo between two delays; expected an actor at one end")
        is_setter = delays == ["target"]
        end, direction = ("source", "output") if is_setter else ("target", "input")
        delay, actor = nodes[delays[0]], self._end(element, end, direction)
        if (delay.setter if is_setter else delay.getter) is not None:
            what = "setters" if is_setter else "getters"
            raise self._refusal(element, f"delay {shown(delay.name)} has two {what}")
        self._nodes[delay.name] = (
            replace(delay, setter=actor) if is_setter else replace(delay, getter=actor)
        )
        return True

    def _end(self, element: etree._Element, end: str, direction: str) -> tuple[str, str]:
        """Return the node and the port at an end of a fifo."""
        node = self._known(element, end)
        port = self._attribute(element, f"{end}port", "a fifo")
        if node.kind not in WITH_TOKENS:
            raise self._refusal(
                element,
                f"{shown(node.name)} of the kind {shown(node.kind)} moves no tokens; expected an "
                "actor or an interface",
            )
        if port not in node.ports or node.ports[port].direction != direction:
            raise self._refusal(
                element, f"{shown(node.name)} has no {direction} port {shown(port)}"
            )
        return node.name, port

    def _fifo(self, element: etree._Element) -> PreesmFifo:
        """Return a fifo; its delay is a node with an expression, or the fifo's own expression."""
        tokens = element.get("expr")
        named = _data(element, "delay")
        delay = self._nodes.get(named) if named else None
        if named and tokens is None and (delay is None or delay.kind != "delay"):
            raise self._refusal(element, f"there is no delay {shown(named)}")
        if delay is not None:
            if delay.kind != "delay":
                raise UnreadableFile(
                    f"{self._file}:{delay.line}: {shown(delay.name)} is used as a delay, but is a "
                    f"node of the kind {shown(delay.kind)}"
                )
            tokens = delay.expression or tokens
        return PreesmFifo(
            source=self._end(element, "source", "output"),
            target=self._end(element, "target", "input"),
            type=element.get("type") or "",
            delay=tokens,
            delay_node=None if delay is None else delay.name,
            line=line_of(element),
        )

    def _set_by(self, dependencies: list[etree._Element]) -> dict[str, str]:
        """The parameters that actors set, each with its actor."""
        set_by: dict[str, str] = {}
        for element in dependencies:
            giver = self._known(element, "source")
            if element.get("sourceport") not in giver.sets:
                continue
            taker = self._known(element, "target")
            if taker.kind != "param" or taker.name in set_by:
                raise self._refusal(
                    element,
                    f"{shown(giver.name)} sets {shown(taker.name)}, which is no parameter of this "
                    "graph or is set twice, while the graph runs; expected a parameter set once",
                )
            set_by[taker.name] = giver.name
        return set_by

    def _configured(
        self, dependencies: list[etree._Element], fifos: set[str]
    ) -> dict[str, dict[str, str]]:
        """The parameters that reach each node, by port or else by their own names."""
        configured: dict[str, dict[str, str]] = {name: {} for name in self._nodes}
        for element in dependencies:
            giver = self._known(element, "source")
            if element.get("sourceport") in giver.sets:
                continue
            if giver.kind not in ("param", "cfg_in_iface"):
                raise self._refusal(
                    element,
                    f"{shown(giver.name)} is no parameter; only constant parameters are read",
                )
            if element.get("target") in fifos:
                continue  # for its delay, which uses parameters by their own names
            taker = self._known(element, "target")
            configured[taker.name][element.get("targetport") or giver.name] = giver.name
        return configured

    def _known(self, element: etree._Element, end: str) -> PreesmNode:
        name = self._attribute(element, end, "an edge")
        if name not in self._nodes:
            raise self._refusal(element, f"there is no node {shown(name)}")
        return self._nodes[name]

    def _attribute(self, element: etree._Element, key: str, owner: str) -> str:
        value = element.get(key)
        if value is None:
            raise self._refusal(element, f"{owner}: <{element.tag}> has no attribute {key!r}")
        return value

    def _refusal(self, element: etree._Element, message: str) -> UnreadableFile:
        return UnreadableFile(f"{self._file}:{line_of(element)}: {message}")


def _data(element: etree._Element, key: str) -> str | None:
    """The text of a <data> child of that key."""
    for child in element.iterchildren("data"):
        if child.get("key") == key:
            return (child.text or "").strip()
    return None


MOST_ABOVE = 6  # folders between a file and that of its project


def found_file(url: str, referring_file: str) -> str | None:
    """Return where a .pi file of the project is, or None.

    Its path begins in the project's folder, or with the name of that folder, which is one of those
    around the file beside which it is looked for.
    """
    parts = [part for part in PurePosixPath(url).parts if part != "/"]
    if not parts or ".." in parts or not parts[-1].lower().endswith(".pi"):
        return None
    for folder in list(Path(referring_file).absolute().parents)[:MOST_ABOVE]:
        for suffix in (parts, parts[1:]):
            path = folder.joinpath(*suffix)
            try:
                if suffix and path.is_file():
                    return str(path)
            except (OSError, ValueError):  # no file has such a name
                return None
    return None
