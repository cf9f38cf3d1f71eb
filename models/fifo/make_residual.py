"""Writes residual.onnx: a small residual block as FINN writes it, layers and folding, no weights.

    python models/fifo/make_residual.py

Every node has the attributes of FINN's hardware layers; the weights, which have no part in timing, are
left out. The block is ours and stands for no trained network.
"""

from pathlib import Path

from onnx import TensorProto, helper, save

DOMAIN = "finn.custom_op.fpgadataflow"
PIXELS, CHANNELS = 8, 4  # of the image, in each direction; feature maps


def layer(op_type, inputs, outputs, *, cycles, **attributes):
    """Return a hardware layer; cycles: FINN's estimate."""
    style = op_type.rpartition("_")[2]
    return helper.make_node(
        op_type,
        inputs,
        outputs,
        name=f"{op_type}_{sum(one.startswith(op_type) for one in NAMES)}",
        domain=f"{DOMAIN}.{style}",
        backend="fpgadataflow",
        cycles_estimate=cycles,
        **attributes,
    )


NAMES: list[str] = []


def add(nodes, op_type, inputs, outputs, **attributes):
    """Append a layer, numbered among those of its kind."""
    nodes.append(layer(op_type, inputs, outputs, **attributes))
    NAMES.append(nodes[-1].name)


def block():
    """Return the nodes: a fork, a 3x3 convolution on one side, a sum, and a layer behind it."""
    image, words = [PIXELS, PIXELS], PIXELS * PIXELS * CHANNELS
    vectors = [1, *image]
    nodes = []
    add(nodes, "DuplicateStreams_hls", ["global_in"], ["left", "right"], cycles=words,
        NumChannels=CHANNELS, PE=1, numInputVectors=vectors, inputDataType="UINT2",
        NumOutputStreams=2)  # fmt: skip
    add(nodes, "FMPadding_rtl", ["left"], ["padded"], cycles=100 * CHANNELS, ImgDim=image,
        Padding=[1, 1, 1, 1], NumChannels=CHANNELS, SIMD=1, inputDataType="UINT2")  # fmt: skip
    add(nodes, "ConvolutionInputGenerator_rtl", ["padded"], ["windows"], cycles=2396,
        IFMDim=[10, 10], OFMDim=image, ConvKernelDim=[3, 3], Stride=[1, 1], Dilation=[1, 1],
        IFMChannels=CHANNELS, SIMD=1, depthwise=0, inputDataType="UINT2", outputDataType="UINT2",
        parallel_window=0)  # fmt: skip
    add(nodes, "StreamingDataWidthConverter_rtl", ["windows"], ["wide"], cycles=0,
        shape=[1, *image, 9 * CHANNELS], inWidth=2, outWidth=8, dataType="UINT2")  # fmt: skip
    add(nodes, "MVAU_hls", ["wide"], ["sums"], cycles=words * 9, MW=9 * CHANNELS, MH=CHANNELS,
        SIMD=4, PE=1, numInputVectors=vectors, inputDataType="UINT2", outputDataType="INT16",
        weightDataType="INT2", noActivation=1)  # fmt: skip
    add(nodes, "Thresholding_rtl", ["sums"], ["levels"], cycles=words, NumChannels=CHANNELS, PE=1,
        numSteps=3, numInputVectors=vectors, inputDataType="INT16",
        outputDataType="UINT2")  # fmt: skip
    add(nodes, "ElementwiseAdd_hls", ["right", "levels"], ["added"], cycles=words, PE=1,
        lhs_shape=[1, *image, CHANNELS], rhs_shape=[1, *image, CHANNELS],
        out_shape=[1, *image, CHANNELS], lhs_dtype="UINT2", rhs_dtype="UINT2",
        out_dtype="UINT3", lhs_style="input", rhs_style="input")  # fmt: skip
    add(nodes, "Thresholding_rtl", ["added"], ["global_out"], cycles=words, NumChannels=CHANNELS,
        PE=1, numSteps=3, numInputVectors=vectors, inputDataType="UINT3",
        outputDataType="UINT2")  # fmt: skip
    return nodes


def model():
    """Return the whole file as a message."""
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, PIXELS, PIXELS, CHANNELS])
        for name in ("global_in", "global_out")
    ]
    graph = helper.make_graph(block(), "residual", ends[:1], ends[1:])
    opsets = [helper.make_opsetid("", 11), helper.make_opsetid(DOMAIN, 1)]
    return helper.make_model(graph, opset_imports=opsets, producer_name="csdf")


if __name__ == "__main__":
    save(model(), str(Path(__file__).with_name("residual.onnx")))
