"""Which function turns which operator of ONNX into layers."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from cnn2csdf.onnx_files.conversion import (
    elementwise,
    moves,
    normalizations,
    products,
    quantizations,
    resize,
    windows,
)
from cnn2csdf.onnx_files.conversion.assembly import Assembly
from cnn2csdf.onnx_files.nodes import Node

Converter = Callable[[Node, Assembly], None]


ONLY_IN_PATTERNS = ("Erf",)  # operators that are no layers by themselves

CONVERTERS: Mapping[str, Converter] = {
    **dict.fromkeys(elementwise.PLAIN, elementwise.activation),
    **dict.fromkeys(elementwise.FUNCTIONS, elementwise.elementwise),
    **dict.fromkeys(normalizations.REDUCTIONS, normalizations.reduction),
    "AveragePool": windows.average_pooling,
    "BatchNormalization": normalizations.batch_normalization,
    "Cast": elementwise.cast,
    "ChannelShuffle": moves.channel_shuffle,
    "Clip": elementwise.clip,
    "Concat": moves.concatenation,
    "Conv": windows.convolution,
    "ConvTranspose": windows.transposed_convolution,
    "DequantizeLinear": quantizations.dequantize,
    "DepthToSpace": moves.depth_to_space,
    "Dropout": elementwise.dropout,
    "Expand": moves.expand,
    "Flatten": moves.reshape,
    "Gelu": elementwise.gelu,
    "Gemm": products.gemm,
    "GlobalAveragePool": windows.global_average_pooling,
    "GlobalMaxPool": windows.global_max_pooling,
    "Identity": elementwise.identity,
    "InstanceNormalization": normalizations.instance_normalization,
    "LRN": normalizations.local_response_normalization,
    "LayerNormalization": normalizations.layer_normalization,
    "LogSoftmax": normalizations.softmax,
    "MatMul": products.matrix_product,
    "MaxPool": windows.max_pooling,
    "PRelu": elementwise.prelu,
    "Pad": moves.pad,
    "QuantizeLinear": quantizations.quantize,
    "Reshape": moves.reshape,
    "Resize": resize.resize,
    "Slice": moves.slices,
    "Softmax": normalizations.softmax,
    "SpaceToDepth": moves.space_to_depth,
    "Split": moves.split,
    "Squeeze": moves.reshape,
    "Swish": elementwise.swish,
    "Transpose": moves.transpose,
    "Unsqueeze": moves.reshape,
    "Upsample": resize.resize,
}
