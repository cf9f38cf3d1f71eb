"""A JSON value that knows its position in the document, for messages, and dataclasses made of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from fractions import Fraction
from functools import lru_cache
from types import UnionType
from typing import Any, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

from csdf.errors import CsdfError, UnreadableFile
from csdf.model.exact import MalformedText, rational, value_fault

Built = TypeVar("Built")

PLAIN = {str: "text", int: "natural", bool: "truth", Fraction: "fraction"}  # methods of JsonValue


class JsonForm(NamedTuple):
    """The JSON form of a dataclass: its fields under their names, with what is said here.

    format, version: that it says first, where it is a document. names: other keys of some fields.
    is_complete: whether all keys have to be there, those of fields with a default, too.
    """

    format: str = ""
    version: int = 1
    names: tuple[tuple[str, str], ...] = ()
    is_complete: bool = False


PLAIN_SHAPE = JsonForm()
Shapes = Mapping[type, JsonForm]  # of classes whose form is not the plain one


@dataclass(frozen=True, slots=True)
class JsonValue:
    """A value and where it stands; what it is not is refused with UnreadableFile."""

    value: Any
    file: str
    place: str

    @classmethod
    def parse(cls, text: str, file: str) -> JsonValue:
        """Return the whole document; refuse keys that occur twice, and numbers that are none."""
        return cls._parsed(text, file, object_pairs_hook=_object, parse_constant=_refuse_constant)

    @classmethod
    def parse_as_python(cls, text: str, file: str) -> JsonValue:
        """Return the whole document; of equal keys the last one counts, and NaN is a number."""
        return cls._parsed(text, file)

    @classmethod
    def _parsed(cls, text: str, file: str, **hooks: Any) -> JsonValue:
        try:
            return cls(json.loads(text, **hooks), file, "")
        except json.JSONDecodeError as error:
            raise UnreadableFile(f"{file}:{error.lineno}: not JSON: {error.msg}") from None
        except RecursionError:
            raise UnreadableFile(f"{file}: nested too deeply") from None
        except ValueError as error:
            raise UnreadableFile(f"{file}: {value_fault(error)}") from None

    def built(self, kind: type[Built], shapes: Shapes) -> Built:
        """Return the value of a dataclass whose fields stand here. Raises UnreadableFile."""
        shape = shapes.get(kind, PLAIN_SHAPE)
        parts, needed, optional = _parts(kind, shape)  # type: ignore[arg-type]
        self.require_object()
        if shape.format:
            if "format" not in self.value:
                expected = f'expected "format": "{shape.format}"'
                raise UnreadableFile(f"{self.where}: the key 'format' is missing; {expected}")
            if self["format"].text() != shape.format:
                raise self["format"].refusal(f"expected {shape.format!r}")
            if self["version"].natural() != shape.version:
                raise self["version"].refusal(f"expected {shape.version}")
        self.require_keys(needed, optional)
        values = {name: read(self[key], shapes) for name, key, read in parts if key in self.value}
        try:
            return kind(**values)
        except CsdfError as error:
            raise UnreadableFile(f"{self.where}: {error}") from None

    def fraction(self) -> Fraction:
        """Return the exact number that a text says."""
        try:
            return rational(self.text())
        except MalformedText:
            raise self.refusal("expected a fraction as text, such as '1/2'") from None

    @property
    def where(self) -> str:
        """The file and the place within."""
        return f"{self.file}: {self.place}" if self.place else self.file

    @property
    def is_null(self) -> bool:
        """Whether it is null."""
        return self.value is None

    def refusal(self, expectation: str) -> UnreadableFile:
        """Return the error that blames this value."""
        shown = repr(self.value)
        excerpt = shown if len(shown) <= 40 else f"{shown[:37]}..."
        return UnreadableFile(f"{self.where}: found {excerpt}; {expectation}")

    def require_object(self) -> None:
        """Refuse anything but an object, whatever its keys."""
        if type(self.value) is not dict:
            raise self.refusal("expected an object")

    def require_keys(
        self, needed: Sequence[str], optional: Sequence[str] = (), *, form: str = ""
    ) -> None:
        """Refuse anything but an object with the needed keys, and perhaps the optional ones.

        form: of the document, such as its version, where other forms have other keys.
        """
        self.require_object()
        missing = next((key for key in needed if key not in self.value), None)
        if missing is not None:
            raise self._wrong_key(f"{missing!r} is missing", needed, optional, form)
        unknown = next((key for key in self.value if key not in (*needed, *optional)), None)
        if unknown is not None:
            raise self._wrong_key(f"{unknown!r} is unknown", needed, optional, form)

    def _wrong_key(
        self, what: str, needed: Sequence[str], optional: Sequence[str], form: str
    ) -> UnreadableFile:
        keys = ", ".join(needed) + (f"; optional: {', '.join(optional)}" if optional else "")
        which = f" in {form}" if form else ""
        return UnreadableFile(f"{self.where}: the key {what}; expected{which}: {keys}")

    def __getitem__(self, key: str) -> JsonValue:
        if type(self.value) is not dict:
            raise self.refusal("expected an object")
        if key not in self.value:
            raise self.refusal(f"the key {key!r} is missing")
        path = f"{self.place}.{key}" if self.place else key
        return JsonValue(self.value[key], self.file, path)

    def items(self) -> Iterator[JsonValue]:
        """Yield the entries of a list."""
        if type(self.value) is not list:
            raise self.refusal("expected a list")
        for number, value in enumerate(self.value):
            yield JsonValue(value, self.file, f"{self.place}[{number}]")

    def entries(self, readers: Sequence[Reader], shapes: Shapes) -> tuple[Any, ...]:
        """Return a list of this many entries, each as its reader reads it."""
        elements = list(self.items())
        if len(elements) != len(readers):
            raise self.refusal(f"expected a list of {len(readers)}")
        return tuple([read(reader, shapes) for read, reader in zip(readers, elements, strict=True)])

    def members(self) -> Iterator[tuple[str, JsonValue]]:
        """Yield the members of an object."""
        self.require_object()
        return ((key, self[key]) for key in self.value)

    def text(self) -> str:
        """Return the value if it is a text."""
        if type(self.value) is not str:
            raise self.refusal("expected a text")
        return self.value

    def truth(self) -> bool:
        """Return the value if it is true or false."""
        if type(self.value) is not bool:
            raise self.refusal("expected true or false")
        return self.value

    def natural(self) -> int:
        """Return the value if it is an integer >= 0."""
        if type(self.value) is not int or self.value < 0:
            raise self.refusal("expected an integer >= 0")
        return self.value

    def whole(self, minimum: int, maximum: int) -> int:
        """Return the value if it is an integer in this range, ends included."""
        if type(self.value) is not int or not minimum <= self.value <= maximum:
            raise self.refusal(f"expected an integer from {minimum} to {maximum}")
        return self.value

    def number(self) -> float:
        """Return the value if it is a number."""
        if type(self.value) not in (int, float):
            raise self.refusal("expected a number")
        return self.value  # type: ignore[no-any-return]

    def naturals(self) -> tuple[int, ...]:
        """Return the value if it is a list of integers >= 0."""
        if type(self.value) is list and all(type(v) is int and v >= 0 for v in self.value):
            return tuple(self.value)
        return tuple(entry.natural() for entry in self.items())


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"the key {twice!r} occurs twice in one object")
    return members


def _refuse_constant(constant: str) -> None:
    raise ValueError(f"{constant} is not a number")


Reader = Callable[[JsonValue, Shapes], Any]


@lru_cache
def _parts(
    kind: type, shape: JsonForm
) -> tuple[list[tuple[str, str, Reader]], list[str], list[str]]:
    """The fields of a dataclass with their keys and readers; keys that are needed, and others."""
    names, hints = dict(shape.names), get_type_hints(kind)
    parts: list[tuple[str, str, Reader]] = []
    optional: list[str] = []
    needed = ["format", "version"] if shape.format else []
    for field in fields(kind):
        if field.init:
            key = names.get(field.name, field.name)
            parts.append((field.name, key, _reader(hints[field.name])))
            has_default = field.default is not MISSING or field.default_factory is not MISSING
            (optional if has_default and not shape.is_complete else needed).append(key)
    return parts, needed, optional


def _reader(hint: Any) -> Reader:
    """How a value of a type is read: numbers, texts, tuples, tables by name, dataclasses, or null."""
    origin, parts = get_origin(hint), get_args(hint)
    if hint in PLAIN:
        method = getattr(JsonValue, PLAIN[hint])
        return lambda value, _: method(value)
    if is_dataclass(hint):
        return lambda value, shapes: value.built(hint, shapes)  # type: ignore[arg-type]
    if origin is UnionType:
        read_part = _reader(parts[0])
        return lambda value, shapes: None if value.is_null else read_part(value, shapes)
    if origin is tuple and parts == (int, ...):
        return lambda value, _: value.naturals()
    if origin is tuple and parts[-1] is ...:
        read_part = _reader(parts[0])
        return lambda value, shapes: tuple([read_part(entry, shapes) for entry in value.items()])
    if origin is tuple:
        return lambda value, shapes: value.entries([_reader(part) for part in parts], shapes)
    read_part = _reader(parts[1])
    return lambda value, shapes: {name: read_part(entry, shapes) for name, entry in value.members()}
