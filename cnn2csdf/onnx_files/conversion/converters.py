"""Which function turns which operator of ONNX into layers."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from cnn2csdf.onnx_files.conversion import (
    choices,
    dynamic,
    einsums,
    elementwise,
    moves,
    normalizations,
    products,
    quantizations,
    recurrences,
    repetitions,
    resize,
    windows,
)
from cnn2csdf.onnx_files.conversion.assembly import Assembly
from cnn2csdf.onnx_files.conversion.lines import over_lines
from cnn2csdf.onnx_files.nodes import Node

Converter = Callable[[Node, Assembly], None]


CONVERTERS: Mapping[str, Converter] = {
    **dict.fromkeys(elementwise.PLAIN, elementwise.activation),
    **dict.fromkeys(elementwise.FUNCTIONS, elementwise.elementwise),
    **dict.fromkeys(normalizations.REDUCTIONS, normalizations.reduction),
    **dict.fromkeys(choices.EXTREMES, choices.extreme_place),
    **dict.fromkeys(recurrences.KINDS, recurrences.recurrence),
    "AveragePool": over_lines(windows.average_pooling),
    "BatchNormalization": normalizations.batch_normalization,
    "Cast": elementwise.cast,
    "ChannelShuffle": moves.channel_shuffle,
    "Clip": elementwise.clip,
    "Concat": moves.concatenation,
    "Conv": over_lines(windows.convolution),
    "ConvInteger": over_lines(windows.integer_convolution),
    "ConvTranspose": over_lines(windows.transposed_convolution),
    "CumSum": choices.running_sum,
    "DequantizeLinear": quantizations.dequantize,
    "DepthToSpace": moves.depth_to_space,
    "Dropout": elementwise.dropout,
    "DynamicQuantizeLinear": dynamic.dynamic_quantization,
    "Einsum": einsums.einsum,
    "Expand": repetitions.expand,
    "Flatten": moves.reshape,
    "Gather": repetitions.gather,
    "Gelu": elementwise.gelu,
    "Gemm": products.gemm,
    "GlobalAveragePool": over_lines(windows.global_average_pooling),
    "GlobalMaxPool": over_lines(windows.global_max_pooling),
    "Identity": elementwise.identity,
    "InstanceNormalization": normalizations.instance_normalization,
    "LRN": normalizations.local_response_normalization,
    "LayerNormalization": normalizations.layer_normalization,
    "LogSoftmax": normalizations.softmax,
    "MatMul": products.matrix_product,
    "MatMulInteger": dynamic.integer_product,
    "MaxPool": over_lines(windows.max_pooling),
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
    "Tile": repetitions.tile,
    "TopK": choices.ranking,
    "Transpose": moves.transpose,
    "Unsqueeze": moves.reshape,
    "Upsample": resize.resize,
    "Where": choices.where,
}
