"""A graph as a C program: tables of channels and actors, and the schedule of one processor as loops.

It returns all files as text: source, header, stubs to fill in, main program, README.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike

from csdf.errors import counted
from csdf.model.graph import Channel, Graph
from csdf.names import quoted
from planners.code.c_text import (
    header_file,
    identifier,
    initialiser,
    table_row,
    unlike,
    unlike_each,
    wrapped,
)
from planners.code.graph.looped import Fire, Interleaved, LoopedBody, Node, in_words, leaves
from planners.code.graph.planning import PlannedGraph
from planners.code.graph.storage import CircularBuffer, arena_bytes
from planners.code.initialisers import structures_of
from planners.code.library import write_folder
from planners.code.makefile import MAIN, makefile, target_files
from planners.code.packaging import PLAIN, Package, with_banners
from planners.code.parts import comment, mentioned, source, used
from planners.code.programs import end_of_main
from planners.code.readme import QEMU_IN_WORDS, SIZE_IN_WORDS

STRUCTURES = ("channels.c", "cores.c")  # C files with the types of the tables


class GraphTexts:
    """Texts that programs for a graph share: names, tables of channels and actors, most files.

    channels, actors: their numbers in C, by name. functions: the C function of each actor.
    definitions: the tables of rates, to which tables of channel ends refer.
    """

    def __init__(self, graph: Graph, rings: Sequence[CircularBuffer], name: str) -> None:
        """Take a graph with a buffer for each channel, and the prefix of its functions."""
        self.graph, self.rings = graph, rings
        self.name = identifier(name)
        self.capitals = self.name.upper()
        self.arena_bytes = arena_bytes(rings)
        self.channels = {channel.name: number for number, channel in enumerate(graph.channels)}
        self.actors = {actor.name: number for number, actor in enumerate(graph.actors)}
        self.functions = {
            actor: f"{self.name}_fire_{short}" for actor, short in unlike_each(self.actors).items()
        }
        self._arrays: dict[tuple[int, ...], str] = {}
        self.definitions: list[str] = []

    def files(
        self, header: str, text: str, main: str, readme: str, package: Package
    ) -> dict[str, str]:
        """Return all files of the program by name."""
        sources = (f"src/{self.name}.c", f"src/{self.name}_stubs.c")
        files = {
            f"include/{self.name}.h": header,
            f"src/{self.name}.c": text,
            f"src/{self.name}_stubs.c": stubs(self),
            MAIN: main,
            **target_files(),
            "Makefile": makefile(sources),
            "README.md": readme,
        }
        return with_banners(files, package)

    def source_with(
        self,
        wanted: Iterable[str],
        files: Sequence[str],
        *,
        head: str = "",
        defines: str = "",
        tables: Sequence[str] = (),
        functions: Sequence[str] = (),
    ) -> str:
        """Return NAME.c: the wanted definitions of the C files, then tables, then functions."""
        rings = [self.ring(number) for number in range(len(self.channels))]
        ends, actors = self.ends_and_actors()
        parts = used(wanted, files)
        types = [text for text in parts if "typedef struct" in text]
        most = max(len(self.ends(name)) for name in self.actors)
        prologue = f"""{head}#include <stddef.h>
#include <string.h>

#include "{self.name}.h"

typedef {self.name}_state instance;
typedef {self.name}_port port;
typedef void (*firing_function)(void *context, uint32_t phase, const port *ports);

