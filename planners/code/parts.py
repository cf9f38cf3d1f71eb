"""Selection of C definitions: a library contains only the definitions that it uses.

The C sources of this package are split into definitions with their dependencies. A loop that many
functions share is a macro. Each of these functions is a line that begins with the name of the macro:
`EACH_ELEMENT(step_tanh, tanhf(x))` defines step_tanh. Such a line counts as a definition, so that a
library contains the macro and the lines that it uses.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from planners.code.machines import NO_SWITCHES, Switches, specialised, words_of

# C files by the elements of the arena, in the order in which they are compiled.
SHARED = ("frame.c", "windows.c", "places.c", "folds.c", "sweep.c", "shares.c")  # any elements
REALS = (  # floating point
    *(*SHARED, "reals.c", "shares_of_reals.c", "share_windows.c", "combine.c", "hybrid.c"),
    *("points.c", "detections.c", "steps.c", "behind_reals.c"),
)
# Integers: 8 bits or 16 bits, with accumulators of 32 bits ("narrow") or 64 bits ("wide"). Sums are
# rescaled by fixed-point multipliers as in TensorFlow Lite, or in single precision as in ONNX Runtime.
_INTEGERS = ("integers.c", "integer_elements.c", "positions.c", "points.c", "detections.c")
_SHARES = ("shares_of_integers.c", "share_windows.c")
_BYTES = ("sums.c", "byte_sums.c", "byte_lanes.c", *_INTEGERS, "products.c", *_SHARES)
_SHORTS = ("sums.c", "short_sums.c", *_INTEGERS, *_SHARES)
_NARROW, _WIDE = ("elements.c", "narrow_totals.c"), ("elements.c", "wide_totals.c")
_FIXED_BYTES = (*_BYTES, "curves.c", "cells.c", "wide.c", "interpolations.c")
_FIXED_SHORTS = (*_SHORTS, "curves.c", "short_layers.c")
_SINGLE_BYTES = (*_BYTES, "single_layers.c", "single_products.c", "dynamic.c")
INTEGERS = (*SHARED, *_NARROW, "fixed.c", "fixed_sums.c", *_FIXED_BYTES)  # 8 bits, fixed point
WITH_CMSIS_NN = (*INTEGERS, "cmsis_nn.c")
SINGLES = (*SHARED, *_NARROW, "single.c", *_SINGLE_BYTES)  # 8 bits, single precision
SHORTS = (*SHARED, *_WIDE, "fixed.c", "short_scaling.c", *_FIXED_SHORTS)  # 16 bits, fixed point
# 16 bits, single precision
SHORT_SINGLES = (*SHARED, *_WIDE, "single.c", *_SHORTS, "single_layers.c")
CONVERSIONS = ("conversions.c",)  # from integers to real numbers, with the layers in floating point
SCHEDULER = ("tiles.c", "blocks.c", "scheduler.c")

OWN, CMSIS_NN = "csdf", "cmsis-nn"  # the kernels that a library calls
KERNELS = (OWN, CMSIS_NN)
COMMIT = "99f736a63036613032f9b70de36b493bcd7802d4"  # of CMSIS-NN, from July 2026
SOURCE = "https://github.com/ARM-software/CMSIS-NN.git"
_WORD = re.compile(r"[A-Za-z_]\w*")
_CALLED = re.compile(_WORD.pattern + r"(?=\()")
_CONDITION = re.compile(r"^#(?!define).*$", re.MULTILINE)  # of the preprocessor
_ARRAY = re.compile(r"typedef \w+ (\w+)\[")  # of a length that is checked at compile time
_MACRO = re.compile(r"#define (\w+)")
_BY_MACRO = re.compile(r"\w+\((\w+), .*\)")  # the definition of a function in one line
_ENUMERATED = re.compile(r"(\w+)\s*(?:=[^,}]*)?[,}]")
_COMMENT = re.compile(r"(/\*.*?\*/)", re.DOTALL)  # a group: `split` returns the comments too
# The type of an element, and the macros of elements that the prologue of a library defines. They are
# in no C file, so `_names_of_reals` does not derive them from the definitions.
_BY_ELEMENT = {"element": "real"} | {
    name: f"{name}_OF_REALS" for name in ("LEAST", "MOST", "SLOTS", "AS_TILE", "JOIN")
}


def comment(text: str) -> str:
    """Return a text for a comment of C: without its delimiters, backslashes and trigraphs."""
    printable = "".join(c if c.isprintable() and c.isascii() else "?" for c in text)
    # Slashes first, because a slash in place of a backslash may complete a delimiter.
    text = printable.replace("\\", "/").replace("*/", "* /").replace("/*", "/ *")
    return re.sub(r"\?(?=\?)", "? ", text)


class Definition(NamedTuple):
    """A definition with the comment before it. names: what it defines; words: what it mentions."""

    text: str
    names: frozenset[str]
    words: frozenset[str]


class Place(NamedTuple):
    """A position in the C files: the file, and the number of the definition in that file."""

    file: str
    number: int


_ADDED: dict[str, str] = {}  # C texts of operators of other packages, by their names


def add_source(name: str, text: str) -> None:
    """Let libraries use the definitions of a C text, as they use those of a file of this package."""
    _ADDED[name] = text


def added_sources() -> tuple[str, ...]:
    """Return the names of the C texts that were added."""
    return tuple(_ADDED)


def source(name: str) -> str:
    """Return the text of a C file of this package, or one that was added."""
    if name in _ADDED:
        return _ADDED[name]
    return files("planners.code").joinpath("c", name).read_text(encoding="utf-8")


@cache
def definitions_of(
    name: str, target: str | None = None, switches: Switches = NO_SWITCHES
) -> tuple[Definition, ...]:
    """Return the definitions of a C file of this package, in order.

    target: of machines.TARGETS, without the branches of other machines; None: all branches.
    switches: macros of networks, without the branches of other values.
    """
    texts: Iterable[str] = _chunks(source(name))
    if target is not None or switches:
        words = words_of(target)
        texts = filter(None, (specialised(text, words, switches=switches) for text in texts))
    return tuple(map(as_definition, texts))


@cache
def defined_names(name: str) -> frozenset[str]:
    """Return what a C file of this package defines."""
    return frozenset().union(*(definition.names for definition in definitions_of(name)))


@cache
def functions_in(name: str) -> frozenset[str]:
    """Return the functions that a C file of this package defines."""
    kinds = re.compile(r"(#define|typedef|enum)\b")
    return frozenset().union(
        *(
            definition.names
            for definition in definitions_of(name)
            if not kinds.match(_COMMENT.sub("", definition.text).strip())
        )
    )


def _chunks(text: str) -> Iterator[str]:
    """Yield the definitions of a C text, split at empty lines and macro lines outside of braces."""
    lines: list[str] = []
    depth = 0
    for line in [*text.splitlines(), ""]:
        if line:
            lines.append(line)
            depth += line.count("{") - line.count("}")
        elif depth:
            lines.append(line)
        if lines and depth == 0 and (not line or _BY_MACRO.fullmatch(line)):
            yield "\n".join(lines)
            lines = []


def as_definition(text: str) -> Definition:
    """Return a definition of C with the names that it defines and mentions."""
    code = _CONDITION.sub("", _COMMENT.sub("", text)).strip()
    return Definition(text, frozenset(_defined(code)), frozenset(_WORD.findall(code)))


def _defined(code: str) -> Iterator[str]:
    """The names that a definition in the style of the C files defines, by its first words.

    Code without comments and conditions. Examples, which define NAME:

    - `#define NAME(x) ...` and `EACH_ELEMENT(NAME, tanhf(x))`;
    - `typedef char NAME[...]`, an array whose length the compiler checks;
    - `typedef void (*NAME)(...)`, a pointer to a function;
    - `typedef struct {void (*field)(int);} NAME;` and `typedef int32_t NAME;`: the last word;
    - `enum {NAME, NAME = 2};`
    - `static int32_t NAME(int32_t x) {...}`: the last word before the first bracket.
    """
    head = code.partition("{")[0]
    if macro := _MACRO.match(code) or _BY_MACRO.fullmatch(code):
        yield macro[1]
    elif array := _ARRAY.match(code):
        yield array[1]
    elif code.startswith("typedef"):
        pointer = re.search(r"\(\*(\w+)\)", code) if "}" not in code else None
        yield pointer[1] if pointer else _WORD.findall(code)[-1]
    elif code.startswith("enum"):
        yield from _ENUMERATED.findall(code)
    elif "(" in head:
        yield _WORD.findall(head.partition("(")[0])[-1]


def used(
    wanted: Iterable[str],
    names: Sequence[str],
    target: str | None = None,
    switches: Switches = NO_SWITCHES,
) -> list[str]:
    """Return the C of the wanted definitions with all their dependencies.

    The order of the files is preserved, so that each definition follows its dependencies. target,
    switches: as for definitions_of.
    """
    return [definition.text for definition in used_definitions(wanted, names, target, switches)]


def used_definitions(
    wanted: Iterable[str],
    names: Sequence[str],
    target: str | None = None,
    switches: Switches = NO_SWITCHES,
) -> list[Definition]:
    """Return the definitions of `used`."""
    definitions = {
        Place(name, number): definition
        for name in names
        for number, definition in enumerate(definitions_of(name, target, switches))
    }
    places = reachable(wanted, definitions)
    return [definition for place, definition in definitions.items() if place in places]


def is_structure(definition: Definition) -> bool:
    """Return whether a definition begins with a structure, so that no condition encloses it."""
    return _COMMENT.sub("", definition.text).lstrip().startswith("typedef struct")


def reachable(wanted: Iterable[str], definitions: Mapping[Place, Definition]) -> set[Place]:
    """Return the definitions of the wanted names with all their dependencies.

    Those that define no name, such as declarations of structures, are always included.
    """
    by_name = {name: place for place, item in definitions.items() for name in item.names}
    nameless = {place for place, item in definitions.items() if not item.names}

    def places_of(words: Iterable[str]) -> list[Place]:
        return [by_name[word] for word in words if word in by_name]

    return nameless | closure(places_of(wanted), lambda place: places_of(definitions[place].words))


def closure(begin: Iterable[Place], following: Callable[[Place], Iterable[Place]]) -> set[Place]:
    """Return all places that are reached from some, these included. following: the next of each."""
    reached: set[Place] = set()
    ahead = list(begin)
    while ahead:
        place = ahead.pop()
        if place not in reached:
            reached.add(place)
            ahead += following(place)
    return reached


def mentioned(texts: Iterable[str]) -> set[str]:
    """Return the words of some C texts, comments aside."""
    return {word for text in texts for word in _WORD.findall(_COMMENT.sub("", text))}


def called(text: str) -> set[str]:
    """Return the words that some C text calls as functions, comments aside.

    A parameter may have the name of any function: tensors give their names to parameters.
    """
    return set(_CALLED.findall(_COMMENT.sub("", text)))


def as_real(text: str) -> str:
    """Return C with floating-point functions and types renamed, for use in a quantised library."""
    names = _names_of_reals()
    pieces = _COMMENT.split(text)  # code and comments alternate
    pieces[::2] = [
        _WORD.sub(lambda match: names.get(match[0], match[0]), piece) for piece in pieces[::2]
    ]
    return "".join(pieces)


@cache
def _names_of_reals() -> dict[str, str]:
    """The names that depend on the element type, with their names in a quantised library.

    These are the names of floating-point files, and those of shared files whose definitions mention,
    directly or by other definitions, a name that depends on the element type.
    """
    own_names = frozenset().union(*(defined_names(file) for file in REALS if file not in SHARED))
    names = own_names | set(_BY_ELEMENT)
    shared = [definition for file in SHARED for definition in definitions_of(file)]
    while more := {
        name
        for definition in shared
        if definition.words & names
        for name in definition.names - names
    }:
        names |= more
    return {
        name: _BY_ELEMENT.get(name, f"{name}_OF_REALS" if name.isupper() else f"{name}_of_reals")
        for name in names
    }
