"""The elements common to all SDF3 files: type, application graph, structure and properties.

The parser of the standard library is fast, but its elements have no line numbers. If a check fails on
them, it raises Unlocated, and the reader parses the file again with csdf.io.sdf3.source, for the line.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Any
from xml.etree.ElementTree import TreeBuilder
from xml.parsers import expat

from csdf.errors import UnreadableFile
from csdf.model.exact import MalformedText, rational, shown

KINDS = ("sdf", "csdf")
MOST_LINES = 65535  # line numbers of the parser have 16 bits
Element = Any  # of lxml or of the standard library: both have a tag, a text, children and get()

# Patterns are compiled where they are used: most files need two of them, and one takes 0.2 ms.
_OTHER_ENCODING = (
    rb"""(?i)(\xef\xbb\xbf)?<\?xml[^>]*encoding\s*=\s*["'](?!utf-8["']|us-ascii["'])"""
)
_LATIN = rb"""(?i)<\?xml[^>]*encoding\s*=\s*["']iso-8859-15?["']"""
_COMMENT = "(?s)<!--.*?-->"
_SIZE = r"<bufferSize\s[^>]*?\bsz\s*="
_CAPACITY = r"<storage\s[^>]*?\bcapacity\s*="
_OTHER_VERSION = rb"""(\xef\xbb\xbf)?<\?xml\s+version\s*=\s*["'](?!1\.0["'])"""


class Unlocated(Exception):
    """An error in a document without line numbers."""


def line_of(element: Element) -> int:
    """Return the line of an element. Raises Unlocated if the document has no line numbers.

    Beyond MOST_LINES libxml2 stores the lines of texts only. For an element without a text, the line of
    the element before it, or of its parent, is returned: an approximation, at or before the true line.
    """
    line: int | None = getattr(element, "sourceline", None)
    while line == MOST_LINES:
        before = element.getprevious()
        element = element.getparent() if before is None else before
        if element is None:
            break
        line = element.sourceline
    if line is None:
        raise Unlocated
    return line


def buffer_sizes(text: str) -> tuple[int, int]:
    """Return the number of channels with a <bufferSize>, and with a capacity in <storage>.

    <bufferSize> is written by SDF3, <storage> by csdf.io.sdf3.writer.
    """
    if "<bufferSize" not in text and "<storage" not in text:
        return 0, 0
    without_comments = re.sub(_COMMENT, "", text)
    return len(re.findall(_SIZE, without_comments)), len(re.findall(_CAPACITY, without_comments))


def children(parent: Element, *tags: str) -> list[Element]:
    """Return the children with one of these tags."""
    return [child for child in parent if child.tag in tags]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sdf3Document:
    """The elements of an SDF3 file that every reader and writer needs."""

    name: str  # of the file, for messages
    text: str
    kind: str  # sdf or csdf
    tree: Any  # of lxml, to be changed; None in a quick document
    application: Element
    structure: Element  # actors and channels
    properties: Element | None  # times, token sizes, constraints

    def refusal(self, element: Element, message: str) -> UnreadableFile:
        """Return an error with the line of an element."""
        return UnreadableFile(f"{self.name}:{line_of(element)}: {message}")

    def attribute(self, element: Element, key: str, owner: str) -> str:
        """Return a required attribute."""
        value: str | None = element.get(key)
        if value is None:
            raise self.missing(element, key, owner)
        return value

    def missing(self, element: Element, key: str, owner: str) -> UnreadableFile:
        """Return the error for a missing attribute."""
        return self.refusal(element, f"{owner}: <{element.tag}> has no attribute {key!r}")

    def keyed(self, parent: Element | None, tag: str, key: str) -> dict[str, Element]:
        """Return the children with this tag by an attribute with distinct values, in document order."""
        elements: dict[str, Element] = {}
        if parent is None:
            return elements
        for element in parent:
            if element.tag != tag:
                continue
            name = element.get(key)
            if name is None:
                raise self.missing(element, key, f"in <{parent.tag}>")
            if name in elements:
                raise self.refusal(
                    element,
                    f"<{tag}> {key}={shown(name)} is already on line {line_of(elements[name])}",
                )
            elements[name] = element
        return elements

    def only_child(self, parent: Element | None, tag: str) -> Element | None:
        """Return the child with this tag, or None; raise for several."""
        if parent is None:
            return None
        last = None
        for child in parent:
            if child.tag == tag:
                if last is not None:
                    raise self.refusal(
                        child, f"<{parent.tag}> holds a second <{tag}>; expected one"
                    )
                last = child
        return last


def quick_document(text: bytes, name: str) -> Sdf3Document | None:
    """Return the document of an SDF3 text, without line numbers; None if lxml has to read it.

    The quick parser reads well-formed XML 1.0 without a document type, in UTF-8 or in Latin-1 with
    ASCII characters only. Zero bytes are signs of UTF-16.
    """
    if b"<!DOCTYPE" in text or b"\0" in text:
        return None
    if not is_utf8(text) or re.match(_OTHER_VERSION, text):
        return None
    try:
        decoded = text.decode("utf-8").removeprefix("\ufeff")
        root = _quick_root(decoded)
    except (UnicodeDecodeError, expat.ExpatError):
        return None
    try:
        return document_of(root, name, decoded, None)
    except Unlocated:
        return None


def is_utf8(text: bytes) -> bool:
    """Whether the text declares UTF-8, or an encoding in which its characters are the same."""
    if not re.match(_OTHER_ENCODING, text):
        return True
    return text.isascii() and re.match(_LATIN, text) is not None


def _quick_root(text: str) -> Element:
    """The root of an XML text. Elements have a text only where a throughput may be stated.

    The parser of ElementTree keeps every break between two elements, which takes a third of its time.
    """
    builder = TreeBuilder(insert_comments=True, insert_pis=True)
    parser = expat.ParserCreate(namespace_separator="}")
    parser.StartElementHandler = builder.start
    parser.EndElementHandler = builder.end
    # As in lxml, a comment ends `element.text`: text after the comment belongs to the comment.
    if "<throughput" in text:
        parser.CharacterDataHandler = builder.data
        parser.CommentHandler = builder.comment
        parser.ProcessingInstructionHandler = builder.pi
    is_last = True
    parser.Parse(text, is_last)
    return builder.close()


def document_of(root: Element, name: str, text: str, tree: Any) -> Sdf3Document:
    """Return the document of a root element. Raises UnreadableFile, or Unlocated."""
    kind = root.get("type")
    if root.tag != "sdf3" or kind not in KINDS:
        where = f"{name}:{line_of(root)}:"
        if root.tag != "sdf3":
            raise UnreadableFile(f"{where} the root is <{root.tag}>; expected <sdf3>")
        problem = "no attribute 'type'" if kind is None else f"the type {shown(kind)}"
        raise UnreadableFile(f"{where} <sdf3> has {problem}; expected sdf or csdf")
    application = only_of(root, ("applicationGraph",), name)
    structure = only_of(application, KINDS, name)
    properties = children(application, "sdfProperties", "csdfProperties")
    if len(properties) > 1:
        raise UnreadableFile(
            f"{name}:{line_of(properties[1])}: a second <{properties[1].tag}>; expected one"
        )
    return Sdf3Document(
        name=name,
        text=text,
        kind=kind,
        tree=tree,
        application=application,
        structure=structure,
        properties=properties[0] if properties else None,
    )


def only_of(parent: Element, tags: tuple[str, ...], name: str) -> Element:
    """Return the child with one of these tags; raise for none and for several."""
    matches = children(parent, *tags)
    if len(matches) != 1:
        line = line_of(matches[1] if matches else parent)
        expected = " or ".join(f"<{tag}>" for tag in tags)
        raise UnreadableFile(
            f"{name}:{line}: <{parent.tag}> holds {len(matches)} of {expected}; expected one"
        )
    return matches[0]


def graph_name(document: Sdf3Document) -> str:
    """Return the name of the application graph, or else of the element within it."""
    for element in (document.application, document.structure):
        name: str | None = element.get("name")
        if name is not None:
            return name
    raise document.refusal(document.application, "<applicationGraph> has no attribute 'name'")


def throughput_constraint(document: Sdf3Document) -> Fraction | None:
    """Return the throughput constraint of the file."""
    element: Element | None = document.properties
    for tag in ("graphProperties", "timeConstraints", "throughput"):
        element = document.only_child(element, tag)
    if element is None:
        return None
    try:
        return rational(element.text or "")
    except MalformedText as error:
        raise document.refusal(element, f"throughput constraint {error}") from None
