"""The const tables of a library, on their way to text: each distinct one once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from planners.code.names import number, unlike, wrapped
from planners.code.rules import Rule

NULL = "NULL"


class Tables:
    """Numbers and structures that became C symbols.

    The floats are for a file of their own, and carry the name of the library; all else is private.
    """

    def __init__(self, library: str) -> None:
        """Take the name of the library, in front of symbols that the linker sees."""
        self._library = library
        self._names: set[str] = set()
        self._known: dict[object, str] = {}
        self.floats: dict[str, NDArray[np.float32]] = {}
        self.definitions: list[str] = []
        self.wanted: set[str] = set()  # C types and functions that the tables mention

    def weights(self, name: str, array: NDArray[np.float32]) -> str:
        """Return the symbol of some floats; the name is a suggestion."""
        flat = np.ascontiguousarray(array, np.float32).reshape(-1)
        key = ("weights", flat.tobytes())
        if key not in self._known:
            self._known[key] = self._new(f"{self._library}_w_{name}")
            self.floats[self._known[key]] = flat
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


def float_items(values: Iterable[float]) -> list[str]:
    """Return floats as C writes them."""
    return [number(value) for value in values]
