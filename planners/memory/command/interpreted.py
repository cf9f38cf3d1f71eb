"""The arena of TensorFlow Lite Micro for the file of a question, with each library of kernels."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedInterpreter:
    """An arena and the bytes of its tensors and scratch. library: of kernels; None: the reference's."""

    library: KernelLibrary | None
    arena: InterpreterArena
    head: int

    def in_words(self) -> str:
        """Return the arena with a library in one line."""
        text = f"arena of {self.arena.size(self.head)} bytes with {self.library}"
        text += f", scratch {self.arena.scratch}"
        guesses = ", ".join(self.arena.not_known)
        return text + (f"; a guess for {guesses}" if guesses else "")

    def to_json(self) -> dict[str, Any]:
        """Return the arena and its parts, with the name of the library where it has one."""
        document = self.arena.to_json(self.head)
        if self.library is None:
            return document
        del document["register"]
        library = self.library
        names = {"name": library.name, "version": library.version, "build": library.build}
        return names | document | {"scratch_bytes": self.arena.scratch}


def interpreters_of(source: str, options: argparse.Namespace) -> list[PlannedInterpreter]:
    """Return the arena of a file with the reference kernels, then those that the output shows.

    Empty for other files, and if the question is about other element types or a loaded plan.
    """
    is_other = not source.lower().endswith(".tflite") or options.is_element_given
    if is_other or options.plan is not None or options.hop is not None:
        return []
    content, name = read_bytes(source), PurePath(source).stem
    libraries: Sequence[KernelLibrary] = ()
    if options.json or options.explain:
        libraries = import_module("planners.formats.kernel_libraries").LIBRARIES
    return [_planned(content, name, library) for library in (None, *libraries)]


def _planned(content: bytes, name: str, library: KernelLibrary | None) -> PlannedInterpreter:
    """Plan the arena of a file; as the interpreter does where a size of it is a guess."""
    formats = import_module("planners.formats.tflite_micro_arena")  # slow to import
    arena: InterpreterArena = formats.interpreter_arena(content, name, formats.DEVICE, library)
    head = (
        arena.head(arena.placed({}))
        if arena.not_known
        else arena.settled(plan_arena(arena.problem, budget=Stop(steps=STEPS))).peak
    )
    return PlannedInterpreter(library=library, arena=arena, head=head)


def interpreters_in_words(planned: Sequence[PlannedInterpreter]) -> Iterator[str]:
    """Yield lines on the arena and on the operators to register; with libraries for --explain."""
    for number, interpreter in enumerate(planned):
        if number:
            yield Detail(f"  TFLM     {interpreter.in_words()}")
        else:
            yield f"  TFLM     {interpreter.arena.in_words(interpreter.head)}"
            yield f"  TFLM     {interpreter.arena.resolver_in_words()}"


def interpreters_as_json(planned: Sequence[PlannedInterpreter]) -> dict[str, Any]:
    """Return the key of a network in JSON: the arena of the reference kernels, and of libraries."""
    if not planned:
        return {}
    reference, *libraries = (interpreter.to_json() for interpreter in planned)
    return {"interpreter": reference | {"libraries": libraries}}
