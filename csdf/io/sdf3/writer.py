"""A graph to SDF3 XML; where it was read from XML, by changing no more of that than differs."""

from __future__ import annotations

import re
from typing import Literal

from lxml import etree

from csdf.errors import InvalidGraph
from csdf.io import reverse_channels
from csdf.io.sdf3 import source as sdf3_source
from csdf.io.sdf3.patch import Sdf3Patch
from csdf.model.graph import Graph

Kind = Literal["sdf", "csdf"]
Capacities = Literal["property", "reverse"]

DECLARATION = '<?xml version="1.0" encoding="UTF-8"?>\n'
NEW_DOCUMENT = """\
<sdf3 type="{kind}" version="1.0"><applicationGraph name="">\
<{kind} name="" type="graph"/><{kind}Properties/></applicationGraph></sdf3>"""

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def format_sdf3(
    graph: Graph, *, kind: Kind | None = None, capacities: Capacities = "property"
) -> str:
    """Return the SDF3 text of a graph, with times in units of the user; it reads back as the graph.

    A graph with an origin is written by patching it: comments, unknown elements and the layout
    stay. If no channel has a capacity, the <bufferSize> elements of other programs stay too; if any
    has, they all say the capacities of the graph.
    kind: None keeps that of the origin as long as it can hold the graph.
    capacities: as <bufferSize>, or as reverse channels that hold the free space. A bounded channel
    with release rates of its own always becomes a channel and a reverse channel, a self-loop never.
    Either way <storage> says that these are capacities, so that they are read as such; other programs
    pass over it. For SDF3 a <bufferSize> is no limit, a reverse channel is a channel.

    Raises InvalidGraph for several phases in kind sdf, and for names that XML cannot hold.
    """
    if kind == "sdf":
        _require_one_phase(graph)
    _require_xml_names(graph)
    if capacities == "reverse":
        written = reverse_channels.without_capacities(graph)
    elif capacities == "property":
        written = reverse_channels.without_release_rates(graph)
    else:
        raise ValueError(f"capacities is {capacities!r}; expected 'property' or 'reverse'")
    is_new = graph.origin is None
    text = NEW_DOCUMENT.format(kind=kind or graph.kind) if is_new else graph.origin
    document = sdf3_source.reopen_document(text or "")
    if kind is None and document.kind == "sdf" and graph.kind == "csdf":
        kind = "csdf"
    patch = Sdf3Patch(document)
    if kind is not None:
        patch.set_kind(kind)
    patch.set_graph(written, graph)
    if is_new:
        etree.indent(document.tree, "  ")
    return _text(document.tree)


def _text(tree: etree._ElementTree) -> str:
    """Return the document, with the comments around the root on lines of their own."""
    root = tree.getroot()
    nodes = [*reversed(list(root.itersiblings(preceding=True))), root, *root.itersiblings()]
    texts = (etree.tostring(node, encoding="unicode", with_tail=False) for node in nodes)
    return DECLARATION + "".join(f"{text}\n" for text in texts)


def _require_one_phase(graph: Graph) -> None:
    for actor in graph.actors:
        if actor.phases > 1:
            raise InvalidGraph(
                f"graph {graph.name!r} cannot be written as sdf: actor {actor.name!r} has "
                f"{actor.phases} phases; write csdf"
            )


def _require_xml_names(graph: Graph) -> None:
    names = [graph.name, *(channel.name for channel in graph.channels)]
    for actor in graph.actors:
        names += [actor.name, *(processor.name for processor in actor.processors)]
    for name in names:
        if _NOT_XML.search(name):
            raise InvalidGraph(f"the name {name!r} holds a character that XML cannot hold")
