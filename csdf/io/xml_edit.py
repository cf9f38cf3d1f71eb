"""Changes to an XML tree that keep the layout of what is around them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from lxml import etree


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
    wanted = list(names)
    if list(elements) == wanted:
        return
    first = min(parent.index(element) for element in elements.values())
    for place, name in enumerate(wanted, first):
        parent.insert(place, elements[name])


def _space_before(element: etree._Element) -> str | None:
    """Return the line break and the indentation in front of an element, if that is all there is."""
    previous, parent = element.getprevious(), element.getparent()
    if previous is not None:
        return _blank(previous.tail)
    return None if parent is None else _blank(parent.text)


def _blank(text: str | None) -> str | None:
    return text if text and not text.strip() else None
