"""`csdf fit` as its users see it."""

import json
import re
import time
from fractions import Fraction

import pytest

from cnn2csdf import operators as op
from cnn2csdf.builder import NetworkBuilder
from cnn2csdf.catalogue.networks import from_catalogue
from cnn2csdf.simplify import simplified
from cnn2csdf.weights import Model
from planners.memory.command.answer import as_lines
from planners.memory.fit import fit
from planners.memory.plain_plans import whole_arena
from planners.memory.several_networks import Together
from tests.cli.running import answer, run
from tests.cnn2csdf.readers.tflite_models import Tensor, one_node
from tests.shared_data import SHARED, each

__all__ = ["answer", "run"]

INT8 = ("--element-bytes", "1")


def test_json_has_these_keys_and_no_others(answer):
    code, found = answer("fit", "resnet8", *INT8, "--ram", "16kB")
    assert code == 0
    assert set(found) == {
        "network",
        "fits",
        "ram_bytes",
        "needed_ram_bytes",
        "state_bytes",
        "stack_bytes",
        "reserve_bytes",
        "flash_bytes",
        "mac_ratio",
        "lower_bound_bytes",
        "status",
        "reason",
        "input",
        "output_memory",
        "methods",
        "not_calibrated",
        "seconds",
    }
    assert set(found["methods"][0]) == {
        "name",
        "ram_bytes",
        "needed_ram_bytes",
        "state_bytes",
        "mac_ratio",
        "predicted_nanoseconds",
        "predicted_nanoseconds_at_best",
        "predicted_instructions",
    }
    assert (found["fits"], found["input"]) == (True, "resident")


@pytest.mark.slow
def test_of_the_ways_that_fit_the_least_work_is_taken(answer):
    _, found = answer("fit", "person_detection", *INT8, "--ram", "11kB", "--input", "rows")
    fitting = [way for way in found["methods"] if way["needed_ram_bytes"] <= 11_000]
    assert Fraction(found["mac_ratio"]) == min(Fraction(way["mac_ratio"]) for way in fitting)
    assert found["needed_ram_bytes"] <= 11_000


def test_a_search_without_a_plan_is_no_proof_and_names_the_smallest_found(run):
    # The lower bound is the input, 3072 bytes.
    code, output, _ = run("fit", "resnet8", *INT8, "--ram", "6kB")
    assert code == 3
    assert "unknown: the smallest found is" in output


def test_a_size_that_is_printed_can_be_given_back_as_the_limit(run):
    line = run("fit", "keyword_spotting", *INT8, "--ram", "64")[1].splitlines()[0]
    size = re.search(r"the smallest found is ([\d.]+) kB", line)[1]
    code, output, _ = run("fit", "keyword_spotting", *INT8, "--ram", f"{size}kB")
    assert code == 0
    # The size was rounded up, so fewer bytes than its last digit are free.
    assert re.search(r": fits: \d+ B of RAM.*; \d B of RAM free$", output.splitlines()[0])


def test_a_refusal_repeats_the_limit_and_names_the_unit_that_may_be_missing(run):
    line = run("fit", "keyword_spotting", *INT8, "--ram", "64")[1].splitlines()[0]
    assert line.endswith("; limit 64 B; did you mean 64kB?")
    line = run("fit", "keyword_spotting", *INT8, "--ram", "2kB")[1].splitlines()[0]
    assert line.endswith("; limit 2 kB")


def test_a_bound_far_below_every_plan_is_not_shown(run):
    # By rows the bound is the result alone: two bytes, where plans take over 10,000.
    code, output, _ = run("fit", "person_detection", *INT8, "--input", "rows", "--ram", "64kB")
    assert code == 0
    assert "arena at least" not in output
    assert "arena at least 9.216 kB" in run("fit", "person_detection", *INT8, "--ram", "64kB")[1]


