"""Small designs made of layers that are drawn, and the model of the documentation."""

from pathlib import Path

from planners.fifo.design import Design, DesignLayer, Fifo
from planners.fifo.finn.layers import layer_cluster
from planners.fifo.finn.nodes import FinnNode
from planners.fifo.timing import rtl
from planners.fifo.timing.cluster import TimingOptions

ROOT = Path(__file__).parents[3]
RESIDUAL = str(ROOT / "models" / "fifo" / "residual.onnx")


def node(operator, style="rtl", outputs=1, name="one", **attributes):
    """A layer with these attributes, as a reader makes it."""
    return FinnNode(
        name=name, operator=operator, style=style, written=f"{operator}_{style}",
        attributes=attributes, inputs=("in",), outputs=("out",) * outputs,
    )  # fmt: skip


def cluster(operator, style="rtl", outputs=1, **attributes):
    return layer_cluster(node(operator, style, outputs, **attributes), TimingOptions())


def design(layers, joined):
    """A design of clusters by name; joined: pairs of (layer, port) for each FIFO."""
    names = list(layers)
    fifos = []
    for (start, output), (end, port) in joined:
        made = layers[start].outputs[output]
        fifos.append(
            Fifo(
                name=f"{start} to {end}", producer=names.index(start), output=output,
                consumer=names.index(end), input=port, bits=made.bits, words=made.words,
            )
        )  # fmt: skip
    found = tuple(DesignLayer(name=name, kind=name, cluster=one) for name, one in layers.items())
    return Design(name="drawn", layers=found, fifos=tuple(fifos))


def chain(*clusters):
    """Layers in a row."""
    layers = {f"l{number}": one for number, one in enumerate(clusters)}
    return design(layers, [((f"l{i}", 0), (f"l{i + 1}", 0)) for i in range(len(clusters) - 1)])


def documented_chain():
    """Padding, a width converter and a sliding window: the chain that was compared with the RTL."""
    return chain(
        cluster("FMPadding", ImgDim=(5, 5), Padding=(1, 1, 1, 1), NumChannels=2, SIMD=1,
                inputDataType="UINT8"),
        rtl.widening(7 * 7 * 2, 2, bits=8),
        cluster("ConvolutionInputGenerator", IFMDim=(7, 7), OFMDim=(5, 5), ConvKernelDim=(3, 3),
                IFMChannels=2, SIMD=2, inputDataType="UINT8"),
    )  # fmt: skip


def fork(size=3, wide=None):
    """A fork, a sliding window on one side, and a sum: it deadlocks while the short way is small.

    size: of the image; wide: its width, if another.
    """
    wide = wide or size
    words = size * wide
    layers = {
        "fork": cluster("DuplicateStreams", "hls", 2, NumChannels=1, numInputVectors=(1, size, wide),
                        inputDataType="UINT2"),
        "pad": cluster("FMPadding", ImgDim=(size, wide), NumChannels=1, inputDataType="UINT2"),
        "window": cluster("ConvolutionInputGenerator", IFMDim=(size + 2, wide + 2),
                          OFMDim=(size, wide), ConvKernelDim=(3, 3), IFMChannels=1,
                          inputDataType="UINT2"),
        "pool": cluster("Pool", "hls", Channels=1, KernelSize=(3, 3), OutImgDims=(size, wide),
                        InputDataType="UINT2", OutputDataType="UINT2"),
        "sum": cluster("AddStreams", "hls", out_shape=(1, words), lhs_shape=(1, words),
                       rhs_shape=(1, words), lhs_dtype="UINT2", rhs_dtype="UINT2",
                       out_dtype="UINT3"),
    }  # fmt: skip
    ends = [
        (("fork", 0), ("pad", 0)), (("pad", 0), ("window", 0)), (("window", 0), ("pool", 0)),
        (("fork", 1), ("sum", 0)), (("pool", 0), ("sum", 1)),
    ]  # fmt: skip
    return design(layers, ends)
