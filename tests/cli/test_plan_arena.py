"""`csdf plan arena` as its users see it."""

import json
from pathlib import Path

import pytest

from planners.arena import allocation
from tests.shared_data import SHARED, each

EXAMPLE = Path(__file__).parents[2] / "models" / "alloc" / "keyword_spotting.csv"
# `a` and `b` live together at time 1, `b` and `c` at time 2: 12 bytes at least; c fits over a.
SMALL = "id,lower,upper,size\na,0,2,4\nb,1,3,8\nc,2,4,4\n"


@pytest.fixture
def small(tmp_path):
    path = tmp_path / "small.csv"
    path.write_text(SMALL)
    return path


def test_json_has_these_keys_and_no_others(answer, small):
    code, found = answer("plan", "arena", small)
    assert code == 0
    (plan,) = found["problems"]
    assert plan.pop("seconds") >= 0
    assert set(plan.pop("offsets")) == {"a", "b", "c"}
    assert plan.pop("reason").endswith(": 12 bytes")
    assert plan == {
        "name": "small",
        "buffers": 3,
        "peak": 12,
        "lower_bound": 12,
        "gap": "0",
        "status": "optimal",
        "dead": [],
    }


def test_a_buffer_that_ends_where_it_starts_is_remarked_upon(run, answer, tmp_path):
    path = tmp_path / "inclusive.csv"
    path.write_text("id,lower,upper,size\na,5,5,3\nmark,5,5,0\n")
    code, output, remarks = run("plan", "arena", path)
    assert (code, "optimal" in output) == (0, True)
    assert remarks.startswith(
        "csdf plan arena: warning: inclusive: 'a': never live, as the end is not included:"
    )
    assert answer("plan", "arena", path)[1]["problems"][0]["dead"] == ["a"]


def test_the_table_names_time_and_buffers_of_the_bound(run, small):
    code, output, remarks = run("plan", "arena", small)
    assert (code, remarks) == (0, "")
    assert "live at step 1: buffers 'a', 'b': 12 bytes" in output


def test_below_the_bound_the_answer_is_no_with_time_and_buffers(run, small):
    code, output, remarks = run("plan", "arena", small, "--capacity", 11, "--json")
    assert code == 1
    assert json.loads(output)["problems"][0]["peak"] is None
    assert "live at step 1: buffers 'a', 'b': 12 bytes; the capacity is 11" in remarks


@pytest.mark.parametrize("suffix", ["csv", "json", "h"])
def test_without_a_plan_no_file_is_written_but_the_answer_is_given(run, small, tmp_path, suffix):
    picture, table = tmp_path / "plan.png", tmp_path / f"plan.{suffix}"
    words = ("--capacity", 11, "--plot", picture, "-o", table)
    code, output, remarks = run("plan", "arena", small, *words)
    assert code == 1
    assert "infeasible" in output
    assert f"{picture} is not written" in remarks
    assert f"{table} is not written" in remarks
    assert list(tmp_path.iterdir()) == [small]


def test_json_of_several_problems_is_written_if_any_of_them_has_a_plan(answer, tmp_path):
    problems, path = tmp_path / "traces.txt", tmp_path / "plans.json"
    problems.write_text("MODEL x\nALLOC 1 2\nFREE 1\nMODEL y\nALLOC 1 3\nFREE 1\n")
    for capacity, is_written in ((1, False), (2, True)):
        code, found = answer("plan", "arena", problems, "--capacity", capacity, "-o", path)
        assert (code, path.exists()) == (1, is_written)
    assert json.loads(path.read_text())["problems"][1]["status"] == "infeasible"
    assert found["problems"][0]["status"] == "optimal"


def test_a_file_of_many_problems_gives_many_plans(answer, tmp_path):
    path = tmp_path / "traces.txt"
    path.write_text("MODEL x\nALLOC 1 2\nFREE 1\nMODEL y\nALLOC 1 3\nFREE 1\n")
    code, found = answer("plan", "arena", path)
    assert code == 0
    assert [(plan["name"], plan["peak"]) for plan in found["problems"]] == [("x", 2), ("y", 3)]
    assert [
        plan["name"] for plan in answer("plan", "arena", path, "--only", "y")[1]["problems"]
    ] == ["y"]


