"""Graphs on several processors as C: a thread for each, values that pass between them."""

import json
import os
import subprocess
from dataclasses import replace
from itertools import pairwise
from random import Random

import pytest

from csdf.analysis.consistency import repetition_vector
from csdf.io.graph_files import write_graph
from csdf.mapping.files import write_mapping
from csdf.mapping.model import Buffer, InvalidMapping, Mapping, StaticOrder
from csdf.model.builder import GraphBuilder
from planners.code.graph.mapped_program import OrdersBlock, mapped_graph, mapped_program
from planners.code.library import write_folder
from tests.cli.running import run
from tests.planners.code.compiling import COMPILER, FLAGS, SANITIZERS, needs_compiler
from tests.planners.code.test_graph_programs import functions_in_c, graphs, simulated_firings

__all__ = ["run"]

BLOCKS = 3


def sequence(graph, source):
    """Firings of an iteration in an order that tokens allow, drawn at random."""
    free = {one.name: one.initial_tokens for one in graph.channels}
    held = dict(free)
    left = dict(repetition_vector(graph))
    fired = dict.fromkeys(left, 0)
    phases = {one.name: one.phases for one in graph.actors}
    order = []
    while any(left.values()):
        able = [name for name in left if left[name] and can_fire(graph, name, fired, free, held)]
        name = source.choice(able)
        for one in graph.channels:
            phase = fired[name] % phases[name]
            if one.consumer == name:
                free[one.name] -= one.consumption[phase]
                held[one.name] -= one.release_rates[phase]
            if one.producer == name:
                free[one.name] += one.production[phase]
                held[one.name] += one.production[phase]
        fired[name] += 1
        left[name] -= 1
        order.append(name)
    return order


def can_fire(graph, name, fired, free, held):
    for one in graph.channels:
        if one.consumer == name:
            phase = fired[name] % len(one.consumption)
            if free[one.name] < one.consumption[phase]:
                return False
        if one.producer == name and one.capacity is not None and not one.is_self_loop:
            phase = fired[name] % len(one.production)
            if held[one.name] + one.production[phase] > one.capacity:
                return False
    return True


def random_mapping(graph, seed):
    """Actors on up to three processors, in the order of a sequence; some begin with a prefix."""
    source = Random(seed)
    cores = [f"core {number}" for number in range(source.randint(1, 3))]
    binding = {one.name: source.choice(cores) for one in graph.actors}
    order = sequence(graph, source)
    lists = {core: [name for name in order if binding[name] == core] for core in cores}
    orders = {}
    for core, names in lists.items():
        if names:
            times = source.randint(1, 2)
            turned = source.randint(0, len(names))
            periodic = (names[turned:] + names[:turned]) * times
            orders[core] = StaticOrder(prefix=tuple(names[:turned]), periodic=tuple(periodic))
    return Mapping(binding=binding, orders=orders)


def unrolled(turns):
    return tuple(name for name, count in turns for _ in range(count))


def program_with_threads(written, planned, blocks=BLOCKS):
    """The program with functions that mix values, and a thread for each processor."""
    name = written.name
    pieces = functions_in_c(written, planned.graph)
    counts = dict.fromkeys((one.name for one in planned.graph.actors), 0)
    for core in planned.cores:
        order = StaticOrder(prefix=unrolled(core.prefix), periodic=unrolled(core.periodic))
        for place in range(core.first + blocks * core.firings):
            counts[order.actor(place)] += 1
    wanted = ", ".join(f"{value}u" for value in simulated_firings(planned.graph, counts))
    shorts = list(written.functions.values())
    threads = "\n".join(
        f"""static void *thread_{short}(void *state)
{{
    uint32_t firings = {name.upper()}_{short.upper()}_FIRST;
    firings += {blocks}u * {name.upper()}_{short.upper()}_FIRINGS;
    {name}_run_{short}(state, firings);
    return NULL;
}}"""
        for short in shorts
    )
    begin = "\n".join(
        f"    failed |= pthread_create(&threads[{number}], NULL, thread_{short}, &state);"
        for number, short in enumerate(shorts)
    )
    pieces.append(f"""{threads}

int {name}_test(void);
int {name}_test(void)
{{
    static const uint32_t wanted[{len(planned.graph.actors)}] = {{{wanted}}};
    static uint64_t arena[{name.upper()}_ARENA_WORDS];
    static {name}_state state;
    pthread_t threads[{len(shorts)}];
    int failed = 0, number;
    {name}_init(&state, arena, NULL);
{begin}
    for (number = 0; number < {len(shorts)}; number++) {{
        failed |= pthread_join(threads[number], NULL);
    }}
    return failed | (memcmp(digests, wanted, sizeof digests) != 0);
}}""")
    return f"{written.files[f'src/{name}.c']}\n#include <pthread.h>\n" + "\n\n".join(pieces)


