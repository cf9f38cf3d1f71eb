"""Calls of HLS designs: cycles against a slow simulation, deadlocks, smallest depths, formats."""

import gzip
import random
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from csdf.errors import InvalidGraph, UnreadableFile
from csdf.status import Status
from csdf.time_limit import Stop
from planners.fifo.command.hls_answer import CallAnswer
from planners.fifo.command.page_sections import Occupancy
from planners.fifo.hls import call
from planners.fifo.hls.accesses import read_accesses
from planners.fifo.hls.call import CallModel, block_rams
from planners.fifo.hls.call_graph import call_graph
from planners.fifo.hls.call_study import Question, study
from planners.fifo.hls.depths import fewest_cycles, front, sized, total_cost
from planners.fifo.hls.pipelines import Event, Repeat, staged
from planners.fifo.hls.synthesis_report import read_report, read_skews
from planners.fifo.hls.trace import RepeatedIterations, TracedArray
from planners.fifo.hls.writing import tcl_directives, with_pragmas
from planners.kernels.stage_times import READ, WRITE
from tests.both_kernels import BOTH, use
from tests.planners.fifo import hls_designs as small
from tests.reference.slow_simulation import Run
from tests.reference.stage_simulation import processes_of, simulated_cycles


@pytest.mark.parametrize("seed", range(8))
def test_a_call_takes_the_cycles_of_a_cycle_by_cycle_simulation(seed):
    rng = random.Random(seed)
    trace, report = small.random_design(rng)
    for skew in (0, 2):
        model = small.model((trace, report), skew, is_grouped=False)
        stages = processes_of(trace, report, skew)
        for _ in range(12):
            depths = [rng.choice((1, 2, 3, 5, 9, 40)) for _ in trace.fifos]
            assert model.outcome(depths).cycles == simulated_cycles(trace, stages, depths)


def accesses_outside_pipelines(rng):
    """A process with accesses before, between and after its loops, in its nest, or without a loop."""
    before, each, after, between = (rng.randint(0, 3) for _ in range(4))
    rows, columns = rng.randint(2, 4), rng.randint(2, 5)
    inner = small.loop("li", [RepeatedIterations(columns, ((small.read(0), small.write(1)),))])
    nest = small.loop(
        "lo", [RepeatedIterations(rows, ((small.read(2), inner, small.write(3)),))], line=2
    )
    last = small.loop("last", [RepeatedIterations(columns, ((small.read(0),),))], line=4)
    body = (
        *(small.read(0),) * before, nest, *(small.write(1), small.read(0)) * between,
        last, *(small.write(1),) * after,
    )  # fmt: skip
    words = [before + rows * columns + between + columns, rows * columns + between + after]
    words += [rows, rows, each + 1]
    puts = [small.loop("put", [RepeatedIterations(words[n], ((small.write(n),),))]) for n in (0, 2)]
    takes = [
        small.loop("take", [RepeatedIterations(words[n], ((small.read(n),),))]) for n in (1, 3)
    ]
    depth = lambda: rng.randint(1, 6)  # noqa: E731
    processes = [(f"put{n}", [(put, "put", 1, depth())]) for n, put in enumerate(puts)]
    processes += [(f"take{n}", [(take, "take", 1, depth())]) for n, take in enumerate(takes)]
    loops = [(nest, "lo_li", rng.randint(1, 3), depth()), (last, "last", 1, depth())]
    trace, report = small.design([*processes, ("mid", loops)], small.fifos(("f", 4)))
    fifos = tuple(replace(one, group=one.name) for one in trace.fifos)
    traced = (*trace.processes[:-1], replace(trace.processes[-1], body=body))
    return replace(trace, fifos=fifos, processes=traced), report


def accesses_without_a_loop(rng):
    """A process that reads and writes words in a fixed latency."""
    reads, writes = rng.randint(1, 3), rng.randint(1, 3)
    put = small.loop("put", [RepeatedIterations(reads, ((small.write(0),),))])
    take = small.loop("take", [RepeatedIterations(writes, ((small.read(1),),))])
    processes = [("source", [(put, "put", 1, 3)]), ("mid", []), ("sink", [(take, "take", 1, 3)])]
    trace, report = small.design(processes, small.fifos(("x", 1), ("y", 1)))
    body = (small.read(0),) * reads + (small.write(1),) * writes
    first, mid, last = trace.processes
    trace = replace(trace, processes=(first, replace(mid, body=body), last))
    return trace, replace(report, latencies={"mid": rng.randint(0, 9)})


