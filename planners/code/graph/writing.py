"""A graph as a C program for one processor: all its files, made in memory, then written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike

from csdf.names import quoted
from planners.code.building import makefile, target_files
from planners.code.graph.faces import header, main_program, stubs
from planners.code.graph.looped import in_words
from planners.code.graph.planning import PlannedGraph
from planners.code.graph.program import GraphProgram
from planners.code.library import write_folder

LONGEST = 4000  # characters of a schedule in README.md


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenGraph:
    """A program for a graph: its texts by file name, and the bytes of its state at most."""

    name: str
    planned: PlannedGraph
    files: Mapping[str, str]
    state_bytes: int


def graph_program(planned: PlannedGraph, *, name: str | None = None) -> WrittenGraph:
    """Return a C program that carries out a planned graph.

    name: what functions and files are named after, made an identifier; the graph's by default.
    """
    texts = GraphProgram(planned, name or planned.graph.name)
    sources = (f"{texts.name}.c", f"{texts.name}_stubs.c")
    return WrittenGraph(
        name=texts.name,
        planned=planned,
        state_bytes=texts.state_bytes,
        files={
            f"{texts.name}.h": header(texts),
            f"{texts.name}.c": texts.source(),
            f"{texts.name}_stubs.c": stubs(texts),
            "main.c": main_program(texts),
            **target_files(),
            "Makefile": makefile(texts.name, sources),
            "README.md": _readme(planned, texts),
        },
    )


def write_graph_program(
    planned: PlannedGraph, folder: str | PathLike[str], *, name: str | None = None
) -> WrittenGraph:
    """Write the program of a planned graph into a folder, and return it; see graph_program().

    Raises UnwritableFile, before anything is written, for a folder that holds files of another kind.
    """
    found = graph_program(planned, name=name)
    write_folder(folder, found.files)
    return found


def _readme(planned: PlannedGraph, texts: GraphProgram) -> str:
    name, capitals = texts.name, texts.capitals
    words = quoted(in_words(planned.schedule))
    shown = words if len(words) <= LONGEST else f"{words[:LONGEST]} ..."
    rows = "\n".join(
        f"| {quoted(ring.channel).replace('|', '/')} | {ring.capacity} | {ring.token_bytes} "
        f"| {ring.offset} |"
        for ring in planned.rings
    )
    return f"""# {name}: a dataflow graph on one processor, in {planned.arena_bytes:,} bytes

| what | how much |
|---|---|
| RAM: arena | {planned.arena_bytes:,} bytes |
| RAM: state | at most {texts.state_bytes} bytes |
| firings an iteration | {planned.firings:,} |

An iteration, where `(3 a b)` is three times `a b`, and of `{{2 a 3 b}}` always the first fires that
can:

    {shown}

| channel | tokens | bytes each | offset |
|---|---|---|---|
{rows}

Fill in a function for each actor, declared in `{name}.h`, in a file of your own; it replaces the one
in `{name}_stubs.c`, which does nothing. `{name}_token(&ports[0], 2)` is the address of the third
token of the first port; ports are the inputs of an actor, then its outputs.

```c
static uint64_t arena[{capitals}_ARENA_WORDS];
static {name}_state state;

{name}_init(&state, arena, NULL);
{name}_iterate(&state);
```

- `make test` runs three iterations here, and checks that each leaves the channels as they were.
- `make qemu` and `make qemu-m55` do so on an emulated Cortex-M4 and Cortex-M55 (they need
  `arm-none-eabi-gcc` and `qemu-system-arm`).
- `make size` prints flash and static RAM, cross-compiled for a Cortex-M4.
"""