@pytest.mark.slow
@needs_compiler
def test_values_pass_between_processors_as_through_queues(tmp_path):
    made = []
    for number, graph in enumerate(graphs(5)):
        planned = mapped_graph(graph, random_mapping(graph, number))
        written = mapped_program(planned, name=f"g{number}")
        made.append((written, program_with_threads(written, planned)))
    build_threads(made, tmp_path, ["-std=gnu99", *SANITIZERS])
    ran = subprocess.run(["./all"], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert (ran.returncode, ran.stdout) == (0, ""), ran.stderr[:4000]


def build_threads(made, folder, flags):
    """Build all of these programs with threads into one, which prints names of those that differ."""
    for written, text in made:
        (folder / f"{written.name}.h").write_text(written.files[f"include/{written.name}.h"])
        (folder / f"{written.name}_all.c").write_text(text)
    calls = "\n".join(f'    if ({one.name}_test()) puts("{one.name}");' for one, _ in made)
    declared = "\n".join(f"int {one.name}_test(void);" for one, _ in made)
    text = f"#include <stdio.h>\n{declared}\nint main(void)\n{{\n{calls}\n    return 0;\n}}\n"
    (folder / "all.c").write_text(text)
    sources = sorted(one.name for one in folder.glob("*.c"))
    built = subprocess.run(
        [
            COMPILER,
            *FLAGS,
            "-Wno-cast-align",
            "-Wno-shadow",
            "-pthread",
            *flags,
            *sources,
            "-o",
            "all",
        ],
        cwd=folder,
        capture_output=True,
        text=True,
    )
    assert built.returncode == 0, built.stderr[:4000]


def relay(count):
    """Actors in a row, each on a processor of its own, with room for one token between two."""
    builder = GraphBuilder("relay")
    names = [f"a{number}" for number in range(count)]
    for name in names:
        builder.actor(name, 1)
    for one, two in pairwise(names):
        builder.channel(one, 1, two, 1, name=f"{one} {two}", capacity=1)
    orders = {f"p{name}": StaticOrder(periodic=(name,)) for name in names}
    return builder.graph(), Mapping(binding={one: f"p{one}" for one in names}, orders=orders)


@needs_compiler
@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="threads are kept on one core")
def test_more_threads_than_cores_share_a_core(tmp_path):
    graph, mapping = relay(8)
    planned = mapped_graph(graph, mapping)
    written = mapped_program(planned, name="relay")
    build_threads([(written, program_with_threads(written, planned, blocks=300))], tmp_path, [])
    core = min(os.sched_getaffinity(0))
    ran = subprocess.run(
        ["./all"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        preexec_fn=lambda: os.sched_setaffinity(0, {core}),
    )
    assert (ran.returncode, ran.stdout) == (0, "")


YIELDING = """#include <stdio.h>
static relay_state state;
static uint64_t arena[RELAY_ARENA_WORDS];
static unsigned fired, yields;
int sched_yield(void) /* in place of the system's: the other thread fires once */
{
    yields++;
    return 1 - relay_step_pa0(&state);
}
void relay_fire_a0(void *context, uint32_t phase, const relay_port *ports)
{
    (void)context, (void)phase, (void)ports;
}
void relay_fire_a1(void *context, uint32_t phase, const relay_port *ports)
{
    (void)context, (void)phase, (void)ports, fired++;
}
int main(void)
{
    relay_init(&state, arena, NULL);
    relay_run_pa1(&state, 5);
    return printf("%u %u", fired, yields) < 0;
}
"""


@needs_compiler
@pytest.mark.skipif(os.name != "posix", reason="a system yields by its own function")
@pytest.mark.parametrize("standard", ["-std=c99", "-std=gnu11"])
def test_a_thread_that_waits_lets_another_one_run(tmp_path, standard):
    # a1 waits for a0, which fires only while a1 yields: once for each of five firings. A thread that
    # waits without yielding would wait for ever.
    graph, mapping = relay(2)
    written = mapped_program(mapped_graph(graph, mapping), name="relay")
    (tmp_path / "relay.h").write_text(written.files["include/relay.h"])
    (tmp_path / "all.c").write_text(written.files["src/relay.c"] + YIELDING)
    words = [COMPILER, *FLAGS, standard, "all.c", "-o", "all"]
    subprocess.run(words, cwd=tmp_path, check=True)
    ran = subprocess.run(["./all"], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert (ran.returncode, ran.stdout) == (0, "5 5")


@needs_compiler
@pytest.mark.parametrize("flag", ["-ffreestanding", "-DWAIT()=((void)7)"])
def test_without_a_system_waiting_is_what_its_user_says(tmp_path, flag):
    graph, mapping = relay(2)
    written = mapped_program(mapped_graph(graph, mapping), name="relay")
    write_folder(tmp_path, written.files)
    words = [COMPILER, *FLAGS, flag, "-Iinclude", "-c", "src/relay.c"]
    subprocess.run(words, cwd=tmp_path, check=True)
    assert b"sched_yield" not in (tmp_path / "relay.o").read_bytes()


def two():
    """An actor makes two tokens that the other takes singly, on a processor of its own."""
    builder = GraphBuilder("two")
    builder.actor("a", 1)
    builder.actor("b", 1)
    builder.channel("a", 2, "b", 1, name="c")
    return builder.graph()


def apart(**options):
    orders = {"p": StaticOrder(periodic=("a",)), "q": StaticOrder(periodic=("b", "b"))}
    return Mapping(binding={"a": "p", "b": "q"}, orders=orders, **options)


def test_a_buffer_is_as_large_as_its_ends_are_or_as_the_orders_need():
    # b takes a token before a puts the next two: two places suffice, and no fewer.
    assert mapped_graph(two(), apart()).rings[0].capacity == 2
    buffers = {"c": Buffer(source=2, target=3)}
    assert mapped_graph(two(), apart(buffers=buffers)).rings[0].capacity == 5


def test_orders_that_come_to_a_stand_are_told_with_what_waits():
    found = mapped_graph(two(), apart(buffers={"c": Buffer(source=1, target=0)}))
    assert isinstance(found, OrdersBlock)
    assert str(found) == "p waits to fire 'a'; q waits to fire 'b'"


def test_an_actor_without_a_processor_is_refused():
    mapping = replace(apart(), binding={"a": "p"})
    with pytest.raises(InvalidMapping, match="'b' is bound to no processor"):
        mapped_graph(two(), mapping)


def test_a_block_is_a_whole_number_of_iterations_on_every_processor():
    orders = {"p": StaticOrder(periodic=("a",) * 2), "q": StaticOrder(periodic=("b", "b") * 3)}
    found = mapped_graph(two(), replace(apart(), orders=orders))
    assert found.iterations == 6
    assert [core.firings for core in found.cores] == [6, 12]


def test_the_command_writes_a_function_for_each_processor(run, tmp_path):
    graph = "models/graphs/csdf_example.xml"
    code, _, _ = run("map", graph, "--processors", 2, "--time-limit", 2, "-o", tmp_path / "m.json")
    assert code == 0
    words = ("codegen", graph, "--map", tmp_path / "m.json", "-o", tmp_path / "c", "--json")
    code, output, _ = run(*words)
    found = json.loads(output)
    assert code == 0
    header = (tmp_path / "c/include/csdf_example.h").read_text()
    assert len(found["processors"]) == header.count("void csdf_example_run_") == 2


def test_orders_that_stand_still_are_an_answer_of_the_command(run, tmp_path):
    write_mapping(tmp_path / "m.json", apart(buffers={"c": Buffer(source=1, target=0)}))
    write_graph(tmp_path / "two.json", two())
    words = ("codegen", tmp_path / "two.json", "--map", tmp_path / "m.json", "-o", tmp_path / "c")
    code, _, remarks = run(*words)
    assert (code, "comes to a stand: p waits" in remarks) == (1, True), remarks


def test_an_order_beside_a_mapping_is_refused(run, tmp_path):
    write_mapping(tmp_path / "m.json", apart())
    graph = "models/graphs/csdf_example.xml"
    words = ("--map", tmp_path / "m.json", "--order", "single-appearance", "-o", tmp_path / "c")
    code, _, remarks = run("codegen", graph, *words)
    assert code == 2
    assert "leave out --order" in remarks
