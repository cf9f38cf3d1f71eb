"""Two graphs with many branches, in the manner of YOLOv8n and of LR-ASPP over MobileNetV3.

Sources: the configuration yolov8.yaml of Ultralytics (depth 0.33, width 0.25), the raw maps of the
three heads without decoding; Howard et al., Searching for MobileNetV3, ICCV 2019, tables 1 and 2 and
figure 10, with the blocks shortened to a few of each resolution.
"""

from cnn2csdf import operators as op
from cnn2csdf.builder import NetworkBuilder
from cnn2csdf.network import Network

RELU = op.Activation(function="relu")
SIGMOID = op.Activation(function="sigmoid")


def window(kernel: int, stride: int = 1) -> op.Window:
    """A square window, padded to keep its centre."""
    return op.Window(kernel=(kernel, kernel), stride=(stride, stride), padding=(kernel // 2,) * 4)


class Branches:
    """Blocks that both graphs are built of."""

    def __init__(self, name: str, channels: int, resolution: int) -> None:
        self.builder = NetworkBuilder(name)
        self.image = self.builder.input((channels, resolution, resolution))

    def channels(self, name: str) -> int:
        """Feature maps of a layer."""
        return self.builder.shape(name).channels

    def convolved(self, source: str, filters: int, kernel: int, stride: int = 1) -> str:
        """A convolution with its activation."""
        operator = op.Convolution(filters=filters, window=window(kernel, stride))
        return self.builder.add(operator, source, epilogue=(RELU,))

    def depthwise(self, source: str, kernel: int, stride: int) -> str:
        """A convolution of each feature map with its activation."""
        filters = self.channels(source)
        operator = op.Convolution(filters=filters, groups=filters, window=window(kernel, stride))
        return self.builder.add(operator, source, epilogue=(RELU,))

    def split(self, source: str) -> tuple[str, str]:
        """The two halves of the feature maps."""
        all_of = self.channels(source)
        halves = (0, all_of // 2), (all_of // 2, all_of)
        first, second = (op.Slice(axis=0, start=one, stop=two) for one, two in halves)
        return self.builder.add(first, source), self.builder.add(second, source)

    def joined(self, *sources: str) -> str:
        """All feature maps, one after another."""
        return self.builder.add(op.Concatenation(), *sources)

    def enlarged(self, source: str, factor: int = 2) -> str:
        """Each place so many times as wide and high."""
        shape = self.builder.shape(source)
        size = shape.height * factor, shape.width * factor
        return self.builder.add(op.Resize(size=size, function="nearest"), source)

    def gated(self, source: str, squeezed: int) -> str:
        """Squeeze and excitation."""
        pooled = self.builder.add(op.GlobalPooling(function="average"), source)
        hidden = self.convolved(pooled, squeezed, 1)
        operator = op.Convolution(filters=self.channels(source), window=window(1))
        gate = self.builder.add(operator, hidden, epilogue=(SIGMOID,))
        return self.builder.add(op.Elementwise(function="multiply"), source, gate)

    def added(self, left: str, right: str) -> str:
        """The sum of two maps."""
        return self.builder.add(op.Elementwise(function="add"), left, right)


def yolov8n_like(*, resolution: int = 320, classes: int = 80) -> Network:
    """Return a detector with split bottlenecks, pooling of several sizes, and three heads."""
    branches = Branches("yolov8n_like", 3, resolution)

    def split_block(source: str, filters: int, count: int, *, adds: bool) -> str:
        parts = list(branches.split(branches.convolved(source, filters, 1)))
        for _ in range(count):
            inner = branches.convolved(parts[-1], filters // 2, 3)
            inner = branches.convolved(inner, filters // 2, 3)
            parts.append(branches.added(parts[-1], inner) if adds else inner)
        return branches.convolved(branches.joined(*parts), filters, 1)

    last = branches.convolved(branches.image, 16, 3, 2)
    kept = []
    for filters, count in ((32, 1), (64, 2), (128, 2), (256, 1)):
        last = split_block(branches.convolved(last, filters, 3, 2), filters, count, adds=True)
        kept.append(last)
    pooled = [branches.convolved(last, 128, 1)]
    for _ in range(3):
        pooled.append(
            branches.builder.add(op.Pooling(function="max", window=window(5)), pooled[-1])
        )
    deep = branches.convolved(branches.joined(*pooled), 256, 1)
    middle = split_block(branches.joined(branches.enlarged(deep), kept[2]), 128, 1, adds=False)
    fine = split_block(branches.joined(branches.enlarged(middle), kept[1]), 64, 1, adds=False)
    down = branches.joined(branches.convolved(fine, 64, 3, 2), middle)
    middle = split_block(down, 128, 1, adds=False)
    down = branches.joined(branches.convolved(middle, 128, 3, 2), deep)
    deep = split_block(down, 256, 1, adds=False)
    for number, level in enumerate((fine, middle, deep)):
        for kind, filters, width in (("boxes", 64, 64), ("classes", classes, 80)):
            inner = branches.convolved(branches.convolved(level, width, 3), width, 3)
            maps = op.Convolution(filters=filters, window=window(1))
            branches.builder.output(branches.builder.add(maps, inner), f"{kind}_{number}")
    return branches.builder.network()


def lraspp_like(*, resolution: int = 320, classes: int = 21) -> Network:
    """Return a segmentation network: bottlenecks with gates, a head that reads two resolutions."""
    branches = Branches("lraspp_like", 3, resolution)

    def bottleneck(source: str, inner: int, filters: int, stride: int, *, has_gate: bool) -> str:
        last = branches.depthwise(branches.convolved(source, inner, 1), 3, stride)
        last = branches.gated(last, inner // 4) if has_gate else last
        projection = op.Convolution(filters=filters, window=window(1))
        last = branches.builder.add(projection, last)
        is_same = stride == 1 and branches.channels(source) == filters
        return branches.added(source, last) if is_same else last

    last = branches.convolved(branches.image, 16, 3, 2)
    last = bottleneck(last, 16, 16, 1, has_gate=False)
    last = bottleneck(last, 64, 24, 2, has_gate=False)
    last = bottleneck(last, 72, 40, 2, has_gate=True)
    fine = last = bottleneck(last, 120, 40, 1, has_gate=True)
    last = bottleneck(last, 240, 80, 2, has_gate=False)
    last = bottleneck(last, 480, 112, 1, has_gate=True)
    wide = branches.convolved(last, 128, 1)
    pooled = branches.builder.add(op.GlobalPooling(function="average"), last)
    maps = op.Convolution(filters=128, window=window(1))
    gate = branches.builder.add(maps, pooled, epilogue=(SIGMOID,))
    gated = branches.builder.add(op.Elementwise(function="multiply"), wide, gate)
    maps = op.Convolution(filters=classes, window=window(1))
    coarse = branches.builder.add(maps, branches.enlarged(gated))
    branches.builder.output(branches.added(coarse, branches.builder.add(maps, fine)))
    return branches.builder.network()
