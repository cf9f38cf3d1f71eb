"""C program of a mapped graph: a function for each processor, and buffers that avoid deadlock.

`mapped_graph` simulates the firing orders of the processors as one sequential order until a state
recurs; the maximum number of tokens of each channel is its buffer. A block is the periodic part: all
processors complete the same whole number of iterations, and every channel has its tokens again.
`mapped_program` writes the orders as tables, with a function for each processor.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import groupby
from math import lcm
from typing import Any, NamedTuple

from csdf.analysis.consistency import repetition_vector
from csdf.errors import CsdfError, GaveUp, counted
from csdf.mapping.binding import require_valid
from csdf.mapping.model import Core, InvalidMapping, Platform
from csdf.mapping.model import Mapping as Map
from csdf.model.graph import Channel, Graph
from csdf.names import quoted
from csdf.time_limit import Budget, Stop, stop_of
from planners.code.c_text import table_row, unlike_each
from planners.code.graph.program import GraphTexts, WrittenProgram, table
from planners.code.graph.storage import ALIGNMENT, MOST_BYTES, CircularBuffer, arena_bytes
from planners.code.packaging import PLAIN, Package
from planners.code.parts import comment, source
from planners.code.programs import end_of_main
from planners.code.readme import QEMU_IN_WORDS

MOST_FIRINGS = 2_000_000  # simulated firings without a recurrence, after which GaveUp is raised
Turn = tuple[str, int]  # an actor, and its number of successive firings


@dataclass(frozen=True, slots=True, kw_only=True)
class CoreOrder:
    """The firing order of a processor: a prefix, followed by a periodic part.

    first: firings before the first block. firings: firings of a block. A block restores the number of
    tokens in each channel, and completes the same number of iterations on all processors.
    """

    name: str
    prefix: tuple[Turn, ...]
    periodic: tuple[Turn, ...]
    first: int
    firings: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MappedGraph:
    """A graph on several processors, with buffers under which the firing orders do not deadlock.

    iterations: iterations of the graph in a block.
    """

    graph: Graph
    cores: tuple[CoreOrder, ...]
    rings: tuple[CircularBuffer, ...]
    iterations: int

    @property
    def arena_bytes(self) -> int:
        """Size of the arena in bytes. Buffers do not overlap, because processors run in parallel."""
        return arena_bytes(self.rings)

    def to_json(self) -> dict[str, Any]:
        """Return orders and buffers as a JSON value."""
        return {
            "graph": self.graph.name,
            "iterations": self.iterations,
            "processors": [
                {"name": core.name, "firings": core.firings, "runs": len(core.periodic)}
                for core in self.cores
            ],
            "arena_bytes": self.arena_bytes,
            "buffers": [ring.to_json() for ring in self.rings],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class OrdersBlock:
    """A deadlock of the orders of a mapping: for each processor, the firing that cannot start."""

    waiting: dict[str, str]

    def __str__(self) -> str:
        return "; ".join(f"{core} waits to fire {actor!r}" for core, actor in self.waiting.items())


def mapped_graph(
    graph: Graph, mapping: Map, *, token_bytes: int = 4, budget: Budget = None
) -> MappedGraph | OrdersBlock:
    """Return the firing orders of the processors of a mapping with buffers, or the deadlock.

    The capacities of the graph and the buffers of the mapping are respected; the two buffers of a
    channel between processors form a single buffer. A channel without a capacity gets the maximum
    of its tokens in a sequential order of all firings, so that the program does not deadlock.
    token_bytes: size of tokens for which the graph has none.

    Raises InvalidMapping. Raises GaveUp if too many firings would have to be simulated.
    """
    for actor in graph.actors:
        if actor.name not in mapping.binding:
            raise InvalidMapping(
                f"actor {actor.name!r} is bound to no processor; a program has one for each"
            )
    used = tuple(dict.fromkeys(mapping.binding[actor.name] for actor in graph.actors))
    cores = tuple(Core(name=name) for name in used)
    require_valid(graph, Platform(name="processors", cores=cores), mapping)
    blocks = _blocks(graph, mapping, used)
    run = _CyclicOrder(graph, mapping, blocks, stop_of(budget))
    recurrence = run.until_it_recurs()
    if isinstance(recurrence, OrdersBlock):
        return recurrence
    counts = repetition_vector(graph)
    turns = recurrence.times * blocks[used[0]] // len(mapping.orders[used[0]].periodic)
    first = mapping.orders[used[0]].periodic[0]
    return MappedGraph(
        graph=graph,
        cores=tuple(
            CoreOrder(
                name=core,
                prefix=_turns(mapping.orders[core].prefix),
                periodic=_turns(mapping.orders[core].periodic),
                first=recurrence.first[core],
                firings=recurrence.times * blocks[core],
            )
            for core in used
        ),
        rings=_rings(graph, {**run.maximum, **run.limits}, token_bytes),
        iterations=turns * mapping.orders[used[0]].periodic.count(first) // counts[first],
    )


def _blocks(graph: Graph, mapping: Map, cores: Sequence[str]) -> dict[str, int]:
    """Firings of each processor until all have done the same whole number of iterations."""
    repetitions = repetition_vector(graph)
    done = {}
    for core in cores:
        periodic = mapping.orders[core].periodic
        done[core] = Fraction(periodic.count(periodic[0]), repetitions[periodic[0]])
    iterations = lcm(*(rate.numerator for rate in done.values()))
    return {
        core: int(iterations / done[core]) * len(mapping.orders[core].periodic) for core in cores
    }


def _turns(actors: Sequence[str]) -> tuple[Turn, ...]:
    return tuple((name, len(list(same))) for name, same in groupby(actors))


class _Recurrence(NamedTuple):
    """A recurring state: firings of each processor before it, and the number of blocks between."""

    first: dict[str, int]
    times: int


class _CyclicOrder:
    """Simulation of the firing orders in a sequential order, with the maximum tokens of each channel.

    A firing claims the space of its output before it releases its input. Of the enabled processors,
    the processor with the least progress fires. Each processor has a fixed order, so this choice does
    not affect whether the orders deadlock.

    blocks: firings of each processor that complete the same number of iterations. maximum: the largest
    number of tokens of each channel so far. limits: the capacities of the graph and the mapping.
    """

    def __init__(self, graph: Graph, mapping: Map, blocks: dict[str, int], stop: Stop) -> None:
        self._stop, self._blocks = stop, blocks
        self._orders = {core: mapping.orders[core] for core in blocks}
        self._position = dict.fromkeys(blocks, 0)  # firings of each processor so far
        # A token occupies its channel from the begin of its production to its release. It is
        # available from the end of its production to its consumption.
        self._occupied = {channel.name: channel.initial_tokens for channel in graph.channels}
        self._available = dict(self._occupied)
        self.maximum = dict(self._occupied)
        self.limits = {
            channel.name: limit
            for channel in graph.channels
            if (limit := _capacity(channel, mapping)) is not None
        }
        self._fired = dict.fromkeys((actor.name for actor in graph.actors), 0)
        self._phases = {actor.name: actor.phases for actor in graph.actors}
        self._inputs: dict[str, list[Channel]] = {name: [] for name in self._fired}
        self._outputs: dict[str, list[Channel]] = {name: [] for name in self._fired}
        for channel in graph.channels:
            self._inputs[channel.consumer].append(channel)
            self._outputs[channel.producer].append(channel)

    def until_it_recurs(self) -> _Recurrence | OrdersBlock:
        """Fire until a state recurs, or until no processor is enabled."""
        seen: dict[tuple[int, ...], dict[str, int]] = {self._state(): dict(self._position)}
        leader = next(iter(self._blocks))
        for _ in range(MOST_FIRINGS):
            self._stop.look()
            enabled = [core for core in self._blocks if self._can_fire(self._next(core))]
            if not enabled:
                return OrdersBlock(waiting={core: self._next(core) for core in self._blocks})
            core = min(enabled, key=self._progress)
            actor = self._next(core)
            phase = self._fired[actor] % self._phases[actor]
            for edge in self._outputs[actor]:
                self._occupied[edge.name] += edge.production[phase]
                self.maximum[edge.name] = max(self.maximum[edge.name], self._occupied[edge.name])
            for edge in self._inputs[actor]:
                self._available[edge.name] -= edge.consumption[phase]
                self._occupied[edge.name] -= edge.release_rates[phase]
            for edge in self._outputs[actor]:
                self._available[edge.name] += edge.production[phase]
            self._fired[actor] += 1
            self._position[core] += 1
            if self._position[leader] % self._blocks[leader] or core != leader:
                continue
            first = seen.setdefault(self._state(), dict(self._position))
            if first != self._position:
                times = (self._position[leader] - first[leader]) // self._blocks[leader]
                return _Recurrence(first, times)
        raise GaveUp(f"no state of the orders recurs within {MOST_FIRINGS} firings")

    def _state(self) -> tuple[int, ...]:
        """Return a key that recurs with the state of the orders.

        For each processor, it holds the firings of the prefix so far, and the position in the list
        minus as many blocks as the first processor has completed.
        """
        leader = next(iter(self._blocks))
        blocks = self._position[leader] // self._blocks[leader]
        begun = (min(self._position[core], len(self._orders[core].prefix)) for core in self._blocks)
        positions = (self._position[core] - blocks * size for core, size in self._blocks.items())
        return (*begun, *positions)

    def _next(self, core: str) -> str:
        return self._orders[core].actor(self._position[core])

    def _progress(self, core: str) -> Fraction:
        done = self._position[core] - len(self._orders[core].prefix)
        return Fraction(done, self._blocks[core])

    def _can_fire(self, actor: str) -> bool:
        phase = self._fired[actor] % self._phases[actor]
        return all(
            self._available[edge.name] >= edge.consumption[phase] for edge in self._inputs[actor]
        ) and all(
            self._occupied[edge.name] + edge.production[phase] <= self.limits[edge.name]
            for edge in self._outputs[actor]
            if edge.name in self.limits
        )


def _capacity(channel: Channel, mapping: Map) -> int | None:
    """The capacity of a channel in the graph or the mapping; None if neither has one."""
    if channel.is_self_loop:
        return None
    sizes = [] if channel.capacity is None else [channel.capacity]
    buffer = mapping.buffers.get(channel.name)
    if buffer is not None:
        sizes += [] if buffer.memory is None else [buffer.memory]
        if buffer.source is not None and buffer.target is not None:
            sizes.append(buffer.source + buffer.target)
    return min(sizes, default=None)


def _rings(
    graph: Graph, capacities: dict[str, int], token_bytes: int
) -> tuple[CircularBuffer, ...]:
    """Place the buffers consecutively, aligned to ALIGNMENT."""
    rings, offset = [], 0
    for channel in graph.channels:
        size = token_bytes if channel.token_size is None else channel.token_size
        ring = CircularBuffer(
            channel=channel.name, capacity=capacities[channel.name], token_bytes=size, offset=offset
        )
        rings.append(ring)
        offset += -(-ring.size // ALIGNMENT) * ALIGNMENT
    if max(offset, *capacities.values(), 0) > MOST_BYTES:
        raise CsdfError(f"the buffers take {offset} bytes; at most {MOST_BYTES}")
    return tuple(rings)


def mapped_program(
    planned: MappedGraph, *, name: str | None = None, package: Package = PLAIN
) -> WrittenProgram:
    """Return a C program that executes a mapped graph, with a function for each processor.

    name: prefix of functions and files, converted to an identifier; by default the graph's name.
    package: the contents of the file banners.
    """
    texts = _MappedTexts(planned, name or planned.graph.name)
    pieces = (texts.header(), texts.source(), texts.main_program(), texts.readme())
    return WrittenProgram(
        name=texts.name,
        state_bytes=texts.state_bytes,
        functions=texts.cores,
        files=texts.files(*pieces, package),
    )


WAIT = """/* What a processor does while it waits: on a system with threads it lets another
   one run. Define another WAIT() where that is wrong. */
