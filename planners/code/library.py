"""A plan as a C library: all its files, made in memory, then written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path

import numpy as np

from cnn2csdf.weights import Model
from csdf.arguments import public
from csdf.errors import UnwritableFile
from csdf.io.files import write_texts
from planners.code.building import cmake_lists, makefile, readme, target_files
from planners.code.primitives.program import is_selection, selection_sources
from planners.code.sources import Written, library_sources
from planners.code.vectors import Frame, TestVector, random_frame, test_program, vectors_of
from planners.plan.plan import StreamingPlan
from planners.primitives.library.winograd import ROUNDING

FRAMES = 4  # of the test program of a network that keeps a state
BUILD = "build"  # the folder of what the Makefile makes


@dataclass(frozen=True, slots=True, kw_only=True)
class Library:
    """A library for a network: its texts by file name, and what is in them."""

    written: Written
    files: Mapping[str, str]

    @property
    def name(self) -> str:
        """The names after which the functions and files of a library are called."""
        return self.written.name


@public
def library(
    model: Model,
    plan: StreamingPlan,
    *,
    name: str | None = None,
    frames: Sequence[Frame] | None = None,
) -> Library:
    """Return a C library that carries out a plan in exactly its bytes.

    name: what functions and files are named after, made an identifier; the network's by default.
    frames: inputs for the test program, by layer name; a random one by default.

    Raises UnsupportedOperator for a layer that no kernel computes, InvalidNetwork for a model
    without weights, InvalidPlan where the plan does not fit the model.
    """
    written = written_sources(model, plan, name or model.network.name)
    vectors = frames_of(model, plan, frames)
    sources = (f"{written.name}.c", f"{written.name}_weights.c")
    return Library(
        written=written,
        files={
            **source_files(written),
            "main.c": test_program(written, vectors),
            **target_files(),
            "Makefile": makefile(written.name, sources),
            "CMakeLists.txt": cmake_lists(written.name, sources),
            "README.md": readme(written, model, plan),
        },
    )


def written_sources(model: Model, plan: StreamingPlan, name: str) -> Written:
    """Return the texts of a library for a plan of lines and strips, or a selection of primitives."""
    sources = selection_sources if is_selection(plan) else library_sources
    return sources(model, plan, name)


def frames_of(
    model: Model, plan: StreamingPlan, frames: Sequence[Frame] | None
) -> tuple[TestVector, ...]:
    """Return the test vectors of some frames, or of a random one where none are given.

    Outputs of a selection may differ by ROUNDING of the largest, as transforms of tiles round.
    """
    if frames is None:
        count = FRAMES if model.network.keeps_state else 1
        frames = [random_frame(model.network, seed) for seed in range(count)]
    vectors = vectors_of(model, frames)
    if not is_selection(plan):
        return vectors
    return tuple(
        replace(
            one,
            tolerance={
                name: ROUNDING * float(np.abs(array).max(initial=0))
                for name, array in one.outputs.items()
            },
        )
        for one in vectors
    )


def source_files(written: Written) -> dict[str, str]:
    """Return header, source and weights by file name."""
    return {
        f"{written.name}.h": written.header,
        f"{written.name}.c": written.source,
        f"{written.name}_weights.c": written.weights,
    }


@public
def write_library(
    model: Model,
    plan: StreamingPlan,
    folder: str | PathLike[str],
    *,
    name: str | None = None,
    frames: Sequence[Frame] | None = None,
) -> Library:
    """Write a C library that carries out a plan into a folder, and return it; see library().

    The folder is made where there is none. Raises UnwritableFile, before anything is written, for a
    folder that holds files of another kind.
    """
    found = library(model, plan, name=name, frames=frames)
    write_folder(folder, found.files)
    return found


def write_folder(folder: str | PathLike[str], files: Mapping[str, str]) -> None:
    """Write the files of a program into a folder, which is made where there is none.

    Raises UnwritableFile, before anything is written, for a folder that holds files of another kind.
    """
    target = Path(folder)
    _require_own(target, files)
    write_texts({str(target / file): text for file, text in files.items()})


def _require_own(folder: Path, files: Mapping[str, str]) -> None:
    """Raise UnwritableFile for a folder with anything that the library would not replace."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise UnwritableFile(f"{folder}: is a file; expected a folder")
    others = sorted(one.name for one in folder.iterdir() if one.name not in {*files, BUILD})
    if others:
        raise UnwritableFile(
            f"{folder}: holds {others[0]!r}, which is no file of this library; "
            "give a new folder or an empty one"
        )
