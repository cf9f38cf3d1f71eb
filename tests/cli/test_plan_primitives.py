"""`csdf plan primitives` as its users see it."""

import json

import numpy as np
import pytest

from csdf.cli.frame import long_work
from csdf.cli.main import main
from csdf.errors import GaveUp
from csdf.time_limit import Stop
from planners.primitives.command import work as primitives_profile
from planners.primitives.profile import write_profile
from tests.cli.schemas import require_valid_answers
from tests.planners.primitives.selection.synthetic import network_of, profile_of

MODEL = "resnet8"
PLAN_KEYS = {
    "nanoseconds",
    "memory_bytes",
    "workspace_bytes",
    "largest_workspace_bytes",
    "weight_bytes",
    "transformed_tensor_bytes",
    "map_bytes",
    "layers",
    "transformations",
}


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """A profile that no machine made."""
    path = tmp_path_factory.mktemp("profiles") / "resnet8.csv"
    write_profile(path, profile_of(network_of(MODEL)))
    return path


@pytest.fixture
def choose(capsys):
    """Run the command; return its exit code, standard output and standard error."""

    def run_command(*words):
        capsys.readouterr()
        try:
            code = main(["plan", "primitives", *[str(word) for word in words]])
        except SystemExit as end:  # argparse
            code = end.code
        output, remarks = capsys.readouterr()
        require_valid_answers(["plan", "primitives", *map(str, words)], output)
        return code, output, remarks

    return run_command


def test_the_fastest_within_a_memory(choose, table):
    code, output, _ = choose(MODEL, "--profile", table, "--max-memory", "800kB")
    assert code == 0
    assert "; optimal: " in output
    assert " 9 convolutions, " in output
    assert "none within the limit is faster" in output
    assert "greedy" in output
    assert "in order" in output
    assert "all im2col" in output


def test_memory_as_published_counts_convolutions_only(choose, table):
    words = (MODEL, "--profile", table, "--time", "1s", "--json")
    sizes = [
        json.loads(choose(*words, "--accounting", accounting)[1])["plan"]["memory_bytes"]
        for accounting in ("own", "published")
    ]
    assert sizes[1] < sizes[0]


def test_json_has_these_keys_and_no_others(choose, table):
    words = (MODEL, "--profile", table, "--max-memory", "800kB", "--json", "--front")
    code, output, _ = choose(*words)
    found = json.loads(output)
    assert code == 0
    assert set(found) == {
        "network",
        "objective",
        "status",
        "reason",
        "minimum",
        "plan",
        "baselines",
        "machine",
        "front",
        "seconds",
    }
    plan = found["plan"]
    assert set(plan) == PLAN_KEYS
    assert plan["memory_bytes"] <= 800_000
    parts = plan["workspace_bytes"] + plan["weight_bytes"] + plan["transformed_tensor_bytes"]
    assert parts == plan["memory_bytes"]
    times = [one["nanoseconds"] for one in plan["layers"] + plan["transformations"]]
    assert sum(times) == plan["nanoseconds"]
    best = [one for one in found["front"] if one["memory_bytes"] <= 800_000]
    assert best[-1]["nanoseconds"] == plan["nanoseconds"]


@pytest.mark.slow
@pytest.mark.parametrize("objective", ["network", "workspace"])
@pytest.mark.parametrize("limit", [("--max-memory", "500kB"), ("--time", "3ms"), ()])
def test_both_solvers_say_the_same(choose, table, objective, limit):
    words = (MODEL, "--profile", table, "--json", "--objective", objective, *limit)
    mine, other = (json.loads(choose(*words, "--solver", one)[1])["plan"] for one in ("dp", "ilp"))
    minimised = "memory_bytes" if "--time" in limit else "nanoseconds"
    assert mine[minimised] == other[minimised]


def test_what_is_too_small_is_a_no_with_the_least_bytes(choose, table):
    words = (MODEL, "--profile", table, "--front", "--json")
    least = json.loads(choose(*words)[1])["front"][0]["memory_bytes"]
    for solver in ("dp", "ilp"):
        code, output, remarks = choose(
            MODEL, "--profile", table, "--max-memory", least - 1, "--json", "--solver", solver
        )
        assert code == 1
        assert json.loads(output)["plan"] is None
        assert json.loads(output)["minimum"] == least
        assert f"infeasible: no selection needs less than {least} bytes" in remarks
    assert choose(MODEL, "--profile", table, "--max-memory", least)[0] == 0


