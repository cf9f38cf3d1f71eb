"""A plan as a C library: all its files, made in memory, then written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path, PurePath

import numpy as np

from cnn2csdf.weights import Model
from csdf.arguments import public
from csdf.errors import InvalidArgument, InvalidPlan, UnwritableFile
from csdf.io.files import write_texts
from planners.code.calls.cmsis_nn import ANY, ScratchLimit
from planners.code.frames import Frame, TestVector, chosen_vectors, constant_outputs, vectors_of
from planners.code.makefile import BENCH, EXAMPLE, MAIN, PROOF, makefile, target_files
from planners.code.names import require_renamed
from planners.code.packaging import (
    MAKE,
    MODEL_LINE,
    PLAIN,
    TARGET_LINE,
    Package,
    origin_in,
    package_files,
    with_banners,
)
from planners.code.parts import KERNELS, OWN, comment
from planners.code.primitives.program import is_selection, selection_sources
from planners.code.programs import bench_program, example_program, proof_program
from planners.code.readme import readme
from planners.code.sources import Written, library_sources
from planners.code.vectors import test_program
from planners.plan.carried_out import require_carried_out
from planners.plan.plan import StreamingPlan
from planners.primitives.library.winograd import ROUNDING

KERNEL_HEADERS = "src/csdf_*.h"
MAKEFILE_PATHS = ("build", "frames.txt")  # output folder and input of the Makefile


@dataclass(frozen=True, slots=True, kw_only=True)
class Library:
    """A C library for a network: files by their paths in a folder, and the facts about them.

    constant_outputs: those that are equal, or at the limits of their type, in all frames of the test.
    """

    written: Written
    files: Mapping[str, str]
    constant_outputs: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The prefix of the functions and files of the library."""
        return self.written.name


@public
def library(
    model: Model,
    plan: StreamingPlan,
    *,
    name: str | None = None,
    frames: Sequence[Frame] | None = None,
    kernels: str = OWN,
    scratch: ScratchLimit = ANY,
    target: str | None = None,
    package: Package = PLAIN,
) -> Library:
    """Return a C library that executes a plan in an arena of exactly the planned size.

    name: prefix of functions and files, converted to an identifier; by default the network's name.
    kernels: "csdf", or "cmsis-nn": CMSIS-NN then computes the layers for which its results are
    bit-identical; the build of the library has to provide it. scratch: limit on the scratch memory of
    CMSIS-NN, in addition to the arena.
    frames: inputs for the test program, by layer name; by default those of `chosen_vectors`.
    target: "cortex-m4", "cortex-m55", "cortex-m0plus", "rv32", "host" or "portable": in addition to
    portable C, the kernels use the instructions of this processor only; None: the instructions of the
    processor that the compiler targets.
    package: version, author, origin, names of tensors, and the build systems that get files.

    Raises UnsupportedOperator for a layer without a kernel, InvalidNetwork for a model without
    weights, InvalidPlan if the checker rejects the plan for this network.
    """
    require_renamed([layer.name for layer in model.network.layers], package.renamed)
    package = replace(package, target=target)
    written = written_sources(model, plan, name or model.network.name, kernels, scratch, package)
    vectors = frames_of(model, plan, frames)
    files = source_files(written)
    # The C of a selection of primitives has no stages, so that no program measures or proves them.
    has_stages, has_cmsis_nn = bool(written.stages), written.cmsis_nn is not None
    headers, sources = paths_in(files, "include"), c_files_in(files, "src")
    about = f"{comment(model.network.name)}: inference of a neural network"
    files |= {MAIN: test_program(written, vectors)}
    files |= {EXAMPLE: example_program(written)} if has_stages else {}
    if MAKE in package.projects:
        # The proof reads C sources; those of CMSIS-NN are not part of the library.
        is_proved = has_stages and not has_cmsis_nn
        files |= {BENCH: bench_program(written)} if has_stages else {}
        files |= {PROOF: proof_program(written)} if is_proved else {}
        files |= target_files()
        files["Makefile"] = makefile(
            sources,
            arrays=written.arrays,
            bench=f"-D{written.capitals}_PROFILE" if has_stages else None,
            proved=written.whole_source if is_proved else "",
            cmsis_nn=has_cmsis_nn,
            target=target,
        )
    files |= package_files(
        written.name, about, headers, sources, (MAIN,), package=package, cmsis_nn=has_cmsis_nn
    )
    files["README.md"] = readme(written, model, plan, package, vectors)
    return Library(
        written=written,
        files=with_banners(files, package),
        constant_outputs=constant_outputs(vectors),
    )


def written_sources(
    model: Model,
    plan: StreamingPlan,
    name: str,
    kernels: str = OWN,
    scratch: ScratchLimit = ANY,
    package: Package = PLAIN,
) -> Written:
    """Return the C of a library for a streaming plan, or for a selection of primitives.

    The checker has to accept the plan first: the generated C does not check the offsets of buffers.
    """
    if kernels not in KERNELS:
        raise InvalidArgument(f"kernels {kernels!r}; expected one of {', '.join(KERNELS)}")
    require_carried_out(model.network, plan)
    if not is_selection(plan):
        return library_sources(model, plan, name, kernels, scratch, package)
    if kernels != OWN:
        raise InvalidPlan("a selection of primitives has kernels of its own; leave out --kernels")
    return selection_sources(model, plan, name, package)