#if !defined(WAIT) && __STDC_HOSTED__
#if defined(__unix__) || defined(__APPLE__)
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 199506L
#endif
#include <sched.h>
#define WAIT() ((void)sched_yield())
#elif defined(_WIN32)
#include <windows.h>
#define WAIT() ((void)SwitchToThread())
#endif
#endif
#ifndef WAIT
#define WAIT() ((void)0)
#endif

"""
FENCE = """
/* What orders memory between processors: define another where a compiler has its own. */
#ifndef FENCE
#if defined(__GNUC__) || defined(__clang__)
#define FENCE() __sync_synchronize()
#else
#error "define FENCE(), which completes reads and writes of memory before those behind it"
#endif
#endif"""


class _MappedTexts(GraphTexts):
    """The texts of the C files of a mapped graph."""

    def __init__(self, planned: MappedGraph, name: str) -> None:
        super().__init__(planned.graph, planned.rings, name)
        self._planned = planned
        self.cores = unlike_each(core.name for core in planned.cores)

    @property
    def state_bytes(self) -> int:
        """Size of the state with addresses of 64 bits, the maximum over all targets."""
        counters = 5 * max(len(self.channels), 1) + len(self.actors) + 2 * len(self.cores)
        return -(-(16 + 4 * counters) // 8) * 8

    def source(self) -> str:
        """Return NAME.c."""
        name = self.name
        has_tokens = any(channel.initial_tokens for channel in self.graph.channels)
        starting = {"starting"} if has_tokens else set()
        functions = [
            self.init_with("starting(state, {0}, {1})"),
            f"""uint32_t {name}_tokens(const instance *state, int channel)
{{
    return CHANNELS ? tokens_in(state, (uint32_t)channel) : 0;
}}""",
        ]
        functions += [
            f"""int {name}_step_{core}(instance *state)
{{
    return step(state, {number});
}}

void {name}_run_{core}(instance *state, uint32_t firings)
{{
    run(state, {number}, firings);
}}"""
            for number, core in enumerate(self.cores.values())
        ]
        return self.source_with(
            {"order", "run", *starting},
            ("channels.c", "cores.c"),
            head=WAIT,
            defines=FENCE,
            tables=list(self._orders()),
            functions=functions,
        )

    def _orders(self) -> Iterator[str]:
        lines = []
        for number, core in enumerate(self._planned.cores):
            turns = [*core.prefix, *core.periodic]
            yield table("turn", f"turns_{number}", [self.turn(*turn) for turn in turns])
            order = {"turns": f"turns_{number}", "count": len(turns), "again": len(core.prefix)}
            lines.append(table_row(core.name, **order))
        yield table("order", "orders", lines)

    def header(self) -> str:
        """Return NAME.h."""
        name, capitals, planned = self.name, self.capitals, self._planned
        channels = max(len(self.channels), 1)
        declared = []
        for core in planned.cores:
            short = self.cores[core.name]
            declared.append(f"""/* Processor {comment(core.name)}: {comment(_in_words(core))}
   step: the next firing, if its tokens and its space are there (1), or nothing (0); run: so many
   firings, waiting where it has to. To be called on this processor only. FIRST: firings before the
   first block; FIRINGS: of a block. */
#define {capitals}_{short.upper()}_FIRST {core.first}u
#define {capitals}_{short.upper()}_FIRINGS {core.firings}u
int {name}_step_{short}({name}_state *state);
void {name}_run_{short}({name}_state *state, uint32_t firings);
""")
        listed = "\n".join(declared)
        return self.header_with(
            f" on {counted(len(self.cores), 'processor')}",
            defines=f"#define {capitals}_ITERATIONS {planned.iterations} /* of a block of firings */\n",
            about=""" Each is written by one processor: counts of a
   channel by the one of its producer (put, next) or of its consumer.""",
            state=f"""    volatile uint32_t put[{channels}], taken[{channels}];
    uint32_t next[{channels}], first[{channels}], kept[{channels}];
    uint32_t phase[{len(self.actors)}];
    uint32_t turn[{len(self.cores)}], fired[{len(self.cores)}];
""",
            functions=f"""/* Before any processor begins: an arena of {capitals}_ARENA_WORDS
   numbers, all of it zero, and the initial tokens in the channels. context: passed on to the
   functions below. */
void {name}_init({name}_state *state, uint64_t *arena, void *context);

/* Tokens in a channel, by its number; exact while no processor works. */
uint32_t {name}_tokens(const {name}_state *state, int channel);

{listed}""",
        )

    def main_program(self) -> str:
        """Return main.c: a round-robin over the processors, and the tokens after each block."""
        name, capitals = self.name, self.capitals
        cores = list(self.cores.values())
        calls = "\n".join(
            f"            if (left[{number}] && {name}_step_{core}(&state)) {{\n"
            f"                left[{number}]--;\n                done = 1;\n            }}"
            for number, core in enumerate(cores)
        )
        firsts = ", ".join(f"{capitals}_{core.upper()}_FIRST" for core in cores)
        blocks = "\n".join(
            f"        left[{number}] += {capitals}_{core.upper()}_FIRINGS;"
            for number, core in enumerate(cores)
        )
        return f"""/* Runs blocks of {name}, its processors in turn, and checks that each leaves all
   channels as the one before did. */
#include "{name}.h"

#ifndef BLOCKS
#define BLOCKS 3
#endif

{source("say.c")}
static uint64_t arena[{capitals}_ARENA_WORDS];
static {name}_state state;
static uint32_t left[{len(cores)}] = {{{firsts}}};
static uint32_t before[{max(len(self.channels), 1)}];

int main(void)
{{
    int block, channel, failed = 0, done;
    {name}_init(&state, arena, 0);
    for (block = 0; block <= BLOCKS; block++) {{
{blocks}
        do {{
            done = 0;
{calls}
        }} while (done);
        for (channel = 0; channel < {len(cores)}; channel++) {{
            failed |= left[channel] != 0; /* stood still */
        }}
        for (channel = 0; channel < {len(self.channels)}; channel++) {{
            failed |= block > 0 && before[channel] != {name}_tokens(&state, channel);
            before[channel] = {name}_tokens(&state, channel);
        }}
    }}
{end_of_main(name, "tokens differ", "tokens as they were", f"{capitals}_ARENA_BYTES")}"""

    def readme(self) -> str:
        """Return README.md."""
        name, planned = self.name, self._planned
        cores = "\n".join(
            f"| {quoted(core.name).replace('|', '/')} | `{name}_run_{self.cores[core.name]}` "
            f"| {core.firings} | {quoted(_in_words(core)).replace('|', '/')} |"
            for core in planned.cores
        )
        return f"""# {name}: a dataflow graph on {counted(len(self.cores), "processor")}

| what | how much |
|---|---|
| RAM that all processors share: arena | {planned.arena_bytes:,} bytes |
| RAM that all processors share: state | at most {self.state_bytes} bytes |
| iterations of a block | {planned.iterations} |

| processor | function | firings of a block | order |
|---|---|---|---|
{cores}

Call `{name}_init` once, then on each processor its function, for as many firings as you like, or its
`{name}_step_...` in a loop of your own. A processor waits where tokens or space are not there yet;
with these buffers some processor can always go on. Counts of a channel are written by one processor
each, and `FENCE()` orders them with the tokens: define it where the compiler is not gcc or clang, or
memory is not coherent. `WAIT()` is what a processor does while it waits: on a system with threads it
lets another thread run, so there may be more threads than cores; elsewhere it is nothing, unless you
define it, as an instruction that sleeps until an event, for example.

Fill in a function for each actor, declared in `{name}.h`, in a file of your own.

- `make test` runs the processors in turn here, and checks the tokens after each block.
{QEMU_IN_WORDS}"""


SHOWN = 40  # turns of a processor that a comment lists


def _in_words(core: CoreOrder) -> str:
    """Return a firing order as text, with its periodic part in brackets: `a (2 b c)`."""
    prefix = _turns_in_words(core.prefix)
    periodic = f"({_turns_in_words(core.periodic)})"
    return f"{prefix} {periodic}".strip()


def _turns_in_words(turns: Sequence[Turn]) -> str:
    shown = [actor if count == 1 else f"{count} {actor}" for actor, count in turns[:SHOWN]]
    return " ".join([*shown, *(["..."] if len(turns) > SHOWN else [])])
