"""Header files of the kernels of a library, by topic and by target machine.

The C file of a network contains its macros, types and tables. The functions that read these tables
are in header files, which all networks in one folder share. For each element type, the inner loops
have one header for each machine and one in portable C. Inner loops are the definitions that differ
between machines, and the definitions between them in the call graph. The definitions that inner
loops call are in the header of arithmetic. The definitions that call inner loops are in the header
of layers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from typing import NamedTuple

from planners.code.c_text import WIDTH, short_lines
from planners.code.layer_descriptor import is_of_reals
from planners.code.machines import (
    NO_SWITCHES,
    Machine,
    Switches,
    Target,
    machines_of,
    specialised,
    words_of,
)
from planners.code.parts import (
    CONVERSIONS,
    REALS,
    SCHEDULER,
    SHARED,
    Definition,
    Place,
    added_sources,
    as_definition,
    as_real,
    closure,
    definitions_of,
    is_structure,
    reachable,
)

FRAME, SCHEDULING = "csdf_kernels.h", "csdf_scheduler.h"
AMONG_INTEGERS = "csdf_float_among_integers.h"
ARITHMETIC = (
    *("elements.c", "narrow_totals.c", "wide_totals.c", "fixed.c", "single.c", "short_scaling.c"),
    *("sums.c", "short_sums.c", "fixed_sums.c", "byte_sums.c", "byte_lanes.c"),
)
INLINED = """/* INLINED: a copy for each kernel that the function calls. */
#if defined(__GNUC__)
#define INLINED __attribute__((always_inline)) inline
#define APART __attribute__((noinline)) /* no stack in the frame of the caller */
#else
#define INLINED
#define APART
#endif"""
LANES = """/* gcc vectorises the sums of adjacent channels; at -O3 it would vectorise the loop around
   them, whose accesses have a stride. */
#if defined(__GNUC__) && !defined(__clang__)
#define BY_LANES __attribute__((optimize("no-tree-loop-vectorize")))
#else
#define BY_LANES
#endif"""
ASSEMBLY = """/* A function in assembly, of which the compiler may assume nothing. */
#if defined(__clang__) || (__GNUC__ < 8)
#define NAKED __attribute__((naked, noinline))
#else
#define NAKED __attribute__((naked, noinline, noclone, noipa))
#endif
#define UNREAD __attribute__((unused))"""
SCHEDULER_TOPIC = """Scheduler of the tables in the C file of the network.

   A frame executes the groups one after another. The stages of a group execute in turns: a firing of
   a stage computes a few rows of its result, and the rows of other stages that it reads have to be
   there before. A tensor between two stages is a line buffer, a ring of as many rows as its readers
   need together. Rows for which the ring has no space yet are written to the staging buffer of the
   group; the next firing reads them there, and then those that are still needed are copied into the
   ring. Nothing is allocated, and no function calls itself.
"""
_INCLUDES = "#include <math.h>\n#include <stddef.h>\n#include <stdint.h>\n#include <string.h>"


@dataclass(frozen=True, slots=True, kw_only=True)
class NeededKernels:
    """The kernels of a network: the names in its tables, and the C files that define these names.

    elements: the element type of the arena, a part of the header names. reals: floating-point kernels
    of a quantised network; conversions: conversions between both types. scheduler: functions that
    the C file of the network calls. switches: macros in conditions of the kernels, such as
    SOME_WEIGHTS_ARE_HALVES, with their values.
    """

    elements: str
    files: tuple[str, ...]
    wanted: frozenset[str]
    scheduler: tuple[str, ...]
    reals: frozenset[str] = frozenset()
    conversions: frozenset[str] = frozenset()
    switches: Switches = NO_SWITCHES


class Build(NamedTuple):
    """Target of the kernels. switches: with the same value in all networks."""

    target: Target
    switches: Switches


