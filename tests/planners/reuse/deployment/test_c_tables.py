"""Deployments as C headers, and a program that is driven by nothing but such a header."""

import re
import shutil
import subprocess
from dataclasses import replace

import pytest

from figures.published.reuse_example import worked_example
from planners.arena.problem import Problem
from planners.reuse.c_tables import format_tables
from planners.reuse.evaluation import Evaluator
from tests.planners.formats.odd_names import odd_names
from tests.planners.reuse.deployment.deployed import as_published, by_offsets
from tests.planners.reuse.deployment.test_catalogue_deployments import ROBOT

EXAMPLE = worked_example()
EVALUATOR = Evaluator(EXAMPLE)
WHOLE = (None,) * len(EXAMPLE.layers)
ROWS = (1,) * len(EXAMPLE.layers)
PUBLISHED = as_published(EVALUATOR, WHOLE)

INTERPRETER = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "plan.h"
#include "kernels.h" /* needs: layer, input, output row, first input row, one past the last */

static unsigned char arena[PLAN_ARENA_BYTES];
static unsigned long written[PLAN_LAYERS];

static void fail(const char *what, unsigned buffer, unsigned row)
{
    printf("%s: buffer %u row %u\n", what, buffer, row);
    exit(1);
}

static unsigned char *place(const struct plan_buffer *one, unsigned row)
{
    return arena + one->offset + row % one->rows * (unsigned long)one->row_bytes;
}

static int tag(const struct plan_buffer *one, unsigned row, unsigned frame)
{
    /* of the tensor, not of the buffer: readers of one tensor may share its place */
    return (int)(1 + (one->producer * 37 + row * 11 + frame * 101) % 251);
}

static int is_copied(unsigned buffer, int as_source)
{
#if PLAN_COPIES
    for (unsigned i = 0; i < PLAN_COPIES; i++)
        if ((as_source ? plan_copies[i].source : plan_copies[i].target) == buffer)
            return 1;
#else
    (void)buffer, (void)as_source;
#endif
    return 0;
}

static void read_rows(const struct plan_firing *fired, unsigned frame)
{
    for (unsigned b = 0; b < PLAN_BUFFERS; b++) {
        const struct plan_buffer *one = &plan_buffers[b];
        if (one->consumer != fired->layer || is_copied(b, 1))
            continue;
        for (unsigned n = 0; n < sizeof needs / sizeof *needs; n++) {
            if (needs[n][0] != fired->layer || needs[n][1] != one->input
                || needs[n][2] < fired->first_row || needs[n][2] >= fired->end_row)
                continue;
            for (unsigned row = needs[n][3]; row < needs[n][4]; row++)
                for (unsigned i = 0; i < one->row_bytes; i++)
                    if (place(one, row)[i] != tag(one, row, frame))
                        fail("lost", b, row);
        }
    }
}

static void write_rows(const struct plan_firing *fired, unsigned frame)
{
    written[fired->layer] += fired->end_row - fired->first_row;
    for (unsigned b = 0; b < PLAN_BUFFERS; b++) {
        const struct plan_buffer *one = &plan_buffers[b];
        if (one->producer != fired->layer || is_copied(b, 0))
            continue;
        for (unsigned row = fired->first_row; row < fired->end_row; row++)
            memset(place(one, row), tag(one, row, frame), one->row_bytes);
    }
}

static void fire(unsigned partition, unsigned frame)
{
    for (unsigned i = plan_partitions[partition].first_firing;
         i < plan_partitions[partition].end_firing; i++) {
        read_rows(&plan_firings[i], frame);
        write_rows(&plan_firings[i], frame);
        read_rows(&plan_firings[i], frame); /* a kernel may write before it has read all */
    }
}

static void copy(unsigned partition)
{
#if PLAN_COPIES
    for (unsigned i = 0; i < PLAN_COPIES; i++)
        if (plan_copies[i].partition == partition)
            memcpy(arena + plan_buffers[plan_copies[i].target].offset,
                   arena + plan_buffers[plan_copies[i].source].offset,
                   plan_buffers[plan_copies[i].source].bytes);
#else
    (void)partition;
#endif
}

