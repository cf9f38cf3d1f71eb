"""`csdf plan fusion` as its users see it."""

import json

import pytest

from cnn2csdf.readers.model_files import read_model
from cnn2csdf.simplify import simplified
from csdf.cli import option_values
from csdf.cli.main import main
from planners.fusion import search
from planners.plan.carried_out import require_carried_out
from planners.plan.text import parse_plans
from tests.cli.schemas import require_valid_answers
from tests.shared_data import SHARED, each

MODEL = "resnet8"


@pytest.fixture
def fuse(capsys):
    """Run the command; return its exit code, standard output and standard error."""

    def run_command(*words):
        capsys.readouterr()
        try:
            code = main(["plan", "fusion", *[str(word) for word in words]])
        except SystemExit as end:  # argparse
            code = end.code
        output, remarks = capsys.readouterr()
        require_valid_answers(["plan", "fusion", *map(str, words)], output)
        return code, output, remarks

    return run_command


@pytest.mark.parametrize(
    ("text", "count"),
    [("64MB", 64_000_000), ("16MiB", 2**24), ("1.5kB", 1500), ("2 KiB", 2048), ("65536", 65536)],
)
def test_sizes_state_their_unit(text, count):
    assert option_values.size(text) == count


def test_a_plan_fits_runs_and_is_equal(fuse):
    code, output, _ = fuse(MODEL, "--ram", "600kB", "--verify")
    assert code == 0
    assert "ms; optimal\n" in output
    assert "resnet8: equal" in output


def test_json_has_these_keys_and_no_others(fuse):
    code, output, _ = fuse(MODEL, "--ram", "600kB", "--json", "--front", "--verify")
    found = json.loads(output)
    assert code == 0
    assert set(found) == {
        "status",
        "reason",
        "lower_bound_bytes",
        "plan",
        "front",
        "fit",
        "verified",
        "seconds",
    }
    plan = found["plan"]
    assert set(plan) == {
        "groups",
        "arena_bytes",
        "parameter_bytes",
        "nanoseconds",
        "multiply_accumulates",
        "redundant_multiply_accumulates",
        "buffers",
    }
    assert plan["arena_bytes"] <= 600_000
    assert max(one["offset"] + one["size"] for one in plan["buffers"]) == plan["arena_bytes"]
    assert found["verified"]["high_water_bytes"] == plan["arena_bytes"]
    assert {"arena_bytes", "nanoseconds", "multiply_accumulates", "groups"} == set(
        found["front"][0]
    )


def test_what_does_not_fit_is_a_no_with_the_least_bytes(fuse):
    code, output, remarks = fuse(MODEL, "--ram", 1000, "--json")
    least = json.loads(fuse(MODEL, "--front", "--json")[1])["front"][0]["arena_bytes"]
    assert code == 1
    assert json.loads(output)["plan"] is None
    modes = "halo-cached, halo-recomputed, rows, whole"
    wanted = f"infeasible: no groups in these modes ({modes}) need less than {least} bytes"
    assert wanted in remarks


def test_a_no_says_of_which_groups_and_what_csdf_fit_finds(fuse, run):
    limit = (MODEL, "--ram", "15kB", "--element-bytes", 1)  # of the arena
    code, output, _ = fuse(*limit)
    _, unlimited, _ = run("fit", MODEL, "--element-bytes", 1, "--json")
    methods = json.loads(unlimited)["methods"]
    beside = min(way["needed_ram_bytes"] - way["ram_bytes"] for way in methods)
    _, fit, _ = run("fit", MODEL, "--ram", 15_000 + beside, "--element-bytes", 1, "--json")
    found = json.loads(fit)
    assert code == 1
    assert (
        "infeasible: no groups in these modes (halo-cached, halo-recomputed, rows, whole)" in output
    )
    assert "csdf fit            fits: 14.15 kB of arena" in output
    assert found["ram_bytes"] == 14_144 == json.loads(fuse(*limit, "--json")[1])["fit"]["ram_bytes"]


@pytest.mark.parametrize(
    ("limits", "does_fit"),
    [
        # resnet8 in single precision: 310,824 bytes of parameters, beside the arena.
        (("--ram", "150kB", "--flash", 310_824), True),
        (("--ram", "150kB", "--flash", 310_823), False),
        (("--ram", "150kB", "--total-memory", "1MB"), True),
        pytest.param(("--ram", "1MB", "--total-memory", "1kB"), False, marks=pytest.mark.slow),
        (("--ram", "150kB", "--total-memory", 310_824 + 150_000), True),
        (("--ram", "1MB", "--total-memory", 310_824), False),
    ],
)
def test_ram_is_for_the_arena_and_flash_for_parameters(fuse, limits, does_fit):
    code, output, remarks = fuse(MODEL, *limits, "--json")
    plan = json.loads(output)["plan"]
    assert (code == 0) == does_fit == (plan is not None)
    if does_fit:
        assert plan["arena_bytes"] <= 150_000
    elif "--flash" in limits:
        assert "the tables of parameters are 310824 bytes, more than the flash of 310823" in remarks