@pytest.mark.parametrize("make", [accesses_outside_pipelines, accesses_without_a_loop])
def test_accesses_outside_pipelines_take_the_cycles_of_a_simulation(make):
    for seed in range(40):
        rng = random.Random(seed)
        pair = make(rng)
        model, stages = small.model(pair), processes_of(*pair, 0)
        depths = [rng.choice((2, 3, 30)) for _ in pair[0].fifos]
        assert model.outcome(depths).cycles == simulated_cycles(pair[0], stages, depths), seed


def test_fifo_occupancy_over_time_equals_a_cycle_by_cycle_simulation():
    compared = 0
    for seed in range(30):
        rng = random.Random(seed)
        pair = small.random_design(rng)
        model, stages = small.model(pair, 2, is_grouped=False), processes_of(*pair, 2)
        depths = [rng.choice((2, 3, 5, 9)) for _ in pair[0].fifos]
        levels = []
        cycles = simulated_cycles(pair[0], stages, depths, levels)
        times = model.word_times(depths)
        assert (times is None) == (cycles is None)
        if times is None:
            continue
        assert times[1] == cycles
        for fifo, (put, taken) in enumerate(times[0]):
            held = Occupancy.of(put, taken)
            places = np.searchsorted(held.cycles, np.arange(len(levels)), side="right") - 1
            assert [int(level) for level in held.levels[places]] == [row[fifo] for row in levels]
            compared += held.most == depths[fifo]
    assert compared > 5  # FIFOs that were full


def test_the_last_word_of_a_pipe_is_read_as_soon_as_it_arrives():
    # The source writes word k in stage k + 2. The sink reads it a cycle later, in its stage k + 1, so
    # it is 2 cycles behind; its last stage is 9 + 5 for 10 words and depth 6.
    assert small.model(small.pipe(10)).outcome([2]).cycles == 2 + 9 + 5


def test_tracks_are_those_of_the_example_in_the_module():
    feed = small.loop("feed", [RepeatedIterations(3, ((small.write(0),),))])
    turns = small.loop("turns", [RepeatedIterations(3, ((small.read(0), small.write(1)),))])
    pair = small.design(
        [("source", [(feed, "feed", 1, 2)]), ("double", [(turns, "turns", 2, 5)])],
        small.fifos(("x", 1), ("y", 1)),
    )
    tracks = staged(*pair).processes[1].tracks
    read, write = Event(((0, READ),)), Event(((1, WRITE),))
    assert tracks == ((1, Repeat(3, (read, 2)), 3), (4, Repeat(3, (write, 2))))


def test_loops_that_are_not_flattened_run_sequentially():
    # The inner loop takes stages 0 to 5, and begins again 2 after its last: 0, 7 and 14, to 19.
    inner = small.loop("inner", [RepeatedIterations(4, ((small.write(0),),))], line=3)
    outer = small.loop("outer", [RepeatedIterations(3, ((inner,),))], line=2)
    take = small.loop("", [RepeatedIterations(12, ((small.read(0),),))], line=7)
    pair = small.design(
        [("source", [(outer, "inner", 1, 3)]), ("sink", [(take, "VITIS_LOOP_7_1", 1, 2)])],
        small.fifos(("f", 1)),
    )
    assert staged(*pair).processes[0].stages == 19
    # The last word is written in stage 19, and read a cycle later in the last stage of the sink.
    assert small.model(pair).outcome([12]).cycles == 20


@pytest.mark.parametrize("skew", [1, 2, 3])
def test_lanes_with_a_skew_need_two_words_more_than_it(skew):
    # Published for lanes that are read in consecutive cycles: up to the skew they deadlock, one more
    # word runs at half rate, two more lose nothing.
    pair = small.pipe(40)
    free = small.model(pair).outcome([None], memories=[False]).cycles
    model = small.model(pair, skew)
    assert model.outcome([skew]).cycles is None
    assert model.outcome([skew + 1]).cycles >= free + 40 / (skew + 1) - 2
    assert model.outcome([skew + 2]).cycles == free


def test_a_deadlock_is_reported_as_a_cycle_of_waiting_processes():
    trace, report = small.branch()
    outcome = small.model((trace, report)).outcome([2, 2, 2])
    assert outcome.cycles is None
    told = [
        (trace.processes[one.process].name, one.fifo, one.is_writing) for one in outcome.blocked
    ]
    # split cannot write `direct`; subtract waits for a mean, average for a whole row.
    assert told == [("split", 0, True), ("subtract", 2, False), ("average", 1, False)]
    assert outcome.holding == (0,)