def test_what_is_too_fast_is_a_no_with_the_least_time(choose, table):
    code, output, _ = choose(MODEL, "--profile", table, "--time", "1us")
    assert code == 1
    assert "resnet8: infeasible: no selection takes less than" in output


@pytest.mark.parametrize("suffix", ["png", "svg", "html"])
def test_the_front_can_be_drawn(choose, table, tmp_path, suffix):
    target = tmp_path / f"front.{suffix}"
    words = (MODEL, "--profile", table, "--max-memory", "600kB", "--front", "--plot", target)
    code, output, _ = choose(*words)
    assert code == 0
    assert "points, 24 of them below; --json has all" in output
    assert target.stat().st_size > 1000


@pytest.mark.slow
def test_measuring_running_and_reading_again(choose, tmp_path):
    table = tmp_path / "table.csv"
    words = ("samos_example", "--repeats", 1, "--save-profile", table, "--run")
    code, output, remarks = choose(*words)
    assert code == 0
    assert f"wrote {table}" in remarks
    assert "measured" in output
    assert "equal to the network as a whole" in output
    again = json.loads(choose("samos_example", "--profile", table, "--json")[1])
    assert again["status"] == "optimal"


DEVICE = """layer,primitive,input_layout,output_layout,nanoseconds,workspace_bytes,parameter_bytes,\
producer,index
n1,layer,CHW,CHW,3000,0,0,,
n2,mec,CHW,HWC,61000,295936,4640,,
n3,"direct, four places",HWC,HWC,11000,0,1212,,
n4,layer,CHW,CHW,3000,0,392,,
n5,layer,CHW,CHW,1500,0,0,,
n3,,CHW,HWC,2900,0,0,n2,0
n4,,HWC,CHW,1700,0,0,n3,0
"""


def test_a_written_plan_runs_by_its_primitives_and_in_fit(choose, run, tmp_path):
    table, path = tmp_path / "device.csv", tmp_path / "plan.json"
    table.write_text(DEVICE)
    words = ("samos_example", "--profile", table, "--run", "--repeats", 1, "-o", path, "--json")
    code, output, remarks = choose(*words)
    assert code == 0
    assert f"wrote {path}" in remarks
    found = json.loads(output)["run"]
    plan = json.loads(path.read_text())
    assert found["arena_bytes"] == plan["arena_bytes"]
    # One frame of 32 x 32, the map behind a workspace: both are there while the first layer works.
    (scratch,) = (one for one in plan["buffers"] if one["kind"] == "scratch")
    assert (scratch["size"], scratch["readers"]) == (295_936, ["n2"])
    assert plan["arena_bytes"] >= scratch["size"] + 4 * 32 * 32
    (copy,) = (one for group in plan["groups"] for one in group["transfers"])
    assert copy == {"source": "map of n3", "target": "input 0 of n4"}
    code, output, _ = run("fit", "samos_example", "--plan", path, "--verify")
    assert code == 0
    assert "samos_example: equal" in output
    code, output, _ = run("deploy", "samos_example", "--plan", path, "-o", tmp_path / "c")
    assert code == 0
    assert "kernels  change_layout, copy_flat, direct_four_places, lower_columns_only" in output


def test_an_output_of_the_written_plan_that_is_no_number_differs(choose, tmp_path, monkeypatch):
    table = tmp_path / "device.csv"
    table.write_text(DEVICE)
    run_planned = primitives_profile.run_planned

    def spoilt(*arguments):
        outputs = run_planned(*arguments)
        return {name: array * np.nan for name, array in outputs.items()}

    monkeypatch.setattr(primitives_profile, "run_planned", spoilt)
    words = ("samos_example", "--profile", table, "--run", "--repeats", 1)
    code, output, _ = choose(*words, "-o", tmp_path / "plan.json")
    assert code == 1
    assert "DIFFERENT, largest difference nan" in output


