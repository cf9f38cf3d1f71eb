"""Designated initialisers of structures: the fields of a C type, before the values of a table.

The tables of a library are made as lists of values in the order of the fields. Here they get the names
that the type has in the C files of this package: `{.rows = 12, .stride = 2}`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.resources import files
from itertools import accumulate

from planners.code.parts import as_real, parts_of

WIDTH = 100
_STRUCTURE = re.compile(r"typedef struct(?: \w+)? \{(.*)\} (\w+);", re.DOTALL)
_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_FIELD = re.compile(r"(\w+)(?:\[[^\]]*\])?\s*$")
_POINTER_TO_FUNCTION = re.compile(r"\(\*(\w+)\)\(")
_OF_REALS = "_of_reals"  # behind the names of types for real numbers beside integers


@cache
def _structures() -> dict[str, tuple[str, ...]]:
    """The fields of each structure of the C files; types that differ between files are left out."""
    fields_of_kind: dict[str, tuple[str, ...]] = {}
    unclear: set[str] = set()
    for path in files("planners.code").joinpath("c").iterdir():
        if not path.name.endswith(".c"):
            continue
        for part in parts_of(path.name):
            if match := _STRUCTURE.search(_COMMENT.sub("", part.text)):
                fields = tuple(_fields(match[1]))
                if fields_of_kind.setdefault(match[2], fields) != fields or "#" in match[1]:
                    unclear.add(match[2])
    return {kind: fields for kind, fields in fields_of_kind.items() if kind not in unclear}


def _fields(body: str) -> Iterator[str]:
    for declaration in filter(str.strip, body.split(";")):
        if match := _POINTER_TO_FUNCTION.search(declaration):
            yield match[1]
            continue
        for declarator in declaration.split(","):
            if match := _FIELD.search(declarator):
                yield match[1]


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


def designated(kind: str, values: Sequence[str]) -> str:
    """Return the initialiser of a structure, with the name of each field before its value.

    As it is where the type has no structure of that many fields in the C files.
    """
    fields = _structures().get(kind.removesuffix(_OF_REALS), ())
    if kind.endswith(_OF_REALS):
        fields = tuple(map(as_real, fields))  # renamed like each other word of these parts
    if len(fields) != len(values):
        return "{" + ", ".join(values) + "}"
    pairs = zip(fields, values, strict=True)
    return "{" + ", ".join(f".{field} = {value}" for field, value in pairs) + "}"


def designated_row(kind: str, text: str) -> str:
    """Return a row of a table, `{...}, /* comment */`, with the names of fields, 100 columns wide."""
    if not text.startswith("{"):
        return text
    depths = accumulate((character == "{") - (character == "}") for character in text)
    end = next(place for place, depth in enumerate(depths) if depth == 0) + 1
    comment = text[end:].removeprefix(",").strip()
    row = designated(kind, split_values(text[:end])) + ","
    lines = [] if not comment else [comment]
    return "\n    ".join([*lines, *_wrapped(row)])


def _wrapped(row: str) -> list[str]:
    """Break a row before fields, such that lines have at most 100 columns."""
    lines, line = [], ""
    for piece in re.split(r"(?<=, )(?=\.)", row):
        if line and len(line) + len(piece) + 4 > WIDTH:
            lines.append(line.rstrip())
            line = " "
        line += piece
    return [*lines, line]
