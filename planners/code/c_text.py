"""Names, numbers and const tables in C text, each distinct table once."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from csdf.errors import InvalidNetwork
from csdf.names import free_name
from planners.code.initialisers import Structures
from planners.code.parts import comment
from planners.code.rules import Rule

NULL = "NULL"
WIDTH = 100
LONGEST = 200  # letters of a name, whole as a rule: names of files end at 255
TOGETHER = 2**16  # numbers that become text at once
KEYWORDS = frozenset({  # of C up to C23, and of C++ up to C++23, whose programs include headers
    "alignas", "alignof", "and", "and_eq", "asm", "auto", "bitand", "bitor", "bool", "break", "case",
    "catch", "char", "char8_t", "char16_t", "char32_t", "class", "co_await", "co_return", "co_yield",
    "compl", "concept", "const", "const_cast", "consteval", "constexpr", "constinit", "continue",
    "decltype", "default", "delete", "do", "double", "dynamic_cast", "else", "enum", "explicit",
    "export", "extern", "false", "float", "for", "friend", "goto", "if", "inline", "int", "long",
    "main", "mutable", "namespace", "new", "noexcept", "not", "not_eq", "nullptr", "operator", "or",
    "or_eq", "private", "protected", "public", "register", "reinterpret_cast", "requires",
    "restrict", "return", "short", "signed", "sizeof", "static", "static_assert", "static_cast",
    "struct", "switch", "template", "this", "thread_local", "throw", "true", "try", "typedef",
    "typeid", "typename", "typeof", "typeof_unqual", "union", "unsigned", "using", "virtual", "void",
    "volatile", "wchar_t", "while", "xor", "xor_eq",
})  # fmt: skip
MACROS = frozenset({  # in small letters, of standard headers and of compilers
    "assert", "complex", "errno", "far", "fortran", "huge", "i386", "imaginary", "interface",
    "linux", "near", "noreturn", "pascal", "setjmp", "small", "stderr", "stdin", "stdout", "unix",
    "va_arg", "va_copy", "va_end", "va_start", "vax", "cdecl", "mips", "sun", "hpux",
})  # fmt: skip
FILES = frozenset({
    "assert", "complex", "ctype", "errno", "fenv", "float", "inttypes", "iso646", "limits", "locale",
    "main", "math", "setjmp", "signal", "stdarg", "stdbool", "stddef", "stdint", "stdio", "stdlib",
    "string", "target", "tgmath", "time", "wchar", "wctype",
    "csdf_kernels", "csdf_scheduler", "csdf_float_among_integers", *(
        f"csdf_{elements}_{topic}"
        for elements in ("float", "int8", "int8_single", "int16", "int16_single")
        for topic in ("arithmetic", "layers", "portable", "avx2", "sse2", "cortex_m4", "cortex_m55")
    ),  # headers of kernels
})  # fmt: skip


def identifier(name: str) -> str:
    """Return a C identifier in small letters that is close to the name."""
    text = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")
    if not text or not text[0].isalpha() or text in KEYWORDS or text in FILES:
        text = f"n_{text}".rstrip("_")
    return text[:LONGEST].rstrip("_")


def unlike(name: str, taken: Iterable[str]) -> str:
    """Return an identifier for a name that is none of those taken."""
    return free_name(identifier(name), set(taken), between="_")


def unlike_each(names: Iterable[str]) -> dict[str, str]:
    """Return an identifier for each name, all of them distinct."""
    identifiers: dict[str, str] = {}
    for name in names:
        identifiers[name] = unlike(name, identifiers.values())
    return identifiers


def number(value: float) -> str:
    """Return a float, exact in single precision.

    Raises InvalidNetwork for a NaN, and for a finite number beyond single precision.
    """
    with np.errstate(over="ignore"):
        single = np.float32(value)
    if np.isnan(single):
        raise InvalidNetwork("a weight or attribute is not a number (NaN)")
    if np.isinf(single) and not np.isinf(value):
        raise InvalidNetwork(f"a weight or attribute, {value:.9g}, exceeds single precision")
    if np.isinf(single):
        return "INFINITY" if single > 0 else "-INFINITY"
    text = f"{float(single):.9g}"
    return f"{text}f" if "." in text or "e" in text else f"{text}.0f"


def string_literal(text: str) -> str:
    """Return a string literal of C in ASCII; other characters are octal bytes of UTF-8."""
    escapes = {"\\": r"\\", '"': r"\"", "\n": r"\n", "?": r"\?"}  # "??/" would be a trigraph

    def in_c(letter: str) -> str:
        octal = "".join(f"\\{byte:03o}" for byte in letter.encode(errors="replace"))
        return escapes.get(letter, letter if " " <= letter <= "~" else octal)

    return f'"{"".join(map(in_c, text))}"'


def numbers(array: NDArray[Any]) -> Iterator[str]:
    """Yield floats as `number` gives them, several times as fast: networks have millions."""
    single = np.asarray(array, np.float32)
    for begin in range(0, len(single), TOGETHER):
        values = single[begin : begin + TOGETHER]
        if not np.isfinite(values).all():
            yield from map(number, values)
            continue
        texts = ("%.9g " * len(values) % tuple(values.tolist())).split()
        yield from [f"{text}f" if "." in text or "e" in text else f"{text}.0f" for text in texts]


def initialiser(value: object) -> str:
    """Return a value as C writes it: sequences in braces, None as NULL, texts as they are.

    A mapping becomes a structure whose fields have these names.
    """
    if value is None:
        return NULL
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        return "{" + ", ".join(f".{name} = {initialiser(v)}" for name, v in value.items()) + "}"
    if isinstance(value, tuple | list | range):
        return "{" + ", ".join(map(initialiser, value)) + "}"
    if isinstance(value, float | np.floating):
        return number(float(value))
    assert isinstance(value, int | np.integer)
    return str(int(value))


def table_row(note: str = "", /, **fields: object) -> str:
    """Return a row of a C table: an initialiser with the fields of its structure, and a comment."""
    return f"{initialiser(fields)}," + (f" /* {comment(note)} */" if note else "")


def short_lines(text: str) -> str:
    """Return C whose lines are broken between parameters, to at most 100 columns where possible."""
    lines: list[str] = []
    in_comment = False
    is_joined = False  # to the line before, by a backslash
    for line in text.split("\n"):
        in_comment = in_comment or line.lstrip().startswith("/*")
        lines.append(line)
        is_macro = is_joined or line.startswith("#") or line.endswith("\\")
        if not (in_comment or is_macro or '"' in line):
            _break_last(lines)
        is_joined = line.endswith("\\")
        in_comment = in_comment and "*/" not in line
    return "\n".join(lines)


def _break_last(lines: list[str]) -> None:
    """Break the last line after commas, or else brackets, while it is too long."""
    indent = " " * (len(lines[-1]) - len(lines[-1].lstrip()) + 4)
    while len(lines[-1]) > WIDTH:
        ends = (lines[-1].rfind(sign, len(indent), WIDTH) for sign in (", ", "("))
        end = next((end for end in ends if end > 0), None)
        if end is None:
            break
        lines[-1:] = [lines[-1][: end + 1], indent + lines[-1][end + 1 :].lstrip()]


def header_file(name: str, about: str, includes: Sequence[str], text: str) -> str:
    """Return a header for programs of C and C++. name: of the library; about: its comment."""
    guard = f"{name.upper()}_H"
    included = "".join(f"#include <{file}>\n" for file in includes)
    return f"""/* {about} */
