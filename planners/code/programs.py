"""Programs for a library: a benchmark of its layers, an example that classifies frames, a proof."""

from __future__ import annotations

from cnn2csdf.durations import COLUMNS
from csdf.io.csv_text import csv_text
from planners.code.c_text import string_literal, wrapped
from planners.code.parts import source
from planners.code.sources import Written


def arrays_of(written: Written) -> str:
    """Return C for the array of the arena, or one for each memory, the slow one in its section."""
    places = ["", *(f" {written.capitals}_IN_{memory.upper()}" for memory in written.memories[1:])]
    return "\n".join(
        f"static {written.name}_element {array}[{elements}]{place};"
        for (array, elements), place in zip(written.array_elements.items(), places, strict=True)
    )


def end_of_main(
    name: str, differs: str, equal: str, arena: str, state: str = "sizeof state", more: str = ""
) -> str:
    """Return the end of a main program, which prints the outcome and the memory used.

    arena, state: C expressions. more: C before the end of the line.
    """
    return f"""    say(failed ? "{name}: {differs}\\n" : "{name}: {equal}\\n");
    say("arena bytes: ");
    say_number((uint32_t){arena});
    say("\\nstate bytes: ");
    say_number((uint32_t){state});
#ifdef ON_TARGET
    say("\\nstack bytes: ");
    say_number(stack_bytes());
#endif
{more}    say("\\n");
    return failed != 0;
}}
"""


def _memory(written: Written, *, whole_inputs: bool = True) -> str:
    """Return C of the memory of a call: arenas, state, inputs and outputs."""
    name, ports = written.name, (*(written.inputs if whole_inputs else ()), *written.outputs)
    arrays = "".join(f"static {port.kind} {port.array}[{port.elements}];\n" for port in ports)
    return f"""{arrays_of(written)}
static {name}_state state;
{arrays}"""


def _call(written: Written) -> str:
    """Return a call of C that executes a frame."""
    inputs, outputs = (
        [port.array for port in ports] for ports in (written.inputs, written.outputs)
    )
    return written.frame_call(inputs, outputs)


def bench_program(written: Written) -> str:
    """Return bench.c: it prints nanoseconds of each layer, as `--durations` of csdf reads them.

    Of the firings of a stage, under the name of its last layer; the layers before it in the stage
    take no time of their own.
    """
    name, layers = written.name, list(dict.fromkeys(written.stages))
    rows = [csv_text([(layer, 0, "")])[:-1] for layer in layers]
    texts = wrapped(map(string_literal, rows))
    return f"""/* Prints what each layer of {name} takes, as --durations of csdf reads it. */
#include <time.h>

#include "{name}.h"

{source("say.c")}
#ifdef ON_TARGET
#define FRAMES 1
#define NANOSECONDS(ticks) ((ticks) * 1000000000u / (uint64_t)(HERTZ))
#else
#define FRAMES 100
#define NANOSECONDS(ticks) ((ticks) * (1000000000u / CLOCKS_PER_SEC))
static uint64_t instructions(void)
{{
    return (uint64_t)clock();
}}
#endif

{_memory(written)}static const char *const layers[{len(layers)}] = {{
{texts}
}};
static const unsigned short layer_of[{len(written.stages)}] = {{
{wrapped(str(layers.index(stage)) for stage in written.stages)}
}};
static uint64_t spent[{len(layers)}], begun;

void {name}_profile_begin(int stage)
{{
    (void)stage;
    begun = instructions();
}}

void {name}_profile_end(int stage)
{{
    spent[layer_of[stage]] += instructions() - begun;
}}

int main(void)
{{
    int frame, number;
    int failed = {written.init_call()} != {written.capitals}_OK;
    for (frame = 0; frame < FRAMES; frame++) {{
        failed |= {_call(written)} != {written.capitals}_OK;
    }}
    say("{",".join(COLUMNS)}\\n");
    for (number = 0; number < {len(layers)}; number++) {{
        say(layers[number]);
        say_number(NANOSECONDS(spent[number]) / FRAMES);
        say("\\n");
    }}
    return failed;
}}
"""


def proof_program(written: Written) -> str:
    """Return the driver for Frama-C's Eva: one frame with any input, after any earlier frames.

    Memories have any contents, and so has the state except for its pointers. The invariants of a
    frame are assumed before it and asserted after it: the index of the oldest row is within its
    ring, and persistent accumulators are within the bounds of `persistent_accumulators`.
    Floating-point numbers of inputs and memories are finite, with magnitudes up to PROVED_TO.
    """
    name = written.name
    # The pointers of the state are its first fields and its last.
    first = "staged_offset" if written.has_staging else "group"
    end = f"offsetof({name}_state, outside)" if written.has_outside else "sizeof state"
    arrays = [(*item, written.element) for item in written.array_elements.items()]
    arrays += [(port.array, str(port.elements), port.kind) for port in written.inputs]
    accumulators = written.persistent_accumulators
    unknown = "".join(_unknown(*array) for array in arrays)
    counter = "    int i;\n" if "float" in unknown else ""
    functions = KEPT_SUMS.replace("element", f"{name}_element") if accumulators else ""
    oldest, within = "", ""
    for number, rows in enumerate(written.kept_rows):
        oldest += f"    state.oldest[{number}] = (uint16_t)Frama_C_interval(0, {rows - 1});\n"
        within += f"    /*@ assert state.oldest[{number}] < {rows}; */\n"
    for memory, offset, number, largest in accumulators:
        sums = f"{written.arrays[memory]} + {offset}, {number}, {largest}"
        unknown += f"    any_sums({sums});\n"
        within += f"    check_sums({sums});\n"
    return f"""/* Read by Frama-C (make prove): any frame of {name}, whatever is left of others. */
#include <stddef.h>
#include <string.h>

#include "__fc_builtin.h"

#include "{name}.h"

#ifndef PROVED_TO
#define PROVED_TO 1000.0f /* the largest real number of an input or a memory */
#endif

{_memory(written)}
{functions}int main(void)
{{
{counter}    Frama_C_make_unknown((char *)&state, sizeof state);
    (void){written.init_call()};
    Frama_C_make_unknown((char *)&state.{first}, {end} - offsetof({name}_state, {first}));
{oldest}{unknown}    (void){_call(written)};
{within}    return 0;
}}
"""


