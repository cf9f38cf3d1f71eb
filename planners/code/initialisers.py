"""Designated initialisers of structures: `{.rows = 12, .window = {.taps = {3, 3}, .stride = {2, 2}}}`.

Emitters write initialisers in two forms, and both become designated in the order of the structure in
the C files: `{.stride = {2, 2}, .rows = 12}` is sorted, and its names are compared with the structure;
`{12, {2, 2}}` gets the names of the fields.

A quantised library has floating-point types with the suffix `_of_reals` (planners.code.parts.as_real).
Their fields are those of the type without the suffix in the floating-point C files.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from typing import NamedTuple

from csdf.errors import InternalError
from planners.code.parts import CONVERSIONS, REALS, added_sources, as_real, definitions_of

WIDTH = 100
_STRUCTURE = re.compile(r"typedef struct(?: \w+)? \{(?P<body>.*)\} (?P<name>\w+);", re.DOTALL)
_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_DECLARATION = re.compile(r"\s*(?:const\s+)?(?P<kind>\w+)\s(?P<declarators>.*)", re.DOTALL)
_NAME = re.compile(r"(?P<name>\w+)\s*(?:\[.*\])?\s*$")
_POINTER_TO_FUNCTION = re.compile(r"\(\*(?P<name>\w+)\)\(")
_CONDITION = re.compile(r"#if (?:defined\((?P<macro>\w+)\)|(?P<value>\w+))")
# A value after the macro of a field that only Helium has: `FOLDED(sums) NULL`. The macro expands to
# `.folded = sums,` or to no text. The designated form is `FOLDED(sums) .bias = NULL`.
_FOLDED = re.compile(r"(FOLDED\([^()]*\) )(.*)", re.DOTALL)
_OF_REALS = "_of_reals"  # suffix of floating-point types in a quantised library


class Field(NamedTuple):
    """A field of a structure. kind: its type, empty for a pointer; is_array: of values of that type."""

    name: str
    kind: str
    is_array: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Structures:
    """The structures of C files by name, and initialisers with the names of their fields.

    fields: of each structure. fields_of_reals: of each structure of the floating-point C files, whose
    name in a quantised library has a suffix.
    """

    fields: Mapping[str, tuple[Field, ...]]
    fields_of_reals: Mapping[str, tuple[Field, ...]]

    def designated(self, kind: str, text: str) -> str:
        """Return an initialiser of a type with the name of each field before its value.

        The text is returned unchanged if it is no list in braces, if the C files have no structure
        `kind`, or if a list without names has another number of values than the structure has fields.
        Raises InternalError where the text names other fields than the structure has.
        """
        fields = self._fields_of(kind)
        if not fields or not text.startswith("{"):
            return text
        values = split_values(text)
        if text.startswith("{."):
            values = _in_order(kind, fields, values)
        if len(fields) != len(values):
            return text
        pairs = zip(fields, values, strict=True)
        return "{" + ", ".join(self._value(field, value, kind) for field, value in pairs) + "}"

    def _fields_of(self, kind: str) -> tuple[Field, ...]:
        """The fields of a structure in order; empty for other types."""
        if not kind.endswith(_OF_REALS):
            return self.fields.get(kind, ())
        fields = self.fields_of_reals.get(kind.removesuffix(_OF_REALS), ())
        return tuple(field._replace(name=as_real(field.name)) for field in fields)

    def _value(self, field: Field, value: str, owner: str) -> str:
        """The value of a field of structure `owner`, after the name of the field."""
        folded = _FOLDED.fullmatch(value)
        macro, value = folded.groups() if folded else ("", value)
        kind = as_real(field.kind) if owner.endswith(_OF_REALS) else field.kind
        if field.is_array and self._fields_of(kind) and value.startswith("{"):
            value = "{" + ", ".join(self.designated(kind, v) for v in split_values(value)) + "}"
        elif kind:
            value = self.designated(kind, value)
        return f"{macro}.{field.name} = {value}"

    def constant(self, kind: str, name: str, text: str) -> str:
        """Return the definition of a constant structure."""
        initialiser = self.designated(kind, text)
        head = f"static const {kind} {name} = "
        if len(head) + len(initialiser) < WIDTH or not initialiser.startswith("{."):
            return f"{head}{initialiser};"
        lines = "\n    ".join(_wrapped(initialiser[1:-1]))
        return f"{head}{{\n    {lines}\n}};"

    def table(self, kind: str, name: str, rows: Sequence[str]) -> str:
        """Return the definition of a constant array. rows: `{...}, /* comment */`, or scalars."""
        lines = "\n".join(f"    {self.row(kind, row)}" for row in rows)
        return f"static const {kind} {name}[{len(rows)}] = {{\n{lines}\n}};"

    def row(self, kind: str, text: str) -> str:
        """Return a row of a table in lines of 100 columns, its comment on a line of its own before it.

        Example: `{1, 2}, /* name */` becomes `/* name */`, then `{.first = 1, .last = 2},`.
        """
        if not text.startswith("{"):
            return text
        depths = accumulate((character == "{") - (character == "}") for character in text)
        end = next(place for place, depth in enumerate(depths) if depth == 0) + 1
        comment = text[end:].removeprefix(",").strip()
        row = self.designated(kind, text[:end]) + ","
        lines = textwrap.wrap(comment, WIDTH - 7, break_long_words=False, break_on_hyphens=False)
        lines[1:] = [f"   {line}" for line in lines[1:]]
        return "\n    ".join([*lines, *_wrapped(row)])


@cache
def structures_of(files: tuple[str, ...], macros: frozenset[str] = frozenset()) -> Structures:
    """Return the structures of C files. macros: that are defined, or not zero, in conditions."""
    reals = (*REALS, *added_sources(), *CONVERSIONS)
    return Structures(
        fields=dict(_structures(files, macros)), fields_of_reals=dict(_structures(reals, macros))
    )


def _structures(
    files: Iterable[str], macros: frozenset[str]
) -> Iterator[tuple[str, tuple[Field, ...]]]:
    for file in files:
        for definition in definitions_of(file):
            if match := _STRUCTURE.search(_COMMENT.sub("", definition.text)):
                body = _without_false_branches(match["body"], macros)
                yield match["name"], tuple(_declared_fields(body))


def _without_false_branches(body: str, macros: frozenset[str]) -> str:
    """Return a body of a structure without the fields of conditions that do not hold.

    Structures of the C files have `#if` and `#endif` only: no `#else`, no nested conditions.
    """
    lines, holds = [], True
    for line in body.splitlines():
        if match := _CONDITION.match(line):
            holds = (match["macro"] or match["value"]) in macros
        elif line.startswith("#endif"):
            holds = True
        elif holds:
            lines.append(line)
    return "\n".join(lines)


def _declared_fields(body: str) -> Iterator[Field]:
    """Yield the fields that the declarations of a structure declare, in order."""
    for declaration in filter(str.strip, body.split(";")):
        if pointer := _POINTER_TO_FUNCTION.search(declaration):
            yield Field(pointer["name"], "", is_array=False)
            continue
        match = _DECLARATION.fullmatch(declaration)
        assert match is not None
        for declarator in match["declarators"].split(","):
            name = _NAME.search(declarator)
            assert name is not None
            kind = "" if "*" in declarator else match["kind"]
            yield Field(name["name"], kind, is_array="[" in declarator)


def _in_order(kind: str, fields: Sequence[Field], named_values: Iterable[str]) -> list[str]:
    """Return the values of named fields in the order of the structure."""
    pairs = (value.removeprefix(".").split(" = ", 1) for value in named_values)
    # Floating-point types in a quantised library are renamed, and fields of their names with them.
    values = {as_real(name): value for name, value in pairs}
    names = [as_real(field.name) for field in fields]
    if values.keys() != set(names):
        raise InternalError(f"structure {kind!r} has the fields {names}, not {list(values)}")
    return [values[name] for name in names]


def split_values(text: str) -> list[str]:
    """Return the values of an initialiser: pieces between commas that are outside of brackets."""
    values, depth, value = [], 0, ""
    for character in text.strip()[1:-1]:
        depth += (character in "{(") - (character in "})")
        if character == "," and depth == 0:
            values.append(value.strip())
            value = ""
        else:
            value += character
    return [*values, value.strip()] if value.strip() else values


def _wrapped(row: str) -> list[str]:
    """Break a row before fields, such that lines have at most 100 columns with 4 of the caller.

    A line is indented by 4 columns per open brace. The first level of a row in braces is 1 column, the
    width of the brace, so that fields align:

        {.rows = 12, .window = {.taps = {3, 3},
             .stride = {2, 2}},
         .columns = 9},
    """
    lines, line, depth = [], "", 0
    first_level = 3 if row.startswith("{") else 0  # columns that the first level lacks
    # Pieces begin at a field, `.name = `, or at a macro FOLDED, which stays with the field after it.
    for piece in re.split(r"(?<=[,)] )(?=\.)|(?<=, )(?=FOLDED)", row):
        if line and len(line) + len(piece.rstrip()) + 4 > WIDTH:
            lines.append(line.rstrip())
            line = " " * (4 * depth - first_level)
        line += piece
        depth += piece.count("{") - piece.count("}")
    return [*lines, line]