def test_a_fifo_as_deep_as_its_maximum_occupancy_never_blocks():
    model = small.model(small.branch(5, 7))
    for place in range(3):
        depths = [9, 3, 2]
        depths[place] = None
        free = model.outcome(depths, memories=[False] * 3)
        depths[place] = model.occupancy(depths, place, [False] * 3)
        found = model.outcome(depths, memories=[False] * 3)
        assert (found.cycles, place in found.full) == (free.cycles, False)
        depths[place] -= 1
        assert depths[place] < 1 or place in model.outcome(depths, memories=[False] * 3).full


def test_one_simulation_gives_the_occupancy_of_every_fifo():
    for seed in range(20):
        model = small.model(small.random_design(random.Random(seed)))
        unbounded = [None] * len(model.members)
        memories = model.fixed_memories
        held = model.occupancies(memories)
        free = model.outcome(unbounded, memories=memories)
        enough = model.outcome(held, memories=memories)
        assert (enough.cycles, enough.full) == (free.cycles, ()), seed
        for place, words in enumerate(held):
            less = [*unbounded[:place], words - 1, *unbounded[place + 1 :]]
            outcome = model.outcome(less, memories=memories)
            assert words == 1 or outcome.cycles is None or place in outcome.full, seed


def reaches(model, depths, goal):
    cycles = model.outcome(depths).cycles
    return cycles is not None and (goal is None or cycles <= goal)


@pytest.mark.parametrize("effort", [0, 20])
@pytest.mark.parametrize("objective", ["bits", "elements", "bram"])
def test_no_single_fifo_of_an_answer_can_be_less_deep(effort, objective):
    for seed in range(12):
        trace, report = small.random_design(random.Random(seed))
        deep = tuple(replace(fifo, depth=1000) for fifo in trace.fifos)
        model = small.model((replace(trace, fifos=deep), report))
        goal = fewest_cycles(model).cycles
        stop = Stop(effort=effort)
        found = sized(model, goal, objective=objective, stop=stop, is_full_rate=True)
        assert reaches(model, found.depths, found.goal), seed
        assert max(found.depths) < 1000, seed  # the depths of the source are no answer
        for place, depth in enumerate(found.depths):
            for less in range(2, depth):
                trial = (*found.depths[:place], less, *found.depths[place + 1 :])
                assert not reaches(model, trial, found.goal), (seed, place, less)


def test_depths_that_the_clock_cut_short_are_no_answer_of_the_source():
    model = small.model(small.random_design(random.Random(1)))
    found = sized(model, fewest_cycles(model).cycles, stop=Stop(0), is_full_rate=True)
    assert (found.status, found.depths, found.is_cut_short) == (Status.UNKNOWN, (), True)


def brute_force(model, goal, most):
    """The fewest bits of all depths up to `most` that reach a goal."""
    sizes = [
        total_cost(model, depths, "bits")
        for depths in product(range(2, most + 1), repeat=len(model.members))
        if (cycles := model.outcome(depths).cycles) is not None and (goal is None or cycles <= goal)
    ]
    return min(sizes)


@pytest.mark.parametrize("is_live", [False, True])
def test_no_smaller_depths_suffice(is_live):
    model = small.model(small.branch(3, 5))
    goal = None if is_live else fewest_cycles(model).cycles
    found = sized(model, goal, stop=Stop(20))
    assert found.status is Status.OPTIMAL
    assert found.cost == found.lower_bound == brute_force(model, goal, 9)
    assert model.outcome(found.depths).cycles == found.cycles


@pytest.mark.parametrize("bits", [60, 100, 300])
def test_bounds_hold_where_deep_fifos_are_slower(bits):
    # 17, 10 and 3 words fit into a shift register; deeper FIFOs cost a cycle.
    trace, report = small.branch(3, 6)
    wide = small.fifos(("direct", 1), ("to_mean", 1), ("means", 1), bits=bits)
    model = small.model((replace(trace, fifos=wide), report))
    every = {}
    for depths in product(range(2, 19), (2, 3, 4), (2, 3)):
        if (cycles := model.outcome(depths).cycles) is not None:
            every.setdefault(cycles, []).append(total_cost(model, depths, "bits"))
    for goal in range(min(every), max(every) + 2):
        found = sized(model, goal, stop=Stop(20))
        fewest = min(size for cycles, sizes in every.items() if cycles <= goal for size in sizes)
        assert found.lower_bound <= fewest
        assert found.cost >= fewest
        assert found.cycles <= goal
        if found.status is Status.OPTIMAL:
            assert found.cost == fewest
    full = sized(model, fewest_cycles(model).cycles, stop=Stop(20), is_full_rate=True)
    assert full.goal == full.cycles == min(every)


