"""Functions of a library that refuse what they are given, and frames in steps."""

import re
import subprocess
from dataclasses import replace

import pytest

from planners.code.library import library, write_library
from planners.code.packaging import Package
from planners.code.placed_stages import placed_stages
from planners.code.status import CHECKSUM
from planners.memory.fit import fit
from tests.benchmarks.instruction_samples import drawn
from tests.planners.code.calibrated import integer_model
from tests.planners.code.compiling import COMPILER, FLAGS, TALKING, needs_compiler
from tests.planners.code.test_writing_libraries import planned, small

BODY = r"^small_status (\w+)\([^;{]*\)\n\{\n(.*?)^\}"
HOOK = """#include <setjmp.h>
static jmp_buf aborted;
static int firings, failed_in_hook, is_aborting;
static void (*in_hook)(void);

void small_yield(void)
{
    if (is_aborting) {
        longjmp(aborted, 1);
    }
    if (in_hook && ++firings == 3) {
        void (*call)(void) = in_hook;
        in_hook = NULL;
        call();
        firings = 0;
    }
}

static void waits(void)
{
    failed_in_hook |= small_run(&state, input, again) != SMALL_BUSY || small_output(&state, 0);
    failed_in_hook |= small_CONTINUED != SMALL_BUSY;
}

static void resets(void)
{
    failed_in_hook |= small_reset(&state) != SMALL_OK;
}

static void begins(void)
{
    resets();
    failed_in_hook |= small_run(&state, input, again) != SMALL_OK;
}

static void initialises(void)
{
    failed_in_hook |= small_init(&state, arena, sizeof arena) != SMALL_OK;
}

static int runs_with_hook(void)
{
    static void (*const hooks[])(void) = {waits, resets, begins, initialises};
    size_t number;
    for (number = 0; number < sizeof hooks / sizeof *hooks; number++) {
        in_hook = hooks[number];
        failed_in_hook |= small_run(&state, input, again) != (number ? SMALL_NO_FRAME : SMALL_OK);
        failed_in_hook |= in_hook || small_run(&state, input, again) != SMALL_OK;
        failed_in_hook |= memcmp(again, output, sizeof output) != 0;
    }
    return failed_in_hook;
}
"""
REFUSALS = """#include <stdio.h>
#include <string.h>
#include "small.h"

static small_element arena[SMALL_ARENA_ELEMENTS + 1];
static float input[SMALL_INPUT_ELEMENTS], output[SMALL_OUTPUT_ELEMENTS], again[SMALL_OUTPUT_ELEMENTS];
static small_state state, other;
static size_t size = SMALL_ARENA_ELEMENTS * sizeof(small_element);

HOOK
#define EXPECT(status, call) \\
    if ((call) != (status)) { \\
        printf("%s: not %s\\n", #call, #status); \\
        failed = 1; \\
    }

int main(void)
{
    int failed = 0, number, steps = 0;
    small_status status;
    for (number = 0; number < SMALL_INPUT_ELEMENTS; number++) {
        input[number] = (float)(number % 7) - 3.0f;
    }
    EXPECT(SMALL_WRONG_STATE, small_run(&state, input, output))
    EXPECT(SMALL_NULL_POINTER, small_init(&state, NULL, size))
    EXPECT(SMALL_TOO_SMALL, small_init(&state, arena, size - 1))
    EXPECT(SMALL_MISALIGNED, small_init(&state, (small_element *)(void *)((char *)arena + 1), size))
    EXPECT(SMALL_NULL_POINTER, small_init_checked(NULL, arena, size, sizeof state, SMALL_HEADER))
    EXPECT(SMALL_WRONG_HEADER, small_init_checked(&state, arena, size, sizeof state, SMALL_HEADER + 1))
    EXPECT(SMALL_WRONG_HEADER, small_init_checked(&state, arena, size, 4, SMALL_HEADER))
    EXPECT(SMALL_WRONG_STATE, small_run(&state, input, output))
    EXPECT(SMALL_OK, small_init(&state, arena, size))
    EXPECT(SMALL_NULL_POINTER, small_run(NULL, input, output))
    EXPECT(SMALL_NULL_POINTER, small_run(&state, input, NULL))
    EXPECT(SMALL_OK, small_run(&state, input, output))
    memset(&other, 85, sizeof other);
    EXPECT(SMALL_WRONG_STATE, small_step(&other))
    EXPECT(NULL, small_output(&state, 1))
    EXPECT(NULL, small_output(&state, -1))
    EXPECT(NULL, small_input(&other, 0))
    EXPECT(0, memcmp(small_output(&state, 0), output, sizeof output))
    EXPECT(SMALL_NO_FRAME, small_step(&state))
    EXPECT(SMALL_NULL_POINTER, small_begin(&state, NULL))
    EXPECT(SMALL_NULL_POINTER, small_run(&state, NULL, output))
    EXPECT(SMALL_NO_FRAME, small_step(&state))
    EXPECT(SMALL_OK, small_begin(&state, input))
    EXPECT(SMALL_BUSY, small_begin(&state, input))
    EXPECT(SMALL_BUSY, small_run(&state, input, output))
    EXPECT(NULL, small_input(&state, 0))
    EXPECT(SMALL_OK, small_reset(&state)) /* gives up the frame */
    EXPECT(SMALL_NO_FRAME, small_step(&state))
    memcpy(small_input(&state, 0), input, sizeof input);
    memset(again, 0, sizeof again);
    EXPECT(SMALL_OK, small_run(&state, (const float *)small_input(&state, 0), again))
    EXPECT(0, memcmp(again, output, sizeof output))
    EXPECT(SMALL_OK, small_begin(&state, input))
    do {
        status = small_step(&state);
        steps++;
    } while (status == SMALL_OK);
    EXPECT(SMALL_DONE, status)
    EXPECT(GROUPS, steps)
    memcpy(again, small_output(&state, 0), sizeof again);
    EXPECT(0, memcmp(again, output, sizeof output))
    EXPECT(SMALL_NO_FRAME, small_step(&state)) /* there is nothing left to do */
    if (setjmp(aborted) == 0) { /* the hook leaves a frame */
        is_aborting = 1;
        (void)small_run(&state, input, output);
    }
    is_aborting = 0;
    EXPECT(SMALL_BUSY, small_run(&state, input, output))
    EXPECT(SMALL_OK, small_reset(&state))
    EXPECT(SMALL_OK, small_run(&state, input, again))
    EXPECT(0, memcmp(again, output, sizeof output))
    EXPECT(0, runs_with_hook())
    return failed;
}
"""
ROWS = """#include <string.h>
#include "small.h"

static small_element arena[SMALL_ARENA_ELEMENTS];
static float input[SMALL_INPUT_ELEMENTS], output[SMALL_OUTPUT_ELEMENTS], again[SMALL_OUTPUT_ELEMENTS];
static small_state state;

HOOK
int main(void)
{
    int failed = 0, number;
    for (number = 0; number < SMALL_INPUT_ELEMENTS; number++) {
        input[number] = (float)(number % 7) - 3.0f;
    }
    failed |= small_init(&state, arena, sizeof arena) != SMALL_OK;
    failed |= small_run(&state, input, output) != SMALL_OK;
    failed |= small_push_row(&state, NULL) != SMALL_NULL_POINTER;
    failed |= small_push_row(&state, &input[SMALL_ROW_ELEMENTS]) != SMALL_OK;
    failed |= small_run(&state, input, again) != SMALL_BUSY;
    failed |= small_reset(&state) != SMALL_OK;
    failed |= small_run(&state, input, again) != SMALL_OK;
    failed |= memcmp(again, output, sizeof output) != 0;
    failed |= runs_with_hook();
    return failed;
}
"""
RESTORED = """#include "net.h"
static net_element arena[NET_ARENA_ELEMENTS];
static net_state state;
static char saved[NET_SAVED_BYTES];
int main(void)
{
    (void)net_init(&state, arena, sizeof arena);
    if (net_save(&state, saved, sizeof saved) != NET_OK ||
        net_restore(&state, saved, sizeof saved) != NET_OK) {
        return 1;
    }
#ifndef NET_UNCHECKED
    static int8_t input[NET_INPUT_ELEMENTS];
    if (net_save(&state, NULL, sizeof saved) != NET_NULL_POINTER ||
        net_save(&state, saved, sizeof saved - 1) != NET_TOO_SMALL ||
        net_restore(&state, NULL, sizeof saved) != NET_NULL_POINTER ||
        net_restore(&state, saved, sizeof saved - 1) != NET_TOO_SMALL) {
        return 2;
    }
    if (net_begin(&state, input) != NET_OK || net_save(&state, saved, sizeof saved) != NET_BUSY ||
        net_restore(&state, saved, sizeof saved) != NET_OK || net_step(&state) != NET_NO_FRAME) {
        return 3;
    }
#endif
    saved[0] ^= 4;
    if (net_restore(&state, saved, sizeof saved) != CHANGED) {
        return 4;
    }
    saved[0] ^= 4;
    saved[NET_SAVED_BYTES - 1] ^= 4; /* the checksum of all bytes */
    if (net_restore(&state, saved, sizeof saved) != CHANGED) {
        return 5;
    }
    saved[NET_SAVED_BYTES - 5]++; /* of another library */
    return net_restore(&state, saved, sizeof saved) == OTHER ? 0 : 6;
}
"""
YIELDING = """#include "net.h"
static net_element arena[NET_ARENA_ELEMENTS];
static net_state state;
static int turns;
void net_yield(void)
{
    turns++;
}
int main(void)
{
    static int8_t input[NET_INPUT_ELEMENTS], output[NET_OUTPUT_ELEMENTS];
    if (net_init(&state, arena, sizeof arena) != NET_OK || net_run(&state, input, output) != NET_OK) {
        return 1;
    }
    return turns == FIRINGS ? 0 : 2;
}
"""


