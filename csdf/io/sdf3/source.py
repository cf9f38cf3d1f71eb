"""The frame of an SDF3 file by lxml: with the line of every element, and open to changes."""

from __future__ import annotations

import re

from lxml import etree

from csdf.errors import UnreadableFile
from csdf.io import files
from csdf.io.sdf3.document import Sdf3Document, framed


def open_document(text: bytes, name: str, most: int = files.LARGEST_FILE_BYTES) -> Sdf3Document:
    """Return the frame of an SDF3 file of at most so many bytes.

    Entities are not resolved, nothing is fetched, a document type is refused.
    Raises UnreadableFile, naming the line.
    """
    files.require_size(text, name, most)
    if not text.strip():
        raise UnreadableFile(f"{name}:1: the file is empty; expected an SDF3 document")
    root = parse_root(text, name)
    tree = root.getroottree()
    return framed(root, name, decoded(text, tree, name), tree)


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


def decoded(text: bytes, tree: etree._ElementTree, name: str) -> str:
    """Return an XML text in the encoding that it declares."""
    encoding = tree.docinfo.encoding or "UTF-8"
    try:
        return text.decode(encoding).removeprefix("\ufeff")
    except (LookupError, UnicodeDecodeError):
        raise UnreadableFile(f"{name}:1: the encoding {encoding!r} cannot be read") from None
