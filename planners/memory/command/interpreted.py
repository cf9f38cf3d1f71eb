"""The arena of TensorFlow Lite Micro for the file of a question, with each library of kernels."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from importlib import import_module
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from csdf.cli.answers import Detail
from csdf.io.files import read_bytes
from csdf.time_limit import Stop
from planners.arena.allocation import plan_arena

if TYPE_CHECKING:
    from planners.formats.kernel_libraries import KernelLibrary
    from planners.formats.tflite_micro_arena import InterpreterArena

STEPS = 200  # of the search for an interpreter's arena; the plans of 17 files tried took less


def interpreters_of(source: str, options: argparse.Namespace) -> tuple[list[str], dict[str, Any]]:
    """Return lines on the arena of a file and the operators to register, and the same for JSON.

    The reference kernels are first, then the libraries, which --json and --explain show. Both values
    are empty for other files, and if the question is about other element types or a loaded plan.
    """
    is_other = not source.lower().endswith(".tflite") or options.is_element_given
    if is_other or options.plan is not None or options.hop is not None:
        return [], {}
    content, name = read_bytes(source), PurePath(source).stem
    arena, head = _planned(content, name, None)
    lines = [f"  TFLM     {arena.in_words(head)}", f"  TFLM     {arena.resolver_in_words()}"]
    reference, documents = arena.to_json(head), []
    libraries: Sequence[KernelLibrary] = ()
    if options.json or options.explain:
        libraries = import_module("planners.formats.kernel_libraries").LIBRARIES
    for library in libraries:
        arena, head = _planned(content, name, library)
        guesses = f"; a guess for {', '.join(arena.not_known)}" if arena.not_known else ""
        words = (
            f"arena of {arena.size(head)} bytes with {library}, scratch {arena.scratch}{guesses}"
        )
        lines.append(Detail(f"  TFLM     {words}"))
        document = arena.to_json(head)
        del document["register"]
        names = {"name": library.name, "version": library.version, "build": library.build}
        documents.append(names | document | {"scratch_bytes": arena.scratch})
    return lines, {"interpreter": reference | {"libraries": documents}}


def _planned(
    content: bytes, name: str, library: KernelLibrary | None
) -> tuple[InterpreterArena, int]:
    """Return the arena of a file, and the bytes of its tensors and scratch, as the interpreter does.

    Offsets are searched unless a size is a guess. library: of kernels; None: the reference's.
    """
    formats = import_module("planners.formats.tflite_micro_arena")  # slow to import
    arena: InterpreterArena = formats.interpreter_arena(content, name, formats.DEVICE, library)
    if arena.not_known:
        return arena, arena.head(arena.placed({}))
    return arena, arena.settled(plan_arena(arena.problem, budget=Stop(steps=STEPS))).peak