def test_a_workspace_of_a_table_that_is_too_small_is_named(run, tmp_path):
    table, path = tmp_path / "device.csv", tmp_path / "plan.json"
    table.write_text(DEVICE.replace("295936", "64"))
    words = ("samos_example", "--profile", table, "--run", "-o", path)
    code, _, error = run("plan", "primitives", *words)
    assert code == 2
    assert "layer 'n2' has a workspace of 64 bytes; 'mec' needs" in error


def test_an_interrupt_gives_the_best_so_far(choose, table, monkeypatch):
    def interrupted(*words):
        raise KeyboardInterrupt

    monkeypatch.setattr(long_work, "shown", lambda *_: interrupted)
    code, output, remarks = choose(MODEL, "--profile", table, "--max-memory", "600kB")
    assert code == 0
    assert "; feasible: interrupted" in output
    assert "feasible: interrupted" in remarks
    _, output, _ = choose(MODEL, "--profile", table, "--front")
    assert "  front: not found in time" in output


def test_measuring_that_does_not_end_in_time_gives_up(choose, monkeypatch):
    def endless(*words, **more):
        raise GaveUp("the time limit of 1 s is reached")

    monkeypatch.setattr(primitives_profile, "profile_network", endless)
    code, output, remarks = choose(MODEL)
    assert (code, output) == (3, "")
    assert "unknown: the time limit of 1 s is reached while measuring" in remarks


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("--max-memory", "20 megabytes"), "is not a size such as 64MB"),
        (("--max-memory", "1MB", "--time", "1ms"), "not allowed with argument"),
        (("--time", "0"), "is not a time above zero"),
        (("--objective", "speed"), "found 'speed'; expected one of "),
        (("--profile", "a.csv", "--save-profile", "b.csv"), "give one"),
    ],
)
def test_wrong_usage_is_one_message(choose, words, complaint):
    code, output, remarks = choose(MODEL, *words)
    assert (code, output) == (2, "")
    assert complaint in remarks


def test_families_may_be_left_out(choose, tmp_path):
    table = tmp_path / "device.csv"
    table.write_text(DEVICE + "n3,im2col,HWC,HWC,99000,0,0,,\n")
    code, output, _ = choose("samos_example", "--profile", table, "--without", "direct", "--json")
    assert code == 0
    chosen = {one["layer"]: one["primitive"] for one in json.loads(output)["plan"]["layers"]}
    assert chosen["n3"] == "im2col"
    code, _, error = choose("samos_example", "--profile", table, "--without", "fft")
    assert code == 2
    assert "no primitive is called 'fft', only direct, " in error
    code, _, error = choose("samos_example", "--profile", table, "--without", "im2col", "mec")
    assert code == 2
    assert "layer 'n2' has no primitive but im2col, mec" in error


@pytest.mark.slow
def test_an_interrupted_profile_is_kept_and_goes_on(choose, tmp_path, monkeypatch):
    path = tmp_path / "here.csv"

    def watch(progress):
        if progress.at.startswith("n3"):
            raise GaveUp("interrupted")

    words = ("samos_example", "--repeats", 1, "--save-profile", path)
    with monkeypatch.context() as patch:
        patch.setattr(primitives_profile, "stop_after", lambda *_: Stop(report=watch))
        code, _, remarks = choose(*words)
    assert code == 3
    assert f"{path} keeps 2 of 5 layers; the same command goes on" in remarks
    code, _, error = choose("samos_example", "--profile", path)
    assert code == 2
    assert "unfinished" in error
    code, output, remarks = choose(*words)
    assert code == 0
    assert f"{path} has 2 of 5 layers; going on" in remarks
    assert "of network memory; optimal" in output
    text = path.read_text().replace("network: samos_example", "network: other")
    path.write_text(text.replace("# element_type", "# state: unfinished\n# element_type"))
    with monkeypatch.context() as patch:
        patch.setattr(primitives_profile, "stop_after", lambda *_: Stop(report=watch))
        code, _, remarks = choose(*words)
    assert code == 3
    assert "of another network or machine; measuring all layers" in remarks
