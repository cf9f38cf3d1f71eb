"""Several networks in shared memory: a library for each, which take turns in the same bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike

from cnn2csdf.weights import Model
from csdf.arguments import public
from csdf.errors import InvalidPlan
from planners.code.c_text import identifier
from planners.code.calls.cmsis_nn import ANY, ScratchLimit
from planners.code.frames import Frame, constant_outputs
from planners.code.library import (
    c_files_in,
    frames_of,
    paths_in,
    source_files,
    write_folder,
    written_sources,
)
from planners.code.makefile import MAIN, makefile, target_files
from planners.code.names import require_renamed
from planners.code.packaging import MAKE, PLAIN, Package, package_files, version_macro, with_banners
from planners.code.parts import OWN, source
from planners.code.programs import end_of_main
from planners.code.readme import (
    FOLDERS_IN_WORDS,
    QEMU_IN_WORDS,
    SIZE_IN_WORDS,
    ports_table,
    target_in_words,
)
from planners.code.sources import Written, with_shared_kernels
from planners.code.vectors import shared_test, test_parameters
from planners.memory.several_networks import require_same_memories
from planners.plan.checker import require_apart
from planners.plan.plan import StreamingPlan


@public
@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A network among several, with its plan. frames: inputs for the test program, by layer name."""

    model: Model
    plan: StreamingPlan
    name: str | None = None
    frames: Sequence[Frame] | None = None
    scratch: ScratchLimit = ANY  # for CMSIS-NN


@dataclass(frozen=True, slots=True, kw_only=True)
class Libraries:
    """Libraries that execute sequentially in one arena, of the bytes that the largest needs."""

    name: str
    members: tuple[Written, ...]
    arena_bytes: int
    files: Mapping[str, str]
    constant_outputs: tuple[str, ...] = ()  # as of Library, after the name of the network

    @property
    def weight_bytes(self) -> int:
        """Bytes of parameters, of all networks."""
        return sum(member.weight_bytes for member in self.members)


def combined_libraries(
    members: Sequence[Member],
    *,
    name: str = "networks",
    kernels: str = OWN,
    target: str | None = None,
    package: Package = PLAIN,
) -> Libraries:
    """Return a library for each network, and a program that executes them sequentially in one arena.

    kernels, target, package: as of library().

    Whole frames may be executed in any order: between two frames a network has no data in the arena,
    except a state in separate bytes (planners.with_states_apart). Raises the exceptions of library(),
    and InvalidPlan without a network, or if a state shares bytes with another network.
    """
    if not members:
        raise InvalidPlan("no network to write")
    require_same_memories([member.plan for member in members])
    require_apart([member.plan for member in members])
    layers = [layer.name for member in members for layer in member.model.network.layers]
    require_renamed(layers, package.renamed)
    package = replace(package, target=target)
    taken = [identifier(name)]
    libraries: list[Written] = []
    files: dict[str, str] = {}
    constant: tuple[str, ...] = ()
    for member in members:
        taken.append(_apart(member.name or member.model.network.name, taken))
        written = written_sources(
            member.model, member.plan, taken[-1], kernels, member.scratch, package
        )
        libraries.append(written)
        vectors = frames_of(member.model, member.plan, member.frames)
        files[f"test/{written.name}_test.c"] = shared_test(written, vectors)
        constant += tuple(f"{written.name}: {output}" for output in constant_outputs(vectors))
    libraries = list(with_shared_kernels(libraries, target))
    for written in libraries:
        files |= source_files(written)
    arena = max(member.plan.arena_bytes for member in members)
    files |= {
        f"include/{taken[0]}.h": _header(taken[0], libraries, arena, package.version),
        MAIN: _main(taken[0], libraries),
    }
    headers, tests = (paths_in(files, subfolder) for subfolder in ("include", "test"))
    sources = c_files_in(files, "src")
    about = f"{len(libraries)} neural networks in {_shared(libraries[0])}"
    if MAKE in package.projects:
        files |= target_files()
        files["Makefile"] = makefile(
            sources, tests, arrays=libraries[0].arrays, cmsis_nn=kernels != OWN, target=target
        )
    files |= package_files(
        taken[0], about, headers, sources, tests, package=package, cmsis_nn=kernels != OWN
    )
    files["README.md"] = _readme(taken[0], members, libraries, arena, target)
    return Libraries(
        name=taken[0],
        members=tuple(libraries),
        arena_bytes=arena,
        files=with_banners(files, package),
        constant_outputs=constant,
    )


def _apart(name: str, taken: Sequence[str]) -> str:
    """An identifier that is no prefix of a taken identifier, up to an underscore, and vice versa.

    Symbols of a library are `name_symbol`, so `a` and `a_b` could have the same symbols.
    """
    free_name, number = identifier(name), 2
    while any(
        f"{taken_name}_".startswith(f"{free_name}_") or f"{free_name}_".startswith(f"{taken_name}_")
        for taken_name in taken
    ):
        free_name, number = f"n{number}_{identifier(name)}", number + 1
    return free_name


