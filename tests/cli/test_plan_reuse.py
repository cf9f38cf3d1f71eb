"""`csdf plan reuse` as its users see it."""

import json
import os
from fractions import Fraction
from operator import le
from threading import Thread

import pytest

from cnn2csdf.catalogue.networks import from_catalogue
from cnn2csdf.simplify import simplified
from cnn2csdf.weights import Model
from planners.arena import allocation
from planners.arena.allocation import plan_arena
from planners.memory.answer import EXTERNAL, ROWS
from planners.memory.fit import fit
from planners.reuse import placement

APPLICATION = "keyword_spotting+samos_example"
RESIDUAL = "resnet8+keyword_spotting"
QUICK = ("--generations", "3", "--population", "12", "--seed", "4")


def test_a_pipe_is_read_and_named_as_a_file(run, tmp_path):
    path = tmp_path / "two+layers.cfg"
    os.mkfifo(path)
    network = "[net]\nheight=8\nwidth=8\nchannels=3\n[convolutional]\nfilters=4\nsize=3\npad=1\n"
    Thread(target=path.write_text, args=(network,), daemon=True).start()
    code, output, _ = run("plan", "reuse", path, "--ram", "20kB")
    assert (code, output.partition(":")[0]) == (0, "two+layers")


def test_the_front_and_the_methods(answer):
    code, found = answer("plan", "reuse", APPLICATION, *QUICK)
    assert code == 0
    assert found["networks"] == ["keyword_spotting", "samos_example"]
    methods = found["methods"]
    assert methods["no_reduction"] > methods["reuse_only"] > methods["pipelined_reuse"]
    sizes = [point["memory_bytes"] for point in found["front"]]
    assert sizes == sorted(sizes)
    assert found["lower_bound"] <= sizes[0] <= methods["pipelined_reuse"]
    assert found["chosen"] in found["front"]
    assert found["arena_bytes"] == found["smallest_arena_bytes"] <= found["whole_arena_bytes"]
    assert found["lower_bound"] <= found["weight_bytes"] + found["arena_bytes"] <= sizes[0]


@pytest.mark.parametrize("options", [(), ("--whole-buffers",), ("--total-memory", "151500B")])
def test_the_chosen_plan_is_a_point_of_the_printed_front_which_no_point_dominates(answer, options):
    _, found = answer("plan", "reuse", APPLICATION, *QUICK, *options)
    assert found["chosen"] in found["front"]
    assert found["chosen"]["memory_bytes"] == found["weight_bytes"] + found["arena_bytes"]
    costs = [
        (point["memory_bytes"], *map(Fraction, point["seconds_per_frame"].values()))
        for point in found["front"]
    ]
    for mine in costs:
        assert not any(all(map(le, other, mine)) for other in costs if other is not mine)


@pytest.mark.slow
def test_one_seed_gives_one_front_wherever_it_is_evaluated(answer):
    fronts = [
        answer("plan", "reuse", APPLICATION, *QUICK, "--workers", workers)[1]["front"]
        for workers in ("1", "2")
    ]
    assert fronts[0] == fronts[1]


def test_a_limit_of_memory_chooses_the_fastest_that_fits(answer):
    _, free = answer("plan", "reuse", APPLICATION, *QUICK)
    limit = free["methods"]["no_reduction"]
    _, found = answer("plan", "reuse", APPLICATION, *QUICK, "--total-memory", limit)
    assert found["chosen"]["memory_bytes"] > free["chosen"]["memory_bytes"]


def test_offsets_may_fit_where_whole_buffers_do_not(answer, run):
    _, free = answer("plan", "reuse", RESIDUAL, *QUICK)
    by_offsets = free["weight_bytes"] + free["smallest_arena_bytes"]
    assert by_offsets < min(point["whole_buffer_bytes"] for point in free["front"])
    code, found = answer("plan", "reuse", RESIDUAL, *QUICK, "--total-memory", by_offsets)
    assert code == 0
    assert found["weight_bytes"] + found["arena_bytes"] <= by_offsets
    text = run("plan", "reuse", RESIDUAL, *QUICK, "--total-memory", by_offsets)[1]
    assert "(the limit is met by offsets only)" in text


def test_demands_that_no_plan_found_meets(run):
    code, output, _ = run(
        "plan", "reuse", APPLICATION, *QUICK, "--throughput", "samos_example=1000000000"
    )
    assert code == 3
    assert "no plan: none of the searched plans meets the constraints" in output