class KernelFiles:
    """Header files of the kernels of several networks, and the include lines of each network."""

    def __init__(self, uses: Mapping[str, NeededKernels], target: Target) -> None:
        """uses: the kernels of each network, by the name of its library."""
        shared = frozenset.intersection(*(use.switches for use in uses.values()))
        self._uses, self._build = uses, Build(target, shared)
        self._variants: tuple[Machine | None, ...] = (*machines_of(target), None)
        self.headers: dict[str, str] = {}
        self._included = {name: [f'#include "{FRAME}"'] for name in uses}
        self._add_frame()
        for elements in dict.fromkeys(use.elements for use in uses.values()):
            self._add_layers(elements)
        self._add_reals()
        self._add_scheduler()

    def before_tables(self, name: str) -> str:
        """Return C that includes the kernels of a network; its tables follow."""
        defined = [f"#define FOR_{name.upper()}"] if len(self._uses) > 1 else []
        varying = sorted(self._uses[name].switches - self._build.switches)
        defined += [f"#define {switch} {int(value)}" for switch, value in varying]
        return "\n".join([*defined, *self._included[name]])

    def _add(self, file: str, topic: str, pieces: Iterable[str]) -> None:
        guard = file.upper().replace(".", "_")
        body = "\n\n".join(piece for piece in pieces if piece)
        about = f"/* {topic}\n   A network includes this file after its macros and types. */"
        self.headers[file] = f"{about}\n#ifndef {guard}\n#define {guard}\n\n{body}\n\n#endif\n"

    def _add_frame(self) -> None:
        """Add the header of rows, windows and ranges, which do not depend on the element type."""
        used = {
            name: {place for place in self._reached(use, None) if place.file in SHARED}
            for name, use in self._uses.items()
        }
        pieces = self._definitions(SHARED, used, self._text_for(None))
        self._add(FRAME, "Rows, windows and views of tensors.", [_INCLUDES, INLINED, *pieces])

    def _add_layers(self, elements: str) -> None:
        """Add the headers of one element type: arithmetic, inner loops, layers."""
        uses = {name: use for name, use in self._uses.items() if use.elements == elements}
        files = next(iter(uses.values())).files
        reached = {
            machine: {name: self._reached(use, machine) for name, use in uses.items()}
            for machine in self._variants
        }
        on_any = {name: set().union(*(used[name] for used in reached.values())) for name in uses}
        layers_of = _layers_of(reached, self._build)
        includes: dict[str, list[str]] = {}
        for topic, places in (("arithmetic", layers_of.below), ("layers", layers_of.above)):
            file = f"csdf_{elements}_{topic}.h"
            head = [LANES] if file == "csdf_float_layers.h" else []
            used = {name: on_any[name] & places for name in uses}
            if places:
                pieces = self._definitions(files, used, self._text_for(None))
                self._add(file, f"{topic.capitalize()} of {elements}.", [*head, *pieces])
            includes[topic] = [f'#include "{file}"'] if places else []
        machines = self._add_machines(elements, files, reached, layers_of.inner)
        for name in uses:
            self._included[name] += [*includes["arithmetic"], *machines, *includes["layers"]]

    def _add_machines(
        self, elements: str, files: Sequence[str], reached: Reached, inner: set[Place]
    ) -> list[str]:
        """Add a header of inner loops for each machine; return the conditional include lines."""
        if not inner:
            return []
        lines: list[str] = []
        for machine in self._variants:
            used = {name: places & inner for name, places in reached[machine].items()}
            pieces = list(self._definitions(files, used, self._text_for(machine)))
            file = f"csdf_{elements}_{'portable' if machine is None else machine.name}.h"
            if machine is None:
                topic = f"Inner loops of {elements} in portable C."
                lines.append("#else" if lines else "")
            else:
                topic = f"Inner loops of {elements} with {machine.instructions}."
                condition = f"{'#elif' if lines else '#if'} {machine.condition}"
                if len(condition) > WIDTH:
                    condition = condition.replace(" && ", " && \\\n    ")
                lines.append(condition)
                included = [f"#include <{header}>" for header in machine.headers]
                pieces = [*included, *([ASSEMBLY] if machine.has_assembly else []), *pieces]
            self._add(file, topic, pieces)
            lines.append(f'#include "{file}"')
        return [*lines, "#endif"]

    def _add_reals(self) -> None:
        """Add the header of floating-point kernels in quantised networks."""
        used: dict[str, set[Place]] = {}
        files = (*REALS, *added_sources(), *CONVERSIONS)
        parts = _parts(files, self._build, None)
        conversions = _parts(CONVERSIONS, self._build, None)
        for name, use in self._uses.items():
            if use.reals:
                places = {part for part in reachable(use.reals, parts) if is_of_reals(parts[part])}
                used[name] = places | reachable(use.conversions, conversions)
                self._included[name].append(f'#include "{AMONG_INTEGERS}"')

        def text_of(place: Place) -> str:
            return short_lines(as_real(parts[place].text))

        if pieces := list(self._definitions(files, used, text_of)):
            self._add(AMONG_INTEGERS, "Layers of real numbers among integers.", [LANES, *pieces])

    def _add_scheduler(self) -> None:
        used = {
            name: reachable(use.scheduler, self._parts_of(use, SCHEDULER, None))
            for name, use in self._uses.items()
        }
        pieces = self._definitions(SCHEDULER, used, self._text_for(None))
        self._add(SCHEDULING, SCHEDULER_TOPIC, pieces)

    def _reached(self, use: NeededKernels, machine: Machine | None) -> set[Place]:
        """The definitions that a network uses on a machine."""
        return reachable(use.wanted, self._parts_of(use, use.files, machine))

    def _parts_of(
        self, use: NeededKernels, files: tuple[str, ...], machine: Machine | None
    ) -> Mapping[Place, Definition]:
        """The definitions of C files with the switches of a network."""
        return _parts(files, Build(self._build.target, use.switches), machine)

    def _text_for(self, machine: Machine | None) -> Callable[[Place], str]:
        """The text of a definition on a machine, which all networks share."""
        return lambda place: _part_of(place, self._build, machine).text

    def _definitions(
        self,
        files: Sequence[str],
        used: Mapping[str, set[Place]],
        text_of: Callable[[Place], str],
    ) -> Iterator[str]:
        """Yield definitions of C files, each after its dependencies.

        used: the definitions that each network uses; `#if` encloses those that not all networks use.
        """
        rank = {file: number for number, file in enumerate(files)}
        places = sorted(
            set().union(*used.values()), key=lambda place: (rank[place.file], place.number)
        )
        users = {place: sorted(name for name in used if place in used[name]) for place in places}
        for names, group in groupby(places, key=users.__getitem__):
            texts = map(text_of, group)
            if len(names) == len(self._uses):
                yield from texts
            else:
                condition = " || ".join(f"defined(FOR_{name.upper()})" for name in names)
                yield "\n\n".join([f"#if {condition}", *texts, "#endif"])


