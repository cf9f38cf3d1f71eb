"""The search for orders in C: the peaks of the search in Python, under sanitizers."""

import json
import random
import shutil
import subprocess
from itertools import accumulate, chain, product
from pathlib import Path

import pytest

from planners.arena import c_library
from planners.formats.tensor_graphs import parse_tensor_graph
from planners.order.problem import OrderProblem, Step, peak_of
from tests.docs.pages import ROOT, blocks_of
from tests.planners.order.graphs import least_peak, random_problem, with_scratch

ORDER = ROOT.parent / "shared" / "order"
HARNESS = Path(__file__).with_name("harness.c")
STRICT = ["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]
SANITIZERS = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
WORK = 10**10
OPTIMAL, FEASIBLE, WRONG = 0, 1, -1
pytestmark = pytest.mark.skipif(not shutil.which("cc"), reason="no C compiler is installed")


def compiled(folder, *words):
    c_library.write_library(folder)
    program = folder / "program"
    subprocess.run(["cc", *STRICT, *words, HARNESS, "-I", folder, "-o", program], check=True)
    return program


@pytest.fixture(scope="module")
def sanitized(tmp_path_factory):
    return compiled(tmp_path_factory.mktemp("sanitized"), "-O0", *SANITIZERS)


def in_rows(rows):
    """The start of each row, and all rows one after another."""
    return [*accumulate(map(len, rows), initial=0), *chain.from_iterable(rows)]


def numbers_of(problem, work=WORK):
    graph = problem.numbered
    outputs = [int(tensor in problem.outputs) for tensor in problem.sizes]
    head = [graph.steps, len(graph.sizes), work, *graph.sizes, *outputs, *graph.scratch]
    return head + in_rows(graph.reads) + in_rows(graph.writes) + in_rows(graph.overwrites)


def answers_of(program, graphs, *words):
    """The status, peak, lower bound and order of each graph."""
    text = " ".join(map(str, [len(graphs), *chain.from_iterable(graphs)]))
    run = subprocess.run([program, *words], input=text, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    rows = (list(map(int, line.split())) for line in run.stdout.splitlines())
    return [(status, peak, bound, order) for status, peak, bound, *order in rows]


def require_sound(problem, peak, bound, order):
    assert bound <= peak == peak_of(problem, problem.named(order)), problem.name


def test_small_graphs_get_the_least_peak_of_all_orders_in_c(sanitized):
    problems = [with_scratch(random_problem(seed), seed) for seed in range(150)]
    answers = answers_of(sanitized, list(map(numbers_of, problems)))
    for problem, (status, peak, bound, order) in zip(problems, answers, strict=True):
        require_sound(problem, peak, bound, order)
        assert (status, peak, bound) == (OPTIMAL, least_peak(problem), peak), problem.name


def test_a_search_without_work_has_an_order_and_a_bound_in_c(sanitized):
    problems = [random_problem(seed, 12) for seed in range(20)]
    answers = answers_of(sanitized, [numbers_of(problem, work=0) for problem in problems])
    for problem, (status, peak, bound, order) in zip(problems, answers, strict=True):
        require_sound(problem, peak, bound, order)
        assert status == (OPTIMAL if bound == peak else FEASIBLE), problem.name


def test_a_bound_of_the_inputs_proves_an_order_without_work_in_c(sanitized):
    steps = (Step(name="read", reads=("x",), writes=()),)
    problem = OrderProblem(name="input", sizes={"x": 5}, steps=steps, outputs=())
    assert answers_of(sanitized, [numbers_of(problem, work=0)]) == [(OPTIMAL, 5, 5, [0])]


def test_readers_of_an_overwritten_tensor_are_counted_as_work_in_c(sanitized):
    """Each of 40 steps may overwrite one tensor: the cuts look at 40 readers and steps for each."""
    sizes = {"x": 9} | {f"y{k}": k % 9 + 1 for k in range(40)}
    steps = tuple(
        Step(name=f"s{k}", reads=("x",), writes=(f"y{k}",), overwrites=("x",)) for k in range(40)
    )
    problem = OrderProblem(name="wide", sizes=sizes, steps=steps, outputs=tuple(sizes)[1:])
    graphs = [numbers_of(problem, work=work) for work in (40**3, WORK)]
    few, full = answers_of(sanitized, graphs)
    assert (few[0], full[0], full[1]) == (FEASIBLE, OPTIMAL, few[2])


def test_starts_of_rows_that_do_not_ascend_are_refused_in_c(sanitized):
    choose, graphs = random.Random(1), []
    for seed in range(60):
        problem = random_problem(seed, 8)
        numbers, graph = numbers_of(problem), problem.numbered
        first = 3 + 2 * len(graph.sizes) + graph.steps
        for rows in (graph.reads, graph.writes, graph.overwrites):
            changed = list(numbers)
            # The last start stays: the memory of the row follows from it.
            changed[first + choose.randrange(graph.steps)] = choose.choice((-1, 10**6, 2**62))
            graphs.append(changed)
            first += graph.steps + 1 + sum(map(len, rows))
    assert {status for status, *_ in answers_of(sanitized, graphs)} == {WRONG}


def test_failing_allocations_do_not_change_the_order_in_c(sanitized):
    problem = random_problem(3)
    words = [numbers_of(problem)]
    assert answers_of(sanitized, words, "fail") == answers_of(sanitized, words)


def test_graphs_that_are_no_graphs_are_refused_in_c(sanitized):
    # Two steps of two tensors: sizes, outputs, scratch, then reads, writes, overwritten tensors.
    head, none = [2, 2, WORK, 1, 1, 0, 0, 0, 0], [0, 0, 0]
    wrong = {
        "cycle": [*head, 0, 1, 2, 1, 0, 0, 1, 2, 0, 1, *none],
        "two writers": [*head, *none, 0, 1, 2, 0, 0, *none],
        "no such tensor": [*head, 0, 1, 1, 2, *none, *none],
        "twice in a row": [*head, 0, 2, 2, 0, 0, *none, *none],
        "a descending row": [*head, 0, 1, 0, *none, *none],
        "overwrites an unread tensor": [*head, *none, 0, 1, 1, 1, 0, 1, 1, 0],
        "negative scratch": [2, 2, WORK, 1, 1, 0, 0, 0, -1, *none, *none, *none],
    }
    statuses = [status for status, *_ in answers_of(sanitized, list(wrong.values()))]
    assert dict(zip(wrong, statuses, strict=True)) == dict.fromkeys(wrong, WRONG)


def test_the_program_of_the_page_prints_the_order_of_least_peak(tmp_path):
    (text,) = (
        block.body for block in blocks_of(ROOT / "docs" / "order.md") if block.file == "order.c"
    )
    (tmp_path / "order.c").write_text(text)
    c_library.write_library(tmp_path)
    words = ["cc", *STRICT, "order.c", "csdf_arena.c", "-o", "order"]
    subprocess.run(words, cwd=tmp_path, check=True)
    shown = subprocess.run([tmp_path / "order"], capture_output=True, text=True, check=True).stdout
    assert shown == "status 0, peak 115, lower bound 115, order 0 2 1 3\n"  # as the page says


@pytest.mark.slow
@pytest.mark.skipif(not ORDER.exists(), reason="needs ../shared/order beside the checkout")
@pytest.mark.parametrize("most_steps", [60, 260])
def test_shared_graphs_have_the_proved_peaks_in_c(tmp_path, most_steps):
    truth = json.loads((ORDER / "truth.json").read_text())
    problems, peaks = [], []
    for variant, name in product(("plain", "in_place"), truth):
        text = (ORDER / "instances" / f"{name}.json").read_text()
        problem = parse_tensor_graph(text, name, elementwise_in_place=variant == "in_place")
        if most_steps // 5 < len(problem.steps) <= most_steps:
            problems.append(problem)
            peaks.append(truth[name][variant]["best_peak"])
    answers = answers_of(compiled(tmp_path, "-O2"), list(map(numbers_of, problems)))
    for problem, least, (status, peak, bound, order) in zip(problems, peaks, answers, strict=True):
        require_sound(problem, peak, bound, order)
        assert (status, peak, bound) == (OPTIMAL, least, least), problem.name
