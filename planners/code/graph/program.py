"""The source of a program for a graph: tables of channels and actors, and the schedule."""

from __future__ import annotations

from collections.abc import Iterator

from planners.code.graph.looped import Fire, Interleaved, Loop, Node, leaves
from planners.code.graph.planning import PlannedGraph
from planners.code.graph.texts import GraphTexts, table
from planners.code.names import comment
from planners.code.parts import mentioned, used


class GraphProgram(GraphTexts):
    """The C texts of a planned graph on one processor, under one name."""

    def __init__(self, planned: PlannedGraph, name: str) -> None:
        """Take what was planned, and what functions and files are to be named after."""
        super().__init__(planned.graph, planned.rings, name)
        self.planned = planned
        self._turns: dict[Node, str] = {}

    @property
    def state_bytes(self) -> int:
        """At most, with addresses of 64 bits."""
        counters = 3 * len(self.channels) + len(self.actors)
        return -(-(24 + 4 * max(counters, 4)) // 8) * 8

    def source(self) -> str:
        """Return NAME.c."""
        rings = [self.ring(place) for place in range(len(self.channels))]
        ends, actors = self.ends_and_actors()
        iterate = self._iterate()
        wanted = {"fire", "port_of"} | mentioned([iterate])
        shared = used(wanted, ("channels.c", "rings.c"))
        types = [text for text in shared if "typedef struct" in text]
        functions = [text for text in shared if text not in types]
        tables = [
            table("ring", "rings", rings or ["{0, 0, 0, 0, 0, 0, 0}"]),
            table("end", "ends", ends or ["{0, 0, {NULL, 1}, {NULL, 1}}"]),
            table("actor", "actors", actors),
        ]
        pieces = [self._prologue(), *types, *self.definitions, *tables]
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
            yield table("turn", symbol, items)


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
