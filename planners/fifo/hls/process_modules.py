"""Module of the synthesis report for each process of a trace, by name and by loop counts.

Vitis HLS names a module after its function. A template `add<40>` is the module `add_40_s`: each run of
other characters becomes one underscore, and the closing bracket becomes `s`. A loop of the region is
the module `Loop_<label>_proc`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from csdf.errors import InvalidGraph
from planners.fifo.hls.synthesis_report import SynthesisReport
from planners.fifo.hls.trace import LoopExecution, Trace, TracedProcess

PIPELINE = "_Pipeline_"  # between the module of a process and the label of a loop of its own
Member = tuple[int, TracedProcess]  # the number of a traced process, and the process
Members = tuple[Member, ...]  # traced processes that are one process of the design


class _Group(NamedTuple):
    """Traced processes that Vitis joined, and the modules that fit the first, the best first."""

    members: list[Member]
    modules: tuple[str, ...]


def modules_of_processes(
    trace: Trace, report: SynthesisReport
) -> Iterator[tuple[Members, tuple[str, ...]]]:
    """Yield the processes of the design, each with the modules that its name fits, the best first.

    Loops that Vitis joins are one process. Raises InvalidGraph for a process without a module.
    """
    groups: list[_Group] = []
    for number, process in enumerate(trace.processes):
        modules = _modules(process, trace, report)
        if modules:
            groups.append(_Group([(number, process)], modules))
        elif _is_loop(process) and groups and _is_joined(process, groups[-1], report):
            groups[-1].members.append((number, process))
        else:
            raise InvalidGraph(
                f"{report.file}: no module for process {process.name!r} ({trace.file}:{process.line}); "
                f"it has {shortened(list(report.loops))}. Is it the report of another design, or is "
                "--top another one?"
            )
    for members, modules in groups:
        yield tuple(members), modules


def is_of_module(module: str, own: str) -> bool:
    """Whether a module of the report is the module `own` of a process, or a part of it."""
    instance = own.removesuffix("_s")
    return (
        module == own
        or module.startswith(f"{own}_")
        or (instance != own and module.startswith(f"{instance}{PIPELINE}"))
    )


def shortened(names: Sequence[str]) -> str:
    """Return at most four names, and how many more there are."""
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")


def _modules(process: TracedProcess, trace: Trace, report: SynthesisReport) -> tuple[str, ...]:
    """Return the modules whose name fits a process: an exact name, a template, a call, or a loop."""
    if process.name in report.loops:
        return (process.name,)
    template, opening, arguments = process.name.partition("<")
    if opening:
        template = template.rpartition("::")[2]
        instance = re.sub(r"\W+", "_", f"{template}<{arguments}").rstrip("_")
        return _matching(rf"{re.escape(instance)}(?:_s)?", report) or _matching(
            rf"(?:.*_)?{re.escape(template)}(?:_.*)?", report
        )
    name = re.escape(process.name)
    pattern = rf"(?:{re.escape(trace.top)}_)?{name}(?:_.*)?"
    if _is_loop(process):
        pattern = rf"(?:.*_)?Loop_{_loop_name(process)}_proc\d*"
    return _matching(pattern, report)


def _matching(pattern: str, report: SynthesisReport) -> tuple[str, ...]:
    """Return the modules that a pattern matches, the shortest first.

    If only loops of a module are reported, the module is the prefix of their names.
    """
    whole = [name for name in report.loops if PIPELINE not in name]
    matching = sorted((name for name in whole if re.fullmatch(pattern, name)), key=len)
    if not matching:
        stems = dict.fromkeys(name.split(PIPELINE)[0] for name in report.loops if PIPELINE in name)
        matching = [stem for stem in stems if re.fullmatch(pattern, stem)]
    return tuple(matching)


def _is_loop(process: TracedProcess) -> bool:
    """Whether a process is a loop of the region, not a call."""
    first = process.body[0] if len(process.body) == 1 else None
    return isinstance(first, LoopExecution) and first.line == process.line


def _loop_name(process: TracedProcess) -> str:
    """The pattern of the name that a report gives the loop of a process."""
    first = process.body[0]
    label = first.label if isinstance(first, LoopExecution) else ""
    return re.escape(label) if label else rf"VITIS_LOOP_{process.line}_\d+"


def _is_joined(process: TracedProcess, group: _Group, report: SynthesisReport) -> bool:
    """Whether the module of a group of loops contains the loop of this process, too."""
    _, first = group.members[0]
    return _is_loop(first) and any(
        re.match(rf"{_loop_name(process)}(_|$)", loop.tag)
        for name, loops in report.loops.items()
        if name == group.modules[0] or name.startswith(f"{group.modules[0]}{PIPELINE}")
        for loop in loops
    )
