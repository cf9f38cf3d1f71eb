"""`csdf init`: a csdf.toml with the network, memories, platform and limits of a project."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import NamedTuple

from cnn2csdf.catalogue.networks import CATALOGUE
from cnn2csdf.commands.cnn import options as shared
from csdf.cli import answers, option_values, parsers, project
from csdf.cli.frame.output import remark, write
from csdf.errors import CsdfError, MissingFile
from csdf.names import meant
from planners.memory.command.main import add_order_option, add_plan_options

SUFFIXES = (".tflite", ".onnx")
HEAD = """\
# csdf fit, csdf deploy and csdf report read this file where no model is named.
# Keys are their options; an option of the command line replaces its key.
"""


class Setting(NamedTuple):
    """A key of the file, an example of its value in TOML, and what the value means."""

    key: str
    example: str
    meaning: str

    @property
    def destination(self) -> str:
        """The attribute of the options of a command that holds the value."""
        return "memories" if self.key == "memory" else self.key.replace("-", "_")


SETTINGS = (
    Setting("ram", '"256kB"', "arena, execution state and stack"),
    Setting("flash", '"1MB"', "parameters as C stores them"),
    Setting("reserve", '"2kB"', "of the RAM, for the application"),
    Setting("memory", '["sram=64kB", "psram=2MB:slow"]', "in place of ram"),
    Setting("platform", '"cortex-m7"', "whose times are predicted"),
    Setting("fps", "10", "minimum number of inferences per second"),
    Setting("input", '"rows"', "resident, rows or external"),
    Setting("output-memory", '"external"', "resident or external"),
    Setting("hop", "1", "new rows of a window that slides"),
    Setting("element-bytes", "1", "of a network whose file has others"),
    Setting("order", '"file"', "of the layers: search or file"),
    Setting("output", '"build"', "folder of plan.json, firmware and report.html"),
)


def command_parser() -> argparse.ArgumentParser:
    """Return the parser of this command."""
    parser = parsers.new_parser(
        "csdf init",
        "Write csdf.toml into the current folder: the network of a project, and the memory, platform "
        "and limits that it has to fit. csdf fit, csdf deploy and csdf report without a model read it, "
        "and so does the action for pull requests.",
        "csdf init person_detection --element-bytes 1 --ram 64kB --platform cortex-m4",
        "csdf init keyword_spotting --ram 64kB --output build --force",
        work=work,
        notes="Without a model, the only .tflite or .onnx file of the folder is used. Options "
        "that are not given are written as comments.",
    )
    models = shared.add_model_argument(
        parser,
        "models",
        nargs="+",
        help="model files (.onnx, .tflite, .cfg, .json) or networks of the catalogue",
    )
    models.required = False  # and not nargs="*", which takes no model behind an option
    add_plan_options(parser)
    parser.add_argument(
        "--fps",
        type=option_values.above_zero,
        metavar="N",
        help="minimum number of inferences per second",
    )
    shared.add_element_bytes_option(parser)
    add_order_option(parser)
    parser.add_argument(
        "-o",
        "--output",
        type=parsers.output_folder,
        metavar="FOLDER",
        help="folder for plans, firmware and reports",
    )
    parser.add_argument(
        "--force", action="store_true", help=f"overwrite an existing {project.FILE}"
    )
    for action in parser._actions:
        if action.option_strings and action.type is not None:
            action.type = _as_text(action.type)  # type: ignore[arg-type]
    parser.set_defaults(**{setting.destination: None for setting in SETTINGS})
    return parser


def work(options: argparse.Namespace) -> int:
    """Write the file; return the exit code. Raises MissingFile for a model that does not exist."""
    if os.path.exists(project.FILE) and not options.force:
        raise CsdfError(f"{project.FILE} is there already; --force writes a new one over it")
    models = options.models or [_only_model()]
    for model in models:
        if not os.path.exists(model) and model.partition(":")[0] not in CATALOGUE:
            raise MissingFile(f"{model}: no such file or network{meant(model, CATALOGUE)}")
    values = {setting.key: getattr(options, setting.destination) for setting in SETTINGS}
    write("csdf init", project.FILE, project_text(models, values))
    remark("csdf init", "its settings are used by csdf fit, csdf deploy and csdf report")
    return answers.ANSWERED


def _as_text(parse: Callable[[str], object]) -> Callable[[str], str]:
    """Return the parser of an option that checks the text and keeps it."""

    @wraps(parse)
    def keep(text: str) -> str:
        parse(text)
        return text

    return keep


def _only_model() -> str:
    """Return the model file of the current folder. Raises CsdfError unless there is one."""
    names = sorted(name for name in os.listdir() if name.lower().endswith(SUFFIXES))
    if len(names) == 1:
        return names[0]
    candidates = (
        f"{len(names)} model files ({', '.join(names)})" if names else "no .tflite or .onnx file"
    )
    raise CsdfError(f"{candidates} in this folder; name the model: csdf init MODEL")


def project_text(models: Sequence[str], values: Mapping[str, str | Sequence[str] | None]) -> str:
    """Return a project file; settings without a value are comments with an example."""
    lines = [f"models = {_toml(models)}"]
    for setting in SETTINGS:
        value = values.get(setting.key)
        line = f"{setting.key} = {setting.example if value is None else _toml(value)}"
        begin = "# " if value is None else ""
        lines.append(f"{begin}{line}  # {setting.meaning}")
    return HEAD + "\n".join(lines) + "\n"


def _toml(value: str | Sequence[str]) -> str:
    """Return a text, a number or an array of texts as TOML."""
    if isinstance(value, str):
        quoted = json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
        return value if value.isdecimal() and value.isascii() and value[0] != "0" else quoted
    return f"[{', '.join(map(_toml, value))}]"
