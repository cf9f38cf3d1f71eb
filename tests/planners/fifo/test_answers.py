"""Sizes as `csdf fifo finn` prints them: always in bits, and an open gap never as nothing."""

import json
import re
from dataclasses import replace
from fractions import Fraction

import pytest

from csdf.cli.main import main
from csdf.search.memory_cost import OBJECTIVES
from csdf.status import Status
from csdf.time_limit import Stop
from csdf.units import rate_in_words
from planners.fifo.cheapest_memories import cheapest_depths
from planners.fifo.command.answer import as_text, by_number, in_proof, verdict
from planners.fifo.cores import chain_cost, cheapest_chain, split_cores, with_cores
from planners.fifo.event_graph import EventGraph
from planners.fifo.finn.reading import read_design
from planners.fifo.sizing import smallest_depths
from planners.fifo.study import front, max_rate, period_of, study
from planners.fifo.timing.cluster import TimingOptions
from tests.cli.schemas import require_valid
from tests.planners.fifo.designs import RESIDUAL, ROOT, chain, cluster, fork


def line_of(output, title):
    return next(line for line in output.splitlines() if line.split()[:1] == [title])


@pytest.mark.parametrize("objective", ["bits", "elements", "bram", "lut"])
def test_bits_are_bits_whatever_was_to_be_small(objective, capsys):
    assert main(["fifo", "finn", str(RESIDUAL), "--objective", objective]) == 0
    text = capsys.readouterr().out
    assert main(["fifo", "finn", str(RESIDUAL), "--objective", objective, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    held = sum(one["width"] * one["depth"] for one in found["fifos"])
    assert f"{held} bits" in line_of(text, "residual:")
    assert found["smallest"]["bits"] == held


def test_an_objective_other_than_bits_says_its_own_cost(capsys):
    main(["fifo", "finn", str(RESIDUAL), "--objective", "elements", "--json"])
    found = json.loads(capsys.readouterr().out)
    elements = sum(one["depth"] for one in found["fifos"])
    assert found["smallest"]["cost"] == elements >= found["smallest"]["lower_bound"]
    main(["fifo", "finn", str(RESIDUAL), "--objective", "elements"])
    line = line_of(capsys.readouterr().out, "residual:")
    bits = found["smallest"]["bits"]
    assert f"{elements} elements ({bits} bits) for" in line
    assert "proved the fewest elements" in line


@pytest.mark.parametrize("objective", ["bram", "lut"])
def test_costs_of_memories_equal_those_of_csdf_buffers(objective, capsys):
    graph = EventGraph(read_design(str(RESIDUAL), TimingOptions(), {}))
    main(["fifo", "finn", str(RESIDUAL), "--objective", objective, "--json"])
    found = json.loads(capsys.readouterr().out)
    price = OBJECTIVES[objective]
    own = sum(price(one["depth"], one["width"]) for one in found["fifos"])
    assert found["smallest"]["cost"] == own == found["smallest"]["lower_bound"]
    if objective == "bram":
        assert own == found["resources"]["BRAM_18K"]
    asked, _ = max_rate(graph)
    assert cheapest_depths(graph, asked, price).cost == own


def test_equal_memories_have_the_fewest_bits_or_say_how_many_there_could_be(capsys):
    main(["fifo", "finn", str(RESIDUAL), "--json"])
    fewest = json.loads(capsys.readouterr().out)["smallest"]["bits"]
    main(["fifo", "finn", str(RESIDUAL), "--objective", "bram"])
    assert f"({fewest} bits, no fewer) for" in line_of(capsys.readouterr().out, "residual:")
    graph = EventGraph(read_design(str(RESIDUAL), TimingOptions(), {}))
    asked, _ = max_rate(graph)
    found = cheapest_depths(graph, asked, OBJECTIVES["bram"], stop=Stop(steps=3))
    assert found.least_bits is None or found.least_bits <= fewest


def test_a_deadlock_cycle_is_shortened_in_text_and_complete_in_json(capsys):
    main(["fifo", "finn", str(RESIDUAL)])
    line = line_of(capsys.readouterr().out, "depth")
    main(["fifo", "finn", str(RESIDUAL), "--json"])
    waiting = json.loads(capsys.readouterr().out)["depth_2"]["waiting"]
    # The fork waits for the sum, that for the convolution, that for the fork: seven layers.
    assert len(waiting) == 7
    assert f"{waiting[0]} -> {waiting[1]} -> (4 more: 'waiting' in --json) -> {waiting[-1]}" in line
    assert len(line) < 240


@pytest.mark.parametrize(("objective", "title"), [("elements", "elements"), ("lut", "LUTs")])
def test_a_front_is_of_the_objective_and_ends_at_its_fewest(objective, title, capsys):
    front = ["fifo", "finn", str(RESIDUAL), "--front", "--objective", objective]
    assert main([*front, "--json"]) == 0
    points = json.loads(capsys.readouterr().out)["front"]
    costs = [one["cost"] for one in points]
    assert costs == sorted(set(costs))  # none twice: of two, the faster is enough
    periods = [Fraction(one["period"]) for one in points]
    assert periods == sorted(periods, reverse=True)
    main(["fifo", "finn", str(RESIDUAL), "--objective", objective, "--json"])
    assert json.loads(capsys.readouterr().out)["smallest"]["cost"] == costs[-1]
    main(front)
    assert capsys.readouterr().out.splitlines()[1].split()[0] == title


def test_where_no_memory_is_needed_the_front_is_the_max_rate(capsys):
    # No FIFO of the model needs more than 256 words, so no rate needs a block RAM.
    main(["fifo", "finn", str(RESIDUAL), "--front", "--objective", "bram", "--json"])
    (point,) = json.loads(capsys.readouterr().out)["front"]
    assert (point["cost"], point["period"]) == (0, "2362")


@pytest.mark.parametrize(
    ("rate", "text"),
    [
        (Fraction(200_000_000, 98), "2.041 million"), (Fraction(84674), "84674"),
        (Fraction(200_000_000, 3496), "57208.2"), (Fraction(1, 10**5), "0.00001"),
        (Fraction(10**6), "1 million"),
    ],
)  # fmt: skip
def test_rates_are_printed_without_an_exponent(rate, text):
    # 200 MHz, 98 cycles/frame: 2,040,816 frames/s.
    assert rate_in_words(rate) == text


def test_a_picture_marks_proved_points():
    pytest.importorskip("matplotlib")
    from planners.fifo.command.picture import OPEN, PROVED, front_picture

    proved = smallest_depths(EventGraph(read_design(str(RESIDUAL), TimingOptions(), {})), None)
    proved = replace(proved, period=Fraction(98))
    other = replace(proved, status=Status.FEASIBLE, cost=proved.cost + 9)

    def texts(points):
        picture = front_picture("n", points, "elements", Fraction(200), "svg")
        return re.findall(r"<!-- (.+?) -->", picture)

    assert PROVED in texts([proved])
    assert OPEN not in texts([proved])
    assert {PROVED, OPEN, "elements in all FIFOs"} <= set(texts([proved, other]))
    assert any(one.endswith("million") for one in texts([proved]))


@pytest.mark.parametrize(
    ("objective", "what"),
    [("bits", "fewer bits"), ("elements", "fewer elements"), ("lut", "cheaper memories")],
)
def test_the_reason_names_the_proof(objective, what, capsys):
    main(["fifo", "finn", str(RESIDUAL), "--objective", objective, "--json"])
    assert what in json.loads(capsys.readouterr().out)["smallest"]["reason"]


def test_assumptions_are_listed_by_number():
    remarks = ["latency 10", "latency 2", "latency 3"]
    assert sorted(remarks, key=by_number) == [
        "latency 2", "latency 3", "latency 10",
    ]  # fmt: skip


def test_a_positive_gap_is_never_printed_as_zero():
    graph = EventGraph(read_design(str(RESIDUAL), TimingOptions(), {}))
    proved = smallest_depths(graph, None)
    open_ = replace(proved, status=Status.FEASIBLE, cost=4832, lower_bound=4830)
    assert Fraction(2, 4830) == open_.gap < Fraction(1, 1000)
    assert "less than 0.1% above the smallest (4830 bits or more)" in in_proof(open_)
    alone = replace(open_, is_minimal=True)
    assert in_proof(alone).endswith("or more); no FIFO alone can be shallower")
    assert "above the fewest LUTs (4830 or more)" in in_proof(open_, "lut")
    unknown = replace(alone, cost=4, lower_bound=0)  # no share of 0
    assert in_proof(unknown, "bram") == "lower bound 0; no FIFO alone can be shallower"


@pytest.mark.parametrize("goal", [("--fps", "9"), ("--period", "9"), ("--deadlock-free",)])
def test_a_picture_of_the_trade_off_takes_no_rate(goal, capsys, tmp_path):
    picture = tmp_path / "front.svg"
    assert main(["fifo", "finn", str(RESIDUAL), *goal, "--plot", str(picture)]) == 2
    expected = f"--plot draws the trade-off: give it without {goal[0]}"
    assert expected in capsys.readouterr().err
    assert not picture.exists()


def test_a_clock_has_no_unit(capsys):
    with pytest.raises(SystemExit):
        main(["fifo", "finn", str(RESIDUAL), "--clock", "200 MHz"])
    assert ": write 200; see csdf fifo finn --help\n" in capsys.readouterr().err


def test_all_layers_that_are_too_slow_are_counted(capsys):
    main(["fifo", "finn", str(RESIDUAL), "--period", "2304"])
    assert "more parallelism in ConvolutionInputGenerator" in capsys.readouterr().out
    main(["fifo", "finn", str(RESIDUAL), "--period", "2303"])
    assert "more parallelism in 3 layers slower than 2303 cycles" in capsys.readouterr().out


def test_an_upper_bound_on_cycles_is_a_lower_bound_on_the_rate():
    found = study(read_design(str(RESIDUAL), TimingOptions(), {}), only_live=True)
    cycle = replace(found.at_depth_2.cycle, period=Fraction(4000), is_bound=True)
    found = replace(found, at_depth_2=replace(found.at_depth_2, cycle=cycle))
    line = line_of("\n".join(as_text(found, Fraction(200))), "depth")
    assert "at most 4000 cycles/frame, at least 50000 frames/s at 200 MHz" in line


def test_a_graph_command_sends_a_model_of_finn_to_its_own_command(capsys):
    assert main(["buffers", str(RESIDUAL)]) == 2
    assert "csdf fifo finn" in capsys.readouterr().err


@pytest.mark.parametrize("bits", [9, 40])
def test_the_cost_of_a_chain_is_the_least_of_all_depths_from_there_on(bits):
    # 1536 words are two cores, 1024 and 512; 2048 are one, which may have fewer block RAMs.
    memory_cost = OBJECTIVES["bram"]
    price, least = chain_cost(memory_cost), None
    for depth in range(2100, 200, -1):
        own = sum(memory_cost(core.depth, bits) for core in split_cores(depth))
        least = own if least is None else min(own, least)
        assert price(depth, bits) == least


def test_a_chain_of_shift_registers_is_proved_to_need_no_block_ram():
    # A row of 300 pixels waits at the sum: one core of 512 words, or 256 + 46 in shift registers.
    whole, split = (
        study(fork(3, 300), only_live=True, is_split=one, cost=OBJECTIVES["bram"])
        for one in (False, True)
    )
    for found in (whole, split):
        assert found.sizing.status is Status.OPTIMAL
        assert found.sizing.cost == found.cost.blocks  # what is claimed is what is built
    assert (whole.sizing.cost, split.sizing.cost) == (1, 0)
    assert split.written.cycle.period is not None
    # A chain passes a word on a cycle later, so a point has the period of what is built.
    (point,) = front(fork(3, 300), is_split=True, cost=OBJECTIVES["bram"])
    cores = [cheapest_chain(depth, 2, OBJECTIVES["bram"]) for depth in point.depths]
    built, depths = with_cores(fork(3, 300), cores)
    assert point.period == period_of(EventGraph(built), depths).period


def test_hls4ml_accepts_the_goals_and_objectives_of_finn(capsys):
    project = str(ROOT / "models" / "fifo" / "small_hls4ml")
    assert main(["fifo", "hls4ml", project, "--fps", "900000", "--clock", "200", "--json"]) == 0
    asked = json.loads(capsys.readouterr().out)["smallest"]
    assert asked["period"] == "2000/9"  # 200 MHz over 900,000 frames/s
    assert main(["fifo", "hls4ml", project, "--front", "--objective", "elements", "--json"]) == 0
    front = json.loads(capsys.readouterr().out)
    require_valid("fifo-hls4ml", front)
    costs = [one["cost"] for one in front["front"]]
    assert costs[0] <= asked["bits"] // 32 <= costs[-1]
    assert main(["fifo", "hls4ml", project, "--objective", "bram", "--sensitivity", "3"]) == 0
    shown = capsys.readouterr()
    assert "FIFOs of 0 BRAM_18K" in shown.out
    assert "with all assumed latencies 3 longer" in shown.err
    assert main(["fifo", "hls4ml", project, "--latency", "conv3d=4"]) == 2
    assert "conv_2d_cl" in capsys.readouterr().err


def test_a_small_effort_ends_in_an_answer_and_a_short_time_limit_in_exit_code_3(capsys):
    command = ["fifo", "finn", str(RESIDUAL)]
    assert main([*command, "--effort", "0.001ms"]) == 0
    assert "FIFOs of 194 bits" in capsys.readouterr().out  # found whatever the effort
    assert main([*command, "--time-limit", "0.001ms"]) == 3
    told = capsys.readouterr()
    assert "the time limit of 1e-06 s is reached" in told.out + told.err


@pytest.mark.parametrize(
    ("period", "expected"),
    [(None, "no FIFOs; 20 cycles/frame"), (3, "no depths for 3 cycles/frame")],
)
def test_a_design_without_fifos_says_whether_a_period_can_be_reached(period, expected):
    layer = cluster("Thresholding", "hls", NumChannels=20, PE=1, numInputVectors=(1,), numSteps=3)
    found = study(chain(layer), period=None if period is None else Fraction(period))
    assert verdict(found, Fraction(100), "bits").startswith(expected)
