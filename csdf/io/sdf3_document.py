"""The frame of an SDF3 file: well-formed, safe to read, with one application graph."""

from __future__ import annotations

import re
from dataclasses import dataclass

from lxml import etree

from csdf.errors import UnreadableFile
from csdf.io import files
from csdf.model.exact import shown

KINDS = ("sdf", "csdf")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sdf3Document:
    """The elements of an SDF3 file that every reader and writer needs."""

    name: str  # of the file, for messages
    text: str
    kind: str  # sdf or csdf
    tree: etree._ElementTree
    application: etree._Element
    structure: etree._Element  # actors and channels
    properties: etree._Element | None  # times, token sizes, constraints

    def refusal(self, element: etree._Element, message: str) -> UnreadableFile:
        """Return the error that blames the line of an element."""
        return UnreadableFile(f"{self.name}:{element.sourceline}: {message}")

    def attribute(self, element: etree._Element, key: str, owner: str) -> str:
        """Return an attribute that must be there."""
        value = element.get(key)
        if value is None:
            raise self.refusal(element, f"{owner}: <{element.tag}> has no attribute {key!r}")
        return value

    def keyed(self, parent: etree._Element | None, tag: str, key: str) -> dict[str, etree._Element]:
        """Return the children of that tag by an attribute that must differ; in document order."""
        found: dict[str, etree._Element] = {}
        for element in () if parent is None else parent.iterchildren(tag):
            name = self.attribute(element, key, f"in <{element.getparent().tag}>")  # type: ignore[union-attr]
            if name in found:
                raise self.refusal(
                    element,
                    f"<{tag}> {key}={shown(name)} is already on line {found[name].sourceline}",
                )
            found[name] = element
        return found

    def only_child(self, parent: etree._Element | None, tag: str) -> etree._Element | None:
        """Return the child of that tag, or None; refuse two."""
        if parent is None:
            return None
        children = iter(parent.iterchildren(tag))
        child = next(children, None)
        second = next(children, None)
        if second is not None:
            raise self.refusal(second, f"<{parent.tag}> holds a second <{tag}>; expected one")
        return child


def open_document(text: bytes, name: str, most: int = files.LARGEST_FILE_BYTES) -> Sdf3Document:
    """Return the frame of an SDF3 file of at most so many bytes.

    Entities are not resolved, nothing is fetched, a document type is refused.
    Raises UnreadableFile, naming the line.
    """
    files.require_size(text, name, most)
    if not text.strip():
        raise UnreadableFile(f"{name}:1: the file is empty; expected an SDF3 document")
    root = parse_root(text, name)
    kind = _kind(root, name)
    application = only_of(root, ("applicationGraph",), name)
    structure = only_of(application, KINDS, name)
    properties = list(application.iterchildren("sdfProperties", "csdfProperties"))
    if len(properties) > 1:
        raise UnreadableFile(
            f"{name}:{properties[1].sourceline}: a second <{properties[1].tag}>; expected one"
        )
    tree = root.getroottree()
    return Sdf3Document(
        name=name,
        text=decoded(text, tree, name),
        kind=kind,
        tree=tree,
        application=application,
        structure=structure,
        properties=properties[0] if properties else None,
    )


def reopen_document(text: str) -> Sdf3Document:
    """Return the frame of an SDF3 text that was read before, as a tree of its own."""
    without_declaration = re.sub(r"\A\s*<\?xml[^>]*\?>", "", text)
    known = without_declaration.encode()
    return open_document(known, "<origin>", most=len(known))


def parse_root(text: bytes, name: str) -> etree._Element:
    """Return the root of an XML text in which nothing is fetched or expanded."""
    parser = etree.XMLParser(
        resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False
    )
    try:
        root = etree.fromstring(text, parser)
    except etree.XMLSyntaxError as error:
        if b"<!DOCTYPE" in text:
            raise UnreadableFile(_doctype_complaint(name, text)) from None
        message = " ".join((error.msg or "syntax error").split())
        reason = re.sub(r", line \d+, column \d+.*", "", message)
        raise UnreadableFile(f"{name}:{error.lineno or 1}: not well-formed XML: {reason}") from None
    if root.getroottree().docinfo.internalDTD is not None:
        raise UnreadableFile(_doctype_complaint(name, text))
    return root


def _doctype_complaint(name: str, text: bytes) -> str:
    line = text.partition(b"<!DOCTYPE")[0].count(b"\n") + 1
    return f"{name}:{line}: a DOCTYPE is refused, it can name other files; remove it"


def _kind(root: etree._Element, name: str) -> str:
    where = f"{name}:{root.sourceline}:"
    if root.tag != "sdf3":
        raise UnreadableFile(f"{where} the root is <{root.tag}>; expected <sdf3>")
    kind = root.get("type")
    if kind is None:
        raise UnreadableFile(f"{where} <sdf3> has no attribute 'type'; expected sdf or csdf")
    if kind not in KINDS:
        raise UnreadableFile(f"{where} <sdf3> has the type {shown(kind)}; expected sdf or csdf")
    return kind


def only_of(parent: etree._Element, tags: tuple[str, ...], name: str) -> etree._Element:
    """Return the child that has one of the tags; refuse none and two."""
    children = list(parent.iterchildren(*tags))
    if len(children) != 1:
        line = (children[1] if children else parent).sourceline
        expected = " or ".join(f"<{tag}>" for tag in tags)
        raise UnreadableFile(
            f"{name}:{line}: <{parent.tag}> holds {len(children)} of {expected}; expected one"
        )
    return children[0]


def decoded(text: bytes, tree: etree._ElementTree, name: str) -> str:
    """Return an XML text in the encoding that it declares."""
    encoding = tree.docinfo.encoding or "UTF-8"
    try:
        return text.decode(encoding).removeprefix("\ufeff")
    except (LookupError, UnicodeDecodeError):
        raise UnreadableFile(f"{name}:1: the encoding {encoding!r} cannot be read") from None
