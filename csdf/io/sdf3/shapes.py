"""Elements of a large XML text by their shapes: of each shape only one is parsed as XML.

A large file was written by a program. Its elements of one tag differ in the values of their attributes,
and otherwise have few shapes. A shape is the text of an element without these values; the parser says
once where in the shape which attribute stands, and the values of all other elements of that shape are
cut out of the text. Whatever does not fit into this picture is Irregular, and nothing is guessed: then
the whole text is for a parser.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, TypeVar
from xml.etree.ElementTree import ParseError, fromstring

from csdf.errors import CsdfError

Element = Any
Places = TypeVar("Places")  # of values in the pieces of an element: what a reader makes of a shape
Pieces = list[str]  # of an element's text: markup and values in turn

MOST_SHAPES = 500  # of one tag; more are cheaper for a parser
MARKER = "csdf-run-of-"
PLACEHOLDER = "\ue000"  # before the number of a piece
SPECIAL = bytes(range(32)) + b"<&"  # not in a value that is taken as it stands
_ORDINARY = bytes(code for code in range(256) if code not in SPECIAL)
_NO_CHARACTERS = ("\ufffe", "\uffff")  # to XML


class Irregular(CsdfError):
    """A text that is for a parser."""


class _Shape(Generic[Places]):
    """A shape: where its values are, and how many elements have it."""

    __slots__ = ("count", "places")

    def __init__(self, places: Places) -> None:
        self.places = places
        self.count = 0


class Run(Generic[Places]):
    """All elements of one tag, which follow one another in the text.

    closing: how each of them ends. places: makes of an element, whose attributes are numbers of
    pieces, what the reader wants to know of the shape; raises Irregular.
    """

    def __init__(
        self, text: str, tag: str, closing: str, places: Callable[[Element], Places]
    ) -> None:
        self.tag = tag
        self.marker_tag = f"{MARKER}{tag}"
        self.marker = f"<{self.marker_tag}/>"
        self._closing = closing
        self._places = places
        self._shapes: dict[str, _Shape[Places]] = {}
        self.begin = text.find(f"<{tag} ")
        last = text.rfind(f"<{tag} ")
        end = text.find(closing, last)
        if self.begin >= 0 and end < 0:
            raise Irregular
        self.end = end + len(closing) if self.begin >= 0 else self.begin
        self._text = text[self.begin : self.end] if self.begin >= 0 else ""
        self._quote = '"' if '"' in self._text else "'"

    def __bool__(self) -> bool:
        """Whether there is an element of the tag."""
        return bool(self._text)

    def elements(self) -> Iterator[tuple[Places, Pieces]]:
        """Yield of each element where its values are, and its pieces."""
        quote, shapes = self._quote, self._shapes
        for block in self._text.split(self._closing)[:-1]:
            pieces = block.split(quote)
            shape = shapes.get(quote.join(pieces[::2]))
            if shape is None:
                shape = self._learned(pieces)
            shape.count += 1
            yield shape.places, pieces

    def _learned(self, pieces: Pieces) -> _Shape[Places]:
        """Add the shape of these pieces to those that are known."""
        markup = self._quote.join(pieces[::2])
        if len(self._shapes) == MOST_SHAPES or PLACEHOLDER in markup or len(pieces) % 2 == 0:
            raise Irregular
        numbered = [
            f"{PLACEHOLDER}{number}" if number % 2 else piece for number, piece in enumerate(pieces)
        ]
        element = _only_element(f"{self._quote.join(numbered)}{self._closing}")
        if element.tag != self.tag:
            raise Irregular
        _number_values(element, len(pieces) // 2)
        shape = _Shape(self._places(element))
        self._shapes[markup] = shape
        return shape

    def count(self, character: str) -> int:
        """Return how often a character is in the markup of the elements that were yielded."""
        return sum(
            shape.count * (markup.count(character) + self._closing.count(character))
            for markup, shape in self._shapes.items()
        )


def _only_element(text: str) -> Element:
    """Return the element that is all of a text, but for text around it."""
    try:
        elements = list(fromstring(f"<_>{text}</_>"))
    except ParseError:
        raise Irregular from None
    if len(elements) != 1:
        raise Irregular
    return elements[0]


def _number_values(element: Element, values: int) -> None:
    """Put numbers of pieces for the values of all attributes, None for a value in the markup.

    Raises Irregular where a piece is not exactly the value of an attribute.
    """
    found = 0
    for part in element.iter():
        for key, value in part.items():
            is_piece = value.startswith(PLACEHOLDER)
            part.set(key, int(value[1:]) if is_piece else None)
            found += is_piece
    if found != values:
        raise Irregular


def place(element: Element, key: str) -> int:
    """Return which piece the value of an attribute is. Raises Irregular where there is none."""
    found: int | None = element.get(key)
    if found is None:
        raise Irregular
    return found


def optional_place(element: Element, key: str) -> int | None:
    """Return which piece the value of an attribute is; None for no such attribute."""
    return place(element, key) if key in element.attrib else None


def without_runs(text: str, runs: Sequence[Run[Any]]) -> str:
    """Return the text with a marker in place of each run. Raises Irregular where they overlap."""
    rest, begin = "", 0
    for run in sorted(runs, key=lambda run: run.begin):
        if run.begin < begin:
            raise Irregular
        rest += text[begin : run.begin] + run.marker
        begin = run.end
    rest += text[begin:]
    if rest.count(MARKER) != len(runs):
        raise Irregular
    return rest


def require_plain_values(content: bytes, rest: str, runs: Sequence[Run[Any]]) -> None:
    """Raise Irregular unless each character that XML treats specially is in markup.

    Such are `<` and `&`, breaks, which XML reads as spaces, and characters that it forbids. content:
    the whole text, all of whose elements were yielded; rest: what is not in the runs.
    """
    specials = content.translate(None, _ORDINARY)
    for code in set(specials):
        character = chr(code)
        markers = sum(run.marker.count(character) for run in runs)
        known = rest.count(character) - markers + sum(run.count(character) for run in runs)
        if specials.count(code) != known:
            raise Irregular
    if not content.isascii() and any(one.encode() in content for one in _NO_CHARACTERS):
        raise Irregular
