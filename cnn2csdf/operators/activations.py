"""Functions of one element, with the formulas of ONNX."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from cnn2csdf.arrays import Array
from cnn2csdf.fixed_point.functions import FUNCTIONS, prelu, sigmoid_table
from cnn2csdf.operators.operator import Pointwise, channel_array_elements
from cnn2csdf.part import OutputRows, Types, along_channels, same_rows
from cnn2csdf.shape import Dims, Shape
from csdf.errors import InvalidNetwork

__all__ = ["ACTIVATIONS", "Activation"]


def _leaky(values: Array, slope: float | Array) -> Array:
    return np.where(values < 0, values * slope, values)


def _clip(values: Array, low: float, high: float) -> Array:
    clipped: Array = np.maximum(np.minimum(values, np.float32(high)), np.float32(low))
    return clipped


def sigmoid(values: Array) -> Array:
    """Return 1 / (1 + e ** -x), by the tangent, which never overflows."""
    result: Array = np.tanh(values * 0.5) * 0.5 + 0.5
    return result


def _hard_sigmoid(values: Array, alpha: float, beta: float) -> Array:
    return _clip(values * alpha + beta, 0.0, 1.0)


def _softplus(values: Array) -> Array:
    return np.logaddexp(values, np.float32(0))


def _elu(values: Array, alpha: float) -> Array:
    return np.where(values < 0, np.expm1(np.minimum(values, 0)) * alpha, values)


def _celu(values: Array, alpha: float) -> Array:
    return np.maximum(values, 0) + np.minimum(np.expm1(np.minimum(values, 0) / alpha) * alpha, 0)


def _gelu_by_tanh(values: Array) -> Array:
    """The GELU with its tanh approximation.

    Source: Hendrycks, Gimpel, Gaussian Error Linear Units, arXiv 1606.08415, section 2.
    """
    inner = (2 / np.pi) ** 0.5 * (values + 0.044715 * values**3)
    result: Array = values * 0.5 * (1 + np.tanh(inner))
    return result


def _error_function(values: Array) -> Array:
    """The error function to 1.5e-7.

    Source: Abramowitz, Stegun, Handbook of Mathematical Functions, 7.1.26.
    """
    size = np.abs(values)
    t = 1 / (1 + 0.3275911 * size)
    series = np.zeros_like(t)
    for factor in (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592):
        series = (series + factor) * t
    result: Array = np.copysign(1 - series * np.exp(-size * size), values)
    return result


_FUNCTIONS: dict[str, tuple[int, Callable[..., Array]]] = {  # name: how many parameters it takes
    "relu": (0, lambda values: np.maximum(values, 0)),
    "leaky relu": (1, _leaky),  # slope
    "prelu": (0, _leaky),  # slopes are weights
    "clip": (2, _clip),  # low, high
    "sigmoid": (0, sigmoid),
    "hard sigmoid": (2, _hard_sigmoid),  # alpha, beta
    "hard swish": (0, lambda values: values * _hard_sigmoid(values, 1 / 6, 0.5)),
    "silu": (0, lambda values: values * sigmoid(values)),
    "mish": (0, lambda values: values * np.tanh(_softplus(values))),
    "gelu": (0, lambda values: values * 0.5 * (1 + _error_function(values * 0.5**0.5))),
    "elu": (1, _elu),  # alpha
    "selu": (2, lambda values, alpha, gamma: _elu(values, alpha) * gamma),
    "celu": (1, _celu),  # alpha
    "tanh": (0, np.tanh),
    "softplus": (0, _softplus),
    "softsign": (0, lambda values: values / (1 + np.abs(values))),
    "thresholded relu": (1, lambda values, alpha: np.where(values > alpha, values, np.float32(0))),
    "exp": (0, np.exp),
    "log": (0, np.log),
    "sqrt": (0, np.sqrt),
    "rsqrt": (0, lambda values: 1 / np.sqrt(values)),
    "abs": (0, np.abs),
    "negative": (0, np.negative),
    "reciprocal": (0, np.reciprocal),
    "gelu tanh": (0, _gelu_by_tanh),
    "erf": (0, _error_function),
    "sin": (0, np.sin),
    "cos": (0, np.cos),
    "round": (0, np.rint),
    "floor": (0, np.floor),
    "ceil": (0, np.ceil),
    "truncate": (0, np.trunc),
    "sign": (0, np.sign),
    "not": (0, lambda values: (values == 0).astype(np.float32)),
    "is not zero": (0, lambda values: (values != 0).astype(np.float32)),
    "zero for nan": (0, lambda values: np.where(np.isnan(values), np.float32(0), values)),
}
ACTIVATIONS = {name: count for name, (count, _) in _FUNCTIONS.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Activation(Pointwise):
    """A function of one element; ACTIVATIONS says which there are and what parameters they take."""

    swaps_with_inputs = True
    copies_masks = True
    can_follow_integers = True
    has_lookup_table = True
    function: str
    parameters: tuple[float, ...] = ()

    @property
    def kernel(self) -> str:
        return f"{type(self).__name__}.{self.function}"

    def of_head(self, axis: int, heads: int) -> Activation:
        return self

    @property
    def limits(self) -> tuple[float, float] | None:
        if self.function == "clip":
            return self.parameters[0], self.parameters[1]
        return (0.0, np.inf) if self.function == "relu" else None

    def __post_init__(self) -> None:
        if self.function not in ACTIVATIONS:
            raise InvalidNetwork(f"there is no activation {self.function!r}")
        if len(self.parameters) != ACTIVATIONS[self.function]:
            raise InvalidNetwork(
                f"activation {self.function!r} takes {ACTIVATIONS[self.function]} parameters, "
                f"found {len(self.parameters)}"
            )

    @property
    def is_scalar_function(self) -> bool:
        """Whether all elements have one function: a rectifier with trained slopes has many."""
        return self.function != "prelu"

    def trained(self, inputs: Sequence[Shape]) -> Mapping[str, Dims]:
        return {"slope": (inputs[0].channels,)} if self.function == "prelu" else {}

    def derived_arrays(self, types: Types, output: Shape) -> Mapping[str, Array]:
        """Return the curve of a sigmoid or a tanh of 16-bit integers."""
        input_types = types.inputs[0]
        is_short = input_types is not None and input_types.element.bytes > 1
        is_curve = is_short and self.function in ("sigmoid", "tanh")
        return {"curve": sigmoid_table().astype(np.int32)} if is_curve else {}

    def elements_in_flash(self, role: str, dims: Dims, output: Shape, *, is_fused: bool) -> int:
        return channel_array_elements(dims, output)

    def computed(self, part: OutputRows) -> Array:
        values = same_rows(part)
        if self.function == "prelu":
            return _leaky(values, along_channels(part.weights["slope"], values.ndim))
        return _FUNCTIONS[self.function][1](values, *self.parameters)

    def computed_in_integers(self, part: OutputRows, types: Types) -> Array:
        """Return integers as fixed-point arithmetic gives them; limits in all arithmetics."""
        input_types, result, values = types.inputs[0], types.output, same_rows(part)
        if input_types is None or result is None:
            return super(Activation, self).computed_in_integers(part, types)
        trained = types.weights.get("slope")
        if trained is not None and result.is_fixed_point:
            slopes = along_channels(part.weights["slope"], values.ndim)
            return prelu(values, slopes, input_types, trained, result)
        is_limit = self.function in ("relu", "clip") and input_types == result
        if self.function in FUNCTIONS and (result.is_fixed_point or is_limit):
            return FUNCTIONS[self.function](values, input_types, result, *self.parameters)
        return super(Activation, self).computed_in_integers(part, types)

    def in_words(self) -> str:
        return self.function
