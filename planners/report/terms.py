"""Assumptions of a page about a network: the size of an element, and the times of a platform."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator

from cnn2csdf.commands.cnn import options as shared
from csdf.cli import answers
from csdf.words import rate_in_words, time_in_words


def terms_of(options: argparse.Namespace) -> Iterator[tuple[str, str]]:
    """Yield what was assumed about a network, each with a name."""
    size = options.element_bytes
    if not os.path.exists(options.model):
        yield "network", f"{options.model} of the catalogue of this version"
    yield "element size", _size_in_words(size)
    yield "platform", _platform(options)


def _size_in_words(size: int | None) -> str:
    if size is None:
        return "each tensor and parameter as in the file"
    return f"{answers.counted(size, 'byte')}; parameters have the same"


def _platform(options: argparse.Namespace) -> str:
    if options.durations:
        return f"measured times of {options.durations}"
    chosen = shared.platform_of(options)
    replaced = (options.operations, options.bandwidth, options.launch)
    name = options.platform if replaced == (None, None, None) else f"{options.platform}, changed"
    return (
        f"{name}: {rate_in_words(chosen.operations_per_second, 4)} operations/s, "
        f"{rate_in_words(chosen.bytes_per_second, 4)} bytes/s, "
        f"{time_in_words(chosen.launch, 4)} to start a phase"
    )
