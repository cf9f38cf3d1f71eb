"""Networks for `csdf plan arena`. Only networks load this module and the readers of networks."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import PurePath
from typing import Any

from cnn2csdf.commands.cnn import chosen
from csdf.cli.frame.long_work import stop_after
from csdf.errors import CsdfError, UnsupportedOperator
from csdf.io.files import read_bytes
from planners.arena.checker import check_plan
from planners.arena.problem import MemoryPlan, Problem
from planners.formats.tflite_micro import offline_plan
from planners.formats.tflite_micro_arena import interpreter_arena
from planners.formats.tflite_offline_plan import with_offline_plan
from planners.memory.command.beside import as_json, fit_beside, in_words
from planners.memory.plain_plans import whole_tensors


class AskedNetwork:
    """The network of the options, as a problem of whole tensors."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._network = chosen.read(options).network
        self.problem: Problem = whole_tensors(self._network, element_bytes=options.element_bytes)

    def fit(self) -> tuple[str, dict[str, Any] | None] | None:
        """Return the answer of csdf fit within the capacity, in words and as JSON, if there is one."""
        options = self._options
        stop, size = stop_after(options.time_limit), options.element_bytes
        comparison = fit_beside([self._network], stop, ram=options.capacity, element_bytes=size)
        return None if comparison is None else (in_words(comparison), as_json(comparison))


class AskedFile:
    """A TensorFlow Lite file as its interpreter for microcontrollers allocates it, to be written."""

    def __init__(self, options: argparse.Namespace) -> None:
        if not options.model.lower().endswith(".tflite"):
            raise CsdfError(
                f"{options.output} carries a plan for a .tflite file; found {options.model}"
            )
        if options.is_element_given:
            raise CsdfError("a .tflite file has its own types; leave out --element-bytes")
        self._content, self._name = read_bytes(options.model), options.model
        self._arena = interpreter_arena(self._content, PurePath(options.model).stem)
        if self._arena.not_known:
            kinds = ", ".join(self._arena.not_known)
            raise UnsupportedOperator(
                f"{options.model}: the scratch of {kinds} is not known, so a plan might make the arena "
                "larger; the interpreter plans such a file by itself"
            )
        self.problem: Problem = self._arena.problem

    def settled(self, plan: MemoryPlan) -> MemoryPlan:
        """Return the plan with scratch at the offsets of the interpreter, checked."""
        settled = self._arena.settled(plan)
        if settled.has_offsets:
            check_plan(settled)
        return settled

    def written(self, plan: MemoryPlan) -> bytes:
        """Return the file with the offsets of its tensors."""
        tensors = self.problem.part(
            (b for b in self.problem.buffers if b.name.isdigit()), self._name
        )
        offsets = {buffer.name: plan.offsets[buffer.name] for buffer in tensors.buffers}
        of_tensors = replace(plan, problem=tensors, offsets=offsets)
        return with_offline_plan(
            self._content, offline_plan(of_tensors, tensors=self._arena.tensors)
        )

    def in_words(self, plan: MemoryPlan) -> str:
        """Return a line on the whole arena of the interpreter."""
        return f"  TFLM       {self._arena.in_words(plan.peak)}"

    def to_json(self, plan: MemoryPlan) -> dict[str, Any]:
        """Return the whole arena of the interpreter as a JSON value."""
        return self._arena.to_json(plan.peak)