@public
def write_libraries(
    members: Sequence[Member],
    folder: str | PathLike[str],
    *,
    name: str = "networks",
    kernels: str = OWN,
    target: str | None = None,
    package: Package = PLAIN,
) -> Libraries:
    """Write libraries that take turns in one arena into a folder, and return them.

    Arguments are those of combined_libraries().

    Raises UnwritableFile, before anything is written, for a folder that holds files of another kind.
    """
    libraries = combined_libraries(
        members, name=name, kernels=kernels, target=target, package=package
    )
    write_folder(folder, libraries.files)
    return libraries


def _header(name: str, members: Sequence[Written], arena: int, version: str) -> str:
    capitals = name.upper()
    included = "\n".join(f'#include "{member.name}.h"' for member in members)
    unions = "\n\n".join(
        f"""/* {"The arena" if word == "arena" else f"Memory {word}"}, as each network takes it. \
A frame of one overwrites the results of the others. */
typedef union {{
{_elements(members, number)}
}} {name}_{word};"""
        for number, word in enumerate(members[0].memories)
    )
    return f"""/* {len(members)} networks that take turns in an arena of {arena} bytes. */
#ifndef {capitals}_H
#define {capitals}_H

{included}

{version_macro(name, version)}
#define {capitals}_ARENA_BYTES {arena}

{unions}

#endif
"""


def _shared(library: Written) -> str:
    """Return words for the memory that the networks share: an arena, or several memories."""
    memories = library.memories
    return "one arena" if len(memories) == 1 else f"the memories {', '.join(memories)}"


def _elements(members: Sequence[Written], number: int) -> str:
    """Return C for the elements of a memory, by its number, as each network counts them."""
    return "\n".join(
        f"    {member.name}_element {member.name}"
        f"[{member.capitals}_{member.memories[number].upper()}_ELEMENTS];"
        for member in members
    )


def _main(name: str, members: Sequence[Written]) -> str:
    declared = "\n".join(
        f"int {member.name}_test({test_parameters(member)});" for member in members
    )
    states = " + ".join(f"sizeof({member.name}_state)" for member in members)
    turns = "\n".join(
        f"        failed |= {member.name}_test"
        f"({', '.join(f'{array}.{member.name}' for array in member.arrays)}) != 0;"
        for member in members
    )
    about = f"Runs {len(members)} networks in turn in {_shared(members[0])}, twice"
    return f"""/* {about}, and compares outputs. */
#include "{name}.h"

{declared}

{source("say.c")}
{_declared(name, members[0])}

int main(void)
{{
    int failed = 0, turn;
    for (turn = 0; turn < 2; turn++) {{
{turns}
    }}
{end_of_main(name, "outputs differ", "outputs equal", f"{name.upper()}_ARENA_BYTES", f"({states})")}"""


def _declared(name: str, first: Written) -> str:
    """Return C for the memories of all networks, the slow one in its section."""
    return "\n".join(
        f"static {name}_{word} {array}"
        + (f" {first.capitals}_IN_{word.upper()};" if number else ";")
        for number, (word, array) in enumerate(zip(first.memories, first.arrays, strict=True))
    )


def _calls(library: Written) -> str:
    """Return the C that executes a frame of a library."""
    memories = ", ".join(
        f"{array}.{library.name}, sizeof {array}.{library.name}" for array in library.arrays
    )
    ports = ", ".join(port.parameter for port in (*library.inputs, *library.outputs))
    name, verb = library.name, library.verb
    return f"""
static {name}_state state_of_{name};
{name}_init(&state_of_{name}, {memories}); /* once */
{name}_{verb}(&state_of_{name}, {ports});
"""


def _readme(
    name: str,
    members: Sequence[Member],
    libraries: Sequence[Written],
    arena: int,
    target: str | None,
) -> str:
    rows = "\n".join(
        f"| {written.name} | {member.plan.arena_bytes:,} | {written.state_bytes} "
        f"| {written.weight_bytes:,} | {member.plan.multiply_accumulates:,} |"
        for member, written in zip(members, libraries, strict=True)
    )
    calls = "".join(map(_calls, libraries))
    keeping = [written.name for written in libraries if written.keeps_state]
    stays = (
        f"""
The state of {", ".join(keeping)} between frames has bytes of its own in the arena: write nothing else
there. `NAME_reset`, `NAME_save` and `NAME_restore` are in the headers.
"""
        if keeping
        else ""
    )
    return f"""# {name}: {len(libraries)} neural networks in an arena of {arena:,} bytes

| network | arena, alone | state, at most | weights | multiply-accumulates/frame |
|---|---|---|---|---|
{rows}

{ports_table([(member.model, written) for member, written in zip(members, libraries, strict=True)])}

{target_in_words(target)}

The networks take turns in {_shared(libraries[0])}, {arena:,} bytes, a whole frame at a time, in any
order:

```c
#include "{name}.h"

{_declared(name, libraries[0])}
{calls}```
{stays}
- Types, shapes, scales and zero points are macros in the header of each network. Where it has integers,
  its `NAME_quantize_input` and `NAME_dequantize_output` convert from and to real numbers.
{FOLDERS_IN_WORDS}\
- `make test` runs the test vectors here, the networks in turn, and ends with 0 when the outputs are
  equal.
{QEMU_IN_WORDS}{SIZE_IN_WORDS}"""