def test_a_front_in_block_rams_has_every_trade_off():
    # 100-bit words: from 11 on a FIFO is a memory, 6 block RAMs wide and a cycle slower. A row of 8
    # words needs that to run at full rate.
    trace, report = small.branch(3, 8)
    wide = small.fifos(("direct", 1), ("to_mean", 1), ("means", 1), bits=100)
    trace = replace(trace, fifos=wide)
    model = small.model((trace, report))
    points, is_complete = front(model, objective="bram", stop=Stop(20))
    best = {}
    for depths in product(range(2, 25), (2, 3), (2, 3)):
        if (cycles := model.outcome(depths).cycles) is not None:
            cost = total_cost(model, depths, "bram")
            best[cost] = min(best.get(cost, cycles), cycles)
    wanted = []
    for cost in sorted(best):
        if not wanted or best[cost] < wanted[-1][1]:
            wanted.append((cost, best[cost]))
    assert is_complete
    assert [(one.cost, one.cycles) for one in points] == wanted
    assert len(wanted) > 1


def test_cycles_that_no_depths_reach_are_refused_with_proof():
    model = small.model(small.branch())
    found = sized(model, fewest_cycles(model).cycles - 1, stop=Stop(20))
    assert found.status is Status.INFEASIBLE


def test_a_call_that_never_waits_takes_the_stages_of_its_longest_process():
    # The reader of x takes 3 of 40 words, so the writer ends last, and no wait is on its path.
    put = small.loop("put", [RepeatedIterations(40, ((small.write(0),),))])
    take = small.loop("take", [RepeatedIterations(3, ((small.read(0),),))])
    processes = [("source", [(put, "put", 1, 3)]), ("sink", [(take, "take", 1, 3)])]
    trace, report = small.design(processes, small.fifos(("x", 1)))
    trace = replace(trace, fifos=tuple(replace(one, depth=40) for one in trace.fifos))
    limit = study([lambda skew: staged(trace, report, skew)], Question(), Stop).limit
    assert (limit.shares, limit.repeated, limit.is_whole) == (((0, 41),), (), True)


def test_a_call_without_fifos_is_answered_by_its_cycles():
    loops = [small.loop(name, [()] * words) for name, words in (("l", 5), ("m", 7))]
    processes = [(name, [(loop, loop.label, 1, 3)]) for name, loop in zip("ab", loops, strict=True)]
    array = TracedArray(name="z", line=3, writers=(0,), readers=(1,))
    trace, report = small.design(processes, (), [array])
    question = Question()
    found = study([lambda skew: staged(trace, report, skew)], question, Stop)
    answer = CallAnswer(found, question, report, trace, "design.cpp")
    # Stages 0 to 6, then 7 to 15 after the array.
    assert answer.verdict() == "no FIFOs; 15 cycles"


def test_depths_for_several_runs_suffice_for_each():
    short, long = small.branch(4, 3), small.branch(4, 6)
    runs = [lambda skew, pair=pair: staged(*pair, skew) for pair in (short, long)]
    found = study(runs, Question(skew=0), Stop)
    for pair in (short, long):
        model = small.model(pair)
        assert model.outcome(found.sizing.depths).cycles == fewest_cycles(model).cycles


def test_depths_for_several_runs_are_called_proved_only_by_a_bound():
    # Each run needs 6 words of a FIFO that the other run does not fill.
    pairs = []
    for long, other in ((0, 1), (1, 0)):
        put = small.loop("put", [(small.write(long),)] * 6 + [(small.write(other),)] * 2)
        take = small.loop("take", [(small.read(other),)] * 2 + [(small.read(long),)] * 6)
        processes = [("source", [(put, "put", 1, 3)]), ("sink", [(take, "take", 1, 3)])]
        pairs.append(small.design(processes, small.fifos(("x", 1), ("y", 1))))
    runs = [lambda skew, pair=pair: staged(*pair, skew) for pair in pairs]
    sizing = study(runs, Question(), Stop).sizing
    assert (sizing.depths, sizing.status) == ((6, 6), Status.FEASIBLE)
    assert sizing.lower_bound < sizing.cost
    assert str(sizing.reason) == "for each FIFO the largest depth of any run"


