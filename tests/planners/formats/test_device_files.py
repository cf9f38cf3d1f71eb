"""C headers and the offline plan of TensorFlow Lite Micro."""

import re
import shutil
import struct
import subprocess
from dataclasses import replace

import pytest

from csdf.errors import InvalidPlan
from planners.arena.problem import MemoryPlan, Problem
from planners.formats.c_header import format_header
from planners.formats.tflite_micro import offline_plan
from tests.planners.formats.odd_names import odd_names
from tests.planners.problems import problem_of

STRICT = ("-Wall", "-Wextra", "-Werror", "-pedantic")


def planned(problem, offsets):
    return MemoryPlan(problem=problem, offsets=offsets, lower_bound=0, status="feasible", reason="")


def test_a_header_defines_the_arena_and_every_offset():
    problem = problem_of(("conv-1", 8, 0, 2, {"alignment": 8}), ("2", 4, 1, 3))
    text = format_header([planned(problem, {"conv-1": 0, "2": 8})])
    assert dict(re.findall(r"#define (\w+) (\d+)", text)) == {
        "EXAMPLE_ARENA_BYTES": "12",
        "EXAMPLE_ARENA_ALIGNMENT": "8",
        "EXAMPLE_OFFSET_CONV_1": "0",
        "EXAMPLE_OFFSET_2": "8",
    }


def test_names_that_c_cannot_tell_apart_are_refused():
    problem = problem_of(("a-b", 1, 0, 1), ("a.b", 1, 0, 1))
    with pytest.raises(
        InvalidPlan, match=r"'a\.b' and 'a-b' would both be EXAMPLE_OFFSET_A_B in C"
    ):
        format_header([planned(problem, {"a-b": 0, "a.b": 1})])


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("*/ int x; /*\n", r"* / int x; / *\n"),
        ("x/*y", "x/ *y"),
        ("/*/*/", "/ * / * /"),
        ("what???/", "what? ? ?/"),
        ("a\u202eb\ud800", r"a\u202eb\ud800"),
        ("né 名", "né 名"),
    ],
)
def test_a_name_is_nothing_but_text_in_the_comment(name, shown):
    comment = format_header([planned(Problem(name=name, buffers=()), {})]).splitlines()[3]
    assert comment == f"/* {shown}: feasible */"


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
@pytest.mark.parametrize("language", ["c", "c++"])
@pytest.mark.parametrize("seed", range(3))
def test_no_compiler_warns_of_a_header(tmp_path, language, seed):
    names = odd_names(300, seed=seed)
    plans = []
    for problem, *buffers in zip(*[iter(names)] * 3, strict=True):
        found = replace(problem_of(*((name, 8, 0, 2) for name in buffers)), name=problem)
        plans.append(planned(found, dict.fromkeys(buffers, 0)))
    plans.append(planned(problem_of(("the last", 8, 0, 2)), {"the last": 2**63 - 9}))
    text = format_header(plans)
    (tmp_path / "plan.h").write_text(text)
    macros = re.findall(r"#define (\w+) ", text)
    values = ",\n".join(macros)
    assert len(macros) == 4 * 100 + 3  # a size, an alignment, and an offset for each buffer
    source = f'#include "plan.h"\nlong long values[] = {{ {values} }};\n'
    (tmp_path / "main.c").write_text(source)
    standard = {"c": "-std=c99", "c++": "-std=c++11"}[language]
    command = ["cc", "-x", language, standard, *STRICT, "-fsyntax-only", "main.c"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
def test_a_program_may_take_the_headers_of_two_networks(tmp_path):
    for name in ("left", "right"):
        problem = replace(problem_of(("a", 8, 0, 2)), name=name)
        (tmp_path / f"{name}.h").write_text(format_header([planned(problem, {"a": 0})]))
    (tmp_path / "main.c").write_text(
        '#include "left.h"\n#include "right.h"\n#include "left.h"\n'
        "int sum = LEFT_ARENA_BYTES + RIGHT_ARENA_BYTES;\n"
    )
    command = ["cc", "-std=c99", *STRICT, "-fsyntax-only", "main.c"]
    assert subprocess.run(command, cwd=tmp_path, check=False).returncode == 0


def test_a_number_that_c_has_not_is_refused():
    problem = problem_of(("a", 1, 0, 1))
    with pytest.raises(InvalidPlan, match="numbers in C end at 9223372036854775807"):
        format_header([planned(problem, {"a": 2**63})])


def test_an_offline_plan_is_a_header_and_an_offset_for_each_tensor():
    problem = problem_of(("3", 8, 0, 2), ("0", 4, 1, 3))
    content = offline_plan(planned(problem, {"3": 4, "0": 0}))
    # version 1, subgraph 0, tensors 0 to 3, of which 1 and 2 are left to the runtime
    assert content == struct.pack("<7i", 1, 0, 4, 0, -1, -1, 4)


@pytest.mark.parametrize("name", ["conv", "-1", "1_0", "٣"])
def test_only_numbers_name_tensors(name):
    with pytest.raises(InvalidPlan, match="expected the number of a tensor"):
        offline_plan(planned(problem_of((name, 1, 0, 1)), {name: 0}))


def test_an_offset_beyond_32_bits_is_refused():
    with pytest.raises(InvalidPlan, match="an offset has 32 bits"):
        offline_plan(planned(problem_of(("0", 2**31, 0, 1)), {"0": 0}))
