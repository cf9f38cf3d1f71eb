"""Writes the searches for offsets and orders in C: python -m planners.arena.command.library."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from csdf.errors import CsdfError
from planners.arena.c_library import write_library


def main(words: Sequence[str] | None = None) -> int:
    """Write the library into the folder that is named; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="library", description="Write csdf_arena.h and csdf_arena.c."
    )
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="created if it does not exist")
    try:
        for path in write_library(parser.parse_args(words).folder):
            print(f"wrote {path}")
    except CsdfError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
