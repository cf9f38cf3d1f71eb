"""A project of hls4ml with io_stream becomes a design: functions, and the streams between them.

A word is a pixel with all its channels. The order of words is that of the loops in nnet_utils; what the
loops cost is known where they have an interval (strategy Latency), and assumed elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import PurePath

import numpy as np
from numpy.typing import NDArray

from csdf.errors import InvalidGraph, UnreadableFile
from planners.fifo.design import Design, Fifo, Layer
from planners.fifo.hls.source import Call, Source
from planners.fifo.timing.cluster import Cluster, Numbers, counting, require_few, require_short
from planners.fifo.timing.loops import Loop, Stream, loop_cluster
from planners.fifo.timing.options import TimingOptions

COMPUTING = 10  # cycles of latency assumed where there are products
POINTWISE = (
    "relu", "linear", "leaky_relu", "thresholded_relu", "elu", "selu", "prelu", "sigmoid",
    "hard_sigmoid", "tanh", "hard_tanh", "softmax", "softplus", "softsign", "binary_tanh",
    "ternary_tanh", "clipped_relu", "relu1", "relu6", "relu_max", "normalize",
)  # fmt: skip
MERGING = ("add", "subtract", "multiply", "average", "maximum", "minimum")
Words = dict[str, int]
Configuration = Mapping[str, int]
Function = Callable[["Reader", Call], Cluster]


class Reader:
    """Makes the functions of a source into layers, one after the other, as words flow."""

    def __init__(self, source: Source, options: TimingOptions) -> None:
        self.source = source
        self._options = options
        self._words: Words = {}

    def design(self) -> Design:
        """Return the design. Raises UnreadableFile, naming all functions that have no rule."""
        source = self.source
        unknown = [call for call in source.calls if call.function not in FUNCTIONS]
        if unknown:
            listed = ", ".join(f"{call.function} ({call.name})" for call in unknown)
            raise UnreadableFile(f"{source.file}: no timing is known for {listed}")
        if not source.calls:
            raise UnreadableFile(f"{source.file}: no function works on streams; is it io_stream?")
        layers = [self._layer(call) for call in source.calls]
        name = PurePath(source.file).name.removesuffix(".cpp")
        return Design(name=name, layers=tuple(layers), fifos=tuple(self._fifos()))

    def _layer(self, call: Call) -> Layer:
        try:
            cluster = FUNCTIONS[call.function](self, call)
        except InvalidGraph as error:
            place = f"{self.source.file}: {call.function} ({call.name})"
            raise UnreadableFile(f"{place}: {error}") from error
        streams = [one for one in call.arguments if one in self.source.streams]
        for stream, port in zip(streams[len(cluster.inputs) :], cluster.outputs, strict=False):
            self._words[stream] = port.words
        for stream, port in zip(streams, cluster.inputs, strict=False):
            self._words.setdefault(stream, port.words)
        factor = self.configuration(call).get("reuse_factor")
        return Layer(
            name=call.name,
            kind=call.function,
            cluster=cluster,
            folding="" if factor is None else f"reuse factor {factor}",
        )

    def _fifos(self) -> list[Fifo]:
        made: dict[str, tuple[int, int]] = {}
        found = []
        for number, call in enumerate(self.source.calls):
            streams = [one for one in call.arguments if one in self.source.streams]
            inputs = len(FUNCTIONS[call.function](self, call).inputs)
            for port, stream in enumerate(streams[:inputs]):
                if stream in made:
                    found.append(self._fifo(stream, made[stream], (number, port)))
            made.update({one: (number, port) for port, one in enumerate(streams[inputs:])})
        return found

    def _fifo(self, stream: str, start: tuple[int, int], end: tuple[int, int]) -> Fifo:
        return Fifo(
            name=stream,
            producer=start[0],
            output=start[1],
            consumer=end[0],
            input=end[1],
            bits=self.bits(stream),
            words=self._words[stream],
            given=self.source.depths.get(stream),
        )

    def bits(self, stream: str) -> int:
        """Return the width of a stream's words."""
        kind = self.source.streams[stream]
        if kind not in self.source.widths:
            raise UnreadableFile(
                f"{self.source.file}: stream {stream!r}: type {kind!r} is not defined"
            )
        return self.source.widths[kind]

    def configuration(self, call: Call) -> Configuration:
        """Return the constants of a call's configuration."""
        return self.source.configurations.get(call.templates[-1] if call.templates else "", {})

    def needed(self, call: Call, *keys: str) -> list[int]:
        """Return constants that must be there."""
        known = self.configuration(call)
        missing = [key for key in keys if key not in known]
        if missing:
            raise UnreadableFile(
                f"{self.source.file}: {call.function} ({call.name}): {call.templates[-1]} in "
                f"parameters.h has no {', '.join(missing)}"
            )
        return [known[key] for key in keys]

    def words_of(self, call: Call, port: int = 0) -> int:
        """Return how many words a frame has on an input that an earlier function writes."""
        stream = call.arguments[port]
        if stream not in self._words:
            raise UnreadableFile(
                f"{self.source.file}: {call.function} ({call.name}) reads {stream!r}, whose words are "
                "not known: no function with a shape comes before it"
            )
        return self._words[stream]

    def loop(
        self,
        call: Call,
        iterations: int,
        reads: list[Numbers],
        writes: list[Numbers],
        *,
        interval: int = 1,
        is_computing: bool = False,
    ) -> Cluster:
        """Return the cluster of a function; its streams stand in the order of its arguments."""
        streams = [one for one in call.arguments if one in self.source.streams]
        latency, remark = self._options.latency(call.function, call.name)
        remarks = [remark] if remark else []
        if remark and is_computing:
            latency = COMPUTING + self._options.more
            remarks = [f"latency {latency}"]
        if is_computing and self.source.strategies.get(call.templates[-1]) == "resource":
            remarks.append("one pixel per reuse factor: strategy Resource has no interval")
        return loop_cluster(
            Loop(
                iterations=iterations, latency=latency, interval=interval, idle=self._options.idle
            ),
            [
                Stream(iterations=one, bits=self.bits(name))
                for one, name in zip(reads, streams, strict=False)
            ],
            [
                Stream(iterations=one, bits=self.bits(name))
                for one, name in zip(writes, streams[len(reads) :], strict=False)
            ],
            tuple(remarks),
        )  # fmt: skip


