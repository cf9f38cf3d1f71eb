"""The frame of an SDF3 file by lxml: with the line of every element, and open to changes.

It changes an XML tree without changing the layout around a change.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from lxml import etree

from csdf.errors import UnreadableFile
from csdf.io import files
from csdf.io.sdf3.document import Sdf3Document, document_of


def open_document(text: bytes, name: str, most: int = files.LARGEST_FILE_BYTES) -> Sdf3Document:
    """Return the frame of an SDF3 file of at most this many bytes.

    Entities are not resolved, nothing is fetched, a document type is refused.
    Raises UnreadableFile, naming the line.
    """
    files.require_size(text, name, most)
    if not text.strip():
        raise UnreadableFile(f"{name}:1: the file is empty; expected an SDF3 document")
    root = parse_root(text, name)
    tree = root.getroottree()
    return document_of(root, name, decoded(text, tree, name), tree)


def reopen_document(text: str) -> Sdf3Document:
    """Return the frame of an SDF3 text that was read before, as a tree of its own."""
    without_declaration = re.sub(r"\A\s*<\?xml[^>]*\?>", "", text)
    encoded = without_declaration.encode()
    return open_document(encoded, "<origin>", most=len(encoded))


def parse_root(text: bytes, name: str) -> etree._Element:
    """Return the root of an XML text in which nothing is fetched or expanded."""
    parser = etree.XMLParser(
        resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False
    )
    try:
        root = etree.fromstring(text, parser)
    except etree.XMLSyntaxError as error:
        if b"<!DOCTYPE" in _without_comments(text):
            raise UnreadableFile(_doctype_complaint(name, text)) from None
        message = " ".join((error.msg or "syntax error").split())
        reason = re.sub(r", line \d+, column \d+.*", "", message)
        raise UnreadableFile(f"{name}:{error.lineno or 1}: not well-formed XML: {reason}") from None
    if root.getroottree().docinfo.internalDTD is not None:
        raise UnreadableFile(_doctype_complaint(name, text))
    return root


def _doctype_complaint(name: str, text: bytes) -> str:
    line = _without_comments(text).partition(b"<!DOCTYPE")[0].count(b"\n") + 1
    return f"{name}:{line}: a DOCTYPE is refused, it can name other files; remove it"


def _without_comments(text: bytes) -> bytes:
    """Return an XML text with the line breaks of its comments in place of these."""
    return re.sub(rb"(?s)<!--.*?(?:-->|\Z)", lambda comment: b"\n" * comment[0].count(b"\n"), text)


def decoded(text: bytes, tree: etree._ElementTree, name: str) -> str:
    """Return an XML text in the encoding that it declares."""
    encoding = tree.docinfo.encoding or "UTF-8"
    try:
        return text.decode(encoding).removeprefix("\ufeff")
    except (LookupError, UnicodeDecodeError):
        raise UnreadableFile(f"{name}:1: the encoding {encoding!r} cannot be read") from None


def append_child(
    parent: etree._Element, tag: str, attributes: Mapping[str, str] | None = None
) -> etree._Element:
    """Add a child behind the last one of its tag, else behind all, on a line of its own."""
    child = parent.makeelement(tag, dict(attributes or {}))
    last = next(parent.iterchildren(tag, reversed=True), None)
    if last is None and len(parent):
        last = parent[-1]
    if last is None:
        outer = _space_before(parent)
        if outer:
            parent.text, child.tail = f"{outer}  ", outer
        parent.append(child)
        return child
    space, last_space = _space_before(last), last.tail
    last.addnext(child)
    last.tail, child.tail = space, last_space
    return child


def remove(element: etree._Element) -> None:
    """Take an element away, and the line it stood on."""
    parent = element.getparent()
    previous = element.getprevious()
    if previous is not None and element.getnext() is None:
        previous.tail = element.tail
    if parent is not None:
        parent.remove(element)


def put_in_order(
    parent: etree._Element, elements: Mapping[str, etree._Element], names: Iterable[str]
) -> None:
    """Arrange children, given in document order, in the order of the names; mostly there is none.

    Quadratic in the number of children if they have to move.
    """
    order = list(names)
    if list(elements) == order:
        return
    first = min(parent.index(element) for element in elements.values())
    for index, name in enumerate(order, first):
        parent.insert(index, elements[name])


def _space_before(element: etree._Element) -> str | None:
    """Return the line break and the indentation in front of an element, if that is all there is."""
    previous, parent = element.getprevious(), element.getparent()
    if previous is not None:
        return _blank(previous.tail)
    return None if parent is None else _blank(parent.text)


def _blank(text: str | None) -> str | None:
    return text if text and not text.strip() else None
