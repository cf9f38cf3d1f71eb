"""Project files: models, memories, platform and limits of a folder, as options of a command.

A project file is `csdf.toml`, or the table `[tool.csdf]` of `pyproject.toml`, in the current folder or
the nearest folder above. Its keys are names of options without their dashes, and `models`. A command
reads the file where its words name no model; an option of the command line replaces the key.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from csdf.cli.frame.output import remark
from csdf.cli.parsers import Parser
from csdf.errors import CsdfError, UnreadableFile, counted
from csdf.io.files import decoded, make_folder, missing_folders, read_found
from csdf.names import meant

FILE = "csdf.toml"
PYPROJECT = "pyproject.toml"
MODELS, OUTPUT = "models", "output"
# Keys whose values may be files, relative to the folder of the project file.
PATHS = (MODELS, "platform", "durations")
KEYS = (
    *(MODELS, "platform", "ram", "flash", "reserve", "memory", "fps", "input", "output-memory"),
    *("element-bytes", "from", "until", "shape", "constant", "state", "hop", "durations"),
    *("order", "effort", "time-limit", "kernels", "name", "seed", OUTPUT),
)
SEARCH = ("input", "output-memory", "fps", "durations", "element-bytes", "memory", "hop")
# For an option of the command line, the keys that it overrides in addition to its own key.
KEYS_OVERRIDDEN_BY_OPTION = {
    "--ram": ("memory",),
    "--memory": ("ram", "hop", "fps", "durations", "input", "output-memory"),
    "--plan": SEARCH,  # a plan has its own
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """A project file: its path as it is shown, its text, and the table with its keys."""

    path: str
    text: str
    header: str  # of the table; empty for the table of the whole file
    table: Mapping[str, object]

    def refusal(self, key: str, words: str) -> UnreadableFile:
        """Return the error about a key, with its line."""
        begin = self.text.find(f"[{self.header}]") if self.header else 0
        key_line = re.compile(rf"^\s*[\"']?{re.escape(key)}[\"']?\s*[.=]", re.MULTILINE)
        found_line = key_line.search(self.text, max(begin, 0))
        line = f", line {self.text.count(chr(10), 0, found_line.end()) + 1}" if found_line else ""
        return UnreadableFile(f"{self.path}{line}: {key}: {words}")

    def texts(self, key: str) -> list[str]:
        """Return the values of a key as words of a command line, files from the current folder on."""
        value = self.table[key]
        values = value if isinstance(value, list) else [value]
        for part in values:
            if isinstance(part, bool) or not isinstance(part, str | int):
                kinds = {bool: "a truth value", dict: "a table", list: "an array in an array"}
                kind = kinds.get(type(part), f"a {type(part).__name__}")
                raise self.refusal(key, f"found {kind}; expected a text, such as {key} = '...'")
        texts = [str(part) for part in values]
        return [self._from_here(text) for text in texts] if key in PATHS else texts

    def _from_here(self, name: str) -> str:
        path = os.path.join(os.path.dirname(self.path), name)
        return path if os.path.exists(path) else name


def nearest(folder: str = "") -> Project | None:
    """Return the project file of a folder, or of the nearest folder above; None where there is none.

    folder: the current one by default; the path of the project begins with it. Raises UnreadableFile.
    """
    while True:
        own_file, shared = os.path.join(folder, FILE), os.path.join(folder, PYPROJECT)
        if os.path.exists(own_file):
            return _project(own_file)
        if os.path.exists(shared) and (project := _project(shared, "tool", "csdf")) is not None:
            return project
        if os.path.realpath(folder or os.curdir) == os.path.realpath(
            os.path.join(folder, os.pardir)
        ):
            return None
        folder = os.path.join(folder, os.pardir)


def _project(path: str, *header: str) -> Project | None:
    """Return the project of a file; None where the table of this header is missing."""
    import tomllib  # slow to import, and needed without a model alone

    text = decoded(read_found(path), path)
    try:
        table = tomllib.loads(text, parse_float=str)  # exact: as the text is written
    except tomllib.TOMLDecodeError as error:
        raise UnreadableFile(f"{path}: not TOML: {error}") from None
    for name in header:
        below = table.get(name)
        if below is None:
            return None
        if not isinstance(below, dict):
            raise UnreadableFile(f"{path}: {name}: expected a table [{'.'.join(header)}]")
        table = below
    return Project(path=path, text=text, header=".".join(header), table=table)


def parsed(parser: Parser, words: Sequence[str]) -> argparse.Namespace:
    """Return the options of these words, and of the project file where they name no model.

    Their attribute `words` is a command line with the same options that needs no project file. Raises
    UnreadableFile for a project file with errors.
    """
    required = [action for action in parser._actions if action.required]
    for action in required:
        action.required = False
    try:
        options = parser.parse_args(words)
    finally:
        for action in required:
            action.required = True
    missing = [action for action in required if getattr(options, action.dest) is None]
    models = next(action for action in parser._actions if not action.option_strings)
    if models in missing:
        project = nearest()
        if project is None:
            parser.error(f"a {models.metavar} is missing, and no {FILE}; csdf init writes one")
        words = [*_words(project, parser, models, words), *words]
        options = parser.parse_args(words)
    elif missing:
        options = parser.parse_args(words)  # which says what is missing
    options.words = words
    return options


def _words(
    project: Project, parser: Parser, models: argparse.Action, words: Sequence[str]
) -> list[str]:
    """Return the words that the project file stands for in a command, and say which they are."""
    for key in project.table:
        if key not in KEYS:
            raise project.refusal(
                key, f"unknown key{meant(key, KEYS) or '; expected one of ' + ', '.join(KEYS)}"
            )
    replaced = set(_replaced(parser, words))
    words_found, unused = [], []
    for key in project.table:
        action = parser._option_string_actions.get(f"--{key}")
        is_known = action is not None and action.help != argparse.SUPPRESS
        if key in (MODELS, OUTPUT):
            continue
        if action is None or not is_known:
            unused.append(key)
        elif key not in replaced:
            words_found += [f"--{key}={text}" for text in _checked(project, parser, key, action)]
    names = _models(project, models, parser.prog)
    words_found += _output(project, parser) if OUTPUT not in replaced else []
    shown_words = " ".join(shlex.quote(word).replace("=", " ", 1) for word in words_found)
    left = f"; not for this command: {', '.join(unused)}" if unused else ""
    remark(
        parser.prog, f"options of {project.path}: {shlex.join(names)} {shown_words}".rstrip() + left
    )
    return [*names, *words_found]


def _replaced(parser: Parser, words: Sequence[str]) -> Iterator[str]:
    """Yield the keys that options of the command line replace."""
    for word in words:
        is_short = word.startswith("-") and not word.startswith("--")
        option = word[:2] if is_short else word  # -oFILE: the option is -o
        action = parser._option_string_actions.get(option.partition("=")[0])
        for name in action.option_strings if action is not None else ():
            yield name.removeprefix("--")
            yield from KEYS_OVERRIDDEN_BY_OPTION.get(name, ())


def _checked(project: Project, parser: Parser, key: str, action: argparse.Action) -> Sequence[str]:
    """Return the values of a key. Raises UnreadableFile for values that the option does not accept."""
    texts = project.texts(key)
    is_repeated = isinstance(action, argparse._AppendAction)
    if isinstance(project.table[key], list) and not is_repeated:
        raise project.refusal(key, f"found {counted(len(texts), 'value')}; expected one, no array")
    for text in texts:
        try:
            parser._check_value(action, parser._get_value(action, text))
        except argparse.ArgumentError as error:
            raise project.refusal(key, error.message) from None
    return texts


def _models(project: Project, models: argparse.Action, program: str) -> Sequence[str]:
    """Return the models of the project, as many as the command takes."""
    if MODELS not in project.table:
        raise UnreadableFile(f"{project.path}: no {MODELS}; add {MODELS} = ['model.tflite']")
    names = project.texts(MODELS)
    for name in names:
        if not name or name.startswith("-"):
            raise project.refusal(MODELS, f"found {name!r}; expected a file or a network")
    if not names:
        raise project.refusal(MODELS, "found an empty array; expected a file or a network")
    if len(names) > 1 and models.nargs is None:
        number = counted(len(names), "network")
        raise project.refusal(MODELS, f"{program} takes one of these {number}; name it there")
    return names


def _output(project: Project, parser: Parser) -> list[str]:
    """Return the words for the file or folder of this command in the folder of the project."""
    if OUTPUT not in project.table:
        return []
    texts = project.texts(OUTPUT)
    if isinstance(project.table[OUTPUT], list) or not texts[0]:
        raise project.refusal(OUTPUT, "expected the name of one folder")
    folder = os.path.join(os.path.dirname(project.path), texts[0])
    new_folders = missing_folders(folder)
    try:
        make_folder(folder)
    except CsdfError as error:
        raise project.refusal(OUTPUT, str(error)) from None
    parser.made_folders = new_folders
    return [f"--{OUTPUT}={os.path.join(folder, parser.project_result)}"]


# Options that change no generated file, with the number of their values.
WITHOUT_EFFECT = {
    **dict.fromkeys(("-o", "--output", "--misra"), 1),
    **dict.fromkeys(("--json", "-q", "--quiet", "-v", "-vv", "--verbose"), 0),
}


def words_without(words: Sequence[str], options: Mapping[str, int]) -> list[str]:
    """Return the words of a command line without these options; each with its number of values."""
    kept, remaining = [], iter(words)
    for word in remaining:
        option, sign, _ = word.partition("=")
        if option in options:
            if options[option] and not sign:
                next(remaining, None)
        elif not (word.startswith("-o") and "-o" in options):
            kept.append(word)
    return kept


def command_of(program: str, words: Sequence[str]) -> str:
    """Return a command with files by their names alone, and without its output folder."""
    kept = []
    for word in words_without(words, WITHOUT_EFFECT):
        option, sign, value = word.rpartition("=")
        is_file = os.path.exists(value)
        kept.append(f"{option}{sign}{os.path.basename(value.rstrip(os.sep))}" if is_file else word)
    return shlex.join([*program.split(), *kept])
