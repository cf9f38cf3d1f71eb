"""The problems that `csdf plan arena` is asked: those of a file, or the tensors of a network."""

from __future__ import annotations

import argparse
import os
from importlib import import_module
from pathlib import PurePath
from typing import TYPE_CHECKING

from cnn2csdf.catalogue.networks import CATALOGUE
from csdf.errors import UnreadableFile, counted
from csdf.io.files import read_bytes
from planners.formats.glow import parse_traces
from planners.formats.json_problems import parse_problems
from planners.formats.minimalloc import parse_buffers
from planners.plan import Problem

if TYPE_CHECKING:
    from planners.arena.command.networks import AskedNetwork

NETWORKS = (".onnx", ".tflite", ".cfg")  # suffixes of files that hold a network


def asked_network(options: argparse.Namespace) -> AskedNetwork | None:
    """Return the network that the options name, if it is one; only now what reads such is loaded."""
    if not _is_network(options.model):
        return None
    found: AskedNetwork = import_module("planners.arena.command.networks").AskedNetwork(options)
    return found


def chosen_problems(options: argparse.Namespace, network: AskedNetwork | None) -> list[Problem]:
    """Return the problems that the options name. Raises UnreadableFile where there are none."""
    source, only = options.model, options.only
    problems = read_problems(source) if network is None else [network.problem]
    if only is None:
        return problems
    found = [problem for problem in problems if problem.name == only]
    if not found:
        raise UnreadableFile(
            f"{source}: of its {counted(len(problems), 'problem')} none has the name {only!r}"
        )
    return found


def _is_network(source: str) -> bool:
    """Whether it is a file of a network, or the name of one of the catalogue."""
    if PurePath(source).suffix.lower() in NETWORKS:
        return True
    return source.partition(":")[0] in CATALOGUE and not os.path.exists(source)


def read_problems(path: str) -> list[Problem]:
    """Return the problems of a file: JSON, a Glow trace or MiniMalloc's CSV, by what is in it."""
    try:
        text = read_bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UnreadableFile(f"{path}: is not text; expected CSV, JSON or a Glow trace") from None
    begin = next((line.strip() for line in text.splitlines() if _says_something(line)), "")
    if begin.startswith("{"):
        return parse_problems(text, path)
    if begin.split(maxsplit=1)[:1] == ["MODEL"]:
        return parse_traces(text, path)
    return [parse_buffers(text, path, PurePath(path).stem)]


def _says_something(line: str) -> bool:
    return bool(line.strip()) and not line.strip().startswith("#")