def test_memory_below_the_bound_is_a_proved_no(run, answer, tmp_path):
    bound = answer("plan", "reuse", APPLICATION, *QUICK)[1]["lower_bound"]
    words = ("plan", "reuse", APPLICATION, *QUICK, "--total-memory", bound - 1)
    code, output, remarks = run(*words, "-o", tmp_path / "plan.h")
    assert code == 1
    assert "(proved)" in output
    assert "plan.h is not written: there is no plan" in remarks
    assert not list(tmp_path.iterdir())


SPEECH = ("plan", "reuse", "keyword_spotting", "--element-bytes", "1", *QUICK)


def test_memory_that_only_line_buffers_meet_is_answered_by_their_plan(run, answer, tmp_path):
    network = simplified(Model(network=from_catalogue("keyword_spotting"))).network
    by_rows = fit(network, ram=8000, element_bytes=1, input=ROWS, output=EXTERNAL)
    path = tmp_path / "plan.json"
    code, found = answer(*SPEECH, "--ram", "8kB", "--verify", "-o", path)
    assert code == 0
    assert found["lower_bound"] > found["weight_bytes"] + 8000  # of buffers shared as here
    assert (found["chosen"], found["planner"]) == (None, "fit")
    assert found["arena_bytes"] == by_rows.best.ram_bytes <= 8000
    assert found["relative_difference"] <= 1e-4
    assert run("fit", "keyword_spotting", "--plan", path, "--ram", "8kB")[0] == 0


@pytest.mark.parametrize("options", [("--whole-buffers",), ("-o", "plan.h"), ("--ram", "100B")])
def test_line_buffers_are_no_answer_where_they_are_not_asked_for_or_do_not_fit(run, options):
    code, output, _ = run(*SPEECH, "--ram", "8kB", *options)
    assert code == 1
    assert "no plan: row-by-row plans and buffer sharing cannot fit" in output


def test_a_frame_rate_that_no_plan_reaches_is_not_answered_by_line_buffers(run):
    rate = ("--throughput", "keyword_spotting=1000")
    code, output, _ = run(*SPEECH, "--ram", "8kB", *rate)
    assert code == 1
    assert "no plan: " in output


def test_no_exhaustive_search_in_whole_buffers_refutes_plans_with_offsets(answer, tmp_path):
    """1964 bytes of buffers at offsets and weights, 1.359 ms a frame: dominated in whole buffers."""
    path = tmp_path / "chain.cfg"
    convolutions = ((1, 1, 1), (5, 3, 1), (2, 3, 1), (8, 1, 2))
    path.write_text(
        "[net]\nheight=8\nwidth=8\nchannels=4\n"
        + "".join(
            f"[convolutional]\nfilters={filters}\nsize={size}\nstride={stride}\npad=1\n"
            "activation=linear\n"
            for filters, size, stride in convolutions
        )
    )
    words = ("plan", "reuse", path, "-o", tmp_path / "tables.h", "--throughput")
    for limits, code in (
        (("chain=730", "--total-memory", 1970), 3),
        (("chain=730", "--total-memory", 1970, "--whole-buffers"), 1),
        (("chain=1000000", "--total-memory", 1970), 1),
    ):
        found_code, found = answer(*words, *limits)
        assert (found_code, found["chosen"]) == (code, None)
        assert found["reason"] == "every chromosome was evaluated"


def test_rows_may_be_listed_in_any_order_and_without_whole_layers(answer):
    words = ("plan", "reuse", "samos_example", *QUICK, "--rows")
    kinds = [answer(*words, rows)[1]["kind"].partition(";")[0] for rows in ("2,1", "0", "1,0", "1")]
    assert kinds == [
        "each layer by 1 or 2 rows, or all whole",
        "each layer whole",
        "each layer whole or by 1 row",
        "each layer by 1 row, or all whole",
    ]


def test_a_checkpoint_is_resumed_to_the_same_front(answer, run, tmp_path):
    path = tmp_path / "state.json"
    common = ("--method", "nsga2", "--population", "12", "--seed", "4")
    _, whole = answer("plan", "reuse", APPLICATION, "--generations", "5", *common)
    run("plan", "reuse", APPLICATION, "--generations", "2", *common, "--checkpoint", path)
    assert len(path.read_text().splitlines()) == 1 + 2 * 12
    resumed = ("--generations", "5", *common, "--checkpoint", path)
    _, found = answer("plan", "reuse", APPLICATION, *resumed)
    assert found["front"] == whole["front"]