def test_each_bank_has_a_plan_of_its_own(answer, tmp_path):
    path = tmp_path / "banks.json"
    buffers = [{"id": n, "size": s, "start": 0, "end": 1} for n, s in (("a", 4), ("b", 9))]
    banks = [{"name": "fast", "capacity": 4}, {"name": "slow", "capacity": 9}]
    problem = {"name": "net", "buffers": buffers, "banks": banks}
    path.write_text(json.dumps({"problems": [problem]}))
    code, found = answer("plan", "arena", path)
    assert code == 0
    assert [(plan["name"], plan["offsets"]) for plan in found["problems"]] == [
        ("net in fast", {"a": 0}),
        ("net in slow", {"b": 0}),
    ]
    problem["banks"][1]["capacity"] = 8
    path.write_text(json.dumps({"problems": [problem]}))
    code, found = answer("plan", "arena", path)
    assert (code, found["problems"][0]["lower_bound"]) == (1, 13)


def test_banks_that_can_be_filled_are_filled(run, tmp_path):
    # 6 + 4 and 5 + 5 fill two banks of 10; with 6, 6 and 6 for 18 of 20 bytes nothing fits.
    path = tmp_path / "banks.json"
    banks = [{"name": name, "capacity": 10} for name in ("one", "two")]
    for sizes, code, end in (((6, 5, 5, 4), 0, ""), ((6, 6, 6), 1, "searched; none fits")):
        buffers = [
            {"id": str(i), "size": size, "start": 0, "end": 1} for i, size in enumerate(sizes)
        ]
        problem = {"name": "net", "buffers": buffers, "banks": banks}
        path.write_text(json.dumps({"problems": [problem]}))
        found = run("plan", "arena", path)
        assert found[0] == code
        assert end in found[1]


@pytest.mark.parametrize("suffix", ["csv", "json", "h", "png", "svg"])
def test_plans_and_pictures_go_into_files(run, tmp_path, suffix):
    target = tmp_path / f"plan.{suffix}"
    option = "--plot" if suffix in ("png", "svg") else "-o"
    assert run("plan", "arena", EXAMPLE, option, target)[0] == 0
    assert target.stat().st_size > 100


def test_an_offline_plan_needs_the_numbers_of_tensors(run, tmp_path, small):
    code, _, remarks = run("plan", "arena", small, "-o", tmp_path / "plan.bin")
    assert code == 2
    assert "'a': expected the number of a tensor as its name" in remarks
    assert not (tmp_path / "plan.bin").exists()


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--capacity", "0"], "is not at least one byte"),
        (["--time-limit", "soon"], "is not a time"),
        (["-o", "plan.xyz"], "cannot write 'xyz'; expected one of json"),
        (["--only", "none"], "of its 1 problem none has the name 'none'"),
    ],
)
def test_wrong_usage_is_one_message(run, small, words, complaint):
    code, output, remarks = run("plan", "arena", small, *words)
    assert (code, output) == (2, "")
    assert complaint in remarks


def test_one_picture_does_not_hold_many_problems(run, tmp_path):
    path = tmp_path / "traces.txt"
    path.write_text("MODEL x\nALLOC 1 2\nFREE 1\nMODEL y\nALLOC 1 3\nFREE 1\n")
    code, _, remarks = run("plan", "arena", path, "--plot", tmp_path / "x.png")
    assert code == 2
    assert "there are 2 problems; choose with --only" in remarks


@pytest.mark.parametrize(
    "content", ["<?xml version='1.0'?>\n<sdf3/>\n", '{"name": "g", "actors": []}']
)
def test_graphs_are_planned_by_order(run, tmp_path, content):
    path = tmp_path / "graph"
    path.write_text(content)
    assert "a graph; `csdf plan arena --order` plans it." in run("plan", "arena", path)[2]


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"{", b"MODEL\n", b"a,b\n1,2\n"])
def test_unreadable_files_are_one_line(run, tmp_path, content):
    path = tmp_path / "broken"
    path.write_bytes(content)
    code, output, remarks = run("plan", "arena", path)
    assert (code, output) == (2, "")
    assert remarks.startswith(f"csdf plan arena: {path}")
    assert remarks.count("\n") == 1