def test_each_function_with_a_status_has_one_exit():
    model = small()
    for is_streamed in (False, True):
        plan = planned(model, is_streamed=is_streamed)
        source = library(model, plan, name="small").written.source
        bodies = re.findall(BODY, source, re.MULTILINE | re.DOTALL)
        assert "small_run" in dict(bodies)
        assert [name for name, body in bodies if body.count("return ") != 1] == []


def built(folder, name, text, *flags):
    """Compile a program with a library, run it, and return what it printed and its exit code."""
    (folder / "program.c").write_text(text)
    words = [COMPILER, *FLAGS, *TALKING, *flags, "-Iinclude", "program.c"]
    words += [f"src/{name}.c", f"src/{name}_weights.c", "-lm", "-o", "program"]
    subprocess.run(words, cwd=folder, check=True)
    ran = subprocess.run(["./program"], cwd=folder, capture_output=True, text=True)
    return ran.stdout + ran.stderr, ran.returncode


@pytest.mark.slow
@needs_compiler
def test_a_state_saved_by_another_library_is_refused(tmp_path):
    model = drawn("windows:1:hops")
    plan = fit(model.network, budget=1).least.plan
    texts = [write_library(changed, plan, tmp_path, name="net").written.header
             for changed in (retrained(model), model)]  # fmt: skip
    assert len({re.search(r"NET_HEADER (\w+)", text)[1] for text in texts}) == 2
    text = RESTORED.replace("CHANGED", "NET_CORRUPT").replace("OTHER", "NET_WRONG_STATE")
    assert built(tmp_path, "net", text) == ("", 0)
    text = RESTORED.replace("CHANGED", "NET_OK").replace("OTHER", "NET_OK")
    assert built(tmp_path, "net", text, "-DNET_UNCHECKED") == ("", 0)