def test_a_score_edited_in_a_checkpoint_is_not_believed(run, tmp_path):
    path = tmp_path / "state.json"
    words = ("plan", "reuse", APPLICATION, "--method", "nsga2", "--population", "12")
    run(*words, "--generations", "1", "--checkpoint", path)
    first, edited, *others = path.read_text().splitlines()
    score = json.loads(edited)
    score["objectives"][0] = "1"  # byte
    path.write_text("\n".join([first, json.dumps(score), *others, ""]))
    code, output, remarks = run(*words, "--generations", "2", "--checkpoint", path)
    assert (code, output) == (2, "")
    assert "state.json: [1]: " in remarks
    assert "the file was changed" in remarks


def test_a_checkpoint_is_for_both_methods(answer, run, tmp_path):
    path = tmp_path / "state.json"
    words = ("plan", "reuse", APPLICATION, "--population", "12")
    run(*words, "--generations", "2", "--checkpoint", path)
    _, whole = answer(*words, "--generations", "4")
    _, found = answer(*words, "--generations", "4", "--checkpoint", path)
    assert found["front"] == whole["front"]


def test_the_front_is_drawn(run, tmp_path):
    pytest.importorskip("matplotlib")
    path = tmp_path / "front.svg"
    assert run("plan", "reuse", "samos_example", *QUICK, "--plot", path)[0] == 0
    assert path.read_text().startswith("<?xml")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("no_network",), "there is no network 'no_network' among the built-in models"),
        (("missing.json",), "missing.json: cannot be read"),
        (("missing.onnx",), "missing.onnx: "),
        (("samos_example", "--throughput", "CNN=3"), "has no network 'CNN'"),
        (("samos_example+samos_example",), "two networks are named 'samos_example'"),
        (("samos_example", "-o", "plan.csv"), "plan.csv: expected the suffix .json or .h"),
    ],
)
def test_bad_input_gets_one_line(run, arguments, message):
    code, output, remarks = run("plan", "reuse", *arguments)
    assert (code, output) == (2, "")
    assert message in remarks
    assert len(remarks.splitlines()) == 1


@pytest.mark.parametrize(
    "option",
    [("--total-memory", "much"), ("--throughput", "5"), ("--rows", "1,1"), ("--rows", "a")],
)
def test_options_that_mean_nothing_are_refused(run, option):
    code, _, remarks = run("plan", "reuse", "samos_example", *option)
    assert code == 2
    assert f"argument {option[0]}" in remarks


@pytest.mark.parametrize("name", ["resnet8", "keyword_spotting"])
def test_one_network_has_one_least_arena_whatever_command_is_asked(answer, name):
    words = ("--element-bytes", 1)
    (memory,) = answer("cnn", "memory", name, *words)[1]["networks"]
    _, found = answer("plan", "reuse", name, "--element-bytes", 1, *QUICK)
    whole = memory["layer_by_layer"]["arena_bytes"]
    assert found["whole_arena_bytes"] == whole
    assert found["fit"]["ram_bytes"] <= memory["min"]["buffer_bytes"]  # what is printed beside it
    assert found["weight_bytes"] == memory["parameter_bytes"]
    assert "csdf plan fusion" in found["kind"]


@pytest.mark.parametrize(
    ("limits", "code"),
    [
        # int8 resnet8: 77,706 parameters; whole tensors in one arena 3 * 16 * 32 * 32 bytes.
        (("--ram", 49_152, "--flash", 77_706), 0),
        (("--ram", 49_152, "--flash", 77_705), 1),
        (("--flash", 77_706), 0),
        (("--total-memory", 49_152 + 77_706), 0),
        (("--total-memory", 77_705), 1),
        (("--ram", 1000), 1),
    ],
)
def test_ram_is_for_buffers_flash_for_parameters_memory_for_both(answer, run, limits, code):
    words = ("plan", "reuse", "resnet8", "--element-bytes", 1, *QUICK)
    found_code, found = answer(*words, *limits)
    assert found_code == code
    assert found["weight_bytes"] == 77_706
    if code:
        output = run(*words, *limits)[1]
        assert "no plan: the parameters alone are 77.71 kB" in output or "1 kB of RAM" in output
    elif len(limits) == 4 or limits[0] == "--total-memory":
        assert found["arena_bytes"] == 49_152  # the fastest that fits: whole layers
        assert found["chosen"]["rows"] == []
    else:
        assert found["arena_bytes"] <= 49_152


