"""Streams in the C++ that hls4ml writes; templates make it, so it is read as text."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from csdf.errors import UnreadableFile
from csdf.io.files import read_found
from planners.fifo.hls.conversion import converted, names_a_model, output_folder

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
