"""Inputs and outputs of a library: C types, macros of the header, quantisation functions.

The quantisation functions convert floats to the integers of an input, and back. On a target without
a floating-point unit they read and write the bits of a float with integer arithmetic, and give the
same results: no soft-float function of the compiler is linked.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cnn2csdf.stored_tensors import StoredAs
from planners.code.c_text import number as number_text
from planners.code.parts import comment, source

SCALE_EXPONENTS = range(-100, 41)  # of scales for integer arithmetic: no result is subnormal
_MANTISSA_BITS = 24  # of single precision
_AWAY_FROM_ZERO = "((uint32_t)1 << (shift - 1))"  # added before the bits of a fraction are dropped
_QUANTIZED = "const float *values, void *elements"
_DEQUANTIZED = "const void *elements, float *values"
_TO_EVEN = f"({_AWAY_FROM_ZERO} - 1U + ((quotient >> shift) & 1U))"


@dataclass(frozen=True, slots=True, kw_only=True)
class LibraryPort:
    """An input or output as the functions of a library take it. tensor: that holds it in the arena."""

    parameter: str
    layer: str
    tensor: str
    elements: int
    kind: str  # of its elements in C
    unit: int  # elements of the arena that one of them takes
    stored: StoredAs
    outside: int | None = None  # its place among the tensors in memory of the caller
    is_shifted: bool = False  # unsigned for the caller, and less a half of their range in the arena
    is_signed_outside: bool = False  # unsigned in the file, and less a half in memory of the caller

    @property
    def copying(self) -> str:
        """The C function that copies elements between the caller and the arena, where they differ."""
        return "copy_shifted_bytes" if self.stored.element.bytes == 1 else "copy_shifted_halves"

    @property
    def array(self) -> str:
        """The array of a program for this tensor: no name of ours begins with `port_`."""
        return f"port_{self.parameter}"

    def to_json(self) -> dict[str, Any]:
        """Return the port as a JSON value: parameter, C type and memory layout."""
        return {**self.stored.to_json(), "parameter": self.parameter, "c_type": self.kind}


@dataclass(frozen=True, slots=True, kw_only=True)
class LibraryPorts:
    """The inputs and outputs of a library, and their C.

    halves_to_even: as quantisation rounds halves; otherwise away from zero. in_integers: whether the
    target has no floating-point unit.
    """

    library: str
    inputs: Sequence[LibraryPort]
    outputs: Sequence[LibraryPort]
    halves_to_even: bool
    in_integers: bool

    @property
    def has_integers(self) -> bool:
        """Whether an input or output is quantised."""
        return any(port.stored.quantization for port in (*self.inputs, *self.outputs))

    @property
    def _use_integers(self) -> bool:
        """Whether quantisation is in integers: not for elements of 32 bits or extreme scales."""
        quantised = [
            port for port in (*self.inputs, *self.outputs) if port.stored.quantization is not None
        ]
        return self.in_integers and all(
            port.stored.element.bytes <= 2 and _scale_parts(port)[1] in SCALE_EXPONENTS
            for port in quantised
        )

    def macros(self) -> str:
        """Return the macros of the header that describe each input and output."""
        texts = "".join(
            self._macros(number, port)
            for ports in (self.inputs, self.outputs)
            for number, port in enumerate(ports)
        )
        exact = ""
        if self.has_integers and self._use_integers:
            exact = "\n   scale = mantissa * 2^exponent, exactly."
        return f"""
/* Inputs and outputs, each after its name in the file: number, type, elements, shape in memory order.
   A real number is scale * (integer - zero point).{exact} */
{texts}"""

    def _macros(self, number: int, port: LibraryPort) -> str:
        stored, name = port.stored, self._macro(port)
        text = f"""/* {comment(stored.name)} */
#define {name}_NUMBER {number}
#define {name}_TYPE {port.kind}
#define {name}_ELEMENTS {port.elements}
#define {name}_RANK {len(stored.shape)}
#define {name}_SHAPE {{{", ".join(map(str, stored.shape))}}}
#define {name}_LAYOUT "{stored.layout}"
"""
        if stored.quantization is None:
            return text
        zero = stored.quantization.zero_point
        text += f"#define {name}_SCALE {number_text(stored.quantization.scale)}\n"
        if self._use_integers:
            mantissa, exponent = _scale_parts(port)
            text += f"#define {name}_SCALE_MANTISSA {mantissa}U\n"
            text += f"#define {name}_SCALE_EXPONENT {_bracketed(exponent)}\n"
        return f"{text}#define {name}_ZERO_POINT {_bracketed(zero)}\n"

    def declarations(self) -> str:
        """Return the declarations of quantisation functions; empty without quantised ports."""
        if not self.has_integers:
            return ""
        return f"""