def test_the_macros_of_a_library_keep_its_name(tmp_path):
    model = drawn("windows:1:hops")
    plan = fit(model.network, budget=1).least.plan
    source = write_library(model, plan, tmp_path, name="rename_net").written.source
    assert "RENAME_NET_CORRUPT" in source
    assert set(re.findall(r"\w*_CORRUPT", source)) == {"RENAME_NET_CORRUPT"}


def retrained(model):
    """The model with another bias."""
    name, arrays = next(
        (name, arrays) for name, arrays in model.weights.items() if "bias" in arrays
    )
    changed = {**arrays, "bias": arrays["bias"] + 1}
    return replace(model, weights={**model.weights, name: changed})


@pytest.mark.slow
@needs_compiler
def test_functions_refuse_wrong_memory_states_and_headers(tmp_path):
    plan = planned(small())
    write_library(small(), plan, tmp_path)
    text = REFUSALS.replace("GROUPS", str(len(plan.groups))).replace("HOOK", HOOK)
    text = text.replace("CONTINUED", "step(&state)")
    assert built(tmp_path, "small", text, "-DSMALL_YIELD") == ("", 0)


@pytest.mark.slow
@needs_compiler
def test_a_frame_of_rows_in_progress_is_given_up_by_reset(tmp_path):
    write_library(small(), planned(small(), is_streamed=True), tmp_path)
    text = ROWS.replace("HOOK", HOOK).replace("CONTINUED", "push_row(&state, input)")
    assert built(tmp_path, "small", text, "-DSMALL_YIELD") == ("", 0)


@pytest.mark.slow
@needs_compiler
def test_without_checks_only_frames_are_computed(tmp_path):
    write_library(small(), planned(small()), tmp_path)
    checks = [line for line in REFUSALS.splitlines() if "_WRONG" in line or "EXPECT(NULL" in line]
    checks += [line for line in REFUSALS.splitlines() if "_NULL" in line or "_TOO" in line]
    checks += [line for line in REFUSALS.splitlines() if "_MISALIGNED" in line]
    checks += [line for line in REFUSALS.splitlines() if "_BUSY" in line or "NO_FRAME" in line]
    text = "\n".join(line for line in REFUSALS.splitlines() if line not in checks)
    text = text.replace("EXPECT(GROUPS, steps)", "").replace("EXPECT(0, runs_with_hook())", "")
    text = text.replace(
        "HOOK", "#include <setjmp.h>\nstatic jmp_buf aborted;\nstatic int is_aborting;"
    )
    assert text.count("EXPECT") > 4
    assert built(tmp_path, "small", text, "-DSMALL_UNCHECKED") == ("", 0)


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize("input_", ["resident", "external"])
def test_the_hook_between_firings_is_called_after_each(tmp_path, input_):
    model = integer_model(small("net").network, 0)
    plan = fit(model.network, budget=1, input=input_).least.plan
    firings = sum(len(one.targets) for one in executed(model, plan))
    write_library(model, plan, tmp_path, name="net")
    text = YIELDING.replace("FIRINGS", str(firings))
    assert built(tmp_path, "net", text, "-DNET_YIELD") == ("", 0)