def test_a_no_says_of_which_plans_and_names_the_smallest_found(run):
    words = ("plan", "reuse", "resnet8", "--element-bytes", 1, *QUICK, "--ram", "1kB")
    code, output, _ = run(*words, "--explain")
    assert code == 1
    assert "each layer whole or by 1 row; by rows each edge" in output
    assert "cannot fit 1 kB of RAM (proved)" in output
    assert "the smallest found has 17.19 kB of buffers in one arena" in output


def test_a_budget_that_is_over_at_once_leaves_the_simplest_plan(answer):
    code, found = answer("plan", "reuse", "resnet8", "--element-bytes", 1, "--time-limit", "1ms")
    assert code == 0
    assert "time limit of 0.001 s is reached" in found["reason"]
    assert found["whole_arena_bytes"] == 3 * 16 * 32 * 32
    assert found["arena_bytes"] <= found["whole_arena_bytes"]


def test_ctrl_c_in_the_search_of_offsets_ends_all_searches(answer, monkeypatch):
    stops = []

    def interrupted(_):
        raise KeyboardInterrupt

    def arena_within(problem, *, budget):
        stops.append(budget.is_over())
        return plan_arena(problem, budget=budget)

    monkeypatch.setattr(allocation._Allocation, "is_done", False)
    monkeypatch.setattr(allocation._Allocation, "step", interrupted)
    monkeypatch.setattr(placement, "plan_arena", arena_within)
    code, found = answer("plan", "reuse", APPLICATION, *QUICK)
    assert (code, found["fit"]) == (0, None)
    assert stops == [False] + [True] * (len(stops) - 1)


@pytest.mark.slow
def test_an_arena_that_time_left_unproved_says_what_it_cannot_be_below(run):
    # densenet121: a first look at 244 tensors finds no proof; 1,806,336 bytes are the least.
    _, output, _ = run("plan", "reuse", "densenet121", "--element-bytes", 1, "--time-limit", "1ms")
    (line,) = [one for one in output.splitlines() if "layer by layer in one arena" in one]
    size, _, bound = line.partition(", these buffers at least ")
    assert bound == "9.847 MB" or (not bound and size.endswith("9.847 MB"))


def test_algorithm_9_searches_nothing_where_all_layers_whole_fit(answer):
    code, found = answer(
        "plan", "reuse", APPLICATION, *QUICK, "--selection", "published", "--total-memory", "10MB"
    )
    assert (code, found["evaluations"]) == (0, 1)
    assert found["chosen"]["rows"] == []


def test_algorithm_9_takes_the_least_of_all_where_nothing_fits_and_says_so(run):
    code, output, remarks = run(
        "plan", "reuse", APPLICATION, *QUICK, "--selection", "published", "--total-memory", "60kB"
    )
    assert code == 1
    assert "no plan found meets the constraints" in remarks
    assert "(more than the limit)" in output


def test_measured_times_of_phases_decide_the_speed(answer, run, tmp_path):
    # Phases by rows: 32 rows of the input, 16 and 4 of the convolutions.
    phases = {"n1": 32, "n2": 16, "n3": 4, "n4": 1, "n5": 1}
    options = []
    for name, counts in (("whole", dict.fromkeys(phases, 1)), ("rows", phases)):
        table = tmp_path / f"{name}.csv"
        rows = [f"{one},{k},{10**8}" for one, count in counts.items() for k in range(count)]
        table.write_text("\n".join(["layer,phase,nanoseconds", *rows, ""]))
        options += ["--durations", f"samos_example={table}"]
    code, found = answer("plan", "reuse", "samos_example", *QUICK, *options)
    assert code == 0
    # Whole: five phases of 0.1 s, one after another.
    periods = {point["seconds_per_frame"]["samos_example"] for point in found["front"]}
    assert "1/2" in periods
    code, _, remarks = run("plan", "reuse", "samos_example", *QUICK, *options[:2])
    assert code == 2
    assert "no measured times of" in remarks
