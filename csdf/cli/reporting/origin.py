"""Where a page comes from: the command, this version, the files read, and what was assumed."""

from __future__ import annotations

import argparse
import hashlib
import os
import shlex
from collections.abc import Iterator, Sequence

from csdf.cli.main import VERSION
from csdf.cli.networks import options as shared
from csdf.draw.report.findings import Origin, Source
from csdf.io.files import read_bytes

OUTPUT = ("-o", "--output")


def origin_of(argv: Sequence[str], options: argparse.Namespace, *, is_network: bool) -> Origin:
    """Return where the page of these options comes from. Raises UnreadableFile."""
    files = [options.model] if os.path.exists(options.model) else []
    if is_network and options.durations:
        files.append(options.durations)
    return Origin(
        command=shlex.join(["csdf", "report", *_without_output(argv)]),
        version=VERSION,
        sources=tuple(_source(path) for path in files),
        terms=tuple(_terms(options)) if is_network else (),
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


def _terms(options: argparse.Namespace) -> Iterator[tuple[str, str]]:
    size = options.element_bytes
    if not os.path.exists(options.model):
        yield "network", f"{options.model} of the catalogue of this version"
    yield (
        "element size",
        f"{size} bytes; parameters have the same"
        if size > 1
        else ("1 byte; parameters have the same"),
    )
    yield "platform", _platform(options)


def _platform(options: argparse.Namespace) -> str:
    if options.durations:
        return f"measured times of {options.durations}"
    chosen = shared.platform_of(options)
    replaced = (options.operations, options.bandwidth, options.launch)
    name = options.platform if replaced == (None, None, None) else f"{options.platform}, changed"
    return (
        f"{name}: {float(chosen.operations_per_second):.4g} operations/s, "
        f"{float(chosen.bytes_per_second):.4g} bytes/s, "
        f"{float(chosen.launch * 10**6):.4g} us to start a phase"
    )