@pytest.mark.parametrize("seed", range(6))
def test_skipping_a_recurrent_state_keeps_all_times(seed, monkeypatch):
    rng = random.Random(seed)
    pairs = [small.branch(40, rng.randint(2, 9)), small.pipe(400, rng.randint(1, 3))]
    pairs.append(small.random_design(rng, words=rng.randint(100, 300)))
    for pair in pairs:
        model = small.model(pair, rng.randint(0, 2))
        for _ in range(6):
            depths = [rng.choice((2, 3, 5, 12, 30, None)) for _ in model.members]
            monkeypatch.setattr(call, "MANY", 10**9)
            begin, whole = model.simulated, model.outcome(depths)
            plain = model.simulated - begin
            monkeypatch.setattr(call, "MANY", 1)
            begin, skipped = model.simulated, model.outcome(depths)
            assert skipped == whole
            assert model.simulated - begin <= plain
    # 10^7 words at a steady rate are a few events.
    long = small.model(small.pipe(10**7))
    assert long.outcome([8]).cycles == 2 + 10**7 - 1 + 5
    assert long.simulated < 10_000


def test_a_trip_count_costs_no_memory():
    # 10^9 iterations with an access in the last one alone: two events.
    quiet = small.loop("quiet", [RepeatedIterations(10**9 - 1, ((),)), (small.write(0),)])
    take = small.loop("take", [(small.read(0),)])
    pair = small.design(
        [("source", [(quiet, "quiet", 4, 3)]), ("sink", [(take, "take", 1, 2)])],
        small.fifos(("f", 1)),
    )
    # The word is written in stage 4 * (10^9 - 1) + 2, and read a cycle later, in the last stage.
    assert small.model(pair).outcome([2]).cycles == 4 * (10**9 - 1) + 3


@pytest.mark.parametrize("backend", BOTH)
def test_compiled_and_plain_stage_times_agree(backend, monkeypatch):
    use(monkeypatch, backend)
    # Word 5, the last of a row, is written in cycle 6 and averaged from 7 on; the mean is written 2
    # stages later, and read in cycle 10 in stage 2 of the first iteration. 23 iterations follow.
    assert small.model(small.branch()).outcome([20, 2, 2]).cycles == 10 + 23


def test_a_design_as_a_csdf_graph_takes_as_long():
    for depths in ([7, 2, 2], [9, 3, 2], [40, 40, 40]):
        model = small.model(small.branch())
        graph = call_graph(model, depths)
        assert (
            first_iteration(graph) == model.outcome(depths).cycles + 1
        )  # from the begin of cycle 0


def first_iteration(graph):
    """When the last process has gone through its phases once."""
    run, ends = Run(list(graph.actors), list(graph.channels)), {}
    processes = [one for one in graph.actors if one.phases > 1]
    while len(ends) < len(processes):
        has_started = run.start_all()
        for one in processes:
            if run.fired[one.name] == one.phases:
                ends.setdefault(one.name, run.now + one.durations[-1])
        assert has_started or run.move_on()
    return max(ends.values())


def test_block_rams_follow_the_published_rule():
    # 32 bits: a slice of 18 and the rest up to 1024 words; 9 and a rest of 5 beyond, then 9, 4 and 1.
    assert [block_rams(depth, 32) for depth in (33, 1024, 1025, 2048, 2049, 4096)] == [
        2,
        2,
        4,
        4,
        7,
        8,
    ]
    for bits in range(1, 80):
        costs = [block_rams(depth, bits) for depth in range(64, 20_000, 64)]
        assert costs == sorted(costs), bits


def test_a_report_is_read_whole_packed_or_by_module(tmp_path):
    text = REPORT.format(module="source", tag="put", trips=10)
    whole = tmp_path / "csynth.xml"
    whole.write_text(text)
    packed = tmp_path / "packed" / "csynth.xml.gz"
    packed.parent.mkdir()
    packed.write_bytes(gzip.compress(text.encode()))
    single = tmp_path / "single"
    single.mkdir()
    own = text.replace("<Name>source</Name>", "").replace("ModuleInformation", "Other")
    begin, end = own.index("<PerformanceEstimates>"), own.index("</Module>")
    named = "<UserAssignments><TopModelName>source</TopModelName></UserAssignments>"
    own = f"<profile>{named}{own[begin:end]}</profile>"
    (single / "source_csynth.xml").write_text(own)
    found = [read_report(path).loops["source"] for path in (whole, tmp_path, packed.parent, single)]
    assert found[0][0].interval == 2
    assert found == [found[0]] * 4
    varying = REPORT.format(module="source", tag="put", trips="<range><max>10</max></range>")
    whole.write_text(varying.replace("<PipelineII>2<", "<PipelineII><range><max>4</max></range><"))
    loop = read_report(whole).loops["source"][0]
    assert (loop.trips, loop.interval) == (None, 4)


