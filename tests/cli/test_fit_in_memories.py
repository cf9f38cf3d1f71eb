"""`csdf fit --memory`: what it prints, refuses, draws, and hands on."""

import json
import re

import pytest

from cnn2csdf import operators as op
from cnn2csdf.builder import NetworkBuilder
from cnn2csdf.onnx_files.writer import onnx_bytes
from cnn2csdf.weights import Model, random_weights
from planners.memory.command.verify import verified as run_and_compared
from planners.plan.text import plans_for

TWO = ("--memory", "tcm=2kB", "--memory", "ram=1MB:slow")
SMALL = ("keyword_spotting:rows=25", "--element-bytes", "1")


def test_the_answer_says_what_moves_beside_other_plans(run):
    code, out, _ = run("fit", *SMALL, *TWO, "--json")
    found = json.loads(out)
    assert code == 0
    assert [one["name"] for one in found["memories"]] == ["tcm", "ram"]
    assert found["memories"][0]["used_bytes"] <= 2000
    moved = found["slow_lower_bound_bytes"], found["slow_bytes"], found["slow_bytes_greedy"]
    assert moved == tuple(sorted(moved))
    assert found["slow_bytes_greedy"] <= found["slow_bytes_all_slow"]


def test_the_plan_is_written_checked_and_run_with_the_bytes_it_counts(run, tmp_path):
    plan = tmp_path / "plan.json"
    assert run("fit", *SMALL, *TWO, "-o", plan)[0] == 0
    traffic = json.loads(plan.read_text())["traffic"]
    counted = sum(one["read"] + one["written"] for one in traffic)
    words = ("fit", SMALL[0], "--plan", plan)
    code, out, _ = run(*words, "--verify", "--plot", tmp_path / "time.svg")
    assert re.search(
        r"\n  method +tcm +ram +MACs\n  loaded plan +[\d.]+ k?B +[\d.]+ kB +[\d.]+x <\n", out
    )
    assert code == 0
    assert f"{counted} slow bytes counted" in out
    drawn = (tmp_path / "time.svg").read_text()
    assert "tcm, fast" in drawn
    assert "ram, slow" in drawn


@pytest.mark.slow
def test_slow_bytes_are_drawn_over_sizes_of_fast_memory(run, tmp_path):
    # Too small for some of the sizes that are drawn, which are from a quarter of it on.
    picture = tmp_path / "front.svg"
    assert run("fit", *SMALL, *TWO, "--plot-tradeoff", picture)[0] == 0
    assert "greedy split" in picture.read_text()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (("--memory", "tcm=3kB"), "; --ram is for a single memory"),
        ((*TWO, "--memory", "more=1MB"), "expected fast memories, the nearest first"),
        ((*TWO, "--ram", "3kB"), "--ram is for a single memory"),
        ((*TWO, "--fps", "9"), "needs the rates of all slow memories"),
        (
            (
                "--memory",
                "a=9kB:holds=tensors+scratch+stack",
                "--memory",
                "b=9kB:slow:holds=tensors+stack",
            ),
            "hold the stack",
        ),
        (("--memory", "tcm"), "a name and a size"),
        (("--memory", "tcm=3kB:fast"), "found 'fast'; expected slow"),
        (("--memory", "=3kB"), "a name and a size"),
    ],
)
def test_other_memories_are_refused_in_one_line(run, given, words):
    code, _, err = run("fit", *SMALL, *given)
    assert code == 2
    assert words in err.splitlines()[-1]


RATES = ("--memory", "tcm=4kB", "--memory", "ram=1MB:slow:read=1/2:write=1/2")


def test_frames_per_second_are_asked_of_plans_in_several_memories(run, answer):
    code, found = answer("fit", *SMALL, *RATES, "--fps", "1")
    assert code == 0
    time = found["methods"][0]["predicted_nanoseconds"]
    fastest = 10**9 // time
    assert answer("fit", *SMALL, *RATES, "--fps", str(fastest))[0] == 0
    code, found = answer("fit", *SMALL, *RATES, "--fps", str(fastest + 1))
    assert (code, found["fits"]) == (3, None)
    assert found["reason"].startswith("the fastest plan found is too slow at the maximum: ")


def test_measured_times_count_for_plans_in_several_memories(run, answer, tmp_path):
    table, times = tmp_path / "times.csv", []
    assert run("cnn", "measure", SMALL[0], "--granularity", "whole", "-o", table)[0] == 0
    head, *rows = table.read_text().splitlines()
    for nanoseconds in (10**6, 2 * 10**6):  # of each layer
        changed = [f"{row.rpartition(',')[0]},{nanoseconds}" for row in rows]
        table.write_text("\n".join([head, *changed]) + "\n")
        code, found = answer("fit", *SMALL, *RATES, "--durations", table)
        assert code == 0
        assert "not_calibrated" not in found  # a core is not asked
        times.append(found["methods"][0]["predicted_nanoseconds"])
    # All but the starts of firings and what moves doubles: below a tenth of the milliseconds here.
    assert times[0] * 19 // 10 < times[1] < 2 * times[0]


