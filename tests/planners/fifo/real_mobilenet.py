"""MobileNetV1 as FINN builds it, from its public layer table and the folding of a real build.

The network: 224 x 224 pixels, a 3x3 convolution of stride 2 without padding, 13 blocks of a 3x3
depthwise and a 1x1 convolution, an average over 7 x 7, a dense layer of 1000. 4 bits, 8 at the input.
It is a chain, so the nodes of the configuration stand in the order of the stream.
Source: Howard et al., MobileNets, 2017, table 1; brevitas, imagenet_classification.
"""

from onnx import TensorProto, helper

DOMAIN = "finn.custom_op.fpgadataflow"
BLOCKS = [
    (64, 1),
    (128, 2),
    (128, 1),
    (256, 2),
    (256, 1),
    (512, 2),
    *[(512, 1)] * 5,
    (1024, 2),
    (1024, 1),
]
SUMS = "INT16"  # the width of sums is not in the table; it changes bits, not words


class Chain:
    """The shape where the stream is now, and the nodes so far."""

    def __init__(self, configuration):
        self.configuration = configuration
        self.size, self.channels, self.kind, self.lanes = 224, 3, "UINT8", None
        self.window, self.block, self.stage = 1, 0, "first"
        self.nodes = []

    def model(self):
        names = [
            name for name in self.configuration
            if not name.startswith("StreamingFIFO") and name != "Defaults"
        ]  # fmt: skip
        for number, name in enumerate(names):
            self._add(name, names[number + 1 :])
        ends = [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, [1])
            for name in ("s0", f"s{len(names)}")
        ]
        graph = helper.make_graph(self.nodes, "mobilenet", ends[:1], ends[1:])
        return helper.make_model(graph, opset_imports=[helper.make_opsetid(DOMAIN, 1)])

    def _add(self, name, later):
        number = len(self.nodes)
        operator = name.rpartition("_")[0]
        is_written = operator.endswith(("_rtl", "_hls"))
        make = getattr(self, "_" + operator.removesuffix("_rtl").removesuffix("_hls").lower())
        attributes = make(self.configuration[name], later)
        self.nodes.append(
            helper.make_node(
                operator if is_written else operator + "_hls", [f"s{number}"], [f"s{number + 1}"],
                name=name, domain=f"{DOMAIN}.{operator[-3:] if is_written else 'hls'}",
                backend="fpgadataflow", **attributes,
            )
        )  # fmt: skip

    @property
    def _vectors(self):
        return [1, self.size, self.size]

    def _bits(self):
        return int("".join(one for one in self.kind if one.isdigit()))

    def _streamingdatawidthconverter(self, _, later):
        following = next(one for one in later if "DataWidth" not in one)
        folding = self.configuration[following]
        is_pe = following.startswith(("Thresholding", "Pool", "Channelwise", "LabelSelect", "VVAU"))
        lanes = folding["PE"] if is_pe else folding["SIMD"]
        before, self.lanes = self.lanes, lanes
        depth = self.channels * self.window
        return {
            "shape": [*self._vectors, depth], "inWidth": before * self._bits(),
            "outWidth": lanes * self._bits(), "dataType": self.kind,
        }  # fmt: skip

    def _fmpadding(self, folding, _):
        self.size += 2
        self.lanes = folding["SIMD"]
        return {
            "ImgDim": [self.size - 2] * 2, "Padding": [1] * 4, "NumChannels": self.channels,
            "inputDataType": self.kind,
        }  # fmt: skip

    def _convolutioninputgenerator(self, folding, _):
        last = self.block == len(BLOCKS)
        kernel = 7 if last else 3
        stride = 7 if last else 2 if self.stage == "first" else BLOCKS[self.block][1]
        before, self.size = self.size, (self.size - kernel) // stride + 1
        self.window, self.lanes = kernel * kernel, folding["SIMD"]
        return {
            "IFMDim": [before] * 2, "OFMDim": [self.size] * 2, "ConvKernelDim": [kernel] * 2,
            "Stride": [stride] * 2, "Dilation": [1, 1], "IFMChannels": self.channels,
            "depthwise": int(self.stage != "first"), "inputDataType": self.kind,
            "outputDataType": self.kind,
        }  # fmt: skip

    def _mvau(self, folding, _):
        rows = self.channels * self.window
        if self.stage == "first":
            made, self.stage = 32, "depthwise"
        elif self.block == len(BLOCKS):
            made = 1000
        else:
            made, _ = BLOCKS[self.block]
            self.block += 1
        found = {
            "MW": rows, "MH": made, "numInputVectors": self._vectors, "inputDataType": self.kind,
            "weightDataType": "INT4", "outputDataType": SUMS, "noActivation": 1,
        }  # fmt: skip
        self.channels, self.window, self.kind, self.lanes = made, 1, SUMS, folding["PE"]
        return found

    def _vvau(self, folding, _):
        found = {
            "Channels": self.channels, "Kernel": [3, 3], "Dim": [self.size] * 2,
            "inputDataType": self.kind, "weightDataType": "INT4", "outputDataType": SUMS,
            "noActivation": 1,
        }  # fmt: skip
        self.window, self.kind, self.lanes = 1, SUMS, folding["PE"]
        return found

    def _thresholding(self, folding, _):
        before, self.kind, self.lanes = self.kind, "UINT4", folding["PE"]
        return {
            "NumChannels": self.channels, "numInputVectors": self._vectors, "numSteps": 15,
            "inputDataType": before, "outputDataType": self.kind,
        }  # fmt: skip

    def _pool(self, folding, _):
        before, self.kind, self.window, self.lanes = self.kind, "UINT4", 1, folding["PE"]
        return {
            "Channels": self.channels, "KernelSize": [7, 7], "OutImgDims": [1, 1],
            "InputDataType": before, "OutputDataType": self.kind, "BatchSize": 1,
        }  # fmt: skip

    def _channelwiseop(self, folding, _):
        self.lanes = folding["PE"]
        return {
            "NumChannels": self.channels, "numInputVectors": self._vectors,
            "inputDataType": self.kind, "outputDataType": self.kind,
        }  # fmt: skip

    def _labelselect(self, _, __):
        return {
            "Labels": self.channels,
            "K": 5,
            "inputDataType": self.kind,
            "outputDataType": "UINT16",
        }


def real_depths(configuration):
    """The depth of each FIFO between two layers, in the order of the stream."""
    found = [
        (int(name.rpartition("_")[2]), entry["depth"])
        for name, entry in configuration.items() if name.startswith("StreamingFIFO")
    ]  # fmt: skip
    return [depth for _, depth in sorted(found)]