#ifndef {guard}
#define {guard}

{included}
#ifdef __cplusplus
extern "C" {{
#endif

{text}
#ifdef __cplusplus
}}
#endif

#endif
"""


def wrapped(items: Iterable[str]) -> str:
    """Return items with commas between, in indented lines."""
    lines, line = [], "   "
    for item in items:
        if len(line) + len(item) + 2 > WIDTH:
            lines.append(line)
            line = "   "
        line += f" {item},"
    return "\n".join([*lines, line])


TYPES = {  # of parameters
    "float32": "float",
    "uint8": "uint8_t",
    "uint16": "uint16_t",
    "int8": "int8_t",
    "int16": "int16_t",
    "int32": "int32_t",
    "int64": "int64_t",
}
LEAST_VALUES = (-(2**31), -(2**63))  # which no constant of C is


@dataclass(frozen=True, slots=True, kw_only=True)
class _Constant:
    """A constant of C. text: its initialiser, without names of fields; items: of an array."""

    kind: str
    symbol: str
    text: str
    items: tuple[str, ...] | None

    def definition(self, structures: Structures) -> str:
        """Return the definition, with the names of the fields of its type."""
        if self.items is None:
            return structures.constant(self.kind, self.symbol, self.text)
        if any(item.startswith("{") for item in self.items):
            return structures.table(self.kind, self.symbol, [f"{item}," for item in self.items])
        head = f"static const {self.kind} {self.symbol}[{len(self.items)}]"
        return f"{head} = {{\n{wrapped(self.items)}\n}};"


class SumKind(NamedTuple):
    """Properties of the sums of a layer that allow assembly to requantise them.

    has_small_factors: all factors are below 1/2, so that vectors of Helium only shift to the right.
    has_narrow_sums: in addition 30 bits hold each sum, as instructions of a Cortex-M4 need.
    """

    has_small_factors: bool
    has_narrow_sums: bool


class Tables:
    """Numbers and structures that became C symbols.

    Parameters are for a file of their own, and carry the name of the library; all else is
    private.
    """

    def __init__(
        self,
        library: str,
        *,
        has_helium: bool = False,
        name_of: Callable[[str], str] = identifier,
        sums_are_mixed: bool = False,
    ) -> None:
        """Take the name of the library, in front of symbols that the linker sees.

        name_of: the C name of a tensor. sums_are_mixed: whether layers differ in sum_kinds, so that
        each scaling tells its kind.

        has_helium: whether a target may read sums that only Helium begins with.
        """
        self._library, self.has_helium, self.name_of = library, has_helium, name_of
        self._names: set[str] = set()
        self._known: dict[object, str] = {}
        self.arrays: dict[str, NDArray[Any]] = {}  # parameters
        # The names under which each array was requested.
        self.purposes: dict[str, dict[str, None]] = {}
        self._constants: list[_Constant] = []
        self.structures: dict[str, tuple[str, str]] = {}  # kind and text, by their addresses
        self.wanted: set[str] = set()  # C types and functions that the tables mention
        self.weights_have_zeros = False  # trained integers of any layer that is summed up
        self.some_weights_are_halves = False  # of floating-point layers, two bytes each
        self.ranges_have_offsets = False  # of numbers that are quantised at run time
        self.sums_round_once = False  # of any layer, once instead of twice
        self.sums_are_mixed = sums_are_mixed  # each scaling says which of sum_kinds it has
        self.sum_kinds: set[SumKind] = set()  # of all layers with sums
        self.folded: set[str] = set()  # parameters that only Helium reads

    def weights(self, name: str, array: NDArray[Any], owner: object = None) -> str:
        """Return the symbol of an array of parameters; the name is a suggestion.

        Equal arrays of the same owner share a symbol.
        """
        flat = np.ascontiguousarray(array).reshape(-1)
        if flat.dtype.name not in TYPES:
            flat = flat.astype(np.float32)
        key = ("weights", owner, flat.dtype.name, flat.tobytes())
        if key not in self._known:
            self._known[key] = self._new(f"{self._library}_w_{name}")
            self.arrays[self._known[key]] = flat
        self.purposes.setdefault(self._known[key], {})[name] = None
        return self._known[key]

    def rule(self, rule: Rule) -> str:
        """Return the address of a row rule."""
        pairs = NULL
        if rule.pairs:
            listed = [place for pair in rule.pairs for place in pair]
            pairs = self.defined("uint16_t", "pairs", [str(place) for place in listed])
        fields = rule._asdict() | {"is_clamped": int(rule.is_clamped), "pairs": pairs}
        return self.structure("rule", "rule", initialiser(fields))

    def structure(self, kind: str, name: str, text: str) -> str:
        """Return the address of one structure of a type. text: its initialiser."""
        address = f"&{self._table(kind, name, None, text)}"
        self.structures[address] = kind, text
        return address

    def defined(self, kind: str, name: str, items: Sequence[str]) -> str:
        """Return the symbol of an array of a type."""
        return self._table(kind, name, tuple(items), "{" + ", ".join(items) + "}")

    def _table(self, kind: str, name: str, items: tuple[str, ...] | None, text: str) -> str:
        key = (kind, items is None, text)
        if key not in self._known:
            symbol = self._new(f"p_{name}" if name == kind else f"p_{name}_{kind}")
            constant = _Constant(kind=kind, symbol=symbol, text=text, items=items)
            self._constants.append(constant)
            self._known[key] = symbol
        self.wanted.add(kind)
        return self._known[key]

    def definitions(self, structures: Structures) -> list[str]:
        """Return the definitions of all constants but parameters. structures: of their types."""
        return [constant.definition(structures) for constant in self._constants]

    def _new(self, name: str) -> str:
        unused_name = unlike(name, self._names)
        self._names.add(unused_name)
        return unused_name


def array_items(array: NDArray[Any]) -> Iterable[str]:
    """Return parameters as C writes them."""
    if array.dtype.kind == "f":
        return numbers(array)
    values = array.tolist()
    return [f"({value + 1} - 1)" if value in LEAST_VALUES else str(value) for value in values]