def test_rows_that_no_layer_reads_are_named_where_macs_are_below_one(run):
    build = NetworkBuilder("odd_rows")
    build.input((2, 5, 5), name="x")
    build.add(op.Convolution(filters=2, window=op.Window(kernel=(1, 1))), "x", name="c")
    # Windows of 2 in steps of 2 over 5 rows: the fifth row of the convolution has no reader.
    halves = op.Window(kernel=(2, 2), stride=(2, 2))
    build.add(op.Pooling(function="max", window=halves), "c", name="p")
    build.output("p")
    both = Together(fits=(fit(build.network()),), flash=None, longest=None)
    lines = as_lines(both, [], 0.0, [()])
    assert any("  0.8x" in line for line in lines)
    assert "  MACs     below 1x: rows that no layer reads are not computed" in lines
    assert "below 1x" not in run("fit", "samos_example")[1]


EFFORTS = [
    ("person_detection", "--ram", "11kB"),  # refused: the search, all over, and what lies nearby
    ("resnet8", "--ram", "10kB"),
    ("person_detection", "--memory", "sram=12kB", "--memory", "psram=2MB:slow"),
    ("resnet8", "keyword_spotting", "--ram", "10kB"),
]


@pytest.mark.parametrize("words", EFFORTS)
def test_a_loaded_machine_gives_the_same_answer(words, run, monkeypatch):
    command = ("fit", *words, *INT8, "--effort", "20ms", "--time-limit", "60s")
    usual = run(*command)
    slow, begin = time.monotonic, time.monotonic()
    # A clock that runs 100 times faster: the machine does a hundredth of the work in a second.
    monkeypatch.setattr("csdf.time_limit.time.monotonic", lambda: begin + 100 * (slow() - begin))
    command = (*command[:-1], "10h")
    assert run(*command) == usual
    assert "the effort of" in usual[1]


def test_where_the_clock_ends_the_search_the_first_line_says_so(run):
    command = ("fit", "person_detection", *INT8, "--ram", "64kB", "--time-limit", "1us")
    code, output, _ = run(*command)
    first = output.splitlines()[0]
    assert (code, "person_detection: the time limit ended the search: fits: " in first) == (3, True)
    assert run(*command, "--best-effort")[0] == 0


def test_a_refusal_that_is_proved_needs_no_time(run):
    command = ("fit", "resnet8", *INT8, "--ram", "3000", "--time-limit", "1us")
    assert run(*command)[0] == 1


def test_a_plan_that_is_listed_without_a_limit_is_found_with_one(answer):
    effort = ("--effort", "50ms")
    _, found = answer("fit", "person_detection", *INT8, *effort)
    for way in found["methods"][:3]:
        ram = str(way["needed_ram_bytes"])
        code, limited = answer("fit", "person_detection", *INT8, *effort, "--ram", ram)
        assert (code, limited["needed_ram_bytes"] <= way["needed_ram_bytes"]) == (0, True)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (("--ram", "9kB", "--seed=3", "--plot-tradeoff=t.svg"), ("--ram", "9kB", "--seed=3")),
        (("-o", "p.json", "--input", "rows"), ("--plan", "p.json")),
    ],
)
def test_the_next_step_writes_c_of_the_plan(run, tmp_path, monkeypatch, given, expected):
    monkeypatch.chdir(tmp_path)
    _, output, _ = run("fit", "samos_example", *given)
    (step,) = [line.split()[1:] for line in output.splitlines() if line.startswith("  next ")]
    assert step == ["csdf", "deploy", "samos_example", *expected, "-o", "firmware"]
    assert run(*step[1:])[0] == 0


@pytest.mark.parametrize("given", [("--ram", "9"), ("--fps", "9"), INT8, ("--time-limit", "0")])
def test_no_next_step_without_a_plan_that_deploy_writes(run, given):
    assert "  next " not in run("fit", "samos_example", *given)[1]


def test_predicted_times_in_json_are_the_compared_times(answer):
    _, found = answer("fit", "resnet8", *INT8, "--ram", "64kB")
    time = min(method["predicted_nanoseconds"] for method in found["methods"])
    for limit, code in ((time, 0), (time - 1, 3)):
        assert (
            answer("fit", "resnet8", *INT8, "--ram", "64kB", "--fps", f"1000000000/{limit}")[0]
            == code
        )


def test_an_arena_below_the_input_is_infeasible_without_a_search(answer):
    # 3 maps of 32 x 32 places come in, a byte each: 3072 bytes, and more than 3000.
    code, found = answer("fit", "resnet8", *INT8, "--ram", "3000")
    assert (code, found["lower_bound_bytes"]) == (1, 3072)
    assert "in every plan" in found["reason"]


