"""What every command does with its answer: print it, draw it, and say what else is to be said."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from typing import Any

from csdf.io.files import write_text


def remark(program: str, text: str) -> None:
    """Say on standard error, in one line, what is not part of the answer."""
    print(f"{program}: {text}", file=sys.stderr)


def print_answer(
    options: argparse.Namespace, document: Callable[[], Any], text: Callable[[], str]
) -> None:
    """Print the answer: as JSON where `--json` asks for it, else as text. Only one of them is made."""
    print(json.dumps(document(), indent=2) if options.json else text())


def write_result(program: str, path: str, content: str | bytes, what: str = "") -> None:
    """Write a file and say so. Raises UnwritableFile."""
    write_text(path, content)
    remark(program, f"wrote {path}: {what}" if what else f"wrote {path}")