REPORT = """<profile><UserAssignments><TopModelName>top</TopModelName></UserAssignments>
<ModuleInformation>
<Module><Name>{module}</Name><PerformanceEstimates><SummaryOfLoopLatency><{tag}><Name>{tag}</Name>
<TripCount>{trips}</TripCount><PipelineII>2</PipelineII><PipelineDepth>3</PipelineDepth></{tag}>
</SummaryOfLoopLatency></PerformanceEstimates></Module>
<Module><Name>sink</Name></Module></ModuleInformation></profile>"""


@pytest.mark.parametrize(
    ("module", "tag", "trips", "says"),
    [
        ("other", "put", 10, "no module for process 'source'"),
        ("source", "put", 11, "11 iterations, but 10"),
        ("source", "elsewhere", 10, "no loop for 'put'"),
    ],
)
def test_a_report_of_another_design_is_refused(tmp_path, module, tag, trips, says):
    path = tmp_path / "csynth.xml"
    path.write_text(REPORT.format(module=module, tag=tag, trips=trips))
    trace, _ = small.pipe(10)
    with pytest.raises(InvalidGraph, match=says):
        staged(trace, read_report(path))


@pytest.mark.parametrize(
    ("process", "module"),
    [
        ("add<40>", "add_40_s"),
        ("ns::add<40>", "add_40_s"),
        ("add<ap_fixed<16, 6>, 3>", "add_ap_fixed_16_6_3_s"),
        ("add<N>", "add_10_s"),  # a constant is its value in the report
        ("add", "add_10_s"),  # arguments that are deduced
    ],
)
def test_a_template_is_the_process_of_its_instance_in_the_report(process, module):
    put = small.loop("put", [RepeatedIterations(10, ((small.write(0),),))])
    take = small.loop("take", [RepeatedIterations(10, ((small.read(0),),))])
    trace, report = small.design(
        [(process, [(put, "put", 1, 3)]), ("sink", [(take, "take", 1, 6)])],
        small.fifos(("lane", 1)),
    )
    named = {module: report.loops[process], "sink": report.loops["sink"], "top": ()}
    found = staged(trace, replace(report, loops=named))
    assert [one.module for one in found.processes] == [module, "sink"]
    assert (
        CallModel(found).outcome([2]).cycles == CallModel(staged(trace, report)).outcome([2]).cycles
    )


def test_template_instances_are_told_apart_by_their_iterations():
    loops = [
        small.loop("put", [RepeatedIterations(words, ((small.write(words == 20),),))])
        for words in (10, 20)
    ]
    take = [
        small.loop("take", [RepeatedIterations(words, ((small.read(words == 20),),))])
        for words in (10, 20)
    ]
    trace, report = small.design(
        [("put<A>", [(loops[0], "put", 1, 3)]), ("put<B>", [(loops[1], "put", 1, 3)]),
         ("first", [(take[0], "take", 1, 3)]), ("second", [(take[1], "take", 1, 3)])],
        small.fifos(("x", 1), ("y", 1)),
    )  # fmt: skip
    of = {
        f"put_{words}_s": (replace(report.loops["put<A>"][0], trips=words),) for words in (20, 10)
    }
    named = of | {name: report.loops[name] for name in ("first", "second")}
    found = staged(trace, replace(report, loops=named))
    assert [one.module for one in found.processes[:2]] == ["put_10_s", "put_20_s"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "<a/>",
        "<profile/>",
        "<!DOCTYPE a [<!ENTITY b 'c'>]><profile/>",
        *(
            f"<profile><UserAssignments><TargetClockPeriod>{period}</TargetClockPeriod>"
            "</UserAssignments></profile>"
            for period in ("10 ns", "1/0", "1e999999999")
        ),
    ],
)
def test_a_file_that_is_no_report_is_rejected(tmp_path, text):
    path = tmp_path / "csynth.xml"
    path.write_text(text)
    with pytest.raises(UnreadableFile, match=r"csynth\.xml"):
        read_report(path)


