"""Reader of hls4ml projects with io_stream: from their C++ to a design of layers and FIFOs.

hls4ml generates the C++ from templates, so it is read as text, without a compiler. A word of a
FIFO is a pixel with all its channels. The order of words follows from the loops in nnet_utils.
The cycles of a loop are exact if it has an initiation interval (strategy Latency), else assumed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.util import find_spec
from io import StringIO
from math import prod
from pathlib import Path, PurePath
from tempfile import TemporaryDirectory

import numpy as np

from csdf.errors import InvalidGraph, UnreadableFile
from csdf.io.files import read_bytes, read_found
from planners.fifo.design import Design, DesignLayer, Fifo
from planners.fifo.timing.cluster import (
    Cluster,
    Numbers,
    TimingOptions,
    counting,
    require_few,
    require_short,
)
from planners.fifo.timing.loops import loop_cluster, marked

MARK = "hls-fpga-machine-learning insert layers"
STREAM = re.compile(r'hls::stream<\s*(\w+)\s*>\s+(\w+)\s*\(\s*"')
PORT = re.compile(r"hls::stream<\s*(\w+)\s*>\s*&\s*(\w+)")
DEPTH = re.compile(
    r"(?P<pragma>#pragma\s+HLS\s+STREAM\s+variable=(?P<stream>\w+)\s+depth=)(?P<depth>\d+)"
)
ALIAS = re.compile(r"auto\s*&\s*(\w+)\s*=\s*(\w+)\s*;")
CALL = re.compile(
    r"nnet::(?P<function>\w+)<(?P<templates>[^;{}]*?)>\s*\((?P<arguments>[^;]*?)\)\s*;"
    r"[ \t]*(?://[ \t]*(?P<name>\w+))?"
)
TYPE = re.compile(r"typedef\s+(?:nnet::array|hls::vector)<\s*(.+?)\s*,\s*([\d\s*]+)>\s*(\w+)\s*;")
STRUCT = re.compile(r"struct\s+(\w+)\s*(?::[^{]*)?\{(.*?)\n\};", re.DOTALL)
CONSTANT = re.compile(r"static\s+const\s+unsigned\s+(\w+)\s*=\s*(\d+)\s*;")
STRATEGY = re.compile(r"strategy\s*=\s*nnet::(\w+)")
BITS = re.compile(r"(?:ap_u?fixed|ap_u?int|ac_fixed|ac_int)<\s*(?P<bits>\d+)")
FLOATS = {"float": 32, "double": 64, "half": 16}
OUTPUT = re.compile(r"^OutputDir\s*:\s*['\"]?([^'\"#\n]+)", re.MULTILINE)
MODELS = re.compile(r"^(OnnxModel|KerasModel|KerasJson|PytorchModel)\s*:", re.MULTILINE)
HLS4ML = "hls4ml"


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionCall:
    """A function that is called: its name, template arguments, arguments, and the layer it is for."""

    function: str
    templates: tuple[str, ...]
    arguments: tuple[str, ...]
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectFacts:
    """The facts of a project: streams with type and depth, calls, constants of configurations.

    widths: bits of a word of each type; sizes: its elements.
    """

    file: str
    text: str
    streams: Mapping[str, str]
    depths: Mapping[str, int]
    calls: tuple[FunctionCall, ...]
    widths: Mapping[str, int]
    sizes: Mapping[str, int]
    configurations: Mapping[str, Mapping[str, int]]
    strategies: Mapping[str, str]
    is_written: bool = True  # else the project was converted for this once, and is gone


def read_source(path: str) -> ProjectFacts:
    """Return the contents of a project; path: its folder or hls4ml_config.yml.

    hls4ml, if installed, converts a configuration whose project is not written. Raises UnreadableFile.
    """
    place = Path(path)
    configuration = ""
    if place.is_file() and place.suffix.lower() in (".yml", ".yaml"):
        configuration = read_bytes(place).decode("utf-8", "replace")
    folders = [place if place.is_dir() else place.parent]
    folders += [place.parent / output.strip() for output in OUTPUT.findall(configuration)[:1]]
    firmware = next(
        (folder / "firmware" for folder in folders if (folder / "firmware").is_dir()), None
    )
    try:
        if firmware is not None:
            return _read(firmware, path)
        if MODELS.search(configuration):
            with TemporaryDirectory() as folder:
                return replace(_read(_converted(place, Path(folder)), path), is_written=False)
    except ValueError as error:  # of int()
        raise UnreadableFile(f"{path}: {error}") from None
    if not place.exists():
        raise UnreadableFile(f"{path}: cannot be read: No such file or directory")
    if place.suffix == ".onnx":
        raise UnreadableFile(f"{path}: a model, not a project of hls4ml; csdf fifo finn reads it")
    raise UnreadableFile(
        f"{path}: no folder 'firmware' beside or in it; give the folder of a project that "
        "hls4ml has written (model.write()), or the hls4ml_config.yml in that folder"
    )


def _converted(path: Path, folder: Path) -> Path:
    """Let hls4ml write the project of a configuration into a folder; return the folder of its C++."""
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


def _read(folder: Path, path: str) -> ProjectFacts:
    for file in sorted(folder.glob("*.cpp")):
        text = _text(file)
        if MARK in text:
            break
    else:
        raise UnreadableFile(f"{path}: no .cpp in {folder} has the layers of an hls4ml project")
    parameters, defines = (_text(folder / name) for name in ("parameters.h", "defines.h"))
    aliases = dict(ALIAS.findall(text))
    calls = []
    for call in CALL.finditer(text, text.index(MARK)):
        names = [aliases.get(argument, argument) for argument in _listed(call["arguments"])]
        calls.append(
            FunctionCall(
                function=call["function"],
                templates=tuple(_listed(call["templates"])),
                arguments=tuple(names),
                name=call["name"] or (names[-1] if names else call["function"]),
            )
        )
    structs = STRUCT.findall(parameters)
    types = [
        (name, kind, prod(map(int, count.split("*"))))
        for kind, count, name in TYPE.findall(defines)
    ]
    for name, _, count in types:
        if count == 0:
            raise UnreadableFile(
                f"{folder / 'defines.h'}: type {name!r} has 0 elements; expected at least 1"
            )
    return ProjectFacts(
        file=str(file),
        text=text,
        streams={name: kind for kind, name in (*PORT.findall(text), *STREAM.findall(text))},
        depths={match["stream"]: int(match["depth"]) for match in DEPTH.finditer(text)},
        calls=tuple(calls),
        widths={name: _bits(kind, str(file)) * count for name, kind, count in types},
        sizes={name: count for name, _, count in types},
        configurations={
            name: {key: int(value) for key, value in CONSTANT.findall(body)}
            for name, body in structs
        },
        strategies={name: kind for name, body in structs for kind in STRATEGY.findall(body)[:1]},
    )


def _text(file: Path) -> str:
    return read_found(file).decode("utf-8", "replace")


def _listed(text: str) -> list[str]:
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


def _bits(kind: str, file: str) -> int:
    if kind in FLOATS:
        return FLOATS[kind]
    if match := BITS.match(kind):
        return int(match["bits"])
    raise UnreadableFile(
        f"{file}: type {kind!r}; expected ap_fixed, ap_int or a floating-point type"
    )


def with_depths(source: ProjectFacts, depths: Mapping[str, int]) -> str:
    """Return the text of the .cpp with other depths of its streams."""

    def replaced(match: re.Match[str]) -> str:
        return f"{match['pragma']}{depths.get(match['stream'], int(match['depth']))}"

    return DEPTH.sub(replaced, source.text)


COMPUTING = 10  # assumed cycles of latency of a layer with products
POINTWISE = (
    "relu", "linear", "leaky_relu", "thresholded_relu", "elu", "selu", "prelu", "sigmoid",
    "hard_sigmoid", "tanh", "hard_tanh", "softmax", "softplus", "softsign", "binary_tanh",
    "ternary_tanh", "clipped_relu", "relu1", "relu6", "relu_max", "normalize",
)  # fmt: skip
MERGING = ("add", "subtract", "multiply", "average", "maximum", "minimum")
Function = Callable[["SourceReader", FunctionCall], Cluster]


def project_design(source: ProjectFacts, options: TimingOptions) -> Design:
    """Return the design of a project. Raises UnreadableFile, naming all functions without a rule."""
    unknown = [call for call in source.calls if call.function not in FUNCTIONS]
    if unknown:
        listed = ", ".join(f"{call.function} ({call.name})" for call in unknown)
        raise UnreadableFile(f"{source.file}: no timing is known for {listed}")
    if not source.calls:
        raise UnreadableFile(f"{source.file}: no function works on streams; is it io_stream?")
    reader = SourceReader(source, options)
    for call in source.calls:
        reader.add(call)
    name = PurePath(source.file).name.removesuffix(".cpp")
    return Design(name=name, layers=tuple(reader.layers), fifos=tuple(reader.fifos))


class SourceReader:
    """Makes the functions of a source into layers, in sequence, as words flow."""

    def __init__(self, source: ProjectFacts, options: TimingOptions) -> None:
        self.source = source
        self.layers: list[DesignLayer] = []
        self.fifos: list[Fifo] = []
        self._options = options
        self._words: dict[str, int] = {}  # of a frame, by stream
        self._written: dict[str, tuple[int, int]] = {}  # layer and output, by stream

    def add(self, call: FunctionCall) -> None:
        """Add the layer of a function, and the FIFOs before it."""
        try:
            cluster = FUNCTIONS[call.function](self, call)
        except InvalidGraph as error:
            raise self.refusal(call, str(error)) from error
        number, streams = len(self.layers), self.streams(call)
        inputs, outputs = streams[: len(cluster.inputs)], streams[len(cluster.inputs) :]
        for name, port in zip(outputs, cluster.outputs, strict=False):
            self._words[name] = port.words
        for place, (name, port) in enumerate(zip(inputs, cluster.inputs, strict=False)):
            words = self._words.setdefault(name, port.words)
            if name in self._written:
                producer, output = self._written[name]
                self.fifos.append(
                    Fifo(
                        name=name, producer=producer, output=output, consumer=number, input=place,
                        bits=self.bits(name), words=words, given=self.source.depths.get(name),
                    )
                )  # fmt: skip
        self._written.update({name: (number, place) for place, name in enumerate(outputs)})
        factor = self.configuration(call).get("reuse_factor")
        folding = "" if factor is None else f"reuse factor {factor}"
        self.layers.append(
            DesignLayer(name=call.name, kind=call.function, cluster=cluster, folding=folding)
        )

    def refusal(self, call: FunctionCall, what: str) -> UnreadableFile:
        """Return the error that blames a call."""
        return UnreadableFile(f"{self.source.file}: {call.function} ({call.name}): {what}")

    def streams(self, call: FunctionCall) -> list[str]:
        """Return the streams among the arguments of a call, inputs first."""
        return [argument for argument in call.arguments if argument in self.source.streams]

    def bits(self, stream: str) -> int:
        """Return the width of a stream's words."""
        return self.source.widths[self._word_type(stream)]

    def elements(self, stream: str) -> int:
        """Return the number of elements of a stream's words."""
        return self.source.sizes[self._word_type(stream)]

    def _word_type(self, stream: str) -> str:
        """Return the type of a stream's words. Raises UnreadableFile if the type is not defined."""
        kind = self.source.streams[stream]
        if kind not in self.source.widths:
            raise UnreadableFile(
                f"{self.source.file}: stream {stream!r}: type {kind!r} is not defined"
            )
        return kind

    def configuration(self, call: FunctionCall) -> Mapping[str, int]:
        """Return the constants of a call's configuration."""
        return self.source.configurations.get(call.templates[-1] if call.templates else "", {})

    def needed(self, call: FunctionCall, *keys: str) -> list[int]:
        """Return constants that must be there."""
        configuration = self.configuration(call)
        missing = [key for key in keys if key not in configuration]
        if missing:
            what = f"{call.templates[-1]} in parameters.h has no {', '.join(missing)}"
            raise self.refusal(call, what)
        return [configuration[key] for key in keys]

    def positive(self, call: FunctionCall, key: str) -> int:
        """Return a constant that is at least 1, by default 1."""
        number = self.configuration(call).get(key, 1)
        if number < 1:
            raise self.refusal(call, f"{key} is {number}; expected an integer >= 1")
        return number

    def each_word(self, call: FunctionCall) -> Numbers:
        """Return an iteration for each word of a frame on an input that an earlier function writes."""
        stream = call.arguments[0]
        if stream not in self._words:
            raise UnreadableFile(
                f"{self.source.file}: {call.function} ({call.name}) reads {stream!r}, whose words are "
                "not known: no function with a shape comes before it"
            )
        return counting(self._words[stream])

    def size(self, call: FunctionCall) -> tuple[int, int]:
        """Return the height and the width of an input."""
        configuration = self.configuration(call)
        if "in_height" in configuration:
            height, width = self.needed(call, "in_height", "in_width")
            return height, width
        if "in_width" in configuration:
            return 1, configuration["in_width"]
        return 1, self.needed(call, "n_in")[0]

    def loop(
        self,
        call: FunctionCall,
        iterations: int,
        reads: list[Numbers],
        writes: list[Numbers],
        *,
        interval: int = 1,
        is_computing: bool = False,
    ) -> Cluster:
        """Return the cluster of a function; its streams stand in the order of its arguments."""
        latency, remark = self._options.latency(call.function, call.name)
        remarks = [remark] if remark else []
        if remark and is_computing:
            latency = COMPUTING + self._options.more
            remarks = [f"latency {latency}"]
        if is_computing and self.source.strategies.get(call.templates[-1]) == "resource":
            remarks.append("one pixel per reuse factor: strategy Resource has no interval")
        bits = map(self.bits, self.streams(call))
        return loop_cluster(
            iterations,
            list(zip(reads, bits, strict=False)),
            list(zip(writes, bits, strict=False)),
            latency=latency,
            interval=interval,
            gap=self._options.restart_gap,
            assumed=tuple(remarks),
        )