def test_flash_is_a_limit_of_its_own(run):
    code, output, _ = run("fit", "resnet8", *INT8, "--ram", "64kB", "--flash", "10kB")
    assert code == 1
    assert re.match(r"resnet8: does not fit: [\d.]+ kB of flash needed, limit 10 kB\n", output)


def test_a_default_platform_is_named(run):
    _, _, remarks = run("fit", "resnet8", *INT8)
    assert remarks == "csdf fit: times are predicted for cortex-m7; --platform chooses\n"
    _, _, chosen = run("fit", "resnet8", *INT8, "--platform", "cortex-m7")
    assert chosen == ""


def test_a_rate_that_no_plan_reaches_is_unknown(run):
    code, output, _ = run("fit", "resnet8", *INT8, "--ram", "64kB", "--fps", "100000")
    assert code == 3
    line = output.splitlines()[0]
    assert re.search(
        r": unknown: the fastest plan found is too slow even at the minimum: [\d.]+ to [\d.]+ ms a "
        r"frame predicted, 10 us allowed$",
        line,
    )
    assert "the smallest found" not in output


def test_a_rate_between_both_ends_of_the_prediction_says_the_end_that_is_too_slow(answer, run):
    _, found = answer("fit", "resnet8", *INT8, "--ram", "64kB")
    slow = min(way["predicted_nanoseconds"] for way in found["methods"])
    rate = 2 * 10**9 // slow  # half the maximum, which is four times the minimum
    line = run("fit", "resnet8", *INT8, "--ram", "64kB", "--fps", rate)[1].splitlines()[0]
    assert ": unknown: the fastest plan found is too slow at the maximum: " in line


def test_whole_layers_need_what_cnn_memory_says_of_one_arena(answer):
    network = simplified(Model(network=from_catalogue("person_detection"))).network
    _, found = answer("fit", "person_detection", *INT8, "--ram", "64kB")
    whole = next(way for way in found["methods"] if way["name"] == "layer by layer")
    assert whole["ram_bytes"] == whole_arena(network, element_bytes=1).peak


def test_several_networks_work_in_turn_in_one_arena(answer):
    code, found = answer("fit", "resnet8", "keyword_spotting", *INT8, "--ram", "16kB")
    assert code == 0
    each = found["networks"]
    assert found["ram_bytes"] == max(one["ram_bytes"] for one in each)
    assert found["flash_bytes"] == sum(one["flash_bytes"] for one in each)


@pytest.mark.slow
def test_a_verified_plan_says_so(run):
    code, output, _ = run("fit", "keyword_spotting:rows=25", "--verify", "--ram", "16kB")
    assert code == 0
    assert "equal: the run in" in output


def test_the_plan_is_written_as_json(run, tmp_path):
    file = tmp_path / "plan.json"
    assert run("fit", "keyword_spotting", *INT8, "--ram", "8kB", "-o", file)[0] == 0
    plan = json.loads(file.read_text())
    assert plan["version"] == 7
    assert plan["arena_bytes"] <= 8000
    assert max(one["offset"] + one["size"] for one in plan["buffers"]) == plan["arena_bytes"]


@pytest.mark.parametrize(
    "words",
    [
        ("samos_example", "--ram", "1kB"),
        ("samos_example", "samos_example", "--fps", "10000000"),
        ("samos_example", "--memory", "sram=9B", "--memory", "psram=1MB:slow"),
    ],
)
def test_a_plan_that_does_not_fit_is_not_written(run, tmp_path, words):
    file = tmp_path / "plan.json"
    code, output, remarks = run("fit", *words, *INT8, "-o", file)
    assert code in {1, 3}
    assert f"{file} is not written: there is no plan that fits" in remarks
    assert not file.exists()
    assert "next  " not in output


def test_a_rate_of_several_networks_is_reached_by_the_fastest_plans(answer):
    # Line buffers take 6.451 ms, layer by layer 6.267 ms: twice, or once, or never.
    two = ("samos_example", "samos_example", *INT8)
    arenas = {"70": [1344, 1344], "78.5": [1344, 2048], "79.5": [2048, 2048], "80": [1344, 1344]}
    for rate, expected in arenas.items():
        code, found = answer("fit", *two, "--fps", rate, "--verify")
        assert code == (3 if rate == "80" else 0)
        assert sorted(network["ram_bytes"] for network in found["networks"]) == expected
        runs = [network["verified"]["high_water_bytes"] for network in found["networks"]]
        assert sorted(runs) == expected


