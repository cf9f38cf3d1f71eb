"""JSON values with their position in the document, and a reader of dataclasses from JSON.

A message names the position as a path: `plan.json: groups[2].rows: found -1; expected an integer
>= 0`.
"""

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

# The method of JsonValue that reads a field of each plain type.
READ_METHODS = {str: "text", int: "natural", bool: "truth", Fraction: "fraction"}


class JsonForm(NamedTuple):
    """The JSON form of a dataclass: an object with a key for each field.

    format, version: values of the keys "format" and "version" of a document; no such keys if `format`
    is empty. names: pairs of a field and its key, where the key is not the name of the field.
    is_complete: whether keys of fields with a default are required too.
    """

    format: str = ""
    version: int = 1
    names: tuple[tuple[str, str], ...] = ()
    is_complete: bool = False


PLAIN_FORM = JsonForm()
JsonForms = Mapping[type, JsonForm]  # by dataclass; all other dataclasses have PLAIN_FORM


@dataclass(frozen=True, slots=True)
class JsonValue:
    """A JSON value with its file and its path in the document, such as `groups[2].rows`.

    Each method returns the value as one type; it raises UnreadableFile for a value of another type.
    """

    value: Any
    file: str
    path: str

    @classmethod
    def parse(cls, text: str, file: str) -> JsonValue:
        """Return the document. Raises UnreadableFile for equal keys in an object, and for NaN."""
        return cls._parsed(text, file, object_pairs_hook=_object, parse_constant=_refuse_constant)

    @classmethod
    def parse_as_python(cls, text: str, file: str) -> JsonValue:
        """Return the document as json.loads reads it: the last of equal keys counts; NaN is allowed."""
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

    def built(self, kind: type[Built], forms: JsonForms) -> Built:
        """Return the dataclass whose fields this object holds. Raises UnreadableFile."""
        form = forms.get(kind, PLAIN_FORM)
        parts, needed, optional = _parts(kind, form)  # type: ignore[arg-type]
        self.require_object()
        if form.format:
            if "format" not in self.value:
                expected = f'expected "format": "{form.format}"'
                raise UnreadableFile(f"{self.where}: the key 'format' is missing; {expected}")
            if self["format"].text() != form.format:
                raise self["format"].refusal(f"expected {form.format!r}")
            if self["version"].natural() != form.version:
                raise self["version"].refusal(f"expected {form.version}")
        self.require_keys(needed, optional)
        values = {name: read(self[key], forms) for name, key, read in parts if key in self.value}
        try:
            return kind(**values)
        except CsdfError as error:
            raise UnreadableFile(f"{self.where}: {error}") from None

    def fraction(self) -> Fraction:
        """Return the fraction that a string holds, such as "1/2"."""
        try:
            return rational(self.text())
        except MalformedText:
            raise self.refusal("expected a fraction as text, such as '1/2'") from None

    @property
    def where(self) -> str:
        """The file, with the path if the value is not the whole document."""
        return f"{self.file}: {self.path}" if self.path else self.file

    @property
    def is_null(self) -> bool:
        """Whether the value is null."""
        return self.value is None

    def refusal(self, expectation: str) -> UnreadableFile:
        """Return an error with the position and the text of this value, and what was expected."""
        shown = repr(self.value)
        excerpt = shown if len(shown) <= 40 else f"{shown[:37]}..."
        return UnreadableFile(f"{self.where}: found {excerpt}; {expectation}")

    def require_object(self) -> None:
        """Raise UnreadableFile unless the value is an object."""
        if type(self.value) is not dict:
            raise self.refusal("expected an object")

    def require_keys(
        self, needed: Sequence[str], optional: Sequence[str] = (), *, form: str = ""
    ) -> None:
        """Raise UnreadableFile unless the value is an object with the needed keys and no unknown key.

        form: a name of the form for the message, such as a version, if other forms have other keys.
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
        path = f"{self.path}.{key}" if self.path else key
        return JsonValue(self.value[key], self.file, path)

    def items(self) -> Iterator[JsonValue]:
        """Yield the elements of a list."""
        if type(self.value) is not list:
            raise self.refusal("expected a list")
        for number, value in enumerate(self.value):
            yield JsonValue(value, self.file, f"{self.path}[{number}]")

    def entries(self, readers: Sequence[Reader], forms: JsonForms) -> tuple[Any, ...]:
        """Return a list with one element for each reader, read by it."""
        elements = list(self.items())
        if len(elements) != len(readers):
            raise self.refusal(f"expected a list of {len(readers)}")
        return tuple([read(reader, forms) for read, reader in zip(readers, elements, strict=True)])

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


Reader = Callable[[JsonValue, JsonForms], Any]


@lru_cache
def _parts(
    kind: type, form: JsonForm
) -> tuple[list[tuple[str, str, Reader]], list[str], list[str]]:
    """Name, key and reader of each field of a dataclass; required keys; optional keys."""
    names, hints = dict(form.names), get_type_hints(kind)
    parts: list[tuple[str, str, Reader]] = []
    optional: list[str] = []
    needed = ["format", "version"] if form.format else []
    for field in fields(kind):
        if field.init:
            key = names.get(field.name, field.name)
            parts.append((field.name, key, _reader(hints[field.name])))
            has_default = field.default is not MISSING or field.default_factory is not MISSING
            (optional if has_default and not form.is_complete else needed).append(key)
    return parts, needed, optional


def _reader(hint: Any) -> Reader:
    """Return the reader of a type: plain, dataclass, `T | None`, tuple, or mapping from names."""
    origin, parts = get_origin(hint), get_args(hint)
    if hint in READ_METHODS:
        method = getattr(JsonValue, READ_METHODS[hint])
        return lambda value, _: method(value)
    if is_dataclass(hint):
        return lambda value, forms: value.built(hint, forms)  # type: ignore[arg-type]
    if origin is UnionType:
        read_part = _reader(parts[0])
        return lambda value, forms: None if value.is_null else read_part(value, forms)
    if origin is tuple and parts == (int, ...):
        return lambda value, _: value.naturals()
    if origin is tuple and parts[-1] is ...:
        read_part = _reader(parts[0])
        return lambda value, forms: tuple([read_part(entry, forms) for entry in value.items()])
    if origin is tuple:
        return lambda value, forms: value.entries([_reader(part) for part in parts], forms)
    read_part = _reader(parts[1])
    return lambda value, forms: {name: read_part(entry, forms) for name, entry in value.members()}
