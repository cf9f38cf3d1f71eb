"""A project of hls4ml with io_stream becomes a design: functions, and the streams between them.

A word is a pixel with all its channels. The order of words is that of the loops in nnet_utils; what the
loops cost is known where they have an interval (strategy Latency), and assumed elsewhere.

Streams in the C++ that hls4ml writes; templates make it, so it is read as text.

A configuration of hls4ml whose project is not written yet: hls4ml writes it, if installed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.util import find_spec
from io import StringIO
from pathlib import Path, PurePath
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import NDArray

from csdf.errors import InvalidGraph, UnreadableFile
from csdf.io.files import read_bytes, read_found
from planners.fifo.design import Design, Fifo, Layer
from planners.fifo.timing.cluster import (
    Cluster,
    Numbers,
    TimingOptions,
    counting,
    require_few,
    require_short,
)
from planners.fifo.timing.loops import Loop, Stream, loop_cluster

MARK = "hls-fpga-machine-learning insert layers"
STREAM = re.compile(r'hls::stream<\s*(\w+)\s*>\s+(\w+)\s*\(\s*"')
PORT = re.compile(r"hls::stream<\s*(\w+)\s*>\s*&\s*(\w+)")
DEPTH = re.compile(r"(#pragma\s+HLS\s+STREAM\s+variable=(\w+)\s+depth=)(\d+)")
ALIAS = re.compile(r"auto\s*&\s*(\w+)\s*=\s*(\w+)\s*;")
CALL = re.compile(r"nnet::(\w+)<([^;{}]*?)>\s*\(([^;]*?)\)\s*;[ \t]*(?://[ \t]*(\w+))?")
TYPE = re.compile(r"typedef\s+(?:nnet::array|hls::vector)<\s*(.+?)\s*,\s*([\d\s*]+)>\s*(\w+)\s*;")
STRUCT = re.compile(r"struct\s+(\w+)\s*(?::[^{]*)?\{(.*?)\n\};", re.DOTALL)
CONSTANT = re.compile(r"static\s+const\s+unsigned\s+(\w+)\s*=\s*(\d+)\s*;")
STRATEGY = re.compile(r"strategy\s*=\s*nnet::(\w+)")
BITS = re.compile(r"(?:ap_u?fixed|ap_u?int|ac_fixed|ac_int)<\s*(\d+)")
FLOATS = {"float": 32, "double": 64, "half": 16}


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A function that is called: its name, template arguments, arguments, and the layer it is for."""

    function: str
    templates: tuple[str, ...]
    arguments: tuple[str, ...]
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The facts of a project: streams with type and depth, calls, constants of configurations.

    ports: streams that come from outside or leave. widths: bits of a word of each type; sizes: its
    elements.
    """

    file: str
    text: str
    streams: Mapping[str, str]
    depths: Mapping[str, int]
    ports: tuple[str, ...]
    calls: tuple[Call, ...]
    widths: Mapping[str, int]
    sizes: Mapping[str, int]
    configurations: Mapping[str, Mapping[str, int]]
    strategies: Mapping[str, str]
    is_written: bool = True  # else the project was converted for this once, and is gone


def read_source(path: str) -> Source:
    """Return what a project says; path: its folder or hls4ml_config.yml.

    A configuration whose project is not written yet is converted by hls4ml, where that is installed.
    Raises UnreadableFile.
    """
    place = Path(path)
    folders = [place if place.is_dir() else place.parent, output_folder(place)]
    found = next((one / "firmware" for one in folders if (one / "firmware").is_dir()), None)
    if found is not None:
        return _read(found, path)
    if names_a_model(place):
        with TemporaryDirectory() as folder:
            return replace(_read(converted(place, Path(folder)), path), is_written=False)
    if not place.exists():
        raise UnreadableFile(f"{path}: cannot be read: No such file or directory")
    raise UnreadableFile(
        f"{path}: no folder 'firmware' beside or in it; give the folder of a project that "
        "hls4ml has written (model.write()), or the hls4ml_config.yml in that folder"
    )


def _read(folder: Path, path: str) -> Source:
    file = _top(folder, path)
    text = _text(file)
    parameters, defines = (_text(folder / name) for name in ("parameters.h", "defines.h"))
    aliases = dict(ALIAS.findall(text))
    declared = {name: kind for kind, name in (*PORT.findall(text), *STREAM.findall(text))}
    structs = STRUCT.findall(parameters)
    return Source(
        file=str(file),
        text=text,
        streams=declared,
        depths={name: int(depth) for _, name, depth in DEPTH.findall(text)},
        ports=tuple(name for _, name in PORT.findall(text)),
        calls=tuple(_call(found, aliases) for found in CALL.findall(_body(text))),
        widths={
            name: _bits(kind, str(file)) * _product(count)
            for kind, count, name in TYPE.findall(defines)
        },
        sizes={name: _product(count) for _, count, name in TYPE.findall(defines)},
        configurations={
            name: {key: int(value) for key, value in CONSTANT.findall(body)}
            for name, body in structs
        },
        strategies={name: found[1] for name, body in structs if (found := STRATEGY.search(body))},
    )


def _top(folder: Path, path: str) -> Path:
    found = [file for file in sorted(folder.glob("*.cpp")) if MARK in _text(file)]
    if not found:
        raise UnreadableFile(f"{path}: no .cpp in {folder} has the layers of an hls4ml project")
    return found[0]


def _text(file: Path) -> str:
    return read_found(file).decode("utf-8", "replace")


def _body(text: str) -> str:
    return text[text.index(MARK) :]


def _call(found: tuple[str, str, str, str], aliases: Mapping[str, str]) -> Call:
    function, templates, arguments, name = found
    names = [aliases.get(one, one) for one in _parts(arguments)]
    return Call(
        function=function,
        templates=tuple(_parts(templates)),
        arguments=tuple(names),
        name=name or (names[-1] if names else function),
    )


def _parts(text: str) -> list[str]:
    """The parts between commas that no brackets enclose."""
    parts, depth = [""], 0
    for sign in text:
        depth += sign in "<(["
        depth -= sign in ">)]"
        if sign == "," and not depth:
            parts.append("")
        else:
            parts[-1] += sign
    return [part.strip() for part in parts if part.strip()]


def _product(text: str) -> int:
    found = 1
    for factor in text.split("*"):
        found *= int(factor)
    return found


def _bits(kind: str, file: str) -> int:
    if kind in FLOATS:
        return FLOATS[kind]
    if found := BITS.match(kind):
        return int(found[1])
    raise UnreadableFile(
        f"{file}: type {kind!r}; expected ap_fixed, ap_int or a floating-point type"
    )


def with_depths(source: Source, depths: Mapping[str, int]) -> str:
    """Return the text of the .cpp with other depths of its streams."""
    return DEPTH.sub(lambda found: f"{found[1]}{depths.get(found[2], int(found[3]))}", source.text)


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


OUTPUT = re.compile(r"^OutputDir\s*:\s*['\"]?([^'\"#\n]+)", re.MULTILINE)
MODELS = re.compile(r"^(OnnxModel|KerasModel|KerasJson|PytorchModel)\s*:", re.MULTILINE)
HLS4ML = "hls4ml"


def names_a_model(path: Path) -> bool:
    """Whether a file is a configuration of hls4ml that says which model is to be converted."""
    return MODELS.search(_conversion_text(path)) is not None


def output_folder(path: Path) -> Path:
    """Return the folder that a configuration says its project is written to, or its own."""
    found = OUTPUT.search(_conversion_text(path))
    return path.parent / found[1].strip() if found else path.parent


def _conversion_text(path: Path) -> str:
    if not path.is_file() or path.suffix.lower() not in (".yml", ".yaml"):
        return ""
    return read_bytes(path).decode("utf-8", "replace")


def converted(path: Path, folder: Path) -> Path:
    """Let hls4ml write the project of a configuration into a folder; return that of its C++.

    Raises UnreadableFile where hls4ml is not installed or refuses the configuration.
    """
    if find_spec(HLS4ML) is None:
        raise UnreadableFile(
            f"{path}: its project is not written yet (no folder 'firmware' beside it), and hls4ml, "
            f"which converts the model that it names, is not installed; run 'hls4ml convert -c "
            f"{path.name}' where it is, and give the folder that it writes"
        )
    try:
        with redirect_stdout(StringIO()):  # it prints how far it is
            model = import_module(HLS4ML).converters.convert_from_config(str(path))
            model.config.config["OutputDir"] = str(folder)
            model.write()
    except Exception as error:  # noqa: BLE001 (hls4ml has no base class of its own)
        raise UnreadableFile(f"{path}: hls4ml does not convert it: {error}") from None
    return folder / "firmware"
