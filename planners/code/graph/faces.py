"""Files of a program for a graph that a user reads: header, stubs to fill in, main program."""

from __future__ import annotations

from collections.abc import Iterator

from csdf.errors import counted
from planners.code.graph.looped import in_words
from planners.code.graph.program import GraphProgram
from planners.code.graph.texts import GraphTexts, shortest_round
from planners.code.names import comment, unlike
from planners.code.parts import source

LONGEST = 2000  # characters of a schedule in a comment


def header(texts: GraphProgram) -> str:
    """Return NAME.h."""
    name, capitals, planned = texts.name, texts.capitals, texts.planned
    functions = "\n".join(
        f"{texts.signature(actor.name)}; /* {comment(actor.name)} */"
        for actor in texts.graph.actors
    )
    words = in_words(planned.schedule)
    return f"""/* {comment(texts.graph.name)}: {counted(planned.firings, "firing")} an iteration, in \
{planned.arena_bytes} bytes. */
#ifndef {capitals}_H
#define {capitals}_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {{
#endif

#define {capitals}_ARENA_BYTES {planned.arena_bytes}
#define {capitals}_ARENA_WORDS {max(planned.arena_bytes // 8, 1)} /* of 64 bits */

{port_type(name)}

/* Where the graph stands. The fields are private. */
typedef struct {{
    unsigned char *arena;
    void *context;
    uint32_t faults;
    uint32_t first[{max(len(texts.channels), 1)}];
    uint32_t held[{max(len(texts.channels), 1)}];
    uint32_t kept[{max(len(texts.channels), 1)}];
    uint32_t phase[{len(texts.actors)}];
}} {name}_state;

/* Begin with an arena of {capitals}_ARENA_WORDS numbers, all of it zero, and the initial tokens in
   the channels. context: passed on to the functions below. */
void {name}_init({name}_state *state, uint64_t *arena, void *context);

/* One iteration: {comment(words if len(words) <= LONGEST else "as in the source")} */
void {name}_iterate({name}_state *state);

/* Whether all channels hold what they held at first, and no firing lacked tokens or space. */
int {name}_is_home(const {name}_state *state);

/* For you to fill in: put the initial tokens of a channel. Without it they are zero. */
void {name}_begin(void *context, int channel, const {name}_port *tokens);

/* For you to fill in: one firing of each actor. Its ports are its inputs, then its outputs. */
{functions}

{constants(texts)}#ifdef __cplusplus
}}
#endif

#endif
"""


def port_type(name: str) -> str:
    """Return the type of ports, and the function that finds a token in one."""
    return f"""/* Tokens of a channel that a firing may use: an input that it reads, or an output that
   it fills. Of an input, the last `fresh` tokens are new, and those before were kept from earlier
   phases. */
typedef struct {{
    unsigned char *base;
    uint32_t first, capacity, token_bytes, tokens, fresh;
}} {name}_port;

/* The address of a token of a port, from 0 on. */
static inline void *{name}_token(const {name}_port *port, uint32_t number)
{{
    uint32_t left = port->capacity - port->first;
    uint32_t place = number < left ? port->first + number : number - left;
    return port->base + (uintptr_t)place * port->token_bytes;
}}"""


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

REPLACEABLE void {texts.name}_begin(void *context, int channel, const {texts.name}_port *tokens)
{{
    (void)context;
    (void)channel;
    (void)tokens;
}}"""
    ]
    for actor in texts.graph.actors:
        what = "\n".join(_port_comments(texts, actor.name)) or "   no ports"
        pieces.append(
            f"/* {comment(actor.name)}\n{what} */\nREPLACEABLE {texts.signature(actor.name)}\n"
            "{\n    (void)context;\n    (void)phase;\n    (void)ports;\n}"
        )
    return "\n\n".join(pieces) + "\n"


def _port_comments(texts: GraphTexts, actor: str) -> Iterator[str]:
    for place, (channel, is_output) in enumerate(texts.ends(actor)):
        rates = shortest_round(channel.production if is_output else channel.consumption)
        listed = ", ".join(map(str, rates[:12])) + (", ..." if len(rates) > 12 else "")
        way = "puts" if is_output else "takes"
        size = texts.rings[texts.channels[channel.name]].token_bytes
        yield f"   ports[{place}]: {way} {listed} of {size} bytes, {comment(channel.name)}"


def main_program(texts: GraphProgram) -> str:
    """Return main.c: it runs some iterations and checks the tokens after each."""
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
        failed |= !{name}_is_home(&state);
    }}
    say(failed ? "{name}: tokens differ\\n" : "{name}: tokens as they were\\n");
    say("arena bytes: ");
    say_number((uint32_t){capitals}_ARENA_BYTES);
    say("\\nstate bytes: ");
    say_number((uint32_t)sizeof state);
#ifdef ON_TARGET
    say("\\nstack bytes: ");
    say_number(stack_bytes());
#endif
    say("\\n");
    return failed;
}}
"""
