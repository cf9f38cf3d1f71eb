"""Graphs as C programs: values that pass through them, sizes of buffers, schedules, code."""

import itertools
import re
import subprocess
from dataclasses import replace
from math import gcd
from random import Random

import pytest

from csdf.analysis.consistency import repetition_vector
from csdf.analysis.liveness import Deadlock
from csdf.errors import CsdfError, InconsistentGraph, UnwritableFile
from csdf.generation import GraphShape, random_graph
from csdf.io.graph_files import read_graph
from csdf.model.builder import GraphBuilder
from csdf.time_limit import Stop
from planners.code.graph.interleaving import downstream_first, short_loops
from planners.code.graph.looped import (
    ORDERS,
    Fire,
    Interleaved,
    LoopedBody,
    in_words,
)
from planners.code.graph.planning import planned_graph
from planners.code.graph.program import graph_program, write_graph_program
from tests.planners.code.compiling import COMPILER, FLAGS, SANITIZERS, needs_compiler, program

SHAPES = [
    GraphShape(actors=1, extra_channels=0),
    GraphShape(actors=4, max_phases=3, is_strongly_connected=False, has_self_loops=False),
    GraphShape(actors=5, max_phases=2, max_extra_initial_tokens=5, max_repetitions=8, max_rate=9),
    GraphShape(actors=6, is_strongly_connected=False, max_repetitions=12, max_rate=12),
    GraphShape(
        actors=4, max_phases=3, is_bounded=True, has_late_release=True, max_extra_initial_tokens=3
    ),
    GraphShape(actors=7, max_phases=4, is_bounded=True, is_strongly_connected=False),
]
MASK = 0xFFFFFFFF


def firing_counts(node, times=1):
    """The firings of each actor in a schedule."""
    if isinstance(node, Fire):
        return {node.actor: times}
    if isinstance(node, Interleaved):
        return {name: times * count for name, count in zip(node.order, node.firings, strict=True)}
    counts = {}
    for inner in node.body:
        for name, count in firing_counts(inner, times * node.count).items():
            counts[name] = counts.get(name, 0) + count
    return counts


def graphs(count):
    return [random_graph(seed, shape) for shape in SHAPES for seed in range(count)]


# Values: what actors compute here and in C is a number that depends on each token they may read,
# in order, and on the phase; each token they put depends on it, on its port and place.


def mixed(number, value):
    return (number * 1000003 + value + 1) & MASK


def simulated(graph, iterations):
    """For each actor the mix of all its firings of some iterations."""
    counts = repetition_vector(graph).items()
    return simulated_firings(graph, {name: iterations * count for name, count in counts})


def simulated_firings(graph, left):
    """For each actor the mix of so many firings: plain queues, in any order that tokens allow."""
    tokens = {
        one.name: [mixed(number, place) for place in range(one.initial_tokens)]
        for number, one in enumerate(graph.channels)
    }
    kept = {one.name: [] for one in graph.channels}
    fired = dict.fromkeys((one.name for one in graph.actors), 0)
    found = dict.fromkeys(fired, 0)
    while any(left.values()):
        before = dict(left)
        for actor in graph.actors:
            phase = fired[actor.name] % actor.phases
            inputs = [one for one in graph.channels if one.consumer == actor.name]
            if not left[actor.name] or any(
                len(tokens[one.name]) < one.consumption[phase] for one in inputs
            ):
                continue
            number = phase
            for one in inputs:
                taken = one.consumption[phase]
                seen = kept[one.name] + tokens[one.name][:taken]
                for value in seen:
                    number = mixed(number, value)
                tokens[one.name] = tokens[one.name][taken:]
                kept[one.name] = seen[one.release_rates[phase] :]
            outputs = [one for one in graph.channels if one.producer == actor.name]
            for port, one in enumerate(outputs, start=len(inputs)):
                made = range(one.production[phase])
                tokens[one.name] += [mixed(number, 7 * port + place) for place in made]
            found[actor.name] = mixed(found[actor.name], number)
            fired[actor.name] += 1
            left[actor.name] -= 1
        assert left != before, "the graph is not live"
    return list(found.values())