def _windows(kernel: tuple[str, str], *, is_computing: bool) -> Function:
    """A line buffer: a pixel in each iteration, a word out where it completes a window."""

    def function(reader: SourceReader, call: FunctionCall) -> Cluster:
        size = reader.size(call)
        ends = []  # along each axis whether a window ends at a pixel
        for length, kernel_key, axis in zip(size, kernel, ("height", "width"), strict=True):
            pixels = counting(length) - (min(reader.positive(call, kernel_key), length + 1) - 1)
            step = min(reader.positive(call, f"stride_{axis}"), length + 1)
            ends.append((pixels >= 0) & (pixels % step == 0))
        steps = counting(size[0] * size[1])
        interval = reader.positive(call, "reuse_factor") if is_computing else 1
        return reader.loop(
            call, len(steps), [steps], [marked(*ends)], interval=interval, is_computing=is_computing
        )

    return function


def _global_pooling(reader: SourceReader, call: FunctionCall) -> Cluster:
    height, width = reader.size(call)
    steps = counting(height * width)
    return reader.loop(call, len(steps), [steps], [steps[-1:]])


def _padding(reader: SourceReader, call: FunctionCall) -> Cluster:
    configuration = reader.configuration(call)
    edges = [
        [configuration.get(f"pad_{side}", 0) for side in axis]
        for axis in (("top", "bottom"), ("left", "right"))
    ]
    padded = prod(size + sum(edge) for size, edge in zip(reader.size(call), edges, strict=True))
    require_few(padded)
    inner = [
        np.pad(np.ones(size, dtype=bool), edge)
        for size, edge in zip(reader.size(call), edges, strict=True)
    ]
    return reader.loop(call, padded, [marked(*inner)], [counting(padded)])