def test_a_range_of_layers_is_fused_alone(fuse):
    code, output, _ = fuse("yolo_v2", "--layers", "0:3", "--ram", "1GB", "--json")
    groups = json.loads(output)["plan"]["groups"]
    assert code == 0
    assert [name for group in groups for name in group["layers"]] == ["conv0", "pool1", "conv2"]


def test_a_run_does_not_change_the_plan_that_is_written(fuse, tmp_path):
    plain, verified = tmp_path / "plain.json", tmp_path / "verified.json"
    assert fuse(MODEL, "--ram", "64kB", "-o", plain)[0] == 0
    assert fuse(MODEL, "--ram", "64kB", "--verify", "-o", verified)[0] == 0
    assert json.loads(plain.read_text())["layers"] is None
    assert plain.read_text() == verified.read_text()


@pytest.mark.parametrize("layers", ["0:4", "1:12"])
def test_a_plan_of_some_layers_is_checked_and_run_on_them(fuse, run, tmp_path, layers):
    path = tmp_path / "plan.json"
    assert fuse(MODEL, "--layers", layers, "--ram", "600kB", "-o", path)[0] == 0
    code, output, _ = run("fit", MODEL, "--plan", path, "--verify")
    assert code == 0
    assert f"is valid for layers {layers} of this network" in output
    found = json.loads(path.read_text())
    path.write_text(json.dumps(found | {"layers": [0, 99]}))
    code, _, error = run("fit", MODEL, "--plan", path)
    assert code == 2
    assert "layers 0:99 of" in error
    path.write_text(json.dumps(found | {"layers": [4, 4]}))
    assert "expected a first layer and one past the last" in run("fit", MODEL, "--plan", path)[2]


def test_weights_count_where_they_are_asked_to(fuse):
    plain = json.loads(fuse(MODEL, "--ram", "600kB", "--json")[1])["plan"]
    weights = plain["parameter_bytes"]
    limit = 600_000 + weights
    joint = json.loads(fuse(MODEL, "--total-memory", limit, "--json")[1])["plan"]
    assert joint["arena_bytes"] == plain["arena_bytes"]


@pytest.mark.slow
def test_the_plan_is_written_and_read_back(fuse, tmp_path):
    path = tmp_path / "plan.json"
    code, output, _ = fuse(MODEL, "--ram", "150kB", "--json", "-o", path)
    (plan,) = parse_plans(path.read_text(), "plan.json")
    require_carried_out(simplified(read_model(MODEL)).network, plan)
    said = json.loads(output)["plan"]
    assert code == 0
    assert plan.arena_bytes == said["arena_bytes"]
    assert plan.multiply_accumulates == said["multiply_accumulates"]
    offsets = {one.name: one.offset for one in plan.buffers}
    assert {one["name"]: one["offset"] for one in said["buffers"]}.items() <= offsets.items()


@pytest.mark.slow
def test_the_offsets_are_written_for_c(fuse, tmp_path):
    path = tmp_path / "plan.h"
    _, output, _ = fuse(MODEL, "--ram", "150kB", "--json", "-o", path)
    plan = json.loads(output)["plan"]
    text = path.read_text()
    assert f"#define RESNET8_ARENA_BYTES {plan['arena_bytes']}\n" in text
    assert text.count("#define RESNET8_OFFSET_") == len(plan["buffers"])


def test_without_a_plan_no_file_is_written(fuse, tmp_path):
    path = tmp_path / "plan.json"
    code, _, remarks = fuse(MODEL, "--ram", 1000, "-o", path)
    assert code == 1
    assert "plan.json is not written: there is no plan" in remarks
    assert not path.exists()


def test_a_file_of_another_kind_is_refused_before_the_work(run):
    code, output, remarks = run("plan", "fusion", MODEL, "--ram", "1MB", "-o", "plan.csv")
    assert (code, output) == (2, "")
    assert "plan.csv: expected the suffix .json or .h" in remarks


@pytest.mark.parametrize("suffix", ["png", "svg", "html"])
def test_the_front_can_be_drawn(fuse, tmp_path, suffix):
    target = tmp_path / f"front.{suffix}"
    assert fuse(MODEL, "--ram", "600kB", "--plot", target)[0] == 0
    assert target.stat().st_size > 1000


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ((), "give --ram, --total-memory, --front or --configuration"),
        (("--ram", "64 megabytes"), "is not a size such as 64MB"),
        (("--ram", "1MB", "--layers", "3"), "is not a range such as 0:16"),
        (("--ram", "1MB", "--modes", "sideways"), "there is no mode 'sideways'"),
    ],
)
def test_wrong_usage_is_one_message(fuse, words, complaint):
    code, output, remarks = fuse(MODEL, *words)
    assert (code, output) == (2, "")
    assert complaint in remarks


def test_an_interrupt_gives_the_best_so_far(fuse, monkeypatch):
    def interrupted(*words):
        raise KeyboardInterrupt

    monkeypatch.setattr(search._RowGroups, "ending", interrupted)
    code, output, remarks = fuse(MODEL, "--ram", "1MB")
    assert code == 0
    assert "ms; feasible\n" in output
    assert "interrupted" in remarks


