"""The work of `csdf cnn operators`: a table from the readers and from the calls of C."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Sequence

from cnn2csdf.dtypes import Element
from cnn2csdf.readers.supported import GENERAL, Supported, supported
from csdf.cli import answers
from csdf.cli.frame import terminal
from planners.code.supported import kinds_without_c, types_in_c
from planners.commands.cnn.operators import READERS

HEADS = ("operator", "types", "types in C", "restrictions")
REAL = ("float32",)  # of operators whose integers stand between conversions


def work(options: argparse.Namespace) -> int:
    """Print the tables; return the exit code."""
    formats = READERS if options.format is None else (options.format,)
    known = supported()
    for number, name in enumerate(formats):
        reader = READERS[name]
        if number:
            print()
        print("\n".join(_lines(reader, [one for one in known if one.reader == reader])))
    return answers.ANSWERED


def _lines(reader: str, operators: Sequence[Supported]) -> Iterator[str]:
    yield f"{reader}: {GENERAL[reader]}"
    rows = [_row(operator) for operator in operators]
    yield from terminal.aligned([HEADS, *rows], texts=range(len(HEADS)), indent="  ")


def _row(one: Supported) -> tuple[str, ...]:
    types = one.types or REAL
    if one.is_opened:
        return one.operator, "of its steps", "of its steps", one.note
    elements = [Element(name) for name in types]
    written = [element.value for element in types_in_c(one.layers, one.attributes, elements)]
    lacking = [_in_words(kind.__name__) for kind in kinds_without_c(one.layers)] if written else []
    without = f"; no C as {', '.join(lacking)}" if lacking else ""
    note = f"{one.note}{without}".removeprefix("; ")
    return one.operator, ", ".join(types), ", ".join(written) or "none", note


def _in_words(name: str) -> str:
    """The name of a class in words."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower()
