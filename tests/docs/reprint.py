"""Show in pages what their commands print and draw now, and in their Python blocks the values.

python -m tests.docs.reprint docs/dataflow.md ...

What differs by measured times only stays as it is. Look at the difference before you commit it.
"""

import sys
import tempfile
from pathlib import Path

from tests.docs.pages import FENCED, ROOT, Reader, blocks_of, pictures_of, without_measurements


def main(names):
    for name in names:
        page = ROOT / name
        with tempfile.TemporaryDirectory() as folder:
            page.write_text(reprinted(page, Path(folder)))
            for picture in pictures_of(page):
                picture.write_text(Path(folder, picture.name).read_text())


def reprinted(page, folder):
    """The text of a page with the answers of today."""
    reader, text = Reader(page, folder), page.read_text()
    pieces, end = [], 0
    for number, (block, match) in enumerate(
        zip(blocks_of(page), FENCED.finditer(text), strict=True)
    ):
        found = reader.read_to(number)
        pieces += [text[end : match.start(3)], body_of(block, found)]
        end = match.end(3)
    return "".join([*pieces, text[end:]])


def body_of(block, found):
    """Return the text between the fences."""
    if block.kind == "console":
        return "".join(
            f"$ {command}\n{shown if is_as_before(shown, now) else now}"
            for (command, shown), (_, now) in zip(block.steps, found, strict=True)
        )
    body = block.body
    if block.kind == "python":
        for said, now in found:
            if said != now:
                body = body.replace(f"  # {said}\n", f"  # {now}\n", 1)
    return body


def is_as_before(shown, now):
    return without_measurements(shown) == without_measurements(now)


if __name__ == "__main__":
    main(sys.argv[1:])
