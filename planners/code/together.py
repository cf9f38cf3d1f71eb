"""Several networks in one arena: a library for each, run one after another in the same bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike

from cnn2csdf.weights import Model
from csdf.errors import InvalidPlan
from planners.code.building import cmake_lists, makefile, target_files
from planners.code.library import frames_of, source_files, write_folder
from planners.code.names import identifier
from planners.code.parts import source
from planners.code.sources import Written, library_sources
from planners.code.vectors import Frame, shared_test
from planners.streaming.plan import StreamingPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A network among several, with its plan. frames: inputs for the test program, by layer name."""

    model: Model
    plan: StreamingPlan
    name: str | None = None
    frames: Sequence[Frame] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Together:
    """Libraries that take turns in one arena, of as many bytes as the largest needs."""

    name: str
    members: tuple[Written, ...]
    arena_bytes: int
    files: Mapping[str, str]

    @property
    def weight_bytes(self) -> int:
        """Bytes of trained numbers, of all networks."""
        return sum(one.weight_bytes for one in self.members)


def together(members: Sequence[Member], *, name: str = "networks") -> Together:
    """Return a library for each network, and a program that runs them in turn in one arena.

    A network keeps nothing in the arena between two frames, so that any order of whole frames will
    do. Raises what library() raises, and InvalidPlan for no network.
    """
    if not members:
        raise InvalidPlan("no network to write")
    taken = [identifier(name)]
    found: list[Written] = []
    files: dict[str, str] = {}
    for one in members:
        taken.append(_apart(one.name or one.model.network.name, taken))
        written = library_sources(one.model, one.plan, taken[-1])
        found.append(written)
        files |= source_files(written)
        files[f"{written.name}_test.c"] = shared_test(written, frames_of(one.model, one.frames))
    sources = [name for name in files if name.endswith(".c")]
    library = [name for name in sources if not name.endswith("_test.c")]
    arena = max(one.plan.arena_bytes for one in members)
    return Together(
        name=taken[0],
        members=tuple(found),
        arena_bytes=arena,
        files={
            **files,
            f"{taken[0]}.h": _header(taken[0], found, arena),
            "main.c": _main(taken[0], found),
            **target_files(),
            "Makefile": makefile(taken[0], sources),
            "CMakeLists.txt": cmake_lists(taken[0], library, sources),
            "README.md": _readme(taken[0], members, found, arena),
        },
    )


def _apart(name: str, taken: Sequence[str]) -> str:
    """An identifier that begins none of those taken, nor they it: symbols are name_something."""
    found, number = identifier(name), 2
    while any(
        f"{one}_".startswith(f"{found}_") or f"{found}_".startswith(f"{one}_") for one in taken
    ):
        found, number = f"n{number}_{identifier(name)}", number + 1
    return found


def write_together(
    members: Sequence[Member], folder: str | PathLike[str], *, name: str = "networks"
) -> Together:
    """Write libraries that take turns in one arena into a folder, and return them; see together().

    Raises UnwritableFile, before anything is written, for a folder that holds files of another kind.
    """
    found = together(members, name=name)
    write_folder(folder, found.files)
    return found


def _header(name: str, members: Sequence[Written], arena: int) -> str:
    capitals = name.upper()
    included = "\n".join(f'#include "{one.name}.h"' for one in members)
    union = "\n".join(
        f"    {one.name}_element {one.name}[{one.name.upper()}_ARENA_ELEMENTS];" for one in members
    )
    return f"""/* {len(members)} networks that take turns in {arena} bytes. */
#ifndef {capitals}_H
#define {capitals}_H

{included}

#define {capitals}_ARENA_BYTES {arena}

/* The arena, as each network takes it. A frame of one overwrites the results of the others. */
typedef union {{
{union}
}} {name}_arena;

#endif
"""


def _main(name: str, members: Sequence[Written]) -> str:
    declared = "\n".join(f"int {one.name}_test({one.name}_element *arena);" for one in members)
    states = " + ".join(f"sizeof({one.name}_state)" for one in members)
    turns = "\n".join(f"        failed |= {one.name}_test(arena.{one.name});" for one in members)
    return f"""/* Runs {len(members)} networks in turn in one arena, twice, and compares outputs. */
#include "{name}.h"

{declared}

{source("say.c")}
static {name}_arena arena;

int main(void)
{{
    int failed = 0, turn;
    for (turn = 0; turn < 2; turn++) {{
{turns}
    }}
    say(failed ? "{name}: outputs differ\\n" : "{name}: outputs equal\\n");
    say("arena bytes: ");
    say_number((uint32_t){name.upper()}_ARENA_BYTES);
    say("\\nstate bytes: ");
    say_number((uint32_t)({states}));
#ifdef ON_TARGET
    say("\\nstack bytes: ");
    say_number(stack_bytes());
#endif
    say("\\n");
    return failed;
}}
"""


def _readme(name: str, members: Sequence[Member], found: Sequence[Written], arena: int) -> str:
    rows = "\n".join(
        f"| {written.name} | {one.plan.arena_bytes:,} | {written.state_bytes} "
        f"| {written.weight_bytes:,} | {one.plan.multiply_accumulates:,} |"
        for one, written in zip(members, found, strict=True)
    )
    first = found[0]
    ports = ", ".join(port.parameter for port in (*first.inputs, *first.outputs))
    return f"""# {name}: {len(found)} neural networks in {arena:,} bytes

| network | arena, alone | state, at most | trained numbers | multiply-accumulates a frame |
|---|---|---|---|---|
{rows}

The networks take turns in one arena of {arena:,} bytes, a whole frame at a time, in any order:

```c
#include "{name}.h"

static {name}_arena arena;
static {first.name}_state state; /* of each network one */

{first.name}_init(&state, arena.{first.name}); /* once */
{first.name}_run(&state, {ports});
```

- `make test` runs the test vectors here, the networks in turn, and ends with 0 when the outputs are
  equal.
- `make qemu` and `make qemu-m55` do so on an emulated Cortex-M4 and Cortex-M55 (they need
  `arm-none-eabi-gcc` and `qemu-system-arm`).
- `make size` prints flash and static RAM of the libraries, cross-compiled for a Cortex-M4.
"""
