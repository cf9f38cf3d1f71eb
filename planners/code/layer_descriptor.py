"""The description of a layer for the C emitters, and the kernel call that they emit.

A kernel in C is compiled for one element type. A quantised library with floating-point layers
contains the floating-point kernels in addition to the integer kernels, and renames their functions
and types. Definitions that do not depend on the element type are shared.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cnn2csdf.arrays import are_halves
from cnn2csdf.dtypes import Element, Quantization
from cnn2csdf.fixed_point.flash import derived_arrays
from cnn2csdf.network import Layer, Shape
from cnn2csdf.quantized_layers import LookupTable, lookup_tables
from cnn2csdf.weights import Array
from csdf.errors import UnsupportedOperator
from planners.code.c_text import NULL, SumKind, Tables, initialiser
from planners.code.parts import REALS, Definition, added_sources, as_real, used_definitions
from planners.code.rules import Rule

Fields = Mapping[str, object]
"""The fields of a C structure, by name; a structure in it is a mapping, too."""


class KernelCall(NamedTuple):
    """A C function and the address of its parameters."""

    function: str
    parameters: str = NULL


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerNode:
    """A layer of a network with the arrays and tables from which its kernel call is emitted.

    input_types: quantisations of the inputs, None for floating point. element: the type that the layer
    computes in. number: position of the layer in the network, from 1. flash: of each array of
    parameters, by its role, its elements and their bytes, as they count as flash of the layer.
    """

    layer: Layer
    inputs: tuple[Shape, ...]
    weights: Mapping[str, Array]
    tables: Tables | RealTables
    input_types: tuple[Quantization | None, ...]
    element: Element
    number: int
    flash: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    @property
    def is_real(self) -> bool:
        """Whether the layer computes in floating point."""
        return self.element is Element.FLOAT32

    @property
    def lookup_tables(self) -> tuple[LookupTable | None, ...]:
        """The lookup table of each input."""
        return lookup_tables(self.layer, self.input_types)

    @property
    def _name(self) -> str:
        """The C name of the layer."""
        return self.tables.name_of(self.layer.name)

    def derived(self, role: str) -> str:
        """Return the symbol of an array that follows from types and attributes; equal ones once."""
        return self.computed(role, derived_arrays(self.layer, self.input_types)[role])

    def symbol(self, role: str, array: Array) -> str:
        """Return the symbol of an array of parameters in its memory order.

        Layers share an array in flash if they share it in the file; so the flash size does not depend
        on the values. A floating-point layer reads integers, such as indices, in single precision, too.
        """
        return self.stored(role, array.astype(np.float32) if self.is_real else array)

    def stored(self, role: str, array: Array) -> str:
        """Return the symbol of an array of parameters in the type of the array.

        Its elements are those that count as flash of the layer.
        """
        elements = {_in_c(name): elements for name, (elements, _) in self.flash.items()}
        if elements.get(_in_c(role)) != array.size:
            raise self.refusal(
                f"with an array {role!r} of {array.size} numbers, which its flash does not count: "
                "state them in derived_arrays or elements_in_flash"
            )
        name = next(
            (stored.name for stored in self.layer.stored if _in_c(stored.role) == _in_c(role)), None
        )
        owner = name or (self.layer.name, role)
        return self.tables.weights(f"{self._name}_{_in_c(role)}", array, owner)

    def real_weights(self, role: str, array: Array | None) -> Fields:
        """Return the fields of `real_weights`: numbers of four bytes, and of two if there are any.

        array: the weights in their memory order; None: the layer has none.
        """
        # A rewrite may have changed the numbers of the file.
        if array is not None and self.layer.reads_halves(role) and are_halves(array):
            halves = self.stored(role, array.astype(np.float16).view(np.uint16))
            return {"singles": None, "halves": halves}
        singles: Fields = {"singles": None if array is None else self.symbol(role, array)}
        return {**singles, "halves": None} if self.tables.some_weights_are_halves else singles

    def computed(self, role: str, array: Array) -> str:
        """Return the symbol of derived constants; equal arrays are stored once in flash."""
        return self.tables.weights(f"{self._name}_{_in_c(role)}", array)

    def optional(self, role: str) -> str:
        """Return the symbol of parameters that may be missing."""
        return self.symbol(role, self.weights[role]) if role in self.weights else NULL

    def structure(self, kind: str, /, **fields: object) -> str:
        """Return the address of a structure of C that holds the numbers of the layer.

        fields: all fields of the structure, by their names in C.
        """
        return self.tables.structure(kind, self._name, initialiser(fields))

    def call(self, function: str, kind: str | None = None, /, **fields: object) -> KernelCall:
        """Return the call of a kernel that takes a structure of that kind, if any."""
        structure = NULL if kind is None else self.structure(kind, **fields)
        return KernelCall(function, structure)

    def table(self, kind: str, role: str, items: Iterable[object]) -> str:
        """Return the symbol of an array of C values."""
        name = self._name + (f"_{role}" if role else "")
        return self.tables.defined(kind, name, [initialiser(text) for text in items])

    def refusal(self, what: str) -> UnsupportedOperator:
        """Return the error for a layer that no kernel computes."""
        name = type(self.layer.operator).__name__
        nameless = f"layer number {self.number} of the network, a {name} without a name"
        where = f"layer {self.layer.name!r}" if self.layer.name else nameless
        return UnsupportedOperator(f"{where}: no C code for {name} {what}")


def _in_c(role: str) -> str:
    """Return the name of an array of parameters in C."""
    return role.replace(".", "_").replace(" ", "_")


TYPE = """/* Numbers in single precision that begin at any byte, as integers beside them do. */
#if defined(__GNUC__)
typedef float __attribute__((aligned(1), may_alias)) real;
#elif defined(_MSC_VER)
typedef __unaligned float real;
#elif defined(__ICCARM__) || defined(__CC_ARM)
typedef __packed float real;
#else
#error "name here a type for numbers in single precision that begin at any byte"
#endif
"""


class RealTables:
    """The tables of a quantised library for floating-point layers: C types are renamed."""

    def __init__(self, tables: Tables) -> None:
        """Take the tables of a library of integers."""
        self._tables = tables
        self.wanted: set[str] = set()  # C types and functions, by their names among real numbers
        self.weights_have_zeros = self.sums_round_once = self.ranges_have_offsets = False
        self.sums_are_mixed = False
        self.sum_kinds: set[SumKind] = set()
        self.folded: set[str] = set()
        self.has_helium, self.name_of = tables.has_helium, tables.name_of

    @property
    def some_weights_are_halves(self) -> bool:
        """Whether some floating-point weights take two bytes."""
        return self._tables.some_weights_are_halves

    def weights(self, name: str, array: NDArray[Any], owner: object = None) -> str:
        """Return the symbol of some parameters; see Tables."""
        return self._tables.weights(name, array, owner)

    def rule(self, rule: Rule) -> str:
        """Return the address of a row rule."""
        return self._tables.rule(rule)

    def structure(self, kind: str, name: str, text: str) -> str:
        """Return the address of one structure of a type. text: its initialiser."""
        self.wanted.add(kind)
        return self._tables.structure(as_real(kind), name, as_real(text))

    def defined(self, kind: str, name: str, items: Sequence[str]) -> str:
        """Return the symbol of an array of a type."""
        self.wanted.add(kind)
        return self._tables.defined(as_real(kind), name, [as_real(text) for text in items])


def shared_with_reals(wanted: Iterable[str]) -> frozenset[str]:
    """Return the definitions that floating-point layers share with integer layers, by name.

    wanted: functions and types, by their names in a floating-point library.
    """
    parts = used_definitions(wanted, (*REALS, *added_sources()))
    return frozenset(name for part in parts if not is_of_reals(part) for name in part.names)


def is_of_reals(part: Definition) -> bool:
    """Return whether the text of a definition differs in a quantised library."""
    return as_real(part.text) != part.text
