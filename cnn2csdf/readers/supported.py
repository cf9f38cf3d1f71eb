"""Supported operators of each reader, the layers they become, their restrictions, and TFLite types."""

from __future__ import annotations

import dis
import inspect
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from importlib import import_module
from types import CodeType, FunctionType, MappingProxyType, ModuleType
from typing import Any, NamedTuple

from cnn2csdf.operators.operator import Operator
from cnn2csdf.readers.darknet import KINDS
from cnn2csdf.readers.tflite.folding import FOLDING_RULES
from cnn2csdf.readers.tflite.model_file import NAMES
from cnn2csdf.readers.tflite.reader import CONVERTERS

HOME = "cnn2csdf."  # functions elsewhere add no layers
GENERAL = {  # what holds for all operators of a reader
    "ONNX": "opset 7 or newer; a batch of one; quantised: 8 and 16 bits",
    "TensorFlow Lite": "one graph; a batch of one at its inputs",
    "Darknet": "sections of a .cfg file with the options that are read; no weights",
}


class Supported(NamedTuple):
    """An operator that a reader supports, with its restrictions.

    types: supported element types, if the reader distinguishes them. layers: the types of layers that
    it can become. attributes: attributes common to all of its layers. is_opened: whether the reader
    expands it into several operators.
    """

    reader: str
    operator: str
    note: str
    types: tuple[str, ...] = ()
    layers: tuple[type[Operator], ...] = ()
    attributes: Mapping[str, Any] = MappingProxyType({})
    is_opened: bool = False

    def in_words(self) -> str:
        """Return its types and what restricts it."""
        return "; ".join(filter(None, (", ".join(self.types), self.note)))


def of_constants() -> list[str]:
    """Return operators of TensorFlow Lite that are evaluated where their inputs are constants."""
    return sorted(set(FOLDING_RULES) - set(CONVERTERS))


def refused() -> dict[str, str]:
    """Return why each of the other builtin operators of TensorFlow Lite is refused, by its name."""
    read_names = {*CONVERTERS, *FOLDING_RULES, "CUSTOM", "IF"}
    names = sorted(name for name in NAMES.values() if name not in read_names)
    return {name: REASONS.get(name, NO_LAYER) for name in names}


def supported() -> list[Supported]:
    """Return all operators that can be read; those of ONNX where its package is installed."""
    return [*_of_onnx(), *_of_tflite(), *_of_darknet()]


def _of_onnx() -> Iterator[Supported]:
    try:
        converters: Mapping[str, Any] = import_module("cnn2csdf.onnx_files.reader").CONVERTERS
        runtime = import_module("cnn2csdf.onnx_files.runtime_operators").kinds()
        composed = import_module("cnn2csdf.onnx_files.compositions").COMPOSITIONS
    except ModuleNotFoundError:
        yield Supported("ONNX", "(none)", "needs onnx: pip install onnx")
        return
    attributes_known = import_module(
        "cnn2csdf.onnx_files.conversion.elementwise"
    ).attributes_by_kind()
    for name in sorted(converters):
        convert = converters[name]
        layers, attributes = _layer_kinds(convert), attributes_known.get(name, {})
        yield Supported("ONNX", name, _in_words(convert), (), layers, attributes)
    for name in sorted(composed.keys() - converters.keys()):
        yield Supported("ONNX", name, "the operators that it stands for", is_opened=True)
    for name in runtime:
        yield Supported(
            "ONNX", name, "between integers, as the steps that it stands for", is_opened=True
        )


def _of_tflite() -> Iterator[Supported]:
    for name in sorted(CONVERTERS):
        convert = CONVERTERS[name]
        yield Supported(
            "TensorFlow Lite",
            name,
            RESTRICTIONS.get(name, ""),
            types=("float32", *IN_INTEGERS.get(name, ())),
            layers=_layer_kinds(convert),
            attributes=getattr(convert, "keywords", {}),
        )


def _of_darknet() -> Iterator[Supported]:
    for name in sorted(KINDS):
        options = KINDS[name].options
        said = "nothing that changes a shape" if options is None else ", ".join(options)
        yield Supported("Darknet", f"[{name}]", said or "no options")