TFLITE = SHARED / "networks" / "tflite"
FUSED = {"kws_int8": "15kB", "ic_resnet8_int8": "40kB", "person_detect_int8": "40kB"}


@pytest.mark.slow
@each("name", [name for name in FUSED if (TFLITE / f"{name}.tflite").exists()])
def test_a_quantised_network_runs_fused_in_an_arena_of_bytes(name, fuse):
    code, output, _ = fuse(TFLITE / f"{name}.tflite", "--ram", FUSED[name], "--verify")
    assert code == 0
    assert f"{name}: equal: the run in its arena and the run without a plan" in output
    assert "largest difference  0 (0" in output


YOLO = "yolo_v2_beginning"  # the network of MAFAT


def test_a_configuration_is_planned_as_given(fuse):
    code, output, remarks = fuse(YOLO, "--configuration", "5x5/8/2x2")
    assert code == 0
    assert "  8  5x5 halo-recomputed" in output
    assert "  8  2x2 halo-recomputed" in output
    assert "5x5/8/2x2 as given; MAFAT predicts 42.8 MiB, with the fit 65.9 MiB" in remarks


def test_a_configuration_that_is_given_must_fit_a_limit_too(fuse):
    code, output, _ = fuse(YOLO, "--configuration", "5x5/8/2x2", "--ram", "10MiB")
    assert code == 1
    assert "needs an arena of 15317504 bytes, more than 10485760" in output


@pytest.mark.parametrize(
    ("method", "choice"), [("published", "3x3/8/2x2"), ("fitted", "5x5/8/2x2")]
)
def test_the_choice_of_the_paper_is_made_at_64_mb(fuse, method, choice):
    code, _, remarks = fuse(YOLO, "--method", method, "--ram", "64MiB")
    assert code == 0
    assert choice in remarks


@pytest.mark.parametrize(
    "words",
    [
        ["--method", "published"],
        ["--method", "published", "--configuration", "2x2", "--ram", "1MB"],
        ["--configuration", "2x2", "--front"],
    ],
)
def test_a_choice_and_a_search_are_not_asked_for_at_once(fuse, words):
    assert fuse(YOLO, *words)[0] == 2


def test_a_configuration_as_given_runs_and_is_equal(fuse):
    code, output, _ = fuse(
        "samos_example", "--configuration", "2x2/1/1x1", "--layers", "0:2", "--verify"
    )
    assert code == 0
    assert "equal" in output


@each("name", [name for name in ("person_detect_int8",) if (TFLITE / f"{name}.tflite").exists()])
def test_flash_holds_what_rescales_integers_too(fuse, name):
    path = TFLITE / f"{name}.tflite"
    code, output, _ = fuse(path, "--ram", "40kB", "--flash", 232_610)  # what csdf deploy writes
    assert code == 0
    assert "; 232.7 kB of flash as C stores them (csdf fit)" in output
    code, output, _ = fuse(path, "--ram", "40kB", "--flash", 232_609)
    assert code == 1
    assert "232610 bytes, more than the flash of 232609" in output


def test_times_of_configurations_take_the_place_of_the_platform(fuse, tmp_path):
    path = tmp_path / "times.csv"
    path.write_text("configuration,milliseconds\n1x1/NoCut,90\n1x1/4/1x1,91\n")
    words = (MODEL, "--ram", "300kB", "--measured", path)
    code, output, remarks = fuse(*words)
    assert code == 0
    assert "fitted to 2 times: " in remarks
    assert "predicted for" not in remarks
    assert "resnet8: " in output
    code, _, remarks = fuse(*words, "--configuration", "1x1/NoCut")
    assert code == 2
    assert "--measured is for the search" in remarks
    path.write_text("configuration,milliseconds\n1x1/NoCut,0\n")
    code, _, remarks = fuse(*words)
    assert code == 2
    assert "line 2: '0'; expected milliseconds above 0" in remarks


def test_measured_durations_take_the_place_of_the_platform(fuse, tmp_path):
    layers = [layer.name for layer in simplified(read_model(MODEL)).network.layers]
    table = tmp_path / "measured.csv"
    rows = (f"{name},0,{1000 * number + 5000}" for number, name in enumerate(layers))
    table.write_text("\n".join(["layer,phase,nanoseconds", *rows]) + "\n")
    whole, tiled = (
        json.loads(fuse(MODEL, "--durations", table, "--json", *words)[1])["plan"]["nanoseconds"]
        for words in (("--modes", "whole", "--ram", "1MB"), ("--configuration", "2x2/4/1x1"))
    )
    # Layer by layer each takes what was measured; input and output none.
    assert whole == sum(1000 * number + 5000 for number in range(1, len(layers) - 1))
    # Four tiles start three times more, more than a microsecond each here, and compute borders again.
    assert tiled > whole + 3 * 1000
    table.write_text("layer,phase,nanoseconds\ninput,0,5\n")
    code, _, error = fuse(MODEL, "--ram", "150kB", "--durations", table)
    assert (code, "has no durations" in error) == (2, True)