def test_a_table_of_accesses_is_timed_like_its_source(tmp_path):
    lines = ["# loop source put interval=1 depth=3", "# loop sink take interval=1 depth=6"]
    lines += [f"# fifo lane[{lane}] bits=32 depth=2" for lane in range(2)]
    lines.append("process,loop,iteration,fifo,read|write,stage")
    for word in range(10):
        lines += [f"source,put,{word},lane[{lane}],write,2" for lane in range(2)]
        lines += [f"sink,take,{word},lane[{lane}],read,1" for lane in range(2)]
    path = tmp_path / "accesses.csv"
    path.write_text("\n".join(lines))
    model = CallModel(read_accesses(path))
    assert (
        model.outcome(model.source_depths).cycles == small.model(small.pipe(10)).outcome([2]).cycles
    )


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("a,l,0,f,write", "5 columns"),
        ("a,l,0,f,push,1", "'push'"),
        ("a,l,0,f,write,-1", "stage '-1'"),
        ("a,l,0,f,write,\u00b2", "stage '\u00b2'"),
        pytest.param(f"a,l,0,f,write,{'9' * 5000}", "stage '9", id="5000 digits"),
        pytest.param(f"# fifo f bits={'9' * 5000}", "expected interval", id="5000 bits"),
        pytest.param(f"{'a' * 200_000},l,0,f,write,1", "field larger", id="200000 letters"),
        ("a,l,0,f,read,1", "1 words are read, but only 0"),
    ],
)
def test_a_table_that_makes_no_sense_is_refused_by_its_line(tmp_path, line, says):
    path = tmp_path / "accesses.csv"
    path.write_text(f"{line}\n")
    with pytest.raises((UnreadableFile, InvalidGraph), match=rf"accesses\.csv:1: .*{says}"):
        read_accesses(path)


def test_lines_of_loops_precede_their_accesses_and_lines_without_settings_are_remarks(tmp_path):
    path = tmp_path / "accesses.csv"
    loop = "# loop a l interval=2 depth=3"
    lines = [
        "# fifo depths are guesses",
        "# loop order is random",
        "# loop of the nest = 3",
        loop,
        "a,l,4,x,write,1",
    ]
    lines += [loop, "b,m,0,x,read,3"]  # the same line again changes nothing
    path.write_text("\n".join(lines))
    assert [process.stages for process in read_accesses(path).processes] == [10, 3]
    path.write_text("\n".join(lines).replace("=", " = "))
    assert [process.stages for process in read_accesses(path).processes] == [10, 3]
    path.write_text("\n".join([*lines, "# loop a l interval=3 depth=3"]))
    with pytest.raises(UnreadableFile, match=r"csv:8: loop 'l' of process 'a' has accesses before"):
        read_accesses(path)
    path.write_text("\n".join([*lines, "# loop b m interval=3 depth=3"]))
    with pytest.raises(UnreadableFile, match=r"csv:8: loop 'm' of process 'b' has accesses before"):
        read_accesses(path)


SOURCE = """void top() {
  hls::stream<int> lane[2];
  #pragma HLS stream depth=8 variable=lane // deep
  hls::stream<int> other("other");
}
"""


def test_depths_are_written_into_pragmas_and_new_pragmas_after_declarations():
    lane, other = small.fifos(("lane", 1), ("other", 1))
    lane, other = replace(lane, line=2), replace(other, line=4)
    text = with_pragmas(SOURCE, "design.cpp", [(lane, 20), (other, 3)])
    assert text.splitlines()[2] == "  #pragma HLS stream depth=20 variable=lane // deep"
    assert text.splitlines()[4] == "  #pragma HLS STREAM variable=other depth=3"
    assert len(text.splitlines()) == len(SOURCE.splitlines()) + 1
    assert with_pragmas(text, "design.cpp", [(lane, 20)]) == text
    assert with_pragmas(SOURCE[:-1], "design.cpp", [(lane, 20), (other, 3)]) == text[:-1]
    # The kind of memory is written once, with the ends of lines of the file.
    bound = with_pragmas(SOURCE.replace("\n", "\r\n"), "design.cpp", [(lane, 8)], "srl")
    assert bound.count("\n") == bound.count("\r\n") == SOURCE.count("\n") + 1
    continued = bound.replace("type=fifo impl=srl", "type=fifo \\\r\n    impl=srl")
    assert continued != bound
    assert "impl=srl" not in with_pragmas(continued, "design.cpp", [(lane, 8)], "bram")
    again = with_pragmas(bound, "design.cpp", [(lane, 8)], "bram")
    assert again == bound.replace("impl=srl", "impl=bram")
    with pytest.raises(InvalidGraph, match=r"design\.cpp:2: no declaration"):
        with_pragmas("\n" + SOURCE, "design.cpp", [(lane, 20)])


def test_directives_name_the_top_function():
    assert (
        tcl_directives("top", {"lane": 20})
        == 'set_directive_stream -depth 20 -type fifo "top" lane\n'
    )


def write_schedule(folder, lanes):
    """Write the schedule of a pipeline that reads these lanes, by state from 2 to 5."""
    reads = [
        f'ST_{state} : Operation 10 [1/1] (1.0ns) ---> "%a = read i32 '
        f'@_ssdm_op_Read.ap_fifo.volatile.i32P0A, i32 %{lane}" [design.cpp:7]\n'
        for state, lane in lanes.items()
    ]
    pipeline = "  Pipeline-0 : II = 1, D = 4, States = { 2 3 4 5 }\n"
    (folder / "sink.verbose.sched.rpt").write_text(pipeline + "".join(reads))