def _in_words(convert: Callable[..., Any]) -> str:
    """The first sentence of what a converter says it does."""
    said = (inspect.getdoc(_plain(convert)) or "").partition("\n\n")[0]
    return " ".join(said.split()).removeprefix("Add ").rstrip(".")


def _layer_kinds(convert: Callable[..., Any]) -> tuple[type[Operator], ...]:
    """The classes of layers that a converter names, or a function that it calls, by name.

    Methods are not followed: a graph that is being read adds only layers that move elements itself.
    """
    kinds: set[type[Operator]] = set()
    seen: set[Callable[..., Any]] = set()
    pending = [_plain(convert)]
    while pending:
        function = pending.pop()
        if function in seen or not isinstance(function, FunctionType):
            continue
        seen.add(function)
        for value in _named(function):
            if isinstance(value, type) and issubclass(value, Operator):
                kinds.add(value)
            elif (
                callable(value) and str(getattr(value, "__module__", "")).startswith(HOME)
            ) or isinstance(value, partial):
                pending.append(_plain(value))
    concrete = [kind for kind in kinds if not inspect.isabstract(kind)]
    return tuple(sorted(concrete, key=lambda kind: kind.__name__))


def _plain(convert: Callable[..., Any]) -> Callable[..., Any]:
    """The function inside decorators and partial calls."""
    while True:
        inside = inspect.unwrap(convert)
        inside = inside.func if isinstance(inside, partial) else inside
        if inside is convert:
            return convert
        convert = inside


def _named(function: FunctionType) -> Iterator[Any]:
    """The values that the global names in a function stand for, and the values it encloses."""
    codes = [function.__code__]
    for code in codes:
        codes += [co_const for co_const in code.co_consts if isinstance(co_const, CodeType)]
        module: ModuleType | None = None
        for step in dis.get_instructions(code):
            value = None
            if step.opname == "LOAD_GLOBAL":
                value = function.__globals__.get(step.argval)
            elif module is not None and step.opname in ("LOAD_ATTR", "LOAD_METHOD"):
                value = getattr(module, step.argval, None)
            module = value if isinstance(value, ModuleType) else None
            yield value
    for cell in function.__closure__ or ():
        yield cell.cell_contents


NO_LAYER = "no layer computes it"
LENGTHS = "the size of its result depends on the frame"
TABLES = "strings or hash tables"
REASONS = {  # of refusals
    **dict.fromkeys(("UNIQUE", "WHERE", "SPARSE_TO_DENSE"), LENGTHS),
    **dict.fromkeys(("NON_MAX_SUPPRESSION_V4", "NON_MAX_SUPPRESSION_V5"), LENGTHS),
    **dict.fromkeys(("CONV_3D", "CONV_3D_TRANSPOSE"), "windows over three axes"),
    **dict.fromkeys(("RANDOM_STANDARD_NORMAL", "RANDOM_UNIFORM", "MULTINOMIAL"), "random numbers"),
    **dict.fromkeys(("IMAG", "REAL", "COMPLEX_ABS", "RFFT2D"), "complex numbers"),
    **dict.fromkeys(("HASHTABLE", "HASHTABLE_FIND", "HASHTABLE_IMPORT"), TABLES),
    **dict.fromkeys(("HASHTABLE_LOOKUP", "HASHTABLE_SIZE", "LSH_PROJECTION", "SKIP_GRAM"), TABLES),
    **dict.fromkeys(("CONCAT_EMBEDDINGS", "EMBEDDING_LOOKUP_SPARSE"), TABLES),
    **dict.fromkeys(("CALL", "WHILE"), "a graph whose number of runs depends on the frame"),
    **dict.fromkeys(("BITCAST", "BITWISE_XOR", "RIGHT_SHIFT"), "bits of integers"),
    "FAKE_QUANT": "of training; export with integers",
    **dict.fromkeys(("LSTM", "RNN"), "one step; export UNIDIRECTIONAL_SEQUENCE_LSTM"),
}
BYTES = ("int8",)
BOTH = ("int8", "int16")

