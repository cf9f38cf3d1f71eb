"""The pages of the documentation: their blocks, and a reader who does what they say.

A `console` block shows commands after `$` and what they print. A `python` block shows values as
comments behind expressions. A block behind words that end with a name, such as "Save it as `a.json`:",
is that file. `text` is only looked at. Blocks of a page build on each other, in one folder and with
one set of names.
"""

import ast
import contextlib
import io
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from csdf.cli.main import main

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
PICTURES = ROOT / "docs" / "pictures"
FENCED = re.compile(r"(?:`([\w.]+)`:\n\n)?^```(\w+)\n(.*?)^```$", flags=re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^\$ (.*)\n", flags=re.MULTILINE)
TIME_TAKEN = re.compile(  # times predicted or read from a table are not taken: they stay
    r"((?:periodic|execution|distributions?(?: evaluated)?|phases), "
    r"|  (?:time|time of the run|search) +"
    r"|(?:optimal|feasible|infeasible|unknown) +)[\d.e-]+ (?:ns|us|ms|s)\b(?!,)"
)
FAILED = [("a block that can be done", "a block that failed")]
SHOWN_PICTURE = re.compile(r"!\[[^\]]+\]\(([^)]+)\)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Something between fences. file: the name of the file that it is, or empty."""

    kind: str
    file: str
    body: str

    @property
    def steps(self):
        """The commands of a console block, each with the text that it shows."""
        parts = COMMAND.split(self.body)
        return list(zip(parts[1::2], parts[2::2], strict=True))

    @property
    def values(self):
        """The statements of a python block, each with the value that its comment says."""
        lines = self.body.splitlines()
        return [
            (
                ast.get_source_segment(self.body, statement),
                lines[statement.end_lineno - 1].partition("  # ")[2],
            )
            for statement in ast.parse(self.body).body
        ]


def blocks_of(page):
    """The blocks of a page in order."""
    return [
        Block(kind=kind, file=file, body=body)
        for file, kind, body in FENCED.findall(page.read_text())
    ]


def prose_of(page):
    """The text of a page outside its blocks."""
    return FENCED.sub("", page.read_text())


def pictures_of(page):
    """The pictures made for the documentation that a page shows."""
    paths = [page.parent / path for path in SHOWN_PICTURE.findall(prose_of(page))]
    return [path for path in paths if path.parent == PICTURES]


@dataclass(frozen=True, slots=True)
class Reader:
    """Does what a page says, block after block, in a folder of its own that has the models.

    found: for each block done, pairs of what it shows and what there was.
    """

    page: Path
    folder: Path
    names: dict = field(default_factory=dict)
    found: list = field(default_factory=list)

    def read_to(self, number):
        """Do all blocks up to this one that are not done yet; return the pairs of this one."""
        blocks = blocks_of(self.page)
        if not (self.folder / "models").exists():
            (self.folder / "models").symlink_to(ROOT / "models")
        with contextlib.chdir(self.folder):
            while len(self.found) <= number:
                self.found.append(FAILED)  # until it is done; the blocks behind it go on
                self.found[-1] = self._do(blocks[len(self.found) - 1])
        return self.found[number]

    def _do(self, block):
        if block.file:
            Path(block.file).write_text(block.body)
        if block.kind == "console":
            return [(shown, printed_by(command)) for command, shown in block.steps]
        return list(self._evaluated(block)) if block.kind == "python" else []

    def _evaluated(self, block):
        for source, said in block.values:
            if said:
                yield said, str(eval(source, self.names))
            else:
                exec(source, self.names)


def installed(command):
    """Return the installation with pip that a command begins with; empty where there is none."""
    first = command.partition(" && ")[0]
    return first if first.startswith("pip install ") else ""


def printed_by(command):
    """The lines on a terminal after a command: remarks first, then the output.

    Installs nothing and runs no tests. Knows `csdf`, `python FILE`, `cat`, `head`, `tail` and `printf`;
    behind them `| head -N`, `| tail -N`, `| grep WORD`, `> FILE`, `; echo $?`.
    """
    if installation := installed(command):
        command = command.removeprefix(installation).removeprefix(" && ")
    if command in ("", "pytest"):
        return ""
    command, _, report = command.partition("; echo ")
    command, _, file = command.partition(" > ")
    command, _, part = command.partition(" | ")
    words = shlex.split(command)
    output, remarks = io.StringIO(), io.StringIO()
    code = 0
    if words[0] == "csdf":
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(remarks):
            code = exit_code(words[1:])
    elif words[0] == "python":
        run = subprocess.run(
            [sys.executable, *words[1:]], capture_output=True, text=True, check=False
        )
        code = run.returncode
        output.write(run.stdout)
        remarks.write(run.stderr)
    elif words[0] == "cat":
        output.write(Path(words[1]).read_text())
    elif words[0] in ("head", "tail"):
        output.write(lines_of(Path(words[2]).read_text(), *words[:2]))
    elif words[0] == "printf":
        output.write(words[1].replace("\\n", "\n"))
    else:
        known = "csdf, python, cat, head, tail or printf"
        raise ValueError(f"a page asks for {words[0]!r}; expected {known}")
    text = lines_of(output.getvalue(), *part.split()) if part else output.getvalue()
    if file:
        Path(file).write_text(text)
        text = ""
    return remarks.getvalue() + text + (f"{code}\n" if report == "$?" else "")


def exit_code(words):
    """Run the command; return its exit code, also where it is its parser that ends it."""
    try:
        return main(words)
    except SystemExit as end:
        return end.code


def lines_of(text, which, option):
    """The rest of a text after `head -N`, `tail -N` or `grep WORD`."""
    if which == "grep":
        return "".join(line for line in text.splitlines(keepends=True) if option in line)
    count = int(option.removeprefix("-"))
    lines = text.splitlines(keepends=True)
    return "".join({"head": lines[:count], "tail": lines[-count:]}[which])


def without_measurements(text):
    """Without what differs from machine to machine: times taken, progress, and rounding errors."""
    text = re.sub(r"^csdf: \d+ s, .*\n", "", text, flags=re.MULTILINE)
    text = TIME_TAKEN.sub(r"\g<1>0 ms", text)
    text = re.sub(r"(difference|ONNX Runtime) +[\d.e-]+ \([\d.e-]+", r"\1 0 (0", text)
    text = re.sub(r"[\d.e-]+ of the largest output", "0 of the largest output", text)
    return re.sub(r'"seconds": [\d.e-]+', '"seconds": 0', text)
