"""The source of a program for a graph: tables of channels and actors, and the schedule."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from csdf.model.graph import Channel
from planners.code.graph.looped import Fire, Interleaved, Loop, Node, leaves
from planners.code.graph.planning import PlannedGraph
from planners.code.names import comment, identifier, unlike, wrapped
from planners.code.parts import mentioned, used


class GraphProgram:
    """The C texts of a planned graph, under one name."""

    def __init__(self, planned: PlannedGraph, name: str) -> None:
        """Take what was planned, and what functions and files are to be named after."""
        self.planned, self.graph = planned, planned.graph
        self.name = identifier(name)
        self.capitals = self.name.upper()
        self.channels = {one.name: place for place, one in enumerate(self.graph.channels)}
        self.actors = {one.name: place for place, one in enumerate(self.graph.actors)}
        self.functions = dict(self.named([one.name for one in self.graph.actors], "fire_"))
        self._arrays: dict[tuple[int, ...], str] = {}
        self._turns: dict[Node, str] = {}
        self._definitions: list[str] = []

    def named(self, names: Sequence[str], prefix: str) -> Iterator[tuple[str, str]]:
        """Yield each name with a symbol of the program that is like no other with that prefix."""
        taken: list[str] = []
        for name in names:
            taken.append(unlike(name, taken))
            yield name, f"{self.name}_{prefix}{taken[-1]}"

    @property
    def state_bytes(self) -> int:
        """At most, with addresses of 64 bits."""
        counters = 3 * len(self.channels) + len(self.actors)
        return -(-(24 + 4 * max(counters, 4)) // 8) * 8

    def ends(self, actor: str) -> list[tuple[Channel, bool]]:
        """Return the channels of an actor, inputs before outputs, each with whether it is one."""
        inputs = [(one, False) for one in self.graph.channels if one.consumer == actor]
        return inputs + [(one, True) for one in self.graph.channels if one.producer == actor]

    def signature(self, actor: str) -> str:
        """Return the head of the function of an actor."""
        return (
            f"void {self.functions[actor]}"
            f"(void *context, uint32_t phase, const {self.name}_port *ports)"
        )

    def source(self) -> str:
        """Return NAME.c."""
        rings = [self._ring(place) for place in range(len(self.channels))]
        ends, actors = self._ends_and_actors()
        iterate = self._iterate()
        wanted = {"fire", "port_of"} | mentioned([iterate])
        shared = used(wanted, ("rings.c",))
        types = [text for text in shared if "typedef struct" in text]
        functions = [text for text in shared if text not in types]
        tables = [
            _table("ring", "rings", rings or ["{0, 0, 0, 0, 0, 0, 0}"]),
            _table("end", "ends", ends or ["{0, 0, {NULL, 1}, {NULL, 1}}"]),
            _table("actor", "actors", actors),
        ]
        pieces = [self._prologue(), *types, *self._definitions, *tables]
        return "\n\n".join([*pieces, *functions, self._functions_text(), iterate])

    def _prologue(self) -> str:
        most = max(len(self.ends(name)) for name in self.actors)
        turns = [
            len(one.order) for one in leaves(self.planned.schedule) if isinstance(one, Interleaved)
        ]
        return f"""#include <stddef.h>
#include <string.h>

#include "{self.name}.h"

typedef {self.name}_state instance;
typedef {self.name}_port port;
typedef void (*firing_function)(void *context, uint32_t phase, const port *ports);