IN_INTEGERS = {  # types beside single precision, as TensorFlow Lite Micro computes them
    **dict.fromkeys((
        "ABS", "ADD", "AVERAGE_POOL_2D", "BATCH_MATMUL", "BATCH_TO_SPACE_ND", "CONCATENATION",
        "CONV_2D", "DEPTHWISE_CONV_2D", "DEQUANTIZE", "EXPAND_DIMS", "FULLY_CONNECTED",
        "LEAKY_RELU", "LOGISTIC", "MAX_POOL_2D", "MEAN", "MUL", "PAD", "PRELU", "QUANTIZE", "RELU",
        "RELU6", "RESHAPE", "RESIZE_NEAREST_NEIGHBOR", "SLICE", "SOFTMAX", "SPACE_TO_BATCH_ND",
        "SPLIT", "SPLIT_V", "SQUEEZE", "STRIDED_SLICE", "SUB", "SUM", "TANH", "TRANSPOSE",
        "TRANSPOSE_CONV",
    ), BOTH),
    **dict.fromkeys((
        "ARG_MAX", "ARG_MIN", "BROADCAST_TO", "DEPTH_TO_SPACE", "DIV", "ELU", "GATHER",
        "GATHER_ND", "HARD_SWISH", "L2_NORMALIZATION", "MAXIMUM", "MINIMUM", "MIRROR_PAD", "PACK",
        "PADV2", "REVERSE_V2", "REDUCE_MAX", "REDUCE_MIN", "RESIZE_BILINEAR", "SCATTER_ND",
        "RSQRT", "SPACE_TO_DEPTH", "SQUARED_DIFFERENCE", "SELECT", "SELECT_V2", "SVDF", "TILE",
        "UNIDIRECTIONAL_SEQUENCE_LSTM", "UNPACK",
    ), BYTES),
}  # fmt: skip
RESTRICTIONS = {
    **dict.fromkeys(
        ("BATCH_TO_SPACE_ND", "SPACE_TO_BATCH_ND"),
        "constant blocks; around convolutions, these are dilated or copied",
    ),
    "CAST": "no quantised integers",
    "CONCATENATION": "of tensors and constants",
    "CONV_2D": "constant weights of the type of the input, or of int8; groups",
    "CUSTOM:'Convolution2DTransposeBias'": "MediaPipe's transposed convolution; constant weights",
    "CUSTOM:'MaxPoolingWithArgmax2D'": "MediaPipe's pooling that tells where maxima are",
    "CUSTOM:'MaxUnpooling2D'": "MediaPipe's inverse of that pooling; windows side by side",
    "CUSTOM:'TFLite_Detection_PostProcess'": "constant anchors; best class or class by class",
    "DEPTHWISE_CONV_2D": "constant weights of the type of the input, or of int8",
    "BATCH_MATMUL": "two tensors, or one and a constant matrix",
    "FULLY_CONNECTED": "a constant matrix, one vector or several",
    "CUMSUM": "a constant axis",
    "EMBEDDING_LOOKUP": "a constant table, in floating point or of int8",
    "GATHER": "constant places, or rows of a constant table",
    "SCATTER_ND": "constant places that do not repeat; integers with a zero point of 0",
    "L2_NORMALIZATION": "over the last axis",
    "MEAN": "constant axes",
    "MIRROR_PAD": "rows and columns, with the border itself or without",
    "ONE_HOT": "ones along the last axis, zeros elsewhere; a constant depth",
    "PAD": "any axis but the batch",
    "PADV2": "any axis but the batch",
    "SELECT": "a condition of the shape of the result, or one for all elements",
    "PRELU": "constant slopes; of integers one for each channel, or one for all",
    "READ_VARIABLE": "variables that begin with the constants of the graph that CALL_ONCE runs",
    "QUANTIZE": "from real numbers, int8, int16 or uint8 to int8, int16, int32 or uint8",
    "RSQRT": "integers from zero on; one below counts as zero, where the runtime stops",
    "SLICE": "constant places",
    "SOFTMAX": "over the last axis; a beta of 1 where integers are quantised",
    "STRIDED_SLICE": "constant places",
    "SVDF": "weights of the type of the input, or of int8; a state, which stays where it is a variable "
    "tensor",
    "TRANSPOSE": "the batch stays first",
    "TRANSPOSE_CONV": "constant weights",
    "UNIDIRECTIONAL_SEQUENCE_LSTM": "1 x frames x elements; weights of the type of the input, or of "
    "int8 for at most 64 frames; states that are variable tensors stay from frame to frame; no "
    "peepholes, projections or normalised gates",
}