/* Quantise real numbers for an input, and dequantise integers of an output, `count` of them:
   a whole tensor, a row or one. number: of the input or output, from 0 on. Nothing is written, and
   {self._capitals}_WRONG_NUMBER returned, if there is none or if it has fewer elements than count. */
{self._signature("quantize_input", _QUANTIZED)};
{self._signature("dequantize_output", _DEQUANTIZED)};
"""

    def definitions(self) -> str:
        """Return the quantisation functions; empty without quantised ports."""
        if not self.has_integers:
            return ""
        quantize = self._function("quantize_input", _QUANTIZED, self.inputs, self._stored)
        dequantize = self._function("dequantize_output", _DEQUANTIZED, self.outputs, self._real)
        return f"\n{self._conversions()}\n{quantize}\n{dequantize}"

    def _conversions(self) -> str:
        """Return the C functions that convert a number."""
        names = [
            name
            for name, ports in (("quantised", self.inputs), ("dequantised", self.outputs))
            if any(port.stored.quantization is not None for port in ports)
        ]
        kind = "integers" if self._use_integers else "floats"
        texts = [source(f"{name}_by_{kind}.c") for name in names]
        text = "\n".join(texts)
        if kind == "integers":
            return text.replace("ROUNDING", _TO_EVEN if self.halves_to_even else _AWAY_FROM_ZERO)
        return text.replace("ROUND(", "rintf(" if self.halves_to_even else "roundf(")

    def _function(
        self,
        name: str,
        parameters: str,
        ports: Sequence[LibraryPort],
        statement: Callable[[LibraryPort], str],
    ) -> str:
        cases = "".join(
            f"""    case {self._macro(port)}_NUMBER:
        if (!IS_OUTSIDE(count, {self._macro(port)}_ELEMENTS + 1)) {{
            for (i = 0; i < count; i++) {{
                {statement(port)}
            }}
            status = {self._capitals}_OK;
        }}
        break;
"""
            for port in ports
        )
        missing, wrong = f"{self._capitals}_NULL_POINTER", f"{self._capitals}_WRONG_NUMBER"
        return f"""{self._signature(name, parameters)}
{{
    const int is_missing = IS_MISSING(values) || IS_MISSING(elements);
    {self.library}_status status = is_missing ? {missing} : {wrong};
    int32_t i;
    switch ((status == {wrong}) ? number : -1) {{
{cases}    default:
        break;
    }}
    return status;
}}
"""

    def _signature(self, name: str, parameters: str) -> str:
        """C that begins the definition of a quantisation function, or declares the function."""
        return (
            f"{self.library}_status {self.library}_{name}(int number, {parameters},\n"
            "    int32_t count)"
        )

    @property
    def _capitals(self) -> str:
        return self.library.upper()

    def _macro(self, port: LibraryPort) -> str:
        return f"{self._capitals}_{port.parameter.upper()}"

    def _scale(self, port: LibraryPort) -> str:
        """C for the scale of a port as arguments of a conversion."""
        name = f"{self._macro(port)}_SCALE"
        return f"{name}_MANTISSA, {name}_EXPONENT" if self._use_integers else name

    def _stored(self, port: LibraryPort) -> str:
        """C that stores a real number in an input."""
        element = f"(({port.kind} *)elements)[i]"
        if port.stored.quantization is None:
            return f"{element} = ({port.kind})values[i];"
        bits = 8 * port.stored.element.bytes - 1
        limits = f"{-(2**bits) + 1} - 1, {2**bits - 1}"
        if port.kind.startswith("u"):
            limits = f"0, {2 ** (bits + 1) - 1}"
        value = "&values[i]" if self._use_integers else "values[i]"
        zero = f"{self._macro(port)}_ZERO_POINT"
        return f"""{element} = ({port.kind})quantised({value},
                    {self._scale(port)}, {zero}, {limits});"""

    def _real(self, port: LibraryPort) -> str:
        """C that converts an output to a real number."""
        element = f"((const {port.kind} *)elements)[i]"
        if port.stored.quantization is None:
            return f"values[i] = (float){element};"
        difference = f"{element} - {self._macro(port)}_ZERO_POINT"
        if self._use_integers:
            return f"""dequantised({difference},
                    {self._scale(port)}, &values[i]);"""
        return f"""values[i] = dequantised(
                    {difference}, {self._scale(port)});"""


def _bracketed(number: int) -> str:
    return str(number) if number >= 0 else f"({number})"


def _scale_parts(port: LibraryPort) -> tuple[int, int]:
    """Return mantissa and exponent of the scale: mantissa * 2^exponent, with a mantissa of 24 bits."""
    quantization = port.stored.quantization
    assert quantization is not None
    fraction, exponent = math.frexp(float(np.float32(quantization.scale)))
    return int(fraction * 2**_MANTISSA_BITS), exponent - _MANTISSA_BITS
