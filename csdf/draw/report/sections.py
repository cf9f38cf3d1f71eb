"""Sections of a page, and what other packages add to them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Literal, NamedTuple

from csdf.draw.report.markup import Html, element


class Section(NamedTuple):
    """A part of the page."""

    identifier: str
    title: str
    content: Html


class PageVerdict(NamedTuple):
    """The answer in a few words, and how much is left until it changes. kind: yes, no or unknown."""

    answer: str
    headroom: str
    kind: Literal["yes", "no", "unknown"]


class Figure(NamedTuple):
    """A number by which two pages are compared, and its text.

    value: None where no number is known. unit: figures of different units have no difference.
    """

    title: str
    value: Fraction | None
    text: str
    unit: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contribution:
    """The additions of an entry of csdf.report_sections to a page.

    facts: sentences for the summary. data: for scripts, by the name that they look for.
    """

    sections: tuple[Section, ...] = ()
    facts: tuple[str, ...] = ()
    data: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PageFrame:
    """The text of a page around its part about a graph.

    name: the title of the page; kind: words before the size of the graph. lead: the summary; if it is
    empty, the summary is that of the graph. before, after: sections. has_actors: whether actors have
    a table. data: for scripts. said: lines for the terminal. verdict: for the banner, where it is not
    about the graph. figures: for a comparison, in addition to those of the graph. noun: the name of an
    actor for the reader, such as "layer". is_no: whether the answer to the user's question is "no";
    is_unknown: whether that answer was not found in time.
    """

    name: str
    kind: str = ""
    lead: tuple[Html, ...] = ()
    before: tuple[Section, ...] = ()
    after: tuple[Section, ...] = ()
    has_actors: bool = True
    data: Mapping[str, Any] = field(default_factory=dict)
    said: tuple[str, ...] = ()
    verdict: PageVerdict | None = None
    figures: tuple[Figure, ...] = ()
    noun: str = "actor"
    is_no: bool = False
    is_unknown: bool = False


def left_out(reason: str) -> Html:
    """Return the note instead of the omitted part."""
    return element("p", f"Left out: {reason}", class_="left-out")