def frames_of(
    model: Model, plan: StreamingPlan, frames: Sequence[Frame] | None
) -> tuple[TestVector, ...]:
    """Return the test vectors of some frames, or of chosen ones where none are given.

    Outputs of a selection may differ by ROUNDING of the largest, as transforms of tiles round.
    """
    vectors = chosen_vectors(model) if frames is None else vectors_of(model, frames)
    if not is_selection(plan):
        return vectors
    return tuple(
        replace(
            vector,
            tolerance={
                name: ROUNDING * float(np.abs(array).max(initial=0))
                for name, array in vector.outputs.items()
            },
        )
        for vector in vectors
    )


def source_files(written: Written) -> dict[str, str]:
    """Return header, source and weights by their paths in the folder."""
    return {
        f"include/{written.name}.h": written.header,
        f"src/{written.name}.c": written.source,
        f"src/{written.name}_weights.c": written.weights,
        f"src/{written.name}_weights.h": written.weights_header,
        **{f"src/{name}": text for name, text in written.headers.items()},
    }


def c_files_in(files: Iterable[str], folder: str) -> list[str]:
    """Return the paths of C files, without headers, in one of the folders of a library."""
    return [path for path in paths_in(files, folder) if path.endswith(".c")]


def paths_in(files: Iterable[str], folder: str) -> list[str]:
    """Return the paths of files in one of the folders of a library."""
    return [path for path in files if path.startswith(f"{folder}/")]


@public
def write_library(
    model: Model,
    plan: StreamingPlan,
    folder: str | PathLike[str],
    *,
    name: str | None = None,
    frames: Sequence[Frame] | None = None,
    kernels: str = OWN,
    scratch: ScratchLimit = ANY,
    target: str | None = None,
    package: Package = PLAIN,
) -> Library:
    """Write a C library that executes a plan into a folder, and return it; see library().

    The folder is created if it does not exist. Raises UnwritableFile, before anything is written, for a
    folder that holds files of another kind.
    """
    c_library = library(
        model,
        plan,
        name=name,
        frames=frames,
        kernels=kernels,
        scratch=scratch,
        target=target,
        package=package,
    )
    write_folder(folder, c_library.files)
    return c_library


def write_folder(folder: str | PathLike[str], files: Mapping[str, str]) -> None:
    """Write the files of a program into a folder, which is created if it does not exist.

    Kernel headers of a library of another target, written there before, are deleted. Raises
    UnwritableFile, before anything is written, for a folder that holds files of another kind.
    """
    target = Path(folder)
    _require_own(target, files)
    write_texts({str(target / file): text for file, text in files.items()})
    for path in sorted(target.glob(KERNEL_HEADERS)):  # of another target, written before
        if path.relative_to(target).as_posix() not in files:
            path.unlink()


def replaced_origin(folder: str | PathLike[str], files: Mapping[str, str]) -> str | None:
    """Return the origin of a library that new files replace: its models and target, as text.

    None if the folder has no library with these files, or one of the same origin. Targets are
    compared only if both banners have a target.
    """
    for path in paths_in(files, "include"):
        with suppress(OSError, UnicodeDecodeError):
            before = origin_in(Path(folder, path).read_text(encoding="utf-8"))
            if before and _differ(before, origin_in(files[path])):
                return ", ".join(before)
    return None


def _differ(before: Sequence[str], after: Sequence[str]) -> bool:
    """Whether two origins differ in models, or in targets that both state."""
    models, targets = (
        [[line for line in lines if line.startswith(begin)] for lines in (before, after)]
        for begin in (MODEL_LINE, TARGET_LINE)
    )
    return models[0] != models[1] or (all(targets) and targets[0] != targets[1])


def _require_own(folder: Path, files: Mapping[str, str]) -> None:
    """Raise UnwritableFile for a folder with anything that the library would not replace."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise UnwritableFile(f"{folder}: is a file; expected a folder")
    folders = {parent for path in files for parent in PurePath(path).parents}
    files_allowed = {*MAKEFILE_PATHS, PROOF, *files, *map(str, folders)}
    files_allowed |= {path.relative_to(folder).as_posix() for path in folder.glob(KERNEL_HEADERS)}
    files_present = (
        file
        for subfolder in folders
        if (folder / subfolder).is_dir()
        for file in (folder / subfolder).iterdir()
    )
    names = (file.relative_to(folder).as_posix() for file in files_present)
    foreign = sorted(name for name in names if name not in files_allowed)
    if foreign:
        raise UnwritableFile(
            f"{folder}: holds {foreign[0]!r}, which is no file of this library; "
            "give a new or empty folder"
        )
