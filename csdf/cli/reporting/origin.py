"""Origin of a page: the command, the version, the files that were read, the assumptions."""

from __future__ import annotations

import hashlib
import os
import shlex
from collections.abc import Iterator, Sequence

from csdf import __version__
from csdf.draw.report.page import Origin, ReadFile
from csdf.io.files import read_bytes

OUTPUT = ("-o", "--output", "--page")


def origin_of(
    command: str,
    argv: Sequence[str],
    models: Sequence[str | None],
    files: Sequence[str],
    terms: Sequence[tuple[str, str]],
) -> Origin:
    """Return where the page of these words of a command comes from. Raises UnreadableFile.

    models: names of files or of networks, or None. files: read besides. terms: assumptions by name.
    """
    read = [model for model in models if model is not None and os.path.isfile(model)]
    return Origin(
        command=shlex.join(["csdf", *command.split(), *_without_output(argv)]),
        version=__version__,
        sources=tuple(_source(path) for path in (*read, *files)),
        terms=tuple(terms),
    )


def _without_output(argv: Sequence[str]) -> Iterator[str]:
    """The words but for the name of the page: the same page under another name is the same."""
    words = iter(argv)
    for word in words:
        if word in OUTPUT:
            next(words, None)
        elif not word.startswith(("-o", "--output=", "--page=")):
            yield word


def _source(path: str) -> ReadFile:
    content = read_bytes(path)
    return ReadFile(path, len(content), hashlib.sha256(content).hexdigest())