OUTSIDE = """#include "net.h"
static net_element arena[NET_ARENA_ELEMENTS];
static net_state state;
static int8_t input[NET_INPUT_ELEMENTS], output[NET_OUTPUT_ELEMENTS];

int main(void)
{
    int failed = net_init(&state, arena, sizeof arena) != NET_OK || net_input(&state, 0) != NULL;
    failed |= net_run(&state, input, output) != NET_OK;
    return failed || net_input(&state, 0) != NULL;
}
"""


@pytest.mark.slow
@needs_compiler
def test_no_address_is_given_of_an_input_outside_the_arena(tmp_path):
    model = integer_model(small("net").network, 0)
    plan = fit(model.network, budget=1, input="external").least.plan
    write_library(model, plan, tmp_path, name="net")
    assert built(tmp_path, "net", OUTSIDE) == ("", 0)


def executed(model, plan):
    """The stages of a plan."""
    return [one.running for one in placed_stages(model.network, plan)]


def test_a_header_with_another_version_has_another_checksum():
    model, plan = small(), planned(small())
    headers = {
        library(model, plan, package=Package(version=version)).files["include/small.h"]
        for version in ("1.0.0", "1.0.1")
    }
    checksums = {
        line for text in headers for line in text.splitlines() if "SMALL_HEADER 0x" in line
    }
    assert len(checksums) == 2
    assert not any(CHECKSUM in text for text in headers)


FORGED = """#include <stdlib.h>
#include <string.h>
#include "net.h"
static net_state state;
static uint8_t saved[NET_SAVED_BYTES];
static int8_t input[NET_INPUT_ELEMENTS], output[NET_OUTPUT_ELEMENTS];
static uint32_t drawn = 1;

static void draw(void *bytes, size_t count)
{
    size_t number;
    for (number = 0; number < count; number++) {
        drawn = (drawn * 1103515245u) + 12345u;
        ((uint8_t *)bytes)[number] = (uint8_t)(drawn >> 16);
    }
}

static void seal(void)
{
    const size_t count = sizeof saved - 4;
    uint32_t checksum = ~(uint32_t)0, bit;
    size_t number;
    for (number = 0; number < count; number++) {
        checksum ^= saved[number];
        for (bit = 0; bit < 8; bit++) {
            checksum = (checksum >> 1) ^ (0xEDB88320u & (0 - (checksum & 1)));
        }
    }
    checksum = ~checksum;
    memcpy(&saved[count], &checksum, 4);
}

int main(void)
{
    net_element *arena = malloc(NET_ARENA_ELEMENTS * sizeof *arena);
    int forged, frame, failed = net_init(&state, arena, NET_ARENA_ELEMENTS * sizeof *arena) != NET_OK;
    failed |= net_save(&state, saved, sizeof saved) != NET_OK;
    for (forged = 0; forged < 20; forged++) {
        draw(saved, sizeof saved - 8);
        memset(saved, 255, forged ? 0 : sizeof saved - 8);
        seal();
        state.group = (uint16_t)(forged % 2 ? 65535 : 100);
        failed |= net_restore(&state, saved, sizeof saved) != NET_OK;
        for (frame = 0; frame < 3; frame++) {
            draw(input, sizeof input);
            failed |= net_invoke(&state, input, output) != NET_OK;
        }
    }
    free(arena);
    return failed;
}
"""


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize(
    "sample", ["windows:9:hops", "filters_in_time:3:typed", "streamed:0:typed"]
)
def test_a_forged_state_leads_to_no_access_out_of_bounds(sample, tmp_path):
    model = drawn(sample)
    plan = fit(model.network, budget=1).least.plan
    written = write_library(model, plan, tmp_path, name="net").written
    text = FORGED.replace("INPUT", written.inputs[0].parameter.upper())
    text = text.replace("OUTPUT", written.outputs[0].parameter.upper())
    # Sums of any value overflow in a further frame, which addresses nothing.
    assert built(tmp_path, "net", text, "-fno-sanitize=signed-integer-overflow") == ("", 0)
