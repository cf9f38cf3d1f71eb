"""Real layers in a library of integers: the kernels for real numbers, under names of their own.

A kernel in C computes with one kind of element. In a library of integers the parts that make a
library of real numbers stand beside those for integers, with another name for each of their
functions and types; what depends on no element is there once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

from numpy.typing import NDArray

from planners.code.parts import REALS, SHARED, Part, defined_names, parts_of, used_parts
from planners.code.rules import Rule
from planners.code.tables import Tables

_COMMENTS = re.compile(r"(/\*.*?\*/)", re.DOTALL)
_WORD = re.compile(r"[A-Za-z_]\w*")
_MACROS = {name: f"{name}_OF_REALS" for name in ("LEAST", "MOST", "SLOTS", "AS_TILE")}
_BY_ELEMENT = {"element": "real", **_MACROS}
TYPE = """/* Numbers in single precision that begin at any byte, as integers beside them do. */
#if defined(__GNUC__)
typedef float __attribute__((aligned(1), may_alias)) real;
#elif defined(_MSC_VER)
typedef __unaligned float real;
#elif defined(__ICCARM__) || defined(__CC_ARM)
typedef __packed float real;
#else
#error "name here a type for numbers in single precision that begin at any byte"
#endif
"""


class RealTables:
    """The tables of a library as layers of real numbers see them: with their names for C types."""

    def __init__(self, tables: Tables) -> None:
        """Take the tables of a library of integers."""
        self._tables = tables
        self.wanted: set[str] = set()  # C types and functions, by their names among real numbers
        self.weights_have_zeros = False

    def weights(self, name: str, array: NDArray[Any], owner: object = None) -> str:
        """Return the symbol of some trained numbers; see Tables."""
        return self._tables.weights(name, array, owner)

    def rule(self, rule: Rule) -> str:
        """Return the address of a row rule."""
        return self._tables.rule(rule)

    def one(self, kind: str, name: str, fields: Sequence[str]) -> str:
        """Return the address of one structure of a type."""
        self.wanted.add(kind)
        return self._tables.one(as_real(kind), name, [as_real(one) for one in fields])

    def defined(self, kind: str, name: str, items: Sequence[str]) -> str:
        """Return the symbol of an array of a type."""
        self.wanted.add(kind)
        return self._tables.defined(as_real(kind), name, [as_real(one) for one in items])


def as_real(text: str) -> str:
    """Return C with the names that functions and types for real numbers have beside integers."""
    names = _names()
    pieces = _COMMENTS.split(text)
    pieces[::2] = [_WORD.sub(lambda one: names.get(one[0], one[0]), piece) for piece in pieces[::2]]
    return "".join(pieces)


def real_parts(wanted: Iterable[str]) -> tuple[set[str], list[str]]:
    """Return what real layers share with those of integers, and the texts of what they do not.

    wanted: functions and types by the names that they have in a library of real numbers.
    """
    found = used_parts(wanted, REALS)
    shared = {name for part in found if not _is_own(part) for name in part.names}
    return shared, [as_real(part.text) for part in found if _is_own(part)]


def _is_own(part: Part) -> bool:
    return as_real(part.text) != part.text


@cache
def _names() -> dict[str, str]:
    """The names of all that depends on the kind of element, with those among integers."""
    own = frozenset().union(*(defined_names(file) for file in REALS if file not in SHARED))
    words = own | set(_BY_ELEMENT)
    shared = [part for file in SHARED for part in parts_of(file)]
    while more := {name for part in shared if part.words & words for name in part.names - words}:
        words |= more
    renamed = {
        name: f"{name}_OF_REALS" if name.isupper() else f"{name}_of_reals"
        for name in words - set(_BY_ELEMENT)
    }
    return renamed | _BY_ELEMENT
