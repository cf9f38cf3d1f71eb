"""The search in C: the same answers as in Python, under sanitizers; and the programs of its page."""

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from csdf.status import Status
from planners.arena import c_library
from planners.arena.allocation import plan_arena
from planners.arena.checker import check_plan
from planners.arena.command import library
from planners.arena.problem import Buffer, MemoryPlan, Problem
from planners.formats.allocation_traces import parse_buffers, parse_traces
from tests.docs.pages import ROOT, blocks_of

ALLOC = ROOT.parent / "shared" / "alloc"
STATUSES = [Status.OPTIMAL, Status.FEASIBLE, Status.INFEASIBLE, Status.UNKNOWN]
STRICT = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]
SANITIZERS = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
HARNESS = Path(__file__).with_name("harness.c")
pytestmark = pytest.mark.skipif(
    not (shutil.which("cc") and shutil.which("c++")), reason="no C and C++ compiler is installed"
)


def compiled(folder, *words):
    c_library.write_library(folder)
    subprocess.run([*words, "-I", folder, "-o", folder / "program"], check=True)
    return folder / "program"


@pytest.fixture(scope="module")
def sanitized(tmp_path_factory):
    words = ["cc", "-std=c11", "-O1", *STRICT, *SANITIZERS, HARNESS]
    return compiled(tmp_path_factory.mktemp("sanitized"), *words)


def answers_of(program, problems, *words, capacity=-1, milliseconds=60_000):
    """A plan for each problem, which the checker has seen where there is one."""
    lines = [len(problems)]
    for problem in problems:
        number = {buffer.name: k for k, buffer in enumerate(problem.buffers)}
        lines.append(f"{len(number)} {len(problem.conflicts)} {capacity} {milliseconds}")
        lines += [f"{b.size} {b.start} {b.end} {b.alignment}" for b in problem.buffers]
        lines += [f"{number[one]} {number[other]}" for one, other in problem.conflicts]
    text = "\n".join(map(str, lines))
    run = subprocess.run([program, *words], input=text, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    shown = run.stdout.splitlines()
    found = []
    for problem, head, tail in zip(problems, shown[::2], shown[1::2], strict=True):
        status, peak, bound = map(int, head.split())
        names = (buffer.name for buffer in problem.buffers)
        plan = MemoryPlan(
            problem=problem,
            offsets=dict(zip(names, map(int, tail.split()), strict=True)),
            lower_bound=bound,
            status=STATUSES[status],
            reason="of C",
        )
        if plan.has_offsets:
            assert plan.peak == peak
            check_plan(plan)
        found.append(plan)
    return found


def drawn(random, most):
    """Buffers of all sizes, lifetimes and alignments, with some conflicts beside lifetimes."""
    count = random.randrange(most + 1)
    buffers = []
    for number in range(count):
        start = random.randrange(-3, 8)
        end = start + random.randrange(5)
        alignment = random.choice((1, 1, 2, 3, 4))
        size = random.randrange(12)
        buffers.append(
            Buffer(name=str(number), size=size, start=start, end=end, alignment=alignment)
        )
    pairs = [(str(i), str(j)) for i in range(count) for j in range(i) if random.random() < 0.1]
    return Problem(name="drawn", buffers=tuple(buffers), conflicts=tuple(pairs))


@pytest.mark.parametrize("capacity", [-1, 16])
def test_c_and_python_give_the_same_answers(sanitized, capacity):
    random = Random(5)
    problems = [drawn(random, most) for most in range(12) for _ in range(20)]
    for problem, found in zip(
        problems, answers_of(sanitized, problems, capacity=capacity), strict=True
    ):
        expected = plan_arena(problem, capacity=None if capacity < 0 else capacity)
        assert (found.status == Status.INFEASIBLE) == (expected.status == Status.INFEASIBLE)
        if capacity < 0:
            assert (found.peak, found.status) == (expected.peak, Status.OPTIMAL)


def test_failing_allocations_do_not_change_the_plan(sanitized):
    problem = drawn(Random(3), 40)
    (found,) = answers_of(sanitized, [problem], "fail")  # each allocation fails in turn
    assert found.peak == plan_arena(problem).peak


@pytest.mark.slow
def test_thousands_of_buffers_are_placed_without_a_list_of_conflicts(sanitized):
    # One within another, as activations of a training step, each with a workspace of two steps.
    random, count = Random(4), 2001
    rows = [
        (random.randrange(1, 99), start, end)
        for layer in range(count)
        for start, end in ((layer, 2 * count - layer), (layer, layer + 2))
    ]
    buffers = [
        Buffer(name=str(number), size=size, start=start, end=end)
        for number, (size, start, end) in enumerate(rows)
    ]
    problem = Problem(name="training", buffers=tuple(buffers))
    (found,) = answers_of(sanitized, [problem], milliseconds=0)
    assert found.lower_bound == plan_arena(problem, budget=0).lower_bound
    assert found.gap < 0.05  # the first plan, as there is no time


def program_of_page(folder, name, *words):
    (text,) = (one.body for one in blocks_of(ROOT / "docs" / "arena.md") if one.file == name)
    (folder / name).write_text(text)
    subprocess.run(
        ["cc", "-std=c11", "-c", folder / "csdf_arena.c", "-o", folder / "a.o"], check=True
    )
    return compiled(folder, *words, *STRICT, folder / name, folder / "a.o")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "words"), [("solve.c", ["cc", "-std=c11"]), ("solve.cpp", ["c++"])]
)
def test_the_programs_of_the_page_solve_a_csv(tmp_path, name, words):
    c_library.write_library(tmp_path)
    program = program_of_page(tmp_path, name, *words)
    path = ROOT / "models" / "alloc" / "keyword_spotting.csv"
    shown = subprocess.run([program, path], capture_output=True, text=True, check=True).stdout
    head, *offsets = shown.splitlines()
    assert head == "status 0, arena 28448, lower bound 28448"  # as the page shows of the command
    problem = parse_buffers(path.read_text(), path.name, "keyword spotting")
    names = (buffer.name for buffer in problem.buffers)
    found = dict(zip(names, map(int, offsets), strict=True))
    check_plan(replace(plan_arena(problem), offsets=found), capacity=28448)


@pytest.mark.slow
@pytest.mark.skipif(not ALLOC.exists(), reason="needs ../shared/alloc beside the checkout")
def test_shared_problems_get_the_same_answers(tmp_path):
    other = shutil.which("clang") or "cc"
    program = compiled(tmp_path, other, "-std=c11", "-O2", *STRICT, HARNESS)
    traces = ALLOC / "glow" / "traces.txt"
    problems = parse_traces(traces.read_text(), traces.name)
    for problem, found in zip(problems, answers_of(program, problems), strict=True):
        expected = plan_arena(problem)
        assert (found.peak, found.lower_bound) == (expected.peak, expected.lower_bound)
    paths = sorted((ALLOC / "minimalloc").glob("*.csv"))
    hard = [parse_buffers(path.read_text(), path.name, path.stem) for path in paths]
    assert all(found.peak <= 2**20 for found in answers_of(program, hard, capacity=2**20))


def test_a_folder_that_cannot_be_created_is_one_line_of_error(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert library.main([str(tmp_path / "file" / "folder")]) == 2
    assert capsys.readouterr().err.count("\n") == 1
