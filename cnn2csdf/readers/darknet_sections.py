"""The sections of a Darknet configuration file, with the lines they stand on."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, field
from math import isfinite
from typing import NamedTuple

from csdf.errors import UnreadableFile, UnsupportedOperator

DIGITS = 9  # of any number that makes sense in a configuration
_INTEGER = re.compile(rf"[+-]?[0-9]{{1,{DIGITS}}}")


class Option(NamedTuple):
    """The text behind the `=` of an option, and its line."""

    value: str
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A heading in brackets with the options below it."""

    kind: str
    file: str
    line: int
    options: dict[str, Option] = field(default_factory=dict)

    @property
    def where(self) -> str:
        """The file, the line and the heading."""
        return f"{self.file}:{self.line}: [{self.kind}]"

    def integer(self, key: str, default: int, *, least: int = 0) -> int:
        """Return a whole number; refuse one that is smaller than `least`."""
        value = self._integers(key)[0] if key in self.options else default
        if value < least:
            raise self._refusal(key, f"an integer of at least {least}")
        return value

    def size(self, key: str) -> int:
        """Return a positive number that must be there."""
        self.integers(key)
        return self.integer(key, 0, least=1)

    def integers(self, key: str) -> tuple[int, ...]:
        """Return the whole numbers of an option that must be there, separated by commas."""
        if key not in self.options:
            raise UnreadableFile(f"{self.where}: the option {key!r} is missing")
        return self._integers(key)

    def _integers(self, key: str) -> tuple[int, ...]:
        words = self.options[key].value.rstrip(",").split(",")
        if not all(_INTEGER.fullmatch(word) for word in words):
            raise self._refusal(key, f"an integer of at most {DIGITS} digits")
        return tuple(int(word) for word in words)

    def number(self, key: str, default: float) -> float:
        """Return a number, such as 0.75."""
        if key not in self.options:
            return default
        try:
            value = float(self.options[key].value)
        except ValueError:
            raise self._refusal(key, "a number") from None
        if not isfinite(value):
            raise self._refusal(key, "a finite number")
        return value

    def choice(self, key: str, default: str, choices: Collection[str]) -> str:
        """Return one of some words."""
        value = self.options[key].value if key in self.options else default
        if value not in choices:
            raise self._refusal(key, f"one of {', '.join(choices)}")
        return value

    def require_only(self, known: Collection[str]) -> None:
        """Refuse options that the section does not have."""
        for key, option in self.options.items():
            if key not in known:
                raise UnreadableFile(
                    f"{self.file}:{option.line}: [{self.kind}]: the option {key!r} is unknown"
                )

    def require_neutral(self, key: str, *neutral: str) -> None:
        """Refuse an option whose effect is not supported: all values but the neutral ones."""
        if key in self.options and self.options[key].value not in neutral:
            option = self.options[key]
            raise UnsupportedOperator(
                f"{self.file}:{option.line}: [{self.kind}]: {key}={option.value} is not supported; "
                f"{key}={neutral[0]} is"
            )

    def _refusal(self, key: str, expectation: str) -> UnreadableFile:
        option = self.options[key]
        return UnreadableFile(
            f"{self.file}:{option.line}: [{self.kind}]: found {key}={option.value[:40]}; "
            f"expected {expectation}"
        )


def parse_sections(text: str, name: str) -> list[Section]:
    """Return the sections in their order.

    Spaces count nowhere; `#` and `;` begin a comment. Raises UnreadableFile, naming the line.
    """
    sections: list[Section] = []
    for number, raw in enumerate(text.removeprefix("\ufeff").split("\n"), start=1):
        line = "".join(re.split("[#;]", raw)[0].split())
        if line.startswith("["):
            if not re.fullmatch(r"\[\w+\]", line):
                raise UnreadableFile(f"{name}:{number}: found {line[:40]!r}; expected [section]")
            sections.append(Section(kind=line[1:-1].lower(), file=name, line=number))
        elif line:
            _add_option(sections, line, name, number)
    if not sections:
        raise UnreadableFile(f"{name}: no section in the file; expected [net] first")
    return sections


def _add_option(sections: list[Section], line: str, name: str, number: int) -> None:
    key, sign, value = line.partition("=")
    if not sections:
        raise UnreadableFile(f"{name}:{number}: {line[:40]!r} stands in front of the first section")
    if not (key and sign and value):
        raise UnreadableFile(f"{name}:{number}: found {line[:40]!r}; expected option=value")
    section = sections[-1]
    if key in section.options:
        first = section.options[key].line
        raise UnreadableFile(
            f"{name}:{number}: [{section.kind}]: {key!r} is given twice, first in line {first}"
        )
    section.options[key] = Option(value, number)