HELPERS = """
static uint32_t mixed(uint32_t number, uint32_t value)
{
    return number * 1000003u + value + 1u;
}
"""


def actors_in_c(written, graph):
    """The same in C, and a test that runs some iterations."""
    name = written.name
    pieces = functions_in_c(written, graph)
    wanted = ", ".join(f"{value}u" for value in simulated(graph, 3))
    pieces.append(f"""int {name}_test(void);
int {name}_test(void)
{{
    static const uint32_t wanted[{len(graph.actors)}] = {{{wanted}}};
    static uint64_t arena[{name.upper()}_ARENA_WORDS];
    {name}_state state;
    int failed = 0, number;
    {name}_init(&state, arena, 0);
    for (number = 0; number < 3; number++) {{
        {name}_iterate(&state);
        failed |= !{name}_is_initial(&state);
    }}
    return failed | (memcmp(digests, wanted, sizeof digests) != 0);
}}""")
    return f"{written.files[f'src/{name}.c']}\n" + "\n\n".join(pieces)


def functions_in_c(written, graph):
    """Return the functions that a user fills in: they mix the values of tokens."""
    name = written.name
    header = written.files[f"include/{name}.h"]
    functions = re.findall(rf"void ({name}_fire_\w+)\(", header)
    pieces = [
        HELPERS,
        f"static uint32_t digests[{len(functions)}];",
        f"""void {name}_initial_tokens(void *context, int channel, const {name}_port *tokens)
{{
    uint32_t place;
    (void)context;
    for (place = 0; place < tokens->tokens; place++) {{
        *(uint32_t *){name}_token(tokens, place) = mixed((uint32_t)channel, place);
    }}
}}""",
    ]
    for number, (function, actor) in enumerate(zip(functions, graph.actors, strict=True)):
        inputs = sum(one.consumer == actor.name for one in graph.channels)
        ends = inputs + sum(one.producer == actor.name for one in graph.channels)
        pieces.append(f"""void {function}(void *context, uint32_t phase, const {name}_port *ports)
{{
    uint32_t number = phase, port, place;
    (void)context;
    for (port = 0; port != {inputs}u; port++) {{
        for (place = 0; place < ports[port].tokens; place++) {{
            number = mixed(number, *(uint32_t *){name}_token(&ports[port], place));
        }}
    }}
    for (; port != {ends}u; port++) {{
        for (place = 0; place < ports[port].tokens; place++) {{
            *(uint32_t *){name}_token(&ports[port], place) = mixed(number, 7u * port + place);
        }}
    }}
    digests[{number}] = mixed(digests[{number}], number);
}}""")
    return pieces