def test_a_smaller_plan_that_is_too_slow_is_not_recommended(run):
    # Of 27.7 ms; the fastest plan takes 27.5 ms.
    assert "--ram 6776 chooses it" not in run("fit", "samos_example", "--fps", "36.2")[1]
    assert run("fit", "samos_example", "--fps", "36.2", "--ram", "6776")[0] == 3


def test_the_plan_and_its_trade_off_are_two_pictures(run, tmp_path):
    pytest.importorskip("matplotlib")
    plan, front = tmp_path / "plan.svg", tmp_path / "front.svg"
    words = ("--ram", "8kB", "--plot", plan, "--plot-tradeoff", front)
    assert run("fit", "keyword_spotting", *INT8, *words)[0] == 0
    assert "RAM (kB = 1,000 bytes, log scale)" in front.read_text()
    drawn = plan.read_text()
    assert "firings of a frame" in drawn
    assert "conv1 line buffer" in drawn
    # The bound of 490 bytes is far below the arena of 5 kB.
    assert "lower bound" not in drawn


def test_a_plan_that_is_there_has_no_trade_off(run, tmp_path):
    words = ("--plan", "plan.json", "--plot-tradeoff", tmp_path / "front.svg")
    code, _, remarks = run("fit", "keyword_spotting", *words)
    assert (code, "--plot-tradeoff is of a search" in remarks) == (2, True)


@pytest.mark.parametrize("works", [(1,), (1, Fraction(9, 8)), (0,), (0, 0), (Fraction(3, 2),)])
def test_the_axis_of_work_ends_below_at_the_least_there_is(works):
    # Each network has a plan that computes it once, work 1; 0 where no layer multiplies.
    picture = pytest.importorskip("planners.memory.command.picture")
    low, high = picture.work_axis(works)
    assert low == min(1, *works)
    assert high > max(works)


def test_a_plan_counted_in_bytes_is_run_on_real_numbers(run):
    code, output, _ = run("fit", "keyword_spotting:rows=25", *INT8, "--verify", "--ram", "5.3kB")
    assert code == 0
    assert "keyword_spotting: equal" in output


MCUNET = SHARED / "networks" / "tflite" / "mcunet_vww1_int8.tflite"


@pytest.mark.slow
@each("path", [MCUNET] if MCUNET.exists() else [])
def test_strips_of_a_quantised_network_are_computed_in_integers(path, run):
    code, output, _ = run("fit", path, "--ram", "90kB", "--effort", "5s", "--verify")
    assert code == 0
    assert "mcunet_vww1_int8: equal" in output
    assert "largest difference 0 of" in output


def test_flash_is_shared_by_all_networks(run):
    # Keyword spotting has 22604 parameters, person detection 210706: each is below 220 kB, not both.
    two = ("keyword_spotting", "person_detection")
    code, output, _ = run("fit", *two, *INT8, "--ram", "64kB", "--flash", "220kB")
    assert code == 1
    assert "the parameters of all need" in output