KEPT_SUMS = """static void any_sums(element *to, int count, int32_t most)
{
    int i;
    for (i = 0; i < count; i++) {
        int32_t sum = Frama_C_interval(-most, most);
        memcpy(to + (4 * i), &sum, sizeof sum);
    }
}

static void check_sums(const element *from, int count, int32_t most)
{
    int i;
    for (i = 0; i < count; i++) {
        int32_t sum;
        memcpy(&sum, from + (4 * i), sizeof sum);
        /*@ assert -most <= sum <= most; */
    }
}

"""


def _unknown(array: str, elements: str, kind: str) -> str:
    """C that fills an array with anything, of real numbers up to PROVED_TO."""
    if kind != "float":
        return f"    Frama_C_make_unknown((char *){array}, sizeof {array});\n"
    return f"""    for (i = 0; i < {elements}; i++) {{
        {array}[i] = Frama_C_float_interval(-PROVED_TO, PROVED_TO);
    }}
"""


SAY_VALUE = """        say("value ");
        say_value(value_of(0));
"""
LARGEST = """        for (i = 1; i < ELEMENTS; i++) {
            largest = value_of(i) > value_of(largest) ? i : largest;
        }
        say("class ");
        say_number((uint64_t)largest);
        say(" ");
        say_value(value_of(largest));
"""


def example_program(written: Written) -> str:
    """Return the example: it reads the numbers of frames, and prints the class with its value.

    The class is the index of the largest output. For a single output element, only the value is
    printed. A streamed input is pushed row by row.
    """
    name, output = written.name, written.outputs[0]
    printed, variables, say_result = "the value", "", SAY_VALUE
    if output.elements > 1:
        printed, variables = "the class, and its value,", "        int32_t i, largest = 0;\n"
        say_result = LARGEST.replace("ELEMENTS", str(output.elements))
    frame = _pushed(written) if written.is_streamed else _executed(written)
    outside = [output.array for output in written.outputs if output.outside is not None]
    pointed = ""
    if written.is_streamed and outside:
        pointed = f"    (void){name}_results({', '.join(['&state', *outside])});\n"
    about = (
        f"Reads frames of real numbers, as the network takes them, and prints {printed} of each."
    )
    return f"""/* {about} */
#include <string.h>

#include "{name}.h"

{source("say.c")}
{source("example.c")}
{_memory(written, whole_inputs=not written.is_streamed)}
{_readers(written)}

static float value_of(int32_t place)
{{
    {_from_stored(written)}
}}

int main(void)
{{
    int32_t frame;
    if ({written.init_call()} != {written.capitals}_OK) {{
        return 1;
    }}
{pointed}    for (frame = 0;; frame++) {{
{variables}{frame}{say_result}        say("\\n");
    }}
}}
"""


def _readers(written: Written) -> str:
    """C functions that read each input, or a row of it."""
    texts = []
    for number, port in enumerate(written.inputs):
        count, array = str(port.elements), port.array
        if written.is_streamed:
            count, array = f"{written.capitals}_ROW_ELEMENTS", "row"
        stored = f"{array}[i] = value;"
        if written.has_integers:
            stored = f"(void){written.name}_quantize_input({number}, &value, &{array}[i], 1);"
        row = f"static {port.kind} row[{count}];\n\n" if written.is_streamed else ""
        texts.append(f"""{row}static int read_{array}(void)
{{
    int32_t i;
    for (i = 0; i < {count}; i++) {{
        float value;
        int found = read_number(&value);
        if (found != IS_NUMBER) {{
            return i > 0 ? IS_WRONG : found;
        }}
        {stored}
    }}
    return IS_NUMBER;
}}""")
    return "\n\n".join(texts)


def _executed(written: Written) -> str:
    """C that reads a frame and executes it."""
    text = ""
    for number, port in enumerate(written.inputs):
        status = "IS_WRONG" if number else "found"
        text += f"""        found = read_{port.array}();
        if (found != IS_NUMBER) {{
            return ended(frame, {status});
        }}
"""
    call = f"if ({_call(written)} != {written.capitals}_OK) {{\n            return 1;\n        }}"
    return f"        int found;\n{text}        {call}\n"


def _pushed(written: Written) -> str:
    """Return C that reads a frame row by row, and processes each row as it arrives."""
    name = written.name
    copied = "".join(
        f"        memcpy({output.array}, {name}_output(&state, {number}), sizeof {output.array});\n"
        for number, output in enumerate(written.outputs)
        if output.outside is None
    )
    return f"""        int32_t place;
        for (place = 0; place < {written.capitals}_ROWS; place++) {{
            int found = read_row();
            if (found != IS_NUMBER) {{
                return ended(frame, place > 0 ? IS_WRONG : found);
            }}
            if ({name}_push_row(&state, row) < {written.capitals}_OK) {{
                return 1;
            }}
        }}
{copied}"""


def _from_stored(written: Written) -> str:
    """C that returns a number of the first output."""
    port = written.outputs[0]
    if not written.has_integers:
        return f"return {port.array}[place];"
    return f"""float value;
    (void){written.name}_dequantize_output(0, &{port.array}[place], &value, 1);
    return value;"""