def test_an_interrupt_leaves_the_best_plan_so_far(run, tmp_path, monkeypatch):
    # The greedy plans, which are all there is at the interrupt, are not proved.
    path = tmp_path / "hard.csv"
    rows = [(n, n % 7, n % 7 + 1 + n % 4, 3 + n * 5 % 11) for n in range(60)]
    path.write_text(
        "id,lower,upper,size\n" + "".join(",".join(map(str, row)) + "\n" for row in rows)
    )

    def interrupted(self):
        raise KeyboardInterrupt

    monkeypatch.setattr(allocation._Allocation, "step", interrupted)
    code, output, remarks = run("plan", "arena", path, "--json")
    (plan,) = json.loads(output)["problems"]
    assert code == 0
    assert plan["status"] == "feasible"
    assert plan["peak"] > plan["lower_bound"]
    assert "feasible: interrupted" in remarks


@pytest.mark.parametrize("option", ["-o", "--plot"])
def test_an_interrupt_before_the_first_plan_is_unknown(run, tmp_path, monkeypatch, option):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(allocation, "_portfolio_of", interrupted)
    for name in ("offsets.csv", "offsets.h") if option == "-o" else ("arena.svg",):
        code, output, remarks = run("plan", "arena", EXAMPLE, option, tmp_path / name)
        assert (code, output, remarks) == (3, "", "csdf plan arena: unknown: interrupted\n")
        assert not (tmp_path / name).exists()


def test_another_solver_agrees(answer):
    pytest.importorskip("ortools")
    peaks = {
        answer("plan", "arena", EXAMPLE, "--method", method)[1]["problems"][0]["peak"]
        for method in ("own", "cp-sat")
    }
    assert len(peaks) == 1


def test_another_solver_takes_no_capacity(run):
    code, _, remarks = run("plan", "arena", EXAMPLE, "--method", "cp-sat", "--capacity", "9")
    assert code == 2
    assert "finds the smallest single arena only" in remarks


LEAST = {  # "layerwise live peak" in the README beside the files: 32 x 32 x (16 + 16 + 16) and so on
    "ad01_int8": 768,
    "ic_resnet8_int8": 49152,
    "kws_int8": 16000,
    "mcunet_vww1_int8": 161472,
    "person_detect_int8": 55296,
}


TFLITE = SHARED / "networks" / "tflite"


@each("name", [name for name in LEAST if (TFLITE / f"{name}.tflite").exists()])
def test_the_tensors_of_a_network_need_their_live_peak(name, answer):
    as_in_the_file = (
        "--simplify",
        "eliminate-nop,fuse-bias",
    )  # with the tensors between paddings and layers
    code, found = answer("plan", "arena", TFLITE / f"{name}.tflite", *as_in_the_file)
    (plan,) = found["problems"]
    assert (code, plan["peak"], plan["lower_bound"]) == (0, LEAST[name], LEAST[name])


def test_the_tensors_of_a_network_have_elements_of_the_size_that_is_asked_for(answer):
    found = [answer("plan", "arena", "resnet8", "--element-bytes", n)[1] for n in ("1", "4")]
    # Three maps of 16 x 32 x 32 elements are in use when the first normalisation of a block works.
    assert [one["problems"][0]["peak"] for one in found] == [49152, 4 * 49152]


def test_banks_of_any_file_have_costs_of_an_access(run, tmp_path):
    # Of two buffers that live together one fits the first bank; the larger has more accesses.
    file = tmp_path / "two.csv"
    file.write_text("id,lower,upper,size\na,0,2,5\nb,1,3,6\n")
    code, out, _ = run("plan", "arena", file, "--bank", "sram=8", "--bank", "psram=9:2")
    assert code == 0
    assert "accesses cost 10; no choice of banks costs less than 10" in out
    for option, name in (("-o", "offsets.csv"), ("-o", "plan.bin"), ("--plot", "arena.svg")):
        written = tmp_path / name
        banks = ("--bank", "sram=8", "--bank", "psram=9")
        code, out, err = run("plan", "arena", file, *banks, option, written)
        assert (code, out) == (2, "")
        assert "holds one plan, but there are 2 banks; write .json or .h" in err
        assert not written.exists()
    code, _, err = run("plan", "arena", file, "--bank", "sram")
    assert code == 2
    assert "a name and a size" in err