def test_the_memory_of_the_stack_holds_it_beside_the_arena(run, answer):
    holds = "holds=tensors+weights+scratch+stack"
    given = (*SMALL, "--memory", f"tcm=4kB:{holds}", "--memory", "ram=1MB:slow")
    code, found = answer("fit", *given, "--reserve", "500", "--verify")
    assert code == 0
    taken = found["stack_bytes"] + found["reserve_bytes"] + found["state_bytes"]
    assert found["memories"][0]["bytes"] == 4000
    assert found["memories"][0]["used_bytes"] + taken <= 4000
    assert found["verified"]["equal"]
    # As many bytes are there for the arena alone: the same plan.
    less = ("--memory", f"tcm={4000 - taken}B", "--memory", "ram=1MB:slow")
    assert answer("fit", *SMALL, *less)[1]["slow_bytes"] == found["slow_bytes"]
    code, found = answer("fit", *given, "--reserve", "3kB")
    assert (code, found["fits"]) == (1, False)
    assert found["reason"] == "stack and reserve need 4064 bytes of tcm, its size is 4000"


@pytest.mark.parametrize("ends", ["rows", "external"])
def test_inputs_by_rows_or_in_other_memory_are_planned_beside_slow_memory(answer, ends):
    code, found = answer("fit", *SMALL, *TWO, "--input", ends, "--verify")
    assert (code, found["input"]) == (0, ends)
    assert found["verified"]["equal"]
    assert found["verified"]["slow_bytes"] == found["slow_bytes"]


def test_a_hop_keeps_its_rows_in_fast_memory(answer, tmp_path):
    builder = NetworkBuilder("words")
    rows = builder.input((1, 12, 4))
    window = op.Window(kernel=(3, 3), padding=(0, 1, 0, 1))  # rows as they slide: no padding
    rows = builder.add(op.Convolution(filters=2, window=window), rows)
    rows = builder.add(op.GlobalPooling(function="average"), rows)
    builder.output(rows)
    path = tmp_path / "words.onnx"
    network = builder.network()
    path.write_bytes(onnx_bytes(Model(network=network, weights=random_weights(network, 0))))
    code, found = answer("fit", path, "--hop", "2", "--verify", *TWO)
    assert (code, found["hop"]["rows"]) == (0, 2)
    assert found["kept_bytes"] > 0
    assert found["slow_bytes"] == 0
    assert found["verified"]["equal"]


def test_several_networks_in_turn_share_the_memories(run, answer, tmp_path, monkeypatch):
    names = SMALL[0], "resnet8:resolution=16"
    plans = tmp_path / "plan.json"
    verified = []

    def recorded(model, plan, seed):
        verified.append(plan)
        return run_and_compared(model, plan, seed)

    monkeypatch.setattr("planners.memory.command.verify.verified", recorded)
    code, found = answer("fit", *names, "--memory", "sram=16kB", *TWO[-2:], "--verify", "-o", plans)
    assert (code, found["fits"]) == (0, True)
    assert all(one["verified"]["equal"] for one in found["networks"])
    used = [[one["used_bytes"] for one in network["memories"]] for network in found["networks"]]
    assert used[0] == used[1]
    assert sum(used[0]) == found["ram_bytes"]
    # The plans that ran are the plans in the file, not the plans of each network alone.
    assert [plan.arena_bytes for plan in verified] == 2 * [found["ram_bytes"]]
    assert verified == list(plans_for(plans, 2))
    output = run("fit", *names, "--plan", plans)[1]
    assert "2 networks sequentially in sram and ram: fit: " in output
    code, _, err = run("fit", *names, *TWO, "--plot-tradeoff", tmp_path / "front.svg")
    assert (code, err) == (
        2,
        "csdf fit: --plot-tradeoff with --memory is of one network; plan each alone\n",
    )


def test_a_network_without_a_plan_among_three_leaves_no_common_memories(run):
    names = SMALL[0], "samos_example", "resnet8"
    memories = ("--memory", "sram=3kB", "--memory", "ram=8kB:slow")
    code, output, _ = run("fit", *names, "--element-bytes", "1", *memories)
    assert code == 3
    assert "resnet8: unknown" in output
    assert "3 networks sequentially in sram and ram: unknown: " in output


@pytest.mark.parametrize("size", [3600, 4300])
def test_the_memory_of_the_stack_holds_the_deepest_of_networks_in_any_order(size, run):
    names = SMALL[0], "samos_example"
    memory = f"sram={size}B:holds=tensors+scratch+stack"
    words = ("--element-bytes", "1", "--memory", memory, "--memory", "ram=60kB:slow")
    (code, first, _), (again, second, _) = (run("fit", *n, *words) for n in (names, names[::-1]))
    assert code == again
    assert first.splitlines()[-2:] == second.splitlines()[-2:]


def test_the_smallest_sizes_of_a_front_have_a_byte(run, tmp_path):
    words = (*SMALL, "--memory", "sram=3B", *TWO[-2:], "--plot-tradeoff", tmp_path / "front.svg")
    code, _, remarks = run("fit", *words)
    assert code == 3
    assert f"wrote {tmp_path / 'front.svg'}" in remarks


def test_a_fast_memory_that_is_too_small_is_unknown(run):
    code, out, _ = run("fit", *SMALL, "--memory", "tcm=300B", "--memory", "ram=1MB:slow")
    assert code == 3
    assert "no group that computes layer" in out


def test_times_of_a_roofline_say_that_no_code_was_counted(run, answer):
    # 480 million operations a second, two for a MAC, at 240 MHz.
    words = "a roofline of 1 MAC/cycle at 240 MHz"
    for limit in (("--ram", "1MB"), ("--memory", "sram=3kB")):
        given = ("fit", *SMALL, "--platform", "esp32-s3", *limit)
        assert f"  timing   not calibrated: {words}" in run(*given)[1]
        assert answer(*given)[1]["roofline"]["operations_per_second"] == 480_000_000