#define CHANNELS {len(self.channels)}
#define MOST_ENDS {max(most, 1)}
{defines}"""
        pieces = [
            prologue.rstrip("\n"),
            *types,
            *self.definitions,
            table("ring", "rings", rings or ["{0, 0, 0, 0, 0, 0, 0},"]),
            table("end", "ends", ends or ["{0, 0, {NULL, 1}, {NULL, 1}},"]),
            table("actor", "actors", actors),
            *tables,
            *(text for text in parts if text not in types),
        ]
        return "\n\n".join([*pieces, *functions]) + "\n"

    def init_with(self, port: str, statements: str = "", variables: str = "") -> str:
        """Return the function that begins. port: C for the initial tokens of channel {0}, {1} many."""
        starts = "".join(
            f"    tokens = {port.format(place, f'{channel.initial_tokens}u')};\n"
            f"    {self.name}_initial_tokens(context, {place}, &tokens);\n"
            for place, channel in enumerate(self.graph.channels)
            if channel.initial_tokens
        )
        return f"""void {self.name}_init(instance *state, uint64_t *arena, void *context)
{{
{variables}{f"    port tokens;{chr(10)}" if starts else ""}    memset(state, 0, sizeof *state);
    memset(arena, 0, {self.capitals}_ARENA_WORDS * sizeof *arena);
    state->arena = (unsigned char *)arena;
    state->context = context;
{statements}{starts}}}"""

    def header_with(
        self, title: str, *, defines: str = "", about: str = "", state: str, functions: str
    ) -> str:
        """Return NAME.h. about: the state, in a comment; state: its fields behind the addresses."""
        name, capitals = self.name, self.capitals
        fired = "\n".join(
            f"{self.signature(actor)}; /* {comment(actor)} */" for actor in self.actors
        )
        head = f"{comment(self.graph.name)}{title}, in an arena of {self.arena_bytes} bytes."
        text = f"""#define {capitals}_ARENA_BYTES {self.arena_bytes}
#define {capitals}_ARENA_WORDS {max(self.arena_bytes // 8, 1)} /* of 64 bits */
{defines}
/* Tokens of a channel that a firing may use: an input that it reads, or an output that
   it fills. Of an input, the last `new_tokens` are new, and those before were kept from earlier
   phases. */
typedef struct {{
    unsigned char *base;
    uint32_t first, capacity, token_bytes, tokens, new_tokens;
}} {name}_port;

/* The address of a token of a port, from 0 on. */
static inline void *{name}_token(const {name}_port *port, uint32_t number)
{{
    uint32_t left = port->capacity - port->first;
    uint32_t place = number < left ? port->first + number : number - left;
    return port->base + (uintptr_t)place * port->token_bytes;
}}

/* The execution state. The fields are private.{about} */
typedef struct {{
    unsigned char *arena;
    void *context;
{state}}} {name}_state;

{functions}
/* For you to fill in: put the initial tokens of a channel. Without it they are zero. */
void {name}_initial_tokens(void *context, int channel, const {name}_port *tokens);

/* For you to fill in: one firing of each actor. Its ports are its inputs, then its outputs. */
{fired}

