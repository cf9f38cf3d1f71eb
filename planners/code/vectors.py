"""Test vectors in C: a program that executes frames, and compares outputs and states."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate

import numpy as np

from cnn2csdf.execution.layer_by_layer import States
from cnn2csdf.operators.moves import to_memory_order
from cnn2csdf.weights import Array
from planners.code.c_text import TYPES, array_items, wrapped
from planners.code.c_text import number as number_text
from planners.code.frames import TestVector, from_initial_state
from planners.code.makefile import MAIN
from planners.code.parts import comment, source
from planners.code.ports import LibraryPort
from planners.code.programs import arrays_of, end_of_main
from planners.code.sources import Written
from planners.code.unsigned_as_signed import as_signed_array


def test_program(written: Written, vectors: Sequence[TestVector]) -> str:
    """Return main.c, which executes the frames twice and compares the outputs.

    A network with a streamed input is also executed row by row.
    """
    name = written.name
    counted = f"""#ifdef COUNTED
    {{
        uint64_t before = instructions();
        {_frame_c(written, 0)}
        say("\\nthousand instructions of a frame: ");
        say_number((instructions() - before) / 1000);
    }}
#endif
"""
    arena = " + ".join(f"sizeof {array}" for array in written.arrays)
    return f"""/* Runs {name} on test vectors and compares with what they are to give. */
#include <math.h>
#include <string.h>

#include "{name}.h"

int {name}_test(void); /* the line of the first wrong result; 0 if all are right */

{arrays_of(written)}

{_test_function_c(written, vectors, "void")}

