"""Everything README shows is what happens."""

import ast
import re
import shlex
from pathlib import Path

import pytest

from csdf.cli.main import COMMANDS, main

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", TEXT, flags=re.MULTILINE | re.DOTALL)
CONSOLE = [body for kind, body in BLOCKS if kind == "console"]
PYTHON = [body for kind, body in BLOCKS if kind == "python"]
INSTALLATION = ("pip install . && ", "pip install '.[test]' && pytest")


def steps_of(block):
    """The commands of a console block, each with the text that it shows."""
    parts = re.split(r"^\$ (.*)\n", block, flags=re.MULTILINE)
    assert parts[0] == ""
    return list(zip(parts[1::2], parts[2::2], strict=True))


STEPS = [step for block in CONSOLE for step in steps_of(block)]
SHOWN = [(command.removeprefix(INSTALLATION[0]), output) for command, output in STEPS]
SHOWN = [step for step in SHOWN if step[0] != INSTALLATION[1]]


def without_measurements(text):
    """Times and rounding errors are those of the machine."""
    text = re.sub(r"[\d.e-]+ ms\b", "0 ms", text)
    text = re.sub(r"difference +[\d.e-]+, [\d.e-]+", "difference 0, 0", text)
    return re.sub(r'"seconds": [\d.e-]+', '"seconds": 0', text)


@pytest.fixture
def beside_the_models(tmp_path, monkeypatch):
    """A folder in which README's paths are right and new files do no harm."""
    (tmp_path / "models").symlink_to(ROOT / "models")
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("block", CONSOLE, ids=lambda block: block.splitlines()[0][2:60])
def test_the_commands_print_what_is_shown(block, beside_the_models, capsys):
    for command, shown in steps_of(block):
        ran = command.removeprefix(INSTALLATION[0])
        if ran == INSTALLATION[1]:
            continue
        ran, _, report = ran.partition("; echo ")
        words = shlex.split(ran)
        assert words[0] == "csdf"
        code = main(words[1:])
        output, remarks = capsys.readouterr()
        end = f"{code}\n" if report else ""
        assert report in ("", "$?")
        assert without_measurements(remarks + output + end) == without_measurements(shown)


@pytest.mark.parametrize("code", PYTHON, ids=lambda code: code.splitlines()[0])
def test_the_python_examples_give_what_their_comments_say(code, beside_the_models):
    names = {}
    for statement in ast.parse(code).body:
        source = ast.get_source_segment(code, statement)
        said = code.splitlines()[statement.end_lineno - 1].partition("  # ")[2]
        if isinstance(statement, ast.Expr) and said:
            assert str(eval(source, names)) == said
        else:
            exec(source, names)


def test_installation_is_two_commands():
    installing = [command for command, _ in STEPS if command.startswith("pip")]
    assert installing == [
        "pip install . && csdf analyze models/graphs/h263decoder.xml",
        "pip install '.[test]' && pytest",
    ]


def test_every_command_is_shown():
    assert {command.split()[1] for command, _ in SHOWN} == set(COMMANDS)


def test_every_path_in_readme_exists():
    for path in re.findall(r"`((?:cnn2csdf|csdf|figures|models|planners|tests)/[\w./]+)`", TEXT):
        assert (ROOT / path).exists(), path
