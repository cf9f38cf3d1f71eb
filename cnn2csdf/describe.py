"""An operator in a few words, as in a table of layers."""

from __future__ import annotations

from collections.abc import Sequence

from cnn2csdf import operators as op


def describe(operator: op.Operator, epilogue: Sequence[op.Operator] = ()) -> str:
    """Return what an operator does, with its window and what is fused behind it."""
    return " + ".join(describe_operator(one) for one in (operator, *epilogue))


def describe_operator(operator: op.Operator) -> str:
    """Return the operator in a few words."""
    match operator:
        case op.Convolution(window=window, groups=groups):
            kind = "" if groups == 1 else f", {groups} groups"
            return f"conv {_window(window)}{kind}"
        case op.TransposedConvolution(window=window):
            return f"transposed conv {_window(window)}"
        case op.Pooling(function=function, window=window):
            return f"{function} pool {_window(window)}"
        case op.GlobalPooling(function=function):
            return f"global {function} pool"
        case op.Activation(function=function) | op.Elementwise(function=function):
            return function
        case op.Reduction(function=function):
            return f"reduce {function}"
        case op.Resize(size=size, function=function):
            return f"resize {function} to {size[0]}x{size[1]}"
        case op.Slice(axis=axis, start=start, stop=stop):
            return f"slice {'CHW'[axis] if axis < 3 else axis} {start}:{stop}"
        case op.Identity(kind=kind):
            return kind
        case op.BatchNormalization():
            return "batch norm"
        case op.LocalResponseNormalization():
            return "local response norm"
        case op.Concatenation():
            return "concat"
    return _words(type(operator).__name__)


def _window(window: op.Window) -> str:
    """Kernel, stride behind a slash, dilation behind an at sign; one number where both agree."""
    text = f"{window.kernel[0]}x{window.kernel[1]}"
    if window.stride != (1, 1):
        text += f"/{_pair(window.stride)}"
    return text if window.dilation == (1, 1) else f"{text}@{_pair(window.dilation)}"


def _pair(values: op.Pair) -> str:
    return str(values[0]) if values[0] == values[1] else f"{values[0]}x{values[1]}"


def _words(name: str) -> str:
    return "".join(f" {one.lower()}" if one.isupper() else one for one in name).strip()


def bytes_in_words(count: int) -> str:
    """Return bytes with three digits and a unit; kB and MB are 1000 and 1,000,000 bytes."""
    for unit, size in (("MB", 10**6), ("kB", 10**3)):
        if count >= size:
            return f"{count / size:.4g} {unit}"
    return f"{count} B"
