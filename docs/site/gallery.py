"""The gallery: every picture of the documentation, with the command that draws it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

HEAD = """# Gallery

Each picture is drawn by the command above it: `--plot FILE` takes `.svg`, `.png`, `.pdf` and
`.html`. Two whole pages of [`csdf report`](report.md) can be tried: [a graph](reports/graph.html)
(an H.263 decoder) and [a network](reports/network.html) (person detection in int8, with 256 kB).
"""
PICTURE = re.compile(r"!\[([^\]]+)\]\((?:docs/)?pictures/([\w.]+)\)")
COMMAND = re.compile(r"^\$ (csdf .*--plot (\S+).*)$", flags=re.MULTILINE)


def page(root: Path) -> str:
    """Return the page."""
    return HEAD + "".join(_entries(root))


def _entries(root: Path) -> Iterator[str]:
    shown = set()
    for path in sorted((root / "docs").glob("*.md")):
        text = path.read_text()
        commands = {picture: command for command, picture in COMMAND.findall(text)}
        title = text.partition("\n")[0].removeprefix("# ")
        for words, picture in PICTURE.findall(text):
            if picture in shown:
                continue
            shown.add(picture)
            yield (
                f"\n## {words[0].upper()}{words[1:]}\n\n```console\n$ {commands[picture]}\n```\n\n"
                f"![{words}](pictures/{picture})\n\nMore in [{title}]({path.name}).\n"
            )