{constants(self)}"""
        return header_file(name, head, ("stdint.h",), text.removesuffix("\n"))

    def ends(self, actor: str) -> list[tuple[Channel, bool]]:
        """Return the channels of an actor, each with whether it is an output; inputs come first."""
        inputs = [(channel, False) for channel in self.graph.channels if channel.consumer == actor]
        return inputs + [
            (channel, True) for channel in self.graph.channels if channel.producer == actor
        ]

    def signature(self, actor: str) -> str:
        """Return the head of the function of an actor."""
        return (
            f"void {self.functions[actor]}"
            f"(void *context, uint32_t phase, const {self.name}_port *ports)"
        )

    def ring(self, number: int) -> str:
        """Return the initialiser of the buffer of a channel."""
        channel, ring = self.graph.channels[number], self.rings[number]
        return table_row(
            channel.name,
            offset=ring.offset,
            capacity=ring.capacity,
            token_bytes=ring.token_bytes,
            initial_tokens=channel.initial_tokens,
            producer=self.actors[channel.producer],
            consumer=self.actors[channel.consumer],
            is_bounded=channel.capacity is not None and not channel.is_self_loop,
        )

    def ends_and_actors(self) -> tuple[list[str], list[str]]:
        """Return the initialisers of all ends of channels, and of all actors."""
        ends: list[str] = []
        actors = []
        for actor in self.graph.actors:
            ends_of_actor = self.ends(actor.name)
            fire = {"fire": self.functions[actor.name], "phases": actor.phases}
            actors.append(table_row(**fire, first_end=len(ends), ends=len(ends_of_actor)))
            for channel, is_output in ends_of_actor:
                moved = channel.production if is_output else channel.consumption
                released = (0,) if is_output else channel.release_rates
                at = {"channel": self.channels[channel.name], "is_output": is_output}
                rates = {"moved": self._rates(moved), "released": self._rates(released)}
                ends.append(table_row(**at, **rates))
        return ends, actors

    def _rates(self, rates: Sequence[int]) -> str:
        """The initialiser of rates, reduced to their shortest period; equal rates share a table."""
        shortest = shortest_round(tuple(rates))
        if shortest not in self._arrays:
            symbol = self._arrays[shortest] = f"rates_{len(self._arrays)}"
            items = wrapped([f"{rate}u" for rate in shortest])
            self.definitions.append(
                f"static const uint32_t {symbol}[{len(shortest)}] = {{\n{items}\n}};"
            )
        return initialiser({"values": self._arrays[shortest], "length": len(shortest)})

    def turn(self, actor: str, firings: int) -> str:
        """Return the initialiser of consecutive firings of an actor."""
        return table_row(actor=self.actors[actor], firings=f"{firings}u")


def table(kind: str, name: str, items: Sequence[str]) -> str:
    """Return a const table of a type, with an entry a line."""
    return structures_of(STRUCTURES).table(kind, name, items)


def shortest_round(rates: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shortest period of rates."""
    for length in range(1, len(rates)):
        if len(rates) % length == 0 and rates == rates[:length] * (len(rates) // length):
            return rates[:length]
    return rates


class _GraphProgram(GraphTexts):
    """The C texts of a planned graph on one processor, under one name."""

    def __init__(self, planned: PlannedGraph, name: str) -> None:
        super().__init__(planned.graph, planned.rings, name)
        self.planned = planned
        self._turns: dict[Interleaved, str] = {}

    @property
    def state_bytes(self) -> int:
        """The size of the state with addresses of 64 bits, the maximum over all targets."""
        counters = 3 * max(len(self.channels), 1) + len(self.actors)
        return -(-(24 + 4 * counters) // 8) * 8

    def source(self) -> str:
        """Return NAME.c."""
        schedule, name = self.planned.schedule, self.name
        lines = list(self._lines(schedule, 0))
        if deepest := _depth(schedule):
            kind = "uint64_t" if _most(schedule) >= 2**32 else "uint32_t"
            lines.insert(0, f"    {kind} {', '.join(f'i{level}' for level in range(deepest))};")
        body = "\n".join(lines)
        iterate = f"void {name}_iterate(instance *state)\n{{\n{body}\n}}"
        turns = [len(leaf.order) for leaf in leaves(schedule) if isinstance(leaf, Interleaved)]
        begin = self.init_with(
            "port_of(state, {0}, 0, {1})",
            """    for (channel = 0; channel != CHANNELS; channel++) {
        state->held[channel] = rings[channel].initial_tokens;
    }
""",
            "    uint32_t channel;\n",
        )
        is_initial = f"""int {name}_is_initial(const instance *state)
{{
    uint32_t number, away = state->faults;
    for (number = 0; number != CHANNELS; number++) {{
        away += state->held[number] != rings[number].initial_tokens;
        away += state->kept[number] != 0;
    }}
    for (number = 0; number < ACTORS; number++) {{
        away += state->phase[number] != 0;
    }}
    return away == 0;
}}"""
        tables = [
            table("turn", symbol, list(map(self.turn, node.order, node.firings)))
            for node, symbol in self._turns.items()
        ]
        return self.source_with(
            {"fire", "port_of"} | mentioned([iterate]),
            ("channels.c", "rings.c"),
            defines=f"#define ACTORS {len(self.actors)}\n#define MOST_TURNS {max(turns, default=1)}",
            functions=[begin, is_initial, *tables, iterate],
        )

    def _lines(self, node: Node, level: int, indent: str = "    ") -> Iterator[str]:
        """Yield C that executes a schedule inside `level` loops."""
        node = _as_loops(node)
        if isinstance(node, Fire):
            yield f"{indent}fire(state, {self.actors[node.actor]}); /* {comment(node.actor)} */"
        elif isinstance(node, Interleaved):
            table = self._turns.setdefault(node, f"turns_{len(self._turns)}")
            yield f"{indent}take_turns(state, {table}, {len(node.order)});"
        elif node.count == 1:
            for inner in node.body:
                yield from self._lines(inner, level, indent)
        else:
            count = f"{node.count}u" if node.count < 2**32 else f"UINT64_C({node.count})"
            yield f"{indent}for (i{level} = 0; i{level} < {count}; i{level}++) {{"
            for inner in node.body:
                yield from self._lines(inner, level + 1, f"{indent}    ")
            yield f"{indent}}}"


def _as_loops(node: Node) -> Node:
    """Return the loops of a data-driven part that has any, and any other node unchanged."""
    return node.written or node if isinstance(node, Interleaved) else node


def _depth(node: Node) -> int:
    """The number of nested loops that C needs a counter for."""
    node = _as_loops(node)
    if not isinstance(node, LoopedBody):
        return 0
    return max(map(_depth, node.body), default=0) + (node.count > 1)


def _most(node: Node) -> int:
    """The largest count of a loop."""
    node = _as_loops(node)
    return max(node.count, *map(_most, node.body)) if isinstance(node, LoopedBody) else 1


LONGEST_IN_README = 4000  # characters of a schedule in README.md
LONGEST = 2000  # characters of a schedule in a comment


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenProgram:
    """A program for a graph: its texts by file name, and the maximum size of its state.

    functions: for each processor, the suffix of its functions, such as `cpu0` in NAME_run_cpu0.
    """

    name: str
    files: Mapping[str, str]
    state_bytes: int
    functions: Mapping[str, str] = field(default_factory=dict)


def graph_program(
    planned: PlannedGraph, *, name: str | None = None, package: Package = PLAIN
) -> WrittenProgram:
    """Return a C program that executes a planned graph.

    name: prefix of functions and files, converted to an identifier; by default the graph's name.
    package: the contents of the file banners.
    """
    texts = _GraphProgram(planned, name or planned.graph.name)
    files = texts.files(
        _header(texts), texts.source(), _main(texts), _readme(planned, texts), package
    )
    return WrittenProgram(name=texts.name, files=files, state_bytes=texts.state_bytes)


def write_graph_program(
    planned: PlannedGraph,
    folder: str | PathLike[str],
    *,
    name: str | None = None,
    package: Package = PLAIN,
) -> WrittenProgram:
    """Write the program of a planned graph into a folder, and return it; see graph_program().

    Raises UnwritableFile, before anything is written, for a folder that holds files of another kind.
    """
    program = graph_program(planned, name=name, package=package)
    write_folder(folder, program.files)
    return program


def _readme(planned: PlannedGraph, texts: _GraphProgram) -> str:
    name, capitals = texts.name, texts.capitals
    words = quoted(in_words(planned.schedule))
    shown = words if len(words) <= LONGEST_IN_README else f"{words[:LONGEST_IN_README]} ..."
    rows = "\n".join(
        f"| {quoted(ring.channel).replace('|', '/')} | {ring.capacity} | {ring.token_bytes} "
        f"| {ring.offset} |"
        for ring in planned.rings
    )
    return f"""# {name}: a dataflow graph on one processor, in an arena of {planned.arena_bytes:,} bytes

| what | how much |
|---|---|
| RAM: arena | {planned.arena_bytes:,} bytes |
| RAM: state | at most {texts.state_bytes} bytes |
| firings per iteration | {planned.firings:,} |

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
{QEMU_IN_WORDS}{SIZE_IN_WORDS}"""


def _header(texts: _GraphProgram) -> str:
    name, capitals, planned = texts.name, texts.capitals, texts.planned
    channels, words = max(len(texts.channels), 1), in_words(planned.schedule)
    return texts.header_with(
        f": {counted(planned.firings, 'firing')} per iteration",
        state=f"""    uint32_t faults;
    uint32_t first[{channels}];
    uint32_t held[{channels}];
    uint32_t kept[{channels}];
    uint32_t phase[{len(texts.actors)}];
""",
        functions=f"""/* Begin with an arena of {capitals}_ARENA_WORDS numbers, all of it zero, and the
   initial tokens in the channels. context: passed on to the functions below. */
void {name}_init({name}_state *state, uint64_t *arena, void *context);

/* One iteration: {comment(words if len(words) <= LONGEST else "as in the source")} */
void {name}_iterate({name}_state *state);

/* Whether all channels hold their initial tokens, and no firing lacked tokens or space. */
int {name}_is_initial(const {name}_state *state);
""",
    )


def constants(texts: GraphTexts) -> str:
    """Numbers of channels, and of the ports of each actor, by names."""
    taken: list[str] = []
    groups = [("Numbers of channels", [f"channel {name}" for name in texts.channels])]
    for actor in texts.graph.actors:
        ends = texts.ends(actor.name)
        names = [
            f"{actor.name} {channel.name} {'out' if is_output else 'in'}"
            for channel, is_output in ends
        ]
        groups.append((f"Ports of {comment(actor.name)}", names))
    pieces = []
    for title, names in groups:
        listed = []
        for name in names:
            taken.append(unlike(name, taken))
            listed.append(f"    {texts.capitals}_{taken[-1].upper()}")
        if listed:
            joined = ",\n".join(listed)
            pieces.append(f"/* {title}. */\nenum {{\n{joined}\n}};\n\n")
    return "".join(pieces)


def stubs(texts: GraphTexts) -> str:
    """Return NAME_stubs.c: functions that a program with functions of its own replaces."""
    pieces = [
        f"""/* What {texts.name} calls, doing nothing. Define these functions in a file of yours:
   this one is written anew with the program. */
#include "{texts.name}.h"

#if defined(__GNUC__) || defined(__clang__)
#define REPLACEABLE __attribute__((weak))
#else
#define REPLACEABLE
#endif

REPLACEABLE void {texts.name}_initial_tokens(void *context, int channel,
                                           const {texts.name}_port *tokens)
{{
    (void)context;
    (void)channel;
    (void)tokens;
}}"""
    ]
    for actor in texts.graph.actors:
        ports = []
        for place, (channel, is_output) in enumerate(texts.ends(actor.name)):
            rates = shortest_round(channel.production if is_output else channel.consumption)
            listed = ", ".join(map(str, rates[:12])) + (", ..." if len(rates) > 12 else "")
            tokens = f"{'puts' if is_output else 'takes'} {listed}"
            size = texts.rings[texts.channels[channel.name]].token_bytes
            ports.append(f"   ports[{place}]: {tokens} of {size} bytes, {comment(channel.name)}")
        what = "\n".join(ports) or "   no ports"
        pieces.append(
            f"/* {comment(actor.name)}\n{what} */\nREPLACEABLE {texts.signature(actor.name)}\n"
            "{\n    (void)context;\n    (void)phase;\n    (void)ports;\n}"
        )
    return "\n\n".join(pieces) + "\n"


def _main(texts: _GraphProgram) -> str:
    """Return main.c, which runs some iterations and checks the tokens after each."""
    name, capitals = texts.name, texts.capitals
    return f"""/* Runs iterations of {name}, and checks that each leaves all channels as they were. */
#include "{name}.h"

#ifndef ITERATIONS
#define ITERATIONS 3
#endif

{source("say.c")}
static uint64_t arena[{capitals}_ARENA_WORDS];
static {name}_state state;

int main(void)
{{
    int number, failed = 0;
    {name}_init(&state, arena, 0);
    for (number = 0; number < ITERATIONS; number++) {{
        {name}_iterate(&state);
        failed |= !{name}_is_initial(&state);
    }}
{end_of_main(name, "tokens differ", "tokens as they were", f"{capitals}_ARENA_BYTES")}"""