def test_frames_of_all_networks_are_worked_in_turn(answer):
    one = answer("fit", "keyword_spotting", *INT8, "--ram", "16kB")[1]["methods"]
    time = min(way["predicted_nanoseconds"] for way in one)
    rate = str(1_000_000_000 // (time + time // 2))  # reached once in a period, not twice
    two = ("keyword_spotting", "keyword_spotting:classes=10")
    assert answer("fit", two[0], *INT8, "--ram", "64kB", "--fps", rate)[0] == 0
    code, found = answer("fit", *two, *INT8, "--ram", "64kB", "--fps", rate)
    assert (code, found["status"]) == (3, "unknown")
    both = sum(
        next(
            way["predicted_nanoseconds"]
            for way in network["methods"]
            if way["ram_bytes"] == network["ram_bytes"]
        )
        for network in found["networks"]
    )
    assert found["predicted_nanoseconds"] == both


def test_input_and_result_outside_the_arena_are_not_counted(answer):
    inside = answer("fit", "resnet8", *INT8, "--ram", "64kB")[1]
    outside = answer(
        "fit",
        "resnet8",
        *INT8,
        "--ram",
        "64kB",
        "--input",
        "external",
        "--output-memory",
        "external",
    )[1]
    assert (outside["lower_bound_bytes"], outside["input"], outside["output_memory"]) == (
        0,
        "external",
        "external",
    )
    assert outside["ram_bytes"] <= inside["ram_bytes"]


@pytest.mark.slow
def test_the_first_layers_of_yolo_v2_need_no_tiles(answer):
    # By rows with tensors between groups whole they need 7.7 MB.
    code, found = answer("fit", "yolo_v2_beginning", "--ram", "5MB")
    assert (code, found["mac_ratio"]) == (0, "1")
    assert found["ram_bytes"] <= 5_000_000


def test_elements_that_c_computes_in_more_bytes_than_the_file_has_are_named(run, tmp_path):
    file = tmp_path / "and.tflite"
    operands = [Tensor(name, (1, 5, 5, 4), "bool") for name in "ab"]
    file.write_bytes(one_node("LOGICAL_AND", operands, Tensor("y", (1, 5, 5, 4), "bool")))
    _, output, remarks = run("fit", file)
    assert "but 4 in its C code" in remarks
    assert "  next " not in output
    assert "which C" not in run("fit", file, *INT8)[2]  # asked for
    _, output, _ = run("fit", file, "--element-bytes", 4)
    assert "  next     csdf deploy" in output


@pytest.mark.parametrize("command", [("fit",), ("cnn", "memory")])
def test_a_plan_that_deploy_will_not_take_is_told_as_it_is_written(command, run, tmp_path):
    # Real numbers take 4 bytes in C; a plan that counts 1 is for the network quantised.
    file = tmp_path / "plan.json"
    words = "have 1 byte in the plan of"
    assert words in run(*command, "samos_example", *INT8, "-o", file)[2]
    assert run("deploy", "samos_example", "--plan", file, "-o", tmp_path / "library")[0] == 2
    assert "in its C code" not in run(*command, "samos_example", "-o", file)[2]
    assert run("deploy", "samos_example", "--plan", file, "-o", tmp_path / "library")[0] == 0


def test_a_no_lists_what_would_fit_with_other_ends(answer, run):
    words = ("fit", "keyword_spotting", "--element-bytes", "1")
    by_rows = answer(*words, "--input", "rows")[1]["methods"][0]["needed_ram_bytes"]
    code, found = answer(*words, "--ram", f"{by_rows}B")
    assert code == 3
    (listed,) = [one for one in found["alternatives"] if one["options"] == "--input rows"]
    assert (listed["ram_bytes"], listed["fits"]) == (by_rows, True)
    sizes = [one["ram_bytes"] for one in found["alternatives"]]
    assert sizes == sorted(sizes)
    assert max(sizes) < found["needed_ram_bytes"]
    # no larger change than one that fits is listed
    assert not [one for one in found["alternatives"] if "--input rows " in one["options"]]
    code, fitting = answer(*words, "--ram", f"{by_rows}B", "--input", "rows")
    assert (code, "alternatives" in fitting) == (0, False)
    text = run(*words, "--ram", f"{by_rows}B")[1]
    assert "  instead  --input " in text
    assert " of RAM, fits\n" in text
    real = answer("fit", "samos_example", "--ram", "3kB")[1]["alternatives"]
    quantised = answer("fit", "samos_example", "--element-bytes", "1")[1]["methods"][0][
        "needed_ram_bytes"
    ]
    (as_int8,) = [one for one in real if one["options"].startswith("--element-bytes 1 ")]
    assert (as_int8["ram_bytes"], as_int8["fits"]) == (quantised, True)


def test_the_plan_is_shown_with_groups_and_buffers(run):
    code, out, _ = run("fit", "keyword_spotting:rows=25", "--element-bytes", "1", "--show-plan")
    assert code == 0
    assert "\ngroup 1: up to byte " in out
    assert "\n     offset      size   groups  rows  kind              tensor\n" in out
    code, _, err = run("fit", "keyword_spotting", "--show-plan", "--json")
    assert code == 2
    assert "--show-plan prints words" in err
