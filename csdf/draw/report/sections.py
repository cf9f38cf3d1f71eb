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
    """A number that two pages may be compared by; value: None where there is no number."""

    title: str
    value: Fraction | None
    text: str


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

    name: the title of the page; kind: words before the size of the graph. lead: the first part of the
    summary, before and after: sections. has_actors: whether the actors have a table. data: for
    scripts. said: lines for the terminal; is_no: whether the answer to the user's question is "no".
    verdict: for the banner, where it is not about the graph. figures: what
    two pages are compared by, besides the figures of the graph. noun: what an actor is to the reader.
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
