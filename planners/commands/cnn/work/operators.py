"""The work of `csdf cnn operators`: a table from the readers and from the calls of C."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Sequence
from textwrap import wrap

from cnn2csdf.dtypes import Element
from cnn2csdf.readers.supported import GENERAL, Supported, of_constants, refused, supported
from csdf.cli import answers
from planners.code.supported import kinds_without_c, types_in_c
from planners.commands.cnn.operators import READERS

WIDTH = 80  # of the table
INDENT, BETWEEN = 2, "  "
HEADS = ("operator", "types", "in C", "restrictions")
REAL = ("float32",)  # of operators whose integers stand between conversions
SHORT = {"float32": "f32", "int8": "i8", "int16": "i16"}
TYPES = "f32: floating point; i8, i16: quantised int8 (and uint8) or int16"
CUSTOM = re.compile(r"CUSTOM:'(.*)'")


def work(options: argparse.Namespace) -> int:
    """Print the tables; return the exit code."""
    formats = READERS if options.format is None else (options.format,)
    supported_operators = supported()
    for number, name in enumerate(formats):
        reader = READERS[name]
        if number:
            print()
        print(
            "\n".join(
                _lines(
                    reader,
                    [operator for operator in supported_operators if operator.reader == reader],
                )
            )
        )
    return answers.ANSWERED


def _lines(reader: str, operators: Sequence[Supported]) -> Iterator[str]:
    yield f"{reader}: {GENERAL[reader]}"
    yield TYPES
    yield from _table([HEADS, *(_row(operator) for operator in operators)])
    if reader == READERS["tflite"]:
        yield ""
        yield "Evaluated where all inputs are constants or static shapes, as those above:"
        yield from wrap(
            ", ".join(of_constants()), WIDTH, initial_indent="  ", subsequent_indent="  "
        )
        yield ""
        yield "Refused:"
        yield from _table([("operator", "reason"), *refused().items()])


def _table(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    """Format rows of aligned columns; the last column wraps to further lines."""
    widths = [max(map(len, column)) for column in list(zip(*rows, strict=True))[:-1]]
    begin = INDENT + sum(widths) + len(widths) * len(BETWEEN)
    for *cells, last in rows:
        first, *more = wrap(last, WIDTH - begin) or [""]
        columns = [cell.ljust(width) for cell, width in zip(cells, widths, strict=True)]
        yield " " * INDENT + BETWEEN.join([*columns, first]).rstrip()
        yield from (" " * begin + line for line in more)


def _row(operator: Supported) -> tuple[str, ...]:
    types = operator.types or REAL
    name = CUSTOM.sub(r"\1", operator.operator)
    if operator.is_opened:
        return name, "steps", "steps", operator.note
    elements = [Element(element) for element in types]
    written = [
        element.value for element in types_in_c(operator.layers, operator.attributes, elements)
    ]
    kinds = kinds_without_c(operator.layers) if written else []
    without = [f"no C as {_in_words(kind.__name__)}" for kind in kinds]
    custom = ["custom"] if name != operator.operator else []
    note = "; ".join(filter(None, [*custom, operator.note, *without]))
    return name, _short(types), _short(written) or "none", note


def _short(types: Sequence[str]) -> str:
    return " ".join(SHORT[element] for element in types)


def _in_words(name: str) -> str:
    """The name of a class in words."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower()