#ifndef NO_MAIN
{source("say.c")}
int main(void)
{{
    int failed = {name}_test();
    if (failed) {{
        say("first wrong result: {MAIN}, line ");
        say_number((uint64_t)failed);
        say("\\n");
    }}
{end_of_main(name, "outputs differ", "outputs equal", arena, more=counted)}#endif
"""


def shared_test(written: Written, vectors: Sequence[TestVector]) -> str:
    """Return NAME_test.c: the same test in memories that several networks share."""
    name, parameters = written.name, test_parameters(written)
    return f"""/* Runs {name} on test vectors and compares with what they are to give. */
#include <math.h>
#include <string.h>

#include "{name}.h"

int {name}_test({parameters});

{_test_function_c(written, vectors, parameters)}
"""


def test_parameters(written: Written) -> str:
    """Return the parameters of NAME_test: an array of each memory."""
    return ", ".join(f"{written.name}_element *{array}" for array in written.arrays)


def _test_function_c(written: Written, vectors: Sequence[TestVector], parameters: str) -> str:
    """Return C of the vectors, the comparisons, and the function that executes the test."""
    name = written.name
    arrays = []
    for number, vector in enumerate(vectors):
        for ports, arrays_of_ports in (
            (written.inputs, vector.frame),
            (written.outputs, vector.outputs),
        ):
            arrays += [_array_c(port, number, arrays_of_ports[port.layer]) for port in ports]
    initial = from_initial_state(vectors)  # vectors; the others begin with a written state
    lines = [_check_c(written, number, vector) for number, vector in enumerate(vectors)]
    checks = "\n".join(lines[:initial])
    variables = "int turn;"
    if written.keeps_state:
        variables = f"static uint8_t saved[{written.capitals}_SAVED_BYTES], again[sizeof saved];"
        arrays += _state_arrays_c(written, vectors)
        checks += _saving_c(written, lines[:initial])
        checks += _from_written_state_c(written, vectors, lines[initial:])
    else:
        checks = _frames_twice_c(written, checks)
    if written.stages:  # a library of primitives has none of these functions
        checks += f"\n{_misuse_c(written)}"
    results = "\n".join(
        f"static {port.kind} found_{port.array}[{port.elements}];" for port in written.outputs
    )
    kinds = sorted({_comparison_of(port, vector) for port in written.outputs for vector in vectors})
    tests = "\n\n".join(
        _COMPARISONS.get(kind) or _is_close_c(kind.removeprefix("is_close_")) for kind in kinds
    )
    return f"""{chr(10).join(arrays)}

static {name}_state state;
{results}

{tests}

#define EXPECT(is_right) (failed = ((is_right) || failed) ? failed : __LINE__)

{_block_counters_c(written)}int {name}_test({parameters})
{{
    {variables}
    int failed = 0;
    {_init_c(written)}
{_compared_block_counts_c(written)}{checks}
    return failed;
}}"""


def _init_c(written: Written) -> str:
    """Return C that initialises the network."""
    return f"EXPECT({written.init_call()} == {written.capitals}_OK);"


def _block_counters_c(written: Written) -> str:
    """Return C that counts the blocks of rows computed by CMSIS-NN (1) or not (0)."""
    if written.cmsis_nn is None:
        return ""
    return f"""#ifdef {written.capitals}_BLOCKS
static long blocks[2];

void {written.name}_block(int by_cmsis_nn)
{{
    blocks[by_cmsis_nn]++;
}}
#endif

"""


def _compared_block_counts_c(written: Written) -> str:
    """Return C that compares the block counts of the first frame with the planned counts."""
    if written.cmsis_nn is None:
        return ""
    cmsis_blocks, own_blocks = written.cmsis_nn.computed_blocks, written.cmsis_nn.own_blocks
    return f"""#ifdef {written.capitals}_BLOCKS
    blocks[0] = blocks[1] = 0;
    {_frame_c(written, 0)}
    EXPECT(blocks[1] == {cmsis_blocks} && blocks[0] == {own_blocks});
    {_init_c(written)}
#endif
"""


def _frames_twice_c(written: Written, checks: str) -> str:
    """Return C that executes all frames, and again all frames without a new NAME_init.

    If a frame overwrites weights that are resident in the arena, the later frames fail.
    """
    spoilt = "\n".join(
        f"        memset(found_{port.array}, 85, sizeof found_{port.array});"
        for port in written.outputs
    )
    return f"""    for (turn = 0; turn < 2; turn++) {{
{spoilt}
{checks}
    }}"""


def _saving_c(written: Written, lines: Sequence[str]) -> str:
    """Return C that executes the frames again, and saves and restores the state after each.

    lines: C of each frame.
    """
    name, capitals = written.name, written.capitals
    spoilt = "".join(
        f"    memset({array}, 85, sizeof *{array} * {elements});\n"
        for array, elements in written.array_elements.items()
    )
    same = f"""    EXPECT({name}_save(&state, again, sizeof again) == {capitals}_OK);
    EXPECT(memcmp(again, saved, sizeof saved) == 0);
"""
    resumed = f"""    EXPECT({name}_save(&state, saved, sizeof saved) == {capitals}_OK);
{spoilt}    {_init_c(written)}
    EXPECT({name}_restore(&state, saved, sizeof saved) == {capitals}_OK);
{same}"""
    return f"""
    EXPECT({name}_reset(&state) == {capitals}_OK);
    EXPECT({name}_save(&state, saved, sizeof saved) == {capitals}_OK);
{spoilt}    {_init_c(written)}
{same}{"".join(f"{line}{chr(10)}{resumed}" for line in lines)}"""


def _misuse_c(written: Written) -> str:
    """Return C that quantises and dequantises numbers, reads outputs, and makes refused calls."""
    name, capitals = written.name, written.capitals
    lines = [
        line
        for ports, check in ((written.inputs, _quantising_c), (written.outputs, _dequantising_c))
        for number, port in enumerate(ports)
        for line in check(name, number, port)
    ]
    refused = [f"{name}_reset(NULL) == {capitals}_NULL_POINTER"]
    if not written.is_streamed:
        inputs = [f"{port.array}_0" for port in written.inputs]
        outside = [f"found_{port.array}" for port in written.outputs if port.outside is not None]
        begin = f"{name}_begin({', '.join(['&state', *inputs, *outside])})"
        lines += [_frame_c(written, 0)]
        lines += [
            f"EXPECT(memcmp({name}_output(&state, {number}), found_{port.array}, "
            f"sizeof found_{port.array}) == 0);"
            for number, port in enumerate(written.outputs)
        ]
        refused += [f"{begin} == {capitals}_OK", f"{begin} == {capitals}_BUSY"]
        refused += [f"{name}_reset(&state) == {capitals}_OK"]
        refused += [f"{name}_step(&state) == {capitals}_NO_FRAME"]
    if written.keeps_state:
        restore = f"{name}_restore(&state, saved, sizeof saved)"
        refused += [
            f"{name}_save(&state, saved, sizeof saved - 1) == {capitals}_TOO_SMALL",
            f"{name}_save(&state, saved, sizeof saved) == {capitals}_OK",
            f"((saved[0] ^= 1), {restore}) == {capitals}_CORRUPT",
            f"((saved[sizeof saved - 8] ^= 1), {restore}) == {capitals}_WRONG_STATE",
        ]
    arrays = ", ".join(
        f"{array}, {elements} * sizeof *{array} - 1"
        for array, elements in written.array_elements.items()
    )
    refused += [
        f"{name}_init(&state, {arrays}) == {capitals}_TOO_SMALL",
        f"(memset(&state, 0, sizeof state), {name}_reset(&state)) == {capitals}_WRONG_STATE",
    ]
    text = "".join(f"    {line}\n" for line in lines)
    calls = "".join(f"    EXPECT({call});\n" for call in refused)
    return f"{text}#ifndef {capitals}_UNCHECKED\n{calls}    {_init_c(written)}\n#endif\n"


def _quantising_c(name: str, number: int, port: LibraryPort) -> list[str]:
    """Return C that quantises a real number between two integers of an input, if it has a scale.

    The number is 0.75 steps from the first integer, and so 0.25 steps from the second, away from zero.
    """
    quantization = port.stored.quantization
    if quantization is None:
        return []
    zero = quantization.zero_point
    sign = 1 if zero < 100 else -1  # within the limits of int8
    real = number_text(float(np.float32(sign * 2.75 * quantization.scale)))
    nearest = zero + 3 * sign
    return [
        f"{{ {port.kind} integer = 0; const float float_value = {real};",
        f"EXPECT({name}_quantize_input({number}, &float_value, &integer, 1) == {name.upper()}_OK);",
        f"EXPECT(integer == {nearest}); }}",
    ]


def _dequantising_c(name: str, number: int, port: LibraryPort) -> list[str]:
    """Return C that dequantises an integer of an output, if the output has a scale."""
    quantization = port.stored.quantization
    if quantization is None:
        return []
    zero = quantization.zero_point
    integer = zero + 3 if zero < 100 else zero - 3  # within the limits of int8
    wanted = float(np.float32(quantization.scale) * np.float32(integer - zero))
    return [
        f"{{ const {port.kind} integer = {integer}; float float_value = 0;",
        f"EXPECT({name}_dequantize_output({number}, &integer, &float_value, 1) == {name.upper()}_OK);",
        f"EXPECT(fabsf(float_value - {number_text(wanted)}) <= {number_text(abs(wanted) / 2**20)}); }}",
    ]


def _from_written_state_c(
    written: Written, vectors: Sequence[TestVector], lines: Sequence[str]
) -> str:
    """Return C that executes frames from a state of the test, and compares the last state."""
    if not lines:
        return ""
    name, capitals = written.name, written.capitals
    sizes = [array.nbytes for _, _, array in _arrays_of(vectors[-1].after or {})]
    places = list(enumerate(accumulate(sizes, initial=0)))[:-1]  # of arrays in a saved state
    put = "\n".join(f"    memcpy(&saved[{at}], before_{n}, sizeof before_{n});" for n, at in places)
    same = "\n".join(
        f"    EXPECT(memcmp(&saved[{at}], after_{n}, sizeof after_{n}) == 0);" for n, at in places
    )
    return f"""
    EXPECT({name}_reset(&state) == {capitals}_OK);
    EXPECT({name}_save(&state, saved, sizeof saved) == {capitals}_OK);
{put}
    seal(saved, sizeof saved - 4);
    EXPECT({name}_restore(&state, saved, sizeof saved) == {capitals}_OK);
{chr(10).join(lines)}
    EXPECT({name}_save(&state, saved, sizeof saved) == {capitals}_OK);
{same}
"""


def _state_arrays_c(written: Written, vectors: Sequence[TestVector]) -> list[str]:
    """Return arrays of C with the state that the test writes, and with the state after its last frame.

    Rows of variables are in rings: each frame writes its rows over the oldest.
    """
    initial, texts = from_initial_state(vectors), []
    if initial == len(vectors):
        return []
    for word, states, frames in (
        ("before", vectors[initial].before, 0),
        ("after", vectors[-1].after, len(vectors) - initial),
    ):
        for number, (name, role, array) in enumerate(_arrays_of(states or {})):
            elements = to_memory_order(as_signed_array(array))
            elements = np.roll(elements, frames * written.fresh_elements.get(name, 0))
            head = f"static const {TYPES[elements.dtype.name]} {word}_{number}[{elements.size}]"
            items = wrapped(_items_c(elements))
            texts.append(f"/* {comment(f'{name}: {role}')} */\n{head} = {{\n{items}\n}};")
    return [*texts, _SEAL]


_SEAL = """/* Write the checksum of a saved state, a CRC-32, behind its bytes. */
static void seal(uint8_t *bytes, size_t count)
{
    uint32_t checksum = ~(uint32_t)0, bit;
    size_t number;
    for (number = 0; number < count; number++) {
        checksum ^= bytes[number];
        for (bit = 0; bit < 8; bit++) {
            checksum = (checksum >> 1) ^ (0xEDB88320u & (0 - (checksum & 1)));
        }
    }
    checksum = ~checksum;
    memcpy(&bytes[count], &checksum, sizeof checksum);
}"""


def _arrays_of(states: States) -> Iterator[tuple[str, str, Array]]:
    """Yield each array of a state in the order in which C saves it."""
    for name, roles in states.items():
        for role, array in roles.items():
            yield name, role, array


def _comparison_of(port: LibraryPort, vector: TestVector) -> str:
    """The C function that compares an output: with a tolerance of the vector, or as its type needs."""
    if vector.tolerance.get(port.layer):
        return f"is_close_{port.kind}"
    return "is_near" if port.kind == "float" else "is_same"


def _compared_c(port: LibraryPort, number: int, vector: TestVector, found: str) -> str:
    """Return C that compares a result with an output: elements within a tolerance, or bytes."""
    test, array = _comparison_of(port, vector), f"{port.array}_{number}"
    count = f"sizeof {array}" if test == "is_same" else str(port.elements)
    tolerance = f", {_tolerance(port, vector)}" if test.startswith("is_close") else ""
    return f"EXPECT({test}({found}, {array}, {count}{tolerance}));"


def _tolerance(port: LibraryPort, vector: TestVector) -> str:
    """C for the tolerance of an output; of real numbers with the rounding errors of sums."""
    tolerance = vector.tolerance[port.layer]
    if port.kind != "float":
        return str(int(tolerance))
    largest = float(np.abs(vector.outputs[port.layer]).max(initial=0))
    return number_text(tolerance + 1e-5 * largest)


_COMPARISONS = {
    "is_near": """static int is_near(const void *numbers, const float *wanted, int32_t count)
{
    float largest = 0, furthest = 0, found;
    int32_t i;
    for (i = 0; i < count; i++) {
        memcpy(&found, (const char *)numbers + 4 * i, sizeof found); /* which begins anywhere */
        if (isnan(found) || isnan(wanted[i]) || isinf(found) || isinf(wanted[i])) {
            if (!(isnan(found) && isnan(wanted[i])) && !(found == wanted[i])) {
                return 0;
            }
            continue;
        }
        largest = fabsf(wanted[i]) > largest ? fabsf(wanted[i]) : largest;
        furthest = fabsf(found - wanted[i]) > furthest ? fabsf(found - wanted[i]) : furthest;
    }
    return furthest <= 1e-5f * largest; /* of the largest */
}""",
    "is_same": """static int is_same(const void *found, const void *wanted, size_t bytes)
{
    return memcmp(found, wanted, bytes) == 0;
}""",
}


def _array_c(port: LibraryPort, number: int, array: Array) -> str:
    """C for the numbers of a port in a vector, in memory order."""
    values = np.asarray(array)
    values = to_memory_order(as_signed_array(values) if port.is_signed_outside else values)
    head = f"static const {port.kind} {port.array}_{number}[{port.elements}]"
    return f"{head} = {{\n{wrapped(_items_c(values))}\n}};"


def _items_c(values: Array) -> Iterable[str]:
    """C for integers, or for real numbers that may be infinite or NaN."""
    if values.dtype.kind in "iu" or np.isfinite(values).all():
        return array_items(values)
    return ("NAN" if np.isnan(v) else number_text(float(v)) for v in values.astype(np.float32))


def _frame_c(written: Written, number: int) -> str:
    """C that executes the frame of a vector."""
    inputs = [f"{port.array}_{number}" for port in written.inputs]
    results = [f"found_{port.array}" for port in written.outputs]
    return f"EXPECT({written.frame_call(inputs, results)} == {written.capitals}_OK);"


def _is_close_c(kind: str) -> str:
    """Return C that compares numbers of a type, which need not be aligned."""
    tolerance = "float" if kind == "float" else "int32_t"
    return f"""/* Behind computed numbers that were rounded, a step more or less may follow. */
static int is_close_{kind}(const void *numbers, const {kind} *wanted, int32_t count,
                           {tolerance} tolerance)
{{
    {kind} found;
    int32_t i;
    for (i = 0; i < count; i++) {{
        memcpy(&found, (const char *)numbers + sizeof found * (size_t)i, sizeof found);
        if (!(found <= wanted[i] + tolerance && found >= wanted[i] - tolerance)) {{
            return 0;
        }}
    }}
    return 1;
}}"""


def _check_c(written: Written, number: int, vector: TestVector) -> str:
    """C that executes the frame of a vector, as a whole and by rows, and compares the outputs."""
    results = [f"found_{port.array}" for port in written.outputs]
    lines = [f"    {_frame_c(written, number)}"]
    lines += [
        f"    {_compared_c(port, number, vector, result)}"
        for result, port in zip(results, written.outputs, strict=True)
    ]
    if written.is_streamed:
        lines += _rows_c(written, number, vector)
    return "\n".join(lines)


def _rows_c(written: Written, number: int, vector: TestVector) -> list[str]:
    """Lines of C that execute a frame row by row, and compare the outputs."""
    name, capitals = written.name, written.capitals
    row = f"{written.inputs[0].array}_{number} + row * {capitals}_ROW_ELEMENTS"
    return [
        "    {",
        "        int32_t row;",
        f"        for (row = 0; row < {capitals}_ROWS; row++) {{",
        f"            int is_last = row == {capitals}_ROWS - 1;",
        f"            EXPECT({name}_push_row(&state, {row}) ==\n"
        f"                (is_last ? {capitals}_DONE : {capitals}_OK));",
        "        }",
        *(
            f"        {_compared_c(port, number, vector, f'{name}_output(&state, {place})')}"
            for place, port in enumerate(written.outputs)
        ),
        "    }",
    ]
