"""The `csdf` command: loads the frame that runs all commands, and answers Ctrl-C meanwhile.

It imports nothing slow, so that Ctrl-C at the start is answered, too.
"""

from __future__ import annotations

import sys
from importlib import import_module

TYPE_CHECKING = False  # as `typing` has it, without loading that

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        return int(import_module("csdf.cli.frame.running").run(words))
    except KeyboardInterrupt:  # while that was loaded, or once more while it ended
        print("csdf: unknown: interrupted", file=sys.stderr)
        return int(import_module("csdf.cli.frame.output").UNKNOWN)
    except MemoryError:  # where not even the remark found room; 1 would be an answer
        sys.stderr.write("csdf: unknown: out of memory\n")
        return 3
