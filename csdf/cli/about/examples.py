"""`csdf examples`: copies of the example graphs and networks of the pages and help texts."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from csdf.cli import answers, parsers
from csdf.cli.frame.output import remark
from csdf.errors import CsdfError, counted
from csdf.io import files

PACKAGE = Path(__file__).parents[2]
HOMES = (PACKAGE / "examples", PACKAGE.parent / "models")  # as installed; in a checkout
FOLDER = "models"


def work(options: argparse.Namespace) -> int:
    """Copy the examples; return the exit code."""
    target = Path(options.folder) / FOLDER
    source = examples_folder()
    names = list(example_files(source))
    new = [name for name in names if not (target / name).exists()]
    files.write_texts({str(target / name): (source / name).read_bytes() for name in new})
    remark("csdf examples", f"wrote {counted(len(new), 'file')} to {target}")
    if len(new) < len(names):
        kept_count = counted(len(names) - len(new), "file")
        remark("csdf examples", f"left {kept_count} there as they were")
    return answers.ANSWERED


def command_parser() -> argparse.ArgumentParser:
    """Return the parser of this command."""
    parser = parsers.new_parser(
        "csdf examples",
        "Copy the example graphs, networks and platforms into a folder `models`, so that the "
        "examples of every --help and of the pages run there. Files that exist are left alone.",
        "csdf examples",
        "csdf examples somewhere",
        work=work,
    )
    parser.add_argument(
        "folder",
        nargs="?",
        default=".",
        type=parsers.output_folder,
        metavar="FOLDER",
        help="folder in which `models` is created; default: the current folder",
    )
    return parser


def examples_folder() -> Path:
    """Return where the examples lie. Raises CsdfError where the installation lacks them."""
    for home in HOMES:
        if home.is_dir():
            return home
    raise CsdfError("this installation has no examples; install csdf again")


def example_files(folder: Path) -> Iterator[Path]:
    """Yield the files of the examples, from their folder on, by name."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            yield path.relative_to(folder)
