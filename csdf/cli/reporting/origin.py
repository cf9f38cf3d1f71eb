"""The origin of a page: the command, this version, the files read, and what was assumed."""

from __future__ import annotations

import hashlib
import os
import shlex
from collections.abc import Iterator, Sequence

from csdf import __version__
from csdf.draw.report.origin import Origin, Source
from csdf.io.files import read_bytes

OUTPUT = ("-o", "--output")


def origin_of(
    argv: Sequence[str],
    models: Sequence[str | None],
    files: Sequence[str],
    terms: Sequence[tuple[str, str]],
) -> Origin:
    """Return where the page of these words comes from. Raises UnreadableFile.

    models: names of files or of networks, or None. files: read beside them. terms: what was assumed,
    each with a name.
    """
    read = [model for model in models if model is not None and os.path.exists(model)]
    return Origin(
        command=shlex.join(["csdf", "report", *_without_output(argv)]),
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
        elif not word.startswith(("-o", "--output=")):
            yield word


def _source(path: str) -> Source:
    content = read_bytes(path)
    return Source(path, len(content), hashlib.sha256(content).hexdigest())
