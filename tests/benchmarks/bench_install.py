"""How much an installation takes, library by library: run it where `pip install .` was run.

    python -m venv fresh && fresh/bin/pip install .
    fresh/bin/python -m tests.benchmarks.bench_install

Counts the files that the installer recorded, bytecode included, of csdf and of all that it requires:
the bytes in them, and the blocks that they take on this disk, as `du` counts.
"""

from __future__ import annotations

import os
import re
from importlib.metadata import Distribution, distribution

MB, MIB, BLOCK = 10**6, 2**20, 512
NAME = re.compile(r"[A-Za-z0-9._-]+")


def required(name: str) -> dict[str, Distribution]:
    """Return a distribution and all that it requires without extras, by name."""
    found: dict[str, Distribution] = {}
    names = [name]
    while names:
        one = names.pop()
        if one not in found:
            found[one] = distribution(one)
            wanted = (text for text in found[one].requires or () if ";" not in text)
            names += [match[0].lower() for text in wanted if (match := NAME.match(text))]
    return found


def sizes(one: Distribution) -> tuple[int, int]:
    """Return the bytes in the files of a distribution, and those of their blocks on this disk."""
    paths = {os.path.realpath(file.locate()) for file in one.files or ()}
    found = [os.stat(path) for path in paths if os.path.isfile(path)]
    return sum(file.st_size for file in found), sum(BLOCK * file.st_blocks for file in found)


def main() -> None:
    """Print a table in Markdown, the largest first."""
    rows = sorted(((sizes(one), name) for name, one in required("csdf").items()), reverse=True)
    total = tuple(sum(size[part] for size, _ in rows) for part in range(2))
    print("| library | MB | MiB | MiB on disk |\n| --- | --- | --- | --- |")
    for (held, taken), name in [*rows, (total, "all")]:
        print(f"| {name} | {held / MB:.1f} | {held / MIB:.1f} | {taken / MIB:.1f} |")


if __name__ == "__main__":
    main()
