"""Hardware layer of a FINN model: operator, style, and attributes with FINN's defaults."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

from csdf.errors import UnreadableFile
from planners.fifo.timing.cluster import MOST_CYCLES

DOMAIN = "finn.custom_op.fpgadataflow"
FIXED_POINT = re.compile(r"(?:FIXED|SCALEDINT)<(\d+)(?:, *-?\d+)?>")
ARBITRARY_FLOAT = re.compile(r"FLOAT<(\d+), *(\d+)(?:, *\d+)?>")
INTEGER = re.compile(r"U?INT(\d+)")
NAMED_BITS = {"BINARY": 1, "BIPOLAR": 1, "TERNARY": 2, "FLOAT32": 32, "FLOAT16": 16}

OLDER_NAMES = {
    "StreamingFCLayer": "MVAU",
    "MatrixVectorActivation": "MVAU",
    "Vector_Vector_Activate": "VVAU",
    "VectorVectorActivation": "VVAU",
    "ConvolutionInputGenerator1D": "ConvolutionInputGenerator",
    "ElementwiseAdd": "AddStreams",
    "StreamingConcat": "Concat",
    "StreamingSplit": "Split",
    "FMPadding_Pixel": "FMPaddingPixel",
    "ConvolutionInputGenerator_MMV": "ConvolutionInputGenerator",
}

# Of FINN's get_nodeattr_types, for attributes that a file may leave out.
DEFAULTS: Mapping[str, Any] = {
    "SIMD": 1,
    "PE": 1,
    "Stride": (1, 1),
    "Dilation": (1, 1),
    "Padding": (1, 1, 1, 1),
    "numInputVectors": (1,),
    "parallel_window": 0,
    "depthwise": 0,
    "deep_pipeline": 1,
    "K": 1,
    "BatchSize": 1,
    "numSteps": 1,
    "mem_mode": "internal_decoupled",
    "inFIFODepths": (2,),
    "outFIFODepths": (2,),
    "lhs_style": "input",
    "rhs_style": "input",
    "CeilMode": 0,
    "inputDataType": "INT8",
    "outputDataType": "INT8",
    "weightDataType": "INT8",
}
PREFERS_RTL = (  # operators without a suffix that FINN's SpecializeLayers makes RTL if possible
    "ConvolutionInputGenerator",
    "FMPadding",
    "StreamingDataWidthConverter",
    "StreamingFIFO",
    "Thresholding",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FinnNode:
    """A layer: its name, operator and style, and its attributes in the file.

    operator: today's name without suffix. style: "rtl", "hls" or "" before specialisation.
    inputs, outputs: names of streams, without parameters.
    """

    name: str
    operator: str
    style: str
    written: str  # the operator as the file has it
    attributes: Mapping[str, Any]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    file: str = ""

    def __getitem__(self, key: str) -> Any:
        """Return an attribute, or FINN's default of it. Raises UnreadableFile if there is none."""
        if key in self.attributes:
            return self.attributes[key]
        if key in DEFAULTS:
            return DEFAULTS[key]
        raise UnreadableFile(
            f"{self.file}: node {self.name!r} ({self.written}) has no attribute {key!r}, "
            "and FINN has no default for it; it has "
            + (", ".join(sorted(self.attributes)) or "no attributes at all")
        )

    def whole(self, key: str, minimum: int = 1) -> int:
        """Return an attribute that is an integer of at least `minimum`."""
        value = self[key]
        if type(value) is not int or not minimum <= value <= MOST_CYCLES:
            raise self.refusal(
                f"attribute {key!r} is {value!r}; expected an integer from {minimum} to {MOST_CYCLES}"
            )
        return value

    def wholes(self, key: str, length: int | None = None, least: int = 1) -> tuple[int, ...]:
        """Return an attribute that is a list of integers; for a length of 2 a number counts twice."""
        value = self[key]
        values = tuple(value) if isinstance(value, (list, tuple)) else (value,)
        if length == 2 and len(values) == 1:
            values *= 2
        is_right = all(type(number) is int and least <= number <= MOST_CYCLES for number in values)
        if not is_right or len(values) != (length or len(values) or 1):
            raise self.refusal(
                f"attribute {key!r} is {value!r}; expected {length or 'at least 1'} integers from "
                f"{least} to {MOST_CYCLES}"
            )
        return values

    def has(self, key: str) -> bool:
        """Whether the file states an attribute, so that no default is used."""
        return key in self.attributes

    def divided(self, total: int, key: str, of: str) -> int:
        """Return a dimension divided by a fold. Raises UnreadableFile for a remainder."""
        fold = self.whole(key)
        if total % fold:
            raise self.refusal(f"{key}={fold} does not divide {of}={total}")
        return total // fold

    def bits(self, key: str) -> int:
        """Return the width of the data type that an attribute names."""
        return self.type_bits(str(self[key]))

    def type_bits(self, name: str) -> int:
        """Return the bits of a data type of QONNX: INT4, FIXED<8,2>, ... Raises UnreadableFile."""
        if name in NAMED_BITS:
            return NAMED_BITS[name]
        if match := INTEGER.fullmatch(name) or FIXED_POINT.fullmatch(name):
            return int(match[1])
        if match := ARBITRARY_FLOAT.fullmatch(name):
            return 1 + int(match[1]) + int(match[2])
        raise self.refusal(f"data type {name!r} is not one of QONNX")

    @property
    def vectors(self) -> int:
        """Pixels, or vectors, of one frame."""
        return prod(self.wholes("numInputVectors"))

    @property
    def is_rtl(self) -> bool:
        """Whether the layer is timed as RTL: it is, or FINN would specialise it to RTL."""
        return self.style == "rtl" or (self.style == "" and self.operator in PREFERS_RTL)

    def refusal(self, what: str) -> UnreadableFile:
        """Return an error about this node."""
        return UnreadableFile(f"{self.file}: node {self.name!r} ({self.written}): {what}")


def operator_of(op_type: str) -> tuple[str, str]:
    """Return today's name of an operator without suffix, and its style."""
    style = ""
    for suffix in ("hls", "rtl"):
        if op_type.endswith(f"_{suffix}"):
            op_type, style = op_type[: -len(suffix) - 1], suffix
    op_type = op_type.removesuffix("_Batch")
    return OLDER_NAMES.get(op_type, op_type), style