Reached = Mapping[Machine | None, Mapping[str, set[Place]]]  # by machine (None: portable), network


class _Layers(NamedTuple):
    """The definitions of one element type, by the header that contains them.

    inner: definitions that differ between machines, and those between them in the call graph.
    below: definitions that inner definitions call, and arithmetic. above: all others.
    """

    below: set[Place]
    inner: set[Place]
    above: set[Place]


def _layers_of(reached: Reached, build: Build) -> _Layers:
    """Divide the definitions that networks use on several machines."""
    used = {
        machine: {place for place in set().union(*by_name.values()) if place.file not in SHARED}
        for machine, by_name in reached.items()
    }
    places = set().union(*used.values())
    callees = [_dependencies(members, build, machine) for machine, members in used.items()]
    callers = [_reversed(edges) for edges in callees]

    def closed(begin: set[Place], graphs: Sequence[Mapping[Place, set[Place]]]) -> set[Place]:
        """Return the definitions that are reached on any machine."""

        def reached(edges: Mapping[Place, set[Place]]) -> set[Place]:
            return closure(begin, lambda place: edges.get(place, ()))

        return set().union(*map(reached, graphs))

    def differs(place: Place) -> bool:
        """Whether the text or the users of a definition differ between machines."""
        variants = {
            (
                _part_of(place, build, machine).text,
                *(name for name, members in by_name.items() if place in members),
            )
            for machine, by_name in reached.items()
        }
        return len(variants) > 1

    dependent = {place for place in places if differs(place)}
    calling = closed(dependent, callers)
    inner = dependent | (calling & closed(dependent, callees))
    arithmetic = {place for place in places - calling if place.file in ARITHMETIC}
    below = closed(inner | arithmetic, callees) - inner
    return _Layers(below, inner, places - inner - below)


@cache
def _variant(file: str, build: Build, machine: Machine | None) -> tuple[Definition | None, ...]:
    """The definitions of a C file for a machine; None for a definition that the machine lacks.

    Structures are specialised for the target, not for the machine: the headers that all machines
    share use them, too.
    """
    parts: list[Definition | None] = []
    words = frozenset() if machine is None else machine.words
    for part in definitions_of(file):
        possible, defined = (
            (words_of(build.target), frozenset[str]()) if is_structure(part) else (words, words)
        )
        text = specialised(part.text, possible, defined, build.switches)
        parts.append(as_definition(text) if text else None)
    return tuple(parts)


@cache
def _parts(
    files: tuple[str, ...], build: Build, machine: Machine | None
) -> Mapping[Place, Definition]:
    """The definitions of several C files for a machine, in order."""
    return {
        Place(file, number): part
        for file in files
        for number, part in enumerate(_variant(file, build, machine))
        if part is not None
    }


def _part_of(place: Place, build: Build, machine: Machine | None) -> Definition:
    part = _variant(place.file, build, machine)[place.number]
    return part or Definition("", frozenset(), frozenset())


def _dependencies(
    places: set[Place], build: Build, machine: Machine | None
) -> dict[Place, set[Place]]:
    """The definitions that each definition refers to."""
    parts = {place: _part_of(place, build, machine) for place in places}
    by_name = {name: place for place, part in parts.items() for name in part.names}
    return {
        place: {by_name[word] for word in part.words if word in by_name} - {place}
        for place, part in parts.items()
    }


def _reversed(needs: Mapping[Place, set[Place]]) -> dict[Place, set[Place]]:
    users: dict[Place, set[Place]] = {}
    for place, needed in needs.items():
        for dependency in needed:
            users.setdefault(dependency, set()).add(place)
    return users
