"""What every command says besides its answer."""

from __future__ import annotations

import sys


def remark(program: str, text: str) -> None:
    """Say on standard error, in one line, what is not part of the answer."""
    print(f"{program}: {text}", file=sys.stderr)
