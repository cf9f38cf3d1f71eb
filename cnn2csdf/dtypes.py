"""Types of the elements of tensors and of parameters, and the bytes that they take."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from math import inf

from csdf.errors import InvalidNetwork


class Element(Enum):
    """The type of the elements of a tensor."""

    FLOAT64 = "float64"
    FLOAT32 = "float32"
    FLOAT16 = "float16"
    BFLOAT16 = "bfloat16"
    INT64 = "int64"
    INT32 = "int32"
    INT16 = "int16"
    INT8 = "int8"
    UINT16 = "uint16"
    UINT8 = "uint8"
    BOOL = "bool"

    @property
    def bytes(self) -> int:
        """Bytes of one element."""
        bits = "".join(filter(str.isdigit, self.value))
        return int(bits or 8) // 8

    @property
    def is_integer(self) -> bool:
        """Whether the elements are whole numbers."""
        return "float" not in self.value

    @property
    def middle(self) -> int:
        """The integer that C, which stores unsigned integers as signed, stores as 0; else 0."""
        return 1 << (8 * self.bytes - 1) if self.value.startswith("uint") else 0


class Arithmetic(Enum):
    """How quantised integers are computed: whose rounding is followed.

    FIXED_POINT: as TensorFlow Lite Micro, with 31-bit multipliers and two roundings.
    ROUNDED_ONCE: for weights of fully connected layers, as the reference kernels of LiteRT: the sums of
    products are multiplied by the ratio of scales in double precision, and rounded once.
    UNSIGNED_FIXED_POINT: for uint8, as TensorFlow Lite: the scales of inputs and weights are multiplied
    in single precision. A sigmoid, a tanh and a concatenation are computed in single precision.
    SINGLE_PRECISION: as ONNX Runtime, which rescales sums of integers in single precision, rounds
    halves to even numbers, and computes other operators in real numbers between the two scales.
    """

    FIXED_POINT = "fixed point"
    ROUNDED_ONCE = "fixed point, sums rounded once"
    UNSIGNED_FIXED_POINT = "fixed point of unsigned weights"
    SINGLE_PRECISION = "single precision"


class Runtime(Enum):
    """The runtime whose kernels a TensorFlow Lite file is computed with, where two of them differ.

    Fully connected layers of int8 and int16 differ. LITERT rounds their sums once. TFLITE_MICRO rounds
    sums of int8 twice, and multiplies sums of int16 by a multiplier of 16 bits.
    """

    LITERT = "litert"
    TFLITE_MICRO = "tflite-micro"


# CMSIS-NN, ESP-NN and the interpreters of devices round as TensorFlow Lite Micro does.
USUAL_RUNTIME = Runtime.TFLITE_MICRO


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantization:
    """Which real numbers stored integers stand for: scale * (stored - zero point).

    scales: one, or one for each place along the first axis of parameters; they are numbers in
    single precision.
    """

    element: Element
    scales: tuple[float, ...]
    zero_point: int = 0
    arithmetic: Arithmetic = Arithmetic.FIXED_POINT

    @property
    def is_fixed_point(self) -> bool:
        """Whether a runtime of TensorFlow Lite computes the integers, not ONNX Runtime."""
        return self.arithmetic is not Arithmetic.SINGLE_PRECISION

    @property
    def is_unsigned(self) -> bool:
        """Whether the integers are computed as TensorFlow Lite computes uint8."""
        return self.arithmetic is Arithmetic.UNSIGNED_FIXED_POINT

    @property
    def rounds_sums_once(self) -> bool:
        """Whether the integers are weights whose sums of products are rounded once."""
        return self.arithmetic is Arithmetic.ROUNDED_ONCE

    def __post_init__(self) -> None:
        if not self.element.is_integer:
            raise InvalidNetwork(f"a quantised tensor of {self.element.value}; expected integers")
        if not self.scales or not all(0 < scale < inf for scale in self.scales):
            raise InvalidNetwork(f"scales {self.scales[:4]}; expected positive numbers")

    @property
    def scale(self) -> float:
        """The only scale."""
        return self.scales[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """How an array of parameters of a layer is stored.

    role: which array of the layer it is. name: of the array in the file; layers whose arrays have
    the same name share it. None is an array of the layer's own. quantization: of integers.
    """

    role: str
    element: Element = Element.FLOAT32
    name: str | None = None
    quantization: Quantization | None = None
