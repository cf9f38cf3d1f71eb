"""Names and numbers as C writes them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from csdf.errors import InvalidNetwork

WIDTH = 100
TOGETHER = 2**16  # numbers that become text at once
KEYWORDS = frozenset({
    "auto", "break", "case", "char", "const", "continue", "default", "do", "double", "else", "enum",
    "extern", "float", "for", "goto", "if", "inline", "int", "long", "register", "restrict",
    "return", "short", "signed", "sizeof", "static", "struct", "switch", "typedef", "union",
    "unsigned", "void", "volatile", "while", "main", "asm", "bool", "true", "false", "class", "new",
    "delete", "this",
})  # fmt: skip
FILES = frozenset({
    "assert", "complex", "ctype", "errno", "fenv", "float", "inttypes", "iso646", "limits", "locale",
    "main", "math", "setjmp", "signal", "stdarg", "stdbool", "stddef", "stdint", "stdio", "stdlib",
    "string", "target", "tgmath", "time", "wchar", "wctype",
})  # fmt: skip


def identifier(name: str) -> str:
    """Return a C identifier in small letters that is close to the name."""
    text = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")
    if not text or not text[0].isalpha() or text in KEYWORDS or text in FILES:
        text = f"n_{text}".rstrip("_")
    return text[:48].rstrip("_")


def unlike(name: str, taken: Iterable[str]) -> str:
    """Return an identifier for a name that is none of those taken."""
    known = set(taken)
    text, number = identifier(name), 2
    while text in known:
        text, number = f"{identifier(name)}_{number}", number + 1
    return text


def comment(text: str) -> str:
    """Return a text that may stand in a comment."""
    printable = "".join(c if c.isprintable() and c.isascii() else "?" for c in text)
    return (
        printable.replace("*/", "* /").replace("/*", "/ *").replace("\\", "/").replace("??", "? ?")
    )


def number(value: float) -> str:
    """Return a float, exact in single precision."""
    single = np.float32(value)
    if np.isnan(single):
        raise InvalidNetwork("a trained number or attribute is not a number (NaN)")
    if np.isinf(single):
        return "INFINITY" if single > 0 else "-INFINITY"
    text = f"{float(single):.9g}"
    return f"{text}f" if "." in text or "e" in text else f"{text}.0f"


def numbers(array: NDArray[Any]) -> Iterator[str]:
    """Yield floats as `number` gives them, several times as fast: networks have millions."""
    single = np.asarray(array, np.float32)
    for begin in range(0, len(single), TOGETHER):
        values = single[begin : begin + TOGETHER]
        if not np.isfinite(values).all():
            yield from map(number, values)
            continue
        texts = ("%.9g " * len(values) % tuple(values.tolist())).split()
        yield from [f"{one}f" if "." in one or "e" in one else f"{one}.0f" for one in texts]


def wrapped(items: Iterable[str]) -> str:
    """Return items with commas between, in indented lines."""
    lines, line = [], "   "
    for item in items:
        if len(line) + len(item) + 2 > WIDTH:
            lines.append(line)
            line = "   "
        line += f" {item},"
    return "\n".join([*lines, line])