#define CHANNELS {len(self.channels)}
#define ACTORS {len(self.actors)}
#define MOST_ENDS {max(most, 1)}
#define MOST_TURNS {max(turns, default=1)}"""

    def _ring(self, place: int) -> str:
        channel, ring = self.graph.channels[place], self.planned.rings[place]
        is_bounded = channel.capacity is not None and not channel.is_self_loop
        fields = (
            *(ring.offset, ring.capacity, ring.token_bytes, channel.initial_tokens),
            *(self.actors[channel.producer], self.actors[channel.consumer], int(is_bounded)),
        )
        return f"{{{', '.join(map(str, fields))}}}, /* {comment(channel.name)} */"

    def _ends_and_actors(self) -> tuple[list[str], list[str]]:
        ends: list[str] = []
        actors = []
        for actor in self.graph.actors:
            mine = self.ends(actor.name)
            fields = (self.functions[actor.name], actor.phases, len(ends), len(mine))
            actors.append(f"{{{', '.join(map(str, fields))}}},")
            for channel, is_output in mine:
                moved = channel.production if is_output else channel.consumption
                released = (0,) if is_output else channel.release_rates
                ends.append(
                    f"{{{self.channels[channel.name]}, {int(is_output)}, "
                    f"{self._rates(moved)}, {self._rates(released)}}},"
                )
        return ends, actors

    def _rates(self, rates: Sequence[int]) -> str:
        """The initialiser of rates, cut to where they begin to repeat; equal ones share a table."""
        found = shortest_round(tuple(rates))
        if found not in self._arrays:
            symbol = self._arrays[found] = f"rates_{len(self._arrays)}"
            items = wrapped([f"{rate}u" for rate in found])
            self._definitions.append(
                f"static const uint32_t {symbol}[{len(found)}] = {{\n{items}\n}};"
            )
        return f"{{{self._arrays[found]}, {len(found)}}}"

    def _functions_text(self) -> str:
        name = self.name
        starts = [
            f"    tokens = port_of(state, {place}, 0, {channel.initial_tokens}u);\n"
            f"    {name}_begin(context, {place}, &tokens);"
            for place, channel in enumerate(self.graph.channels)
            if channel.initial_tokens
        ]
        declared = "    port tokens;\n" if starts else ""
        begin = "\n".join(starts)
        return f"""void {name}_init(instance *state, uint64_t *arena, void *context)
{{
    uint32_t channel;
{declared}    memset(state, 0, sizeof *state);
    memset(arena, 0, {self.capitals}_ARENA_WORDS * sizeof *arena);
    state->arena = (unsigned char *)arena;
    state->context = context;
    for (channel = 0; channel != CHANNELS; channel++) {{
        state->held[channel] = rings[channel].initial_tokens;
    }}
{begin}
}}

int {name}_is_home(const instance *state)
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

    def _iterate(self) -> str:
        lines = list(self._lines(self.planned.schedule, 0))
        deepest = _depth(self.planned.schedule)
        kind = "uint64_t" if _most(self.planned.schedule) >= 2**32 else "uint32_t"
        declared = [f"    {kind} {', '.join(f'i{level}' for level in range(deepest))};"]
        body = "\n".join([*(declared if deepest else []), *lines])
        tables = "\n\n".join(self._turn_tables())
        text = f"void {self.name}_iterate(instance *state)\n{{\n{body}\n}}\n"
        return f"{tables}\n\n{text}" if tables else text

    def _lines(self, node: Node, level: int, indent: str = "    ") -> Iterator[str]:
        if isinstance(node, Interleaved) and node.written is not None:
            node = node.written
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

    def _turn_tables(self) -> Iterator[str]:
        for node, symbol in self._turns.items():
            assert isinstance(node, Interleaved)
            items = [
                f"{{{self.actors[name]}, {count}u}},"
                for name, count in zip(node.order, node.firings, strict=True)
            ]
            yield _table("turn", symbol, items)


def _table(kind: str, name: str, items: Sequence[str]) -> str:
    listed = "\n".join(f"    {item}" for item in items)
    return f"static const {kind} {name}[{len(items)}] = {{\n{listed}\n}};"


def _depth(node: Node) -> int:
    if isinstance(node, Interleaved):
        return 0 if node.written is None else _depth(node.written)
    if isinstance(node, Fire):
        return 0
    return max((_depth(inner) for inner in node.body), default=0) + (node.count > 1)


def _most(node: Node) -> int:
    """The largest count of a loop."""
    if isinstance(node, Loop):
        return max(node.count, *(_most(inner) for inner in node.body))
    return 1


def shortest_round(rates: tuple[int, ...]) -> tuple[int, ...]:
    """Return rates up to where they begin to repeat."""
    for length in range(1, len(rates)):
        if len(rates) % length == 0 and rates == rates[:length] * (len(rates) // length):
            return rates[:length]
    return rates
