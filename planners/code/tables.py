"""The const tables of a library, on their way to text: each distinct one once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planners.code.names import numbers, unlike, wrapped
from planners.code.rules import Rule

NULL = "NULL"
TYPES = {  # of trained numbers
    "float32": "float",
    "int8": "int8_t",
    "int16": "int16_t",
    "int32": "int32_t",
    "int64": "int64_t",
}
LEAST = -(2**31)  # which no constant of C is


class Tables:
    """Numbers and structures that became C symbols.

    Trained numbers are for a file of their own, and carry the name of the library; all else is
    private.
    """

    def __init__(self, library: str) -> None:
        """Take the name of the library, in front of symbols that the linker sees."""
        self._library = library
        self._names: set[str] = set()
        self._known: dict[object, str] = {}
        self.arrays: dict[str, NDArray[Any]] = {}  # trained numbers
        self.definitions: list[str] = []
        self.wanted: set[str] = set()  # C types and functions that the tables mention
        self.weights_have_zeros = False  # trained integers of any layer that is summed up

    def weights(self, name: str, array: NDArray[Any], owner: object = None) -> str:
        """Return the symbol of some trained numbers; the name is a suggestion.

        Equal arrays of one owner are there once.
        """
        flat = np.ascontiguousarray(array).reshape(-1)
        if flat.dtype.name not in TYPES:
            flat = flat.astype(np.float32)
        key = ("weights", owner, flat.dtype.name, flat.tobytes())
        if key not in self._known:
            self._known[key] = self._new(f"{self._library}_w_{name}")
            self.arrays[self._known[key]] = flat
        return self._known[key]

    def rule(self, rule: Rule) -> str:
        """Return the address of a row rule."""
        pairs = NULL
        if rule.pairs:
            listed = [place for pair in rule.pairs for place in pair]
            pairs = self.defined("uint16_t", "pairs", [str(place) for place in listed])
        fields = (rule.slope, rule.first, rule.last, rule.divisor, int(rule.is_clamped))
        return self.one("rule", "rule", [*map(str, fields), pairs])

    def one(self, kind: str, name: str, fields: Sequence[str]) -> str:
        """Return the address of one structure of a type."""
        return self._table(kind, name, None, "{" + ", ".join(fields) + "}", mark="&")

    def defined(self, kind: str, name: str, items: Sequence[str]) -> str:
        """Return the symbol of an array of a type."""
        return self._table(kind, name, len(items), "{\n" + wrapped(items) + "\n}", mark="")

    def _table(self, kind: str, name: str, count: int | None, text: str, *, mark: str) -> str:
        key = (kind, count, text)
        if key not in self._known:
            symbol = self._new(f"p_{name}" if name == kind else f"p_{name}_{kind}")
            length = "" if count is None else f"[{count}]"
            self.definitions.append(f"static const {kind} {symbol}{length} = {text};")
            self._known[key] = symbol
        self.wanted.add(kind)
        return mark + self._known[key]

    def _new(self, name: str) -> str:
        found = unlike(name, self._names)
        self._names.add(found)
        return found


def array_items(array: NDArray[Any]) -> Iterable[str]:
    """Return trained numbers as C writes them."""
    if array.dtype.kind == "f":
        return numbers(array)
    return [str(value) if value > LEAST else f"({LEAST + 1} - 1)" for value in array.tolist()]