def run_all(plans, folder):
    """The names of programs whose values differ, of many in one; plans: (planned graph, name)."""
    programs = [graph_program(planned, name=name) for planned, name in plans]
    for one, (planned, _) in zip(programs, plans, strict=True):
        (folder / f"{one.name}.h").write_text(one.files[f"include/{one.name}.h"])
        (folder / f"{one.name}_all.c").write_text(actors_in_c(one, planned.graph))
    calls = "\n".join(f'    if ({one.name}_test()) puts("{one.name}");' for one in programs)
    declared = "\n".join(f"int {one.name}_test(void);" for one in programs)
    text = f"#include <stdio.h>\n{declared}\nint main(void)\n{{\n{calls}\n    return 0;\n}}\n"
    (folder / "all.c").write_text(text)
    sources = [one.name for one in folder.glob("*.c")]
    built = subprocess.run(
        [COMPILER, *FLAGS, *SANITIZERS, "-Wno-cast-align", "-Wno-shadow", *sources, "-o", "all"],
        cwd=folder,
        capture_output=True,
        text=True,
    )
    assert built.returncode == 0, built.stderr[:4000]
    ran = subprocess.run(["./all"], cwd=folder, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr[:4000]
    return ran.stdout.split()


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize("order", ORDERS)
def test_values_pass_through_a_program_as_through_queues(order, tmp_path):
    plans = [
        (planned_graph(graph, order=order), f"g{number}") for number, graph in enumerate(graphs(2))
    ]
    assert run_all(plans, tmp_path) == []


def unrolled(node, graph):
    """Firings one by one; of actors that take turns, by counting tokens between them."""
    if isinstance(node, Fire):
        return [node.actor]
    if isinstance(node, Interleaved):
        return unrolled(node.written, graph) if node.written else None
    inside = [unrolled(inner, graph) for inner in node.body]
    if None in inside:
        return None
    return [name for one in inside for name in one] * node.count


def peaks(graph, firings):
    """The most tokens that take room in each channel, and whether none was ever lacking."""
    held = {one.name: one.initial_tokens for one in graph.channels}
    free = dict(held)  # not consumed yet
    most = dict(held)
    fired = dict.fromkeys((one.name for one in graph.actors), 0)
    phases = {one.name: one.phases for one in graph.actors}
    for name in firings:
        phase = fired[name] % phases[name]
        fired[name] += 1
        for one in graph.channels:
            made = one.production[phase] if one.producer == name else 0
            most[one.name] = max(most[one.name], held[one.name] + made)
            if one.consumer == name:
                free[one.name] -= one.consumption[phase]
                held[one.name] -= one.release_rates[phase]
                assert free[one.name] >= 0, (one.name, firings)
            free[one.name] += made
            held[one.name] += made
    return most


@pytest.mark.parametrize("order", ["single-appearance", "demand-driven"])
def test_buffers_are_as_large_as_the_schedule_needs(order):
    looked_at = 0
    for graph in graphs(6):
        planned = planned_graph(graph, order=order)
        assert firing_counts(planned.schedule) == repetition_vector(graph)
        firings = unrolled(planned.schedule, graph)
        if firings is None:
            continue
        looked_at += 1
        given = {one.name: one.capacity or 0 for one in graph.channels}
        for name, most in peaks(graph, firings).items():
            ring = next(one for one in planned.rings if one.channel == name)
            assert ring.capacity == max(most, given[name])
    assert looked_at > 20


def test_buffers_that_hold_tokens_together_lie_apart():
    for graph in graphs(4):
        planned = planned_graph(graph, order="single-appearance")
        firings = unrolled(planned.schedule, graph)
        if firings is None:
            continue
        rings = {one.channel: one for one in planned.rings}
        held = {one.name: one.initial_tokens for one in graph.channels}
        fired = dict.fromkeys((one.name for one in graph.actors), 0)
        for name in firings:
            phase = fired[name] % graph.actor(name).phases
            fired[name] += 1
            touched = [one for one in graph.channels if name in (one.producer, one.consumer)]
            live = {one for one, count in held.items() if count} | {one.name for one in touched}
            spans = sorted((rings[one].offset, rings[one].size) for one in live if rings[one].size)
            for (offset, size), (behind, _) in itertools.pairwise(spans):
                assert offset + size <= behind
            for one in touched:
                if one.consumer == name:
                    held[one.name] -= one.release_rates[phase]
                if one.producer == name:
                    held[one.name] += one.production[phase]


def chain(*rates):
    """Actors in a row: between two of them so many tokens are put, and taken."""
    builder = GraphBuilder("chain")
    names = [chr(ord("a") + number) for number in range(len(rates) + 1)]
    for name in names:
        builder.actor(name, 1)
    for number, (made, taken) in enumerate(rates):
        builder.channel(names[number], made, names[number + 1], taken)
    return builder.graph()


def test_nested_loops_of_a_chain_are_the_published_ones():
    # Compact disc to digital audio tape. One appearance each, so each buffer holds what its common
    # loop moves: a b 1, (3 a b)(2 c) 6, of 49 rounds 196 between c and d, and d to f 56 and 5.
    rates = ((1, 1), (2, 3), (2, 7), (8, 7), (5, 1))
    planned = planned_graph(chain(*rates), order="single-appearance")
    assert sum(one.capacity for one in planned.rings) == 264


def test_a_chain_of_many_actors_in_a_loop_is_scheduled():
    builder = GraphBuilder()
    for number in range(600):
        builder.actor(f"a{number}", 1)
    for number in range(599):
        builder.channel(f"a{number}", 1 if number else 2, f"a{number + 1}", 1)
    planned = planned_graph(builder.graph(), order="single-appearance")
    counts = firing_counts(planned.schedule)
    assert (counts["a0"], counts["a599"], len(counts)) == (1, 2, 600)
    assert planned.arena_bytes <= 600 * 8


def test_two_rates_need_what_is_least_in_any_order_by_demand():
    # A channel of rates p and c runs in p + c - gcd(p, c) tokens, and in no fewer (Bhattacharyya et
    # al. 1996); whether producer and consumer take turns that closely is what demand is for.
    for made, taken in ((2, 3), (7, 5), (4, 6), (1, 9), (9, 1)):
        planned = planned_graph(chain((made, taken)), order="demand-driven")
        assert planned.rings[0].capacity == made + taken - gcd(made, taken)


def test_code_does_not_grow_with_repetitions():
    texts = []
    for times in (10, 10**6):
        graph = chain((3 * times, 2), (1, 5 * times))
        written = graph_program(planned_graph(graph, order="single-appearance"), name="chain")
        texts.append(re.sub(r"\d+", "0", written.files["src/chain.c"]))
    assert len(texts[0]) == len(texts[1])


def test_actors_that_wait_for_one_another_take_turns():
    builder = GraphBuilder("circle").actor("a", 1).actor("b", 1)
    builder.channel("a", 2, "b", 3, initial_tokens=1).channel("b", 3, "a", 2, initial_tokens=3)
    planned = planned_graph(builder.graph(), order="single-appearance")
    # a needs 2 of 3: 1 left, 3 in the other; b: 0, 4; then a a b: 6 tokens, none too many
    assert firing_counts(planned.schedule) == {"a": 3, "b": 2}
    assert in_words(planned.schedule) == "a b (2 a) b"


def test_after_ctrl_c_the_first_schedule_is_kept_and_the_reason_is_told():
    graph = chain((1, 10_000))
    for look in range(100):
        looks = []

        def press_ctrl_c(_progress, looks=looks, look=look):
            looks.append(1)
            if len(looks) > look:
                raise KeyboardInterrupt

        try:
            planned = planned_graph(graph, budget=Stop(report=press_ctrl_c))
        except KeyboardInterrupt:
            continue
        break
    assert (planned.order, str(planned.reason)) == ("single-appearance", "interrupted")
    assert planned_graph(graph).reason is None


def test_a_deadlock_is_an_answer():
    assert isinstance(planned_graph(read_graph("models/graphs/deadlocked.xml")), Deadlock)


def test_an_inconsistent_graph_is_refused():
    with pytest.raises(InconsistentGraph):
        planned_graph(read_graph("models/graphs/inconsistent.xml"))


def test_buffers_beyond_32_bits_are_refused():
    with pytest.raises(CsdfError, match="32 bits"):
        planned_graph(chain((10**10, 1)), order="single-appearance")


def test_an_unknown_order_is_refused():
    with pytest.raises(CsdfError, match="expected one of"):
        planned_graph(chain((1, 1)), order="fast")


def test_repetitions_become_loops():
    assert in_words(short_loops("abababc")) == "(3 a b) c"
    assert in_words(short_loops("aabaabcaabaabc")) == "(2 (2 (2 a) b) c)"
    assert in_words(short_loops("abc")) == "a b c"
    source = Random(1)
    assert short_loops([source.choice("abcdefg") for _ in range(2000)]) is None


def test_repetitions_say_the_same_firings():
    source = Random(2)
    for _ in range(50):
        piece = source.choices("abc", k=4)
        firings = [*piece * source.randint(1, 5), *source.choices("abc", k=3), *piece * 3]
        found = short_loops(firings)
        assert found is None or unrolled(found, None) == firings


def test_those_that_take_stand_before_those_that_make():
    assert downstream_first({"a": ["b", "c"], "b": ["c"], "c": []}) == ("c", "b", "a")
    assert set(downstream_first({"a": ["b"], "b": ["a"], "c": []})) == {"a", "b", "c"}


def test_loops_of_one_round_are_none():
    assert in_words(LoopedBody(1, (Fire("a"), LoopedBody(2, (Fire("b"),))))) == "a (2 b)"


def test_the_claimed_size_of_the_state_counts_an_entry_for_channels_where_there_are_none():
    builder = GraphBuilder("six")
    for name in "abcdef":
        builder.actor(name, 1)
    written = graph_program(planned_graph(builder.graph()))
    lengths = re.findall(r"    uint32_t \w+\[(\d+)\];", written.files["include/six.h"])
    assert lengths == ["1", "1", "1", "6"]
    fields = 2 * 8 + 4 * (1 + sum(map(int, lengths)))
    assert fields <= written.state_bytes < fields + 16


def test_counters_of_loops_in_place_of_turns_hold_the_largest_count():
    planned = planned_graph(chain((1, 1)))
    loops = LoopedBody(2**32, (Fire("a"), Fire("b")))
    turns = Interleaved(("a", "b"), (2**32, 2**32), loops)
    (source,) = (
        text
        for name, text in graph_program(replace(planned, schedule=turns)).files.items()
        if name.endswith(".c") and "take_turns" not in text and "_iterate(instance" in text
    )
    assert "    uint64_t i0;\n" in source


ODD = ("größe */ int", "1st", "while", "a-b", "a b", "A B", "??/", "state", "%s\\n", "NULL", "h*\\")


@pytest.mark.slow
@needs_compiler
def test_odd_names_make_programs_that_compile(tmp_path):
    builder = GraphBuilder("int main /* */")
    for name in ODD:
        builder.actor(name, 1)
    for one, other in itertools.pairwise(ODD):
        builder.channel(one, 1, other, 2, name=f"{one}*/{other}")
    builder.channel("while", (0, 3), "while", (1, 2), initial_tokens=5, name="")
    assert run_all([(planned_graph(builder.graph()), None)], tmp_path) == []


@pytest.mark.slow
@needs_compiler
def test_the_written_folder_is_a_program_that_runs(tmp_path):
    planned = planned_graph(read_graph("models/graphs/csdf_example.xml"))
    for _ in range(2):
        written = write_graph_program(planned, tmp_path)
    paths = (one.relative_to(tmp_path) for one in tmp_path.rglob("*") if one.is_file())
    assert {one.as_posix() for one in paths} == set(written.files)
    built = subprocess.run(
        [COMPILER, *FLAGS, *SANITIZERS, *program(written.files), "-o", "run"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert built.returncode == 0, built.stderr
    ran = subprocess.run(["./run"], cwd=tmp_path, capture_output=True, text=True)
    assert (ran.returncode, ran.stdout.splitlines()[:2]) == (
        0,
        ["csdf_example: tokens as they were", f"arena bytes: {planned.arena_bytes}"],
    )


def test_a_folder_with_other_files_is_left_alone(tmp_path):
    (tmp_path / "mine.c").write_text("")
    with pytest.raises(UnwritableFile, match=r"mine\.c"):
        write_graph_program(planned_graph(chain((1, 2))), tmp_path)