def _ends(size: int, kernel: int, stride: int) -> NDArray[np.bool_]:
    """For each place along an axis whether a window ends there."""
    places = counting(size) - (min(kernel, size + 1) - 1)
    found: NDArray[np.bool_] = (places >= 0) & (places % min(stride, size + 1) == 0)
    return found


def _windows(reader: Reader, call: Call, kernel: tuple[str, str], *, is_computing: bool) -> Cluster:
    """A line buffer: a pixel in each iteration, a word out where it completes a window."""
    height, width = _size(reader, call)
    known = reader.configuration(call)
    rows, columns = (known.get(one, 1) for one in kernel)
    strides = known.get("stride_height", 1), known.get("stride_width", 1)
    ends = _ends(height, rows, strides[0])[:, None] & _ends(width, columns, strides[1])[None, :]
    return reader.loop(
        call,
        height * width,
        [counting(height * width)],
        [np.flatnonzero(ends).astype(np.int64)],
        interval=known.get("reuse_factor", 1) if is_computing else 1,
        is_computing=is_computing,
    )


def _size(reader: Reader, call: Call) -> tuple[int, int]:
    known = reader.configuration(call)
    if "in_height" in known:
        height, width = reader.needed(call, "in_height", "in_width")
        return height, width
    if "in_width" in known:
        return 1, known["in_width"]
    (width,) = reader.needed(call, "n_in")
    return 1, width


def _convolution(reader: Reader, call: Call) -> Cluster:
    return _windows(reader, call, ("filt_height", "filt_width"), is_computing=True)


def _pooling(reader: Reader, call: Call) -> Cluster:
    return _windows(reader, call, ("pool_height", "pool_width"), is_computing=False)


def _global_pooling(reader: Reader, call: Call) -> Cluster:
    height, width = _size(reader, call)
    steps = counting(height * width)
    return reader.loop(call, len(steps), [steps], [steps[-1:]])


def _padding(reader: Reader, call: Call) -> Cluster:
    known = reader.configuration(call)
    height, width = _size(reader, call)
    around = [known.get(f"pad_{side}", 0) for side in ("top", "bottom", "left", "right")]
    require_few((height + sum(around[:2])) * (width + sum(around[2:])))
    rows, columns = (
        np.pad(np.ones(size, dtype=bool), (known.get(before, 0), known.get(after, 0)))
        for size, before, after in (
            (height, "pad_top", "pad_bottom"),
            (width, "pad_left", "pad_right"),
        )
    )
    inner = np.flatnonzero(rows[:, None] & columns[None, :]).astype(np.int64)
    steps = counting(len(rows) * len(columns))
    return reader.loop(call, len(steps), [inner], [steps])


def _pointwise(reader: Reader, call: Call) -> Cluster:
    each = counting(reader.words_of(call))
    return reader.loop(call, len(each), [each], [each])


def _merge(reader: Reader, call: Call) -> Cluster:
    each = counting(reader.words_of(call))
    return reader.loop(call, len(each), [each, each], [each])


def _clone(reader: Reader, call: Call) -> Cluster:
    each = counting(reader.words_of(call))
    copies = sum(one in reader.source.streams for one in call.arguments) - 1
    return reader.loop(call, len(each), [each], [each] * copies)


def _dense(reader: Reader, call: Call) -> Cluster:
    """All words are read, then the products are made, then one word is written."""
    words, (factor,) = reader.words_of(call), reader.needed(call, "reuse_factor")
    done = words + factor - 1
    end = done + 1 + COMPUTING
    require_short(end)
    writes = np.array([done], dtype=np.int64)
    return reader.loop(call, end, [counting(words)], [writes], is_computing=True)


def _transposition(reader: Reader, call: Call) -> Cluster:
    """All words are read into an array, then all words are written."""
    (elements,) = reader.needed(call, "N")
    read, written = (
        elements // reader.source.sizes[reader.source.streams[one]] for one in call.arguments[:2]
    )
    return reader.loop(call, read + written, [counting(read)], [read + counting(written)])


FUNCTIONS: dict[str, Function] = {
    **dict.fromkeys(POINTWISE, _pointwise),
    **dict.fromkeys(MERGING, _merge),
    **dict.fromkeys(
        ("conv_1d_cl", "conv_2d_cl", "pointwise_conv_1d_cl", "pointwise_conv_2d_cl",
         "depthwise_conv_1d_cl", "depthwise_conv_2d_cl"),
        _convolution,
    ),
    **dict.fromkeys(("pooling1d_cl", "pooling2d_cl"), _pooling),
    **dict.fromkeys(("global_pooling1d_cl", "global_pooling2d_cl"), _global_pooling),
    **dict.fromkeys(("zeropad1d_cl", "zeropad2d_cl"), _padding),
    "clone_stream": _clone,
    "dense": _dense,
    "transpose": _transposition,
}  # fmt: skip


def project_design(source: Source, options: TimingOptions) -> Design:
    """Return the design of a project. Raises UnreadableFile."""
    return Reader(source, options).design()