def test_a_schedule_says_how_far_lanes_are_apart(tmp_path):
    write_schedule(tmp_path, {3: "lane_0", 5: "lane_1"})
    skews = read_skews(tmp_path, {"lane"})
    assert skews == {"sink": 2}
    trace, report = small.pipe(40)
    assert staged(trace, report, None, skews).largest_skew == 2


@pytest.mark.parametrize(
    ("lanes", "identifiers", "skew"),
    [
        ({2: "layer_2_0", 3: "layer_2_1", 5: "layer_3_0"}, {"layer_2", "layer_3"}, 1),
        ({2: "layer_2", 5: "layer_3"}, {"layer_2", "layer_3"}, 0),
        ({2: "lane_0_1", 5: "lane_1_0"}, {"lane"}, 3),
        ({2: "layer_2_0", 5: "layer_3_0"}, {"elsewhere"}, 3),
    ],
    ids=["names with digits", "streams", "two dimensions", "declared in a header"],
)
def test_the_skew_is_that_of_the_lanes_of_one_declared_array(tmp_path, lanes, identifiers, skew):
    write_schedule(tmp_path, lanes)
    assert read_skews(tmp_path, identifiers) == {"sink": skew}


def nest_with_a_read_around(is_in_tag):
    """A process that reads x before each run of an inner pipelined loop."""
    inner = small.loop("li", [RepeatedIterations(9, ((small.read(0), small.write(1)),))], line=3)
    nest = small.loop("lo", [RepeatedIterations(4, ((small.read(0), inner),))])
    put = small.loop("put", [RepeatedIterations(40, ((small.write(0),),))])
    take = small.loop("take", [RepeatedIterations(36, ((small.read(1),),))])
    return small.design(
        [("source", [(put, "put", 1, 3)]), ("mid", [(nest, "lo_li" if is_in_tag else "li", 1, 3)]),
         ("sink", [(take, "take", 1, 3)])],
        small.fifos(("x", 1), ("y", 1)),
    )  # fmt: skip


@pytest.mark.parametrize("is_in_tag", [False, True])
@pytest.mark.parametrize("has_front", [False, True])
def test_a_read_around_a_pipelined_loop_is_not_called_proved(is_in_tag, has_front):
    trace, report = nest_with_a_read_around(is_in_tag=is_in_tag)
    question = Question(has_front=has_front, objective="bram" if has_front else "bits")
    found = study([lambda skew: staged(trace, report, skew)], question, Stop)
    sizings = found.points if has_front else [found.sizing]
    assert sizings
    assert all(one.status is Status.FEASIBLE for one in sizings)
    assert all("not calibrated: mid (line 21) accesses x" in str(one.reason) for one in sizings)
    assert not found.is_complete


@pytest.mark.parametrize("fewer", [1, 0])
def test_iterations_with_fewer_writes_have_no_calibrated_stages(fewer):
    # The write of the second iteration may be the first or the second write of the source.
    bodies = [(small.write(0),) * 2, (small.write(0),) * fewer]
    put = small.loop("put", [RepeatedIterations(5, tuple(bodies))])
    take = small.loop("take", [RepeatedIterations(5 * (2 + fewer), ((small.read(0),),))])
    trace, report = small.design(
        [("source", [(put, "put", 2, 4)]), ("sink", [(take, "take", 1, 3)])], small.fifos(("x", 1))
    )
    found = study([lambda skew: staged(trace, report, skew)], Question(), Stop)
    note = "source (line 20) accesses x less often in some iterations of 'put'"
    assert (note in str(found.sizing.reason)) == bool(fewer)


def test_cycles_by_uncalibrated_timing_are_not_called_impossible():
    trace, report = nest_with_a_read_around(is_in_tag=False)
    found = study([lambda skew: staged(trace, report, skew)], Question(cycles=5), Stop)
    assert found.sizing.status is Status.UNKNOWN
    assert "not calibrated" in str(found.sizing.reason)


def test_a_loop_that_is_no_pipeline_is_not_called_proved():
    trace, report = small.pipe(10)
    slow = {
        name: tuple(replace(loop, is_pipelined=name != "sink") for loop in loops)
        for name, loops in report.loops.items()
    }
    found = study([lambda skew: staged(trace, replace(report, loops=slow), skew)], Question(), Stop)
    assert "in loop 'take', which is no pipeline" in str(found.sizing.reason)