int main(void)
{
    for (unsigned b = 0; b < PLAN_BUFFERS; b++) {
        const struct plan_buffer *one = &plan_buffers[b];
        if (one->offset + (unsigned long)one->bytes > PLAN_ARENA_BYTES
            || one->rows * (unsigned long)one->row_bytes > one->bytes)
            fail("outside", b, 0);
    }
#ifdef AT_THE_SAME_TIME /* CNN1, then a pipeline of P2 and P3 until it is drained */
    for (unsigned frame = 0; frame < 2; frame++)
        fire(PLAN_PARTITION_P1, frame);
    for (unsigned tick = 0; tick < 3; tick++) {
        if (tick < 2)
            fire(PLAN_PARTITION_P2, tick);
        if (COPIES_EARLY)
            copy(PLAN_PARTITION_P2);
        if (tick > 0)
            fire(PLAN_PARTITION_P3, tick - 1);
        if (!COPIES_EARLY)
            copy(PLAN_PARTITION_P2);
    }
#else
    for (unsigned frame = 0; frame < 2; frame++)
        for (unsigned partition = 0; partition < PLAN_PARTITIONS; partition++) {
            fire(partition, frame);
            copy(partition);
        }
#endif
    for (unsigned layer = 0; layer < PLAN_LAYERS; layer++)
        printf("%lu ", written[layer]);
    return 0;
}
"""


def kernels(application):
    """A table of the input rows that each output row of each layer needs, from the row rule."""
    members = [(application.members[number], one) for number, one in application.partitions]
    layers = [(member.network, name) for member, one in members for name in one.layers]
    lines = []
    for number, (network, name) in enumerate(layers):
        layer = network.layer(name)
        shapes = network.input_shapes(layer)
        for index, source in enumerate(shapes):
            rule = layer.operator.rows_needed(index, shapes, layer.shape)
            for row in range(layer.shape.rows):
                first, upto = rule(row) if rule else (0, source.rows)
                first, upto = max(first, 0), min(upto, source.rows)
                lines.append(f"    {{{number}, {index}, {row}, {first}, {upto}}},")
    return "\n".join(["static const unsigned short needs[][5] = {", *lines, "};", ""])


def changed(planned, reason=None, name=None, offsets=None, **names):
    """A deployment with another reason, name or offsets, or with other names of its buffers."""
    memory, plan = planned.memory, planned.plan
    buffers = tuple(
        replace(one, name=names.get(one.name, one.name)) for one in memory.problem.buffers
    )
    problem = Problem(name=name or memory.problem.name, buffers=buffers)
    offsets = {names.get(key, key): at for key, at in (offsets or memory.offsets).items()}
    memory = replace(memory, problem=problem, offsets=offsets, reason=reason or memory.reason)
    edges = tuple(replace(one, name=names.get(one.name, one.name)) for one in plan.edges)
    return planned._replace(memory=memory, plan=replace(plan, edges=edges))


def interpreted(folder, application, plan, *macros):
    """Compile the interpreter against a plan; return its exit code and what it prints."""
    (folder / "plan.h").write_text(format_tables(changed(plan, name="plan")))
    (folder / "kernels.h").write_text(kernels(application))
    (folder / "main.c").write_text(INTERPRETER)
    flags = ["-std=c99", "-O1", "-Wall", "-Wextra", "-Werror"]
    command = ["cc", *flags, *macros, "main.c", "-o", "main"]
    subprocess.run(command, cwd=folder, check=True)
    done = subprocess.run([folder / "main"], capture_output=True, text=True)
    return done.returncode, done.stdout


compiled = pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")


@pytest.mark.slow
@compiled
@pytest.mark.parametrize("application", [EXAMPLE, ROBOT], ids=["example", "robot"])
@pytest.mark.parametrize("make", [as_published, by_offsets])
@pytest.mark.parametrize("gene", [None, 1, 3])
def test_an_interpreter_driven_by_the_header_finds_every_row_it_needs(
    tmp_path, application, make, gene
):
    plan = make(Evaluator(application), (gene,) * len(application.layers))
    code, shown = interpreted(tmp_path, application, plan)
    assert code == 0, shown
    rows = [
        application.members[number].network.layer(name).shape.rows
        for number, one in application.partitions
        for name in one.layers
    ]
    assert [int(word) for word in shown.split()] == [2 * count for count in rows]  # two frames


@compiled
def test_the_interpreter_finds_buffers_that_lie_over_one_another(tmp_path):
    plan = by_offsets(EVALUATOR, ROWS)
    wrong = changed(plan, offsets=dict.fromkeys(plan.memory.offsets, 0))
    code, shown = interpreted(tmp_path, EXAMPLE, wrong)
    assert (code, shown[:4]) == (1, "lost")


@compiled
@pytest.mark.parametrize("copies_early", [0, 1])
def test_copies_wait_until_all_partitions_of_a_set_end_their_frames(tmp_path, copies_early):
    macros = "-DAT_THE_SAME_TIME", f"-DCOPIES_EARLY={copies_early}"
    code, shown = interpreted(tmp_path, EXAMPLE, PUBLISHED, *macros)
    assert (code, "lost" in shown) == (copies_early, bool(copies_early))
    header = (tmp_path / "plan.h").read_text()
    assert "all of them end their frames, then all copies of the set" in " ".join(header.split())


@pytest.mark.skipif(shutil.which("c++") is None, reason="there is no C++ compiler")
def test_the_header_is_one_of_cpp_too(tmp_path):
    (tmp_path / "main.cpp").write_text('#include "plan.h"\nint main() { return 0; }\n')
    (tmp_path / "plan.h").write_text(format_tables(by_offsets(EVALUATOR, ROWS)))
    command = ["c++", "-Wall", "-Werror", "-Wno-unused-const-variable", "-Wno-unused-variable"]
    subprocess.run([*command, "-fsyntax-only", "main.cpp"], cwd=tmp_path, check=True)


def test_names_in_c_comments_end_no_comment():
    first = PUBLISHED.plan.edges[0].name
    text = format_tables(changed(PUBLISHED, name="9 lives", **{first: "a */ int evil; /* b"}))
    assert "a * / int evil; / * b */" in text
    assert "#define N9_LIVES_ARENA_BYTES 98344" in text


@compiled
@pytest.mark.parametrize("seed", range(3))
def test_no_compiler_warns_of_tables(tmp_path, seed):
    names = iter(odd_names(200, seed=seed))
    members = []
    for member in EXAMPLE.members:
        rename = {layer.name: next(names) for layer in member.network.layers}
        layers = tuple(
            replace(one, name=rename[one.name], inputs=tuple(map(rename.get, one.inputs)))
            for one in member.network.layers
        )
        partitions = tuple(
            replace(one, layers=tuple(map(rename.get, one.layers))) for one in member.partitions
        )
        network = replace(member.network, layers=layers)
        outside = frozenset(map(rename.get, member.outside))
        members.append(replace(member, network=network, partitions=partitions, outside=outside))
    plan = as_published(Evaluator(replace(EXAMPLE, members=tuple(members))), WHOLE)
    reason = " ".join(names)  # wrapped at every place
    odd = dict(
        zip((edge.name for edge in plan.plan.edges), odd_names(99, seed=-seed), strict=False)
    )
    plan = changed(plan, name=reason[:60], reason=reason, **odd)
    (tmp_path / "plan.h").write_text(format_tables(plan))
    (tmp_path / "main.c").write_text('#include "plan.h"\nint main(void) { return 0; }\n')
    flags = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic"]
    command = ["cc", *flags, "-fsyntax-only", "main.c"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_names_that_are_one_in_c_are_numbered():
    first, second, *_ = (edge.name for edge in PUBLISHED.plan.edges)
    text = format_tables(changed(PUBLISHED, **{first: "a-b", second: "a b"}))
    assert "_BUFFER_A_B,\n    WORKED_EXAMPLE_BUFFER_A_B_2,\n" in text


def test_numbers_have_the_smallest_type_that_holds_them():
    text = format_tables(as_published(EVALUATOR, ROWS))
    # CNN1 by rows: 5 layers and 32 phases fit a byte; rows end at 32.
    assert "uint8_t end_row;" in text
    # 13,536 elements of 4 bytes: the last offsets need two bytes.
    assert "uint16_t offset;" in text


def test_no_line_of_words_is_longer_than_100_columns():
    long = " ".join(f"'buffer {number}'" for number in range(99))
    text = format_tables(changed(PUBLISHED, reason=f"at time 5 {long} need 98344 bytes"))
    prose = text[text.index("/*") : text.index("*/")]
    assert max(map(len, prose.splitlines())) <= 100
    assert re.sub(r"\s+", " ", prose).count("'buffer ") == 99


def test_a_pipeline_has_its_copies_the_last_one_first():
    # P2 and P3 of the worked example are pipelined: one edge is cut, so there is one copy.
    text = format_tables(PUBLISHED)
    assert "#define WORKED_EXAMPLE_COPIES 1\n" in text
    copies = format_tables(as_published(Evaluator(ROBOT), (None,) * len(ROBOT.layers)))
    table = copies[copies.index("robot_copies[") :]
    ends = [int(partition) for partition in re.findall(r"\{(\d+),\d+,\d+\}", table)]
    # Eyes work in partitions 0, 1 and 2 at the same time: copies are made behind 1, then behind 0.
    assert ends == sorted(ends, reverse=True)
    assert set(ends) == {0, 1}