def _each(inputs: int) -> Function:
    """A word out at all outputs for each word in at all inputs."""

    def function(reader: SourceReader, call: FunctionCall) -> Cluster:
        starts, outputs = reader.each_word(call), len(reader.streams(call)) - inputs
        return reader.loop(call, len(starts), [starts] * inputs, [starts] * outputs)

    return function


def _dense(reader: SourceReader, call: FunctionCall) -> Cluster:
    """All words are read, then the products are made, then one word is written."""
    starts, (factor,) = reader.each_word(call), reader.needed(call, "reuse_factor")
    done = len(starts) + factor - 1
    end = done + 1 + COMPUTING
    require_short(end)
    return reader.loop(call, end, [starts], [np.array([done], dtype=np.int64)], is_computing=True)


def _transposition(reader: SourceReader, call: FunctionCall) -> Cluster:
    """All words are read into an array, then all words are written."""
    (elements,) = reader.needed(call, "N")
    streams = reader.streams(call)
    if len(streams) != 2:
        raise reader.refusal(call, f"{len(streams)} of its arguments are streams; expected 2")
    read, written = (elements // reader.elements(stream) for stream in streams)
    return reader.loop(call, read + written, [counting(read)], [read + counting(written)])


FUNCTIONS: dict[str, Function] = {
    **dict.fromkeys(POINTWISE, _each(1)),
    **dict.fromkeys(MERGING, _each(2)),
    **dict.fromkeys(
        ("conv_1d_cl", "conv_2d_cl", "pointwise_conv_1d_cl", "pointwise_conv_2d_cl",
         "depthwise_conv_1d_cl", "depthwise_conv_2d_cl"),
        _windows(("filt_height", "filt_width"), is_computing=True),
    ),
    **dict.fromkeys(
        ("pooling1d_cl", "pooling2d_cl"),
        _windows(("pool_height", "pool_width"), is_computing=False),
    ),
    **dict.fromkeys(("global_pooling1d_cl", "global_pooling2d_cl"), _global_pooling),
    **dict.fromkeys(("zeropad1d_cl", "zeropad2d_cl"), _padding),
    "clone_stream": _each(1),
    "dense": _dense,
    "transpose": _transposition,
}  # fmt: skip
