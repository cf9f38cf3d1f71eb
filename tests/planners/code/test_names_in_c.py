"""Tensors, memories, cores and actors called as identifiers of the generated C, of C, or of C++."""

import csv
import io
import itertools
import re
import shutil
import subprocess
from pathlib import Path

import pytest

import planners.code
from cnn2csdf import operators as op
from cnn2csdf.builder import NetworkBuilder
from cnn2csdf.weights import Model, random_weights
from csdf.model.builder import GraphBuilder
from planners.code.c_text import KEYWORDS, MACROS
from planners.code.graph.planning import planned_graph
from planners.code.graph.program import graph_program
from planners.code.library import library
from planners.code.several import Member, combined_libraries
from planners.memory.fit import fit
from planners.plan.plan import Memory
from tests.planners.code.compiling import COMPILER, needs_compiler
from tests.planners.code.compiling import FLAGS as STRICT

pytestmark = needs_compiler

# A parameter may have the name of a type or a table of the library: its function mentions neither.
FLAGS = tuple(flag for flag in STRICT if flag != "-Wshadow")
TEMPLATES = Path(planners.code.__file__).parent
TYPES = {f"{sign}int{bits}_t" for sign in ("", "u") for bits in (8, 16, 32, 64)} | {"size_t"}
ALIKE = [
    *("a b", "a_b", "a-b", "A.b", "a_b_2", "a b 2", "é", "", "2", "n_2"),
    *("net_input", "net_state", "wrong", "arena", "saved"),
]
LIBC = ["exp", "index", "time", "y0", "remove", "memcpy", "printf", "signal", "div", "abs", "log"]


def template_words():
    """Every identifier of the C texts, and of the texts that a small library has besides."""
    texts = [path.read_text() for path in sorted((TEMPLATES / "c").iterdir())]
    texts += library_of(["x", "y"], budget=1).values()
    return sorted(set(re.findall(r"\b[a-z_]\w*", " ".join(texts).lower())))


def library_of(names, **options):
    model = summed(names)
    return library(model, fit(model.network, **options).least.plan, name="net").files


def summed(names, name="net"):
    """A network that adds up inputs of these names; its output is called as the last of them."""
    builder = NetworkBuilder(name)
    inputs = [builder.input((1, 2, 2), name=one or " ") for one in names]
    total = builder.add(op.Elementwise(function="add"), *inputs, name=builder.free_name("state 2"))
    builder.output(total, name=builder.free_name(f"{names[-1]}."))
    network = builder.network()
    return Model(network=network, weights=random_weights(network, 0))


def written(files, folder):
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def compiled(folder, *sources, flags=FLAGS):
    ran = subprocess.run(
        [COMPILER, *flags, "-fsyntax-only", "-Iinclude", "-Itarget", *sources],
        cwd=folder, capture_output=True, text=True,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr[:2000]


def all_compiled(files, folder, name="net"):
    """Compile the library, its test, bench and example; include its header from C++."""
    written(files, folder)
    for source in (one for one in files if one.endswith(".c") and one != "target/target.c"):
        if not source.endswith("prove.c"):
            compiled(folder, source, flags=(*FLAGS, f"-D{name.upper()}_PROFILE"))
    if shutil.which("g++"):
        (folder / "all.cpp").write_text(
            f'#include <cerrno>\n#include <cstdio>\n#include <cassert>\n#include "{name}.h"\n'
        )
        ran = subprocess.run(["g++", "-fsyntax-only", "-std=c++20", "-Iinclude", "all.cpp"], cwd=folder,
                             capture_output=True, text=True)  # fmt: skip
        assert ran.returncode == 0, ran.stderr[:2000]


WORDS = [*sorted(KEYWORDS | MACROS | TYPES), *ALIKE, *LIBC]


@pytest.mark.slow
def test_inputs_called_as_words_of_c_and_of_c_plus_plus_compile(tmp_path):
    all_compiled(library_of(WORDS, budget=1), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_inputs_called_as_identifiers_of_the_generated_c_compile(part, tmp_path):
    all_compiled(library_of(template_words()[part::4], budget=1), tmp_path)


@pytest.mark.parametrize("name", ["row", "state", "begin_frame", "advance", "place", "found", "i"])
def test_an_input_by_rows_called_as_a_variable_of_ours_compiles(name, tmp_path):
    builder = NetworkBuilder("net")
    source = builder.input((1, 6, 2), name=name)
    window = op.Window(kernel=(3, 1), stride=(1, 1), padding=(1, 0, 1, 0))
    pooled = builder.add(op.Pooling(function="max", window=window), source, name="pooled")
    builder.output(pooled, name=f"{name}.")
    model = Model(network=builder.network(), weights={})
    plan = fit(model.network, input="rows", output="external", budget=1).least.plan
    all_compiled(library(model, plan, name="net").files, tmp_path)


def test_layers_with_any_letters_in_their_names_are_measured(tmp_path):
    names = [
        "a\x01b",
        "a\x7f1",
        "a\tb",
        "\U0001f6009",
        "\u20ac9",
        'a"q"\\z',
        "??/",
        "a\nb",
        "a\ud800",
    ]
    builder = NetworkBuilder("net")
    last = builder.input((1, 1, 2))
    for name in names:
        last = builder.add(op.Activation(function="relu"), last, name=name)
    builder.output(last)
    model = Model(network=builder.network(), weights={})
    files = library(model, fit(model.network, budget=1).least.plan, name="net").files
    written(files, tmp_path)
    compiled(tmp_path, "src/net.c", "test/bench.c", flags=(*FLAGS, "-DNET_PROFILE"))
    program = files["test/bench.c"]
    rows = program[program.index("layers[") : program.index("static const unsigned short layer_of")]
    shown = "for (int i = 0; i < 9; i++) puts(layers[i]);"
    (tmp_path / "rows.c").write_text(
        f"#include <stdio.h>\nchar *{rows}\nint main(void) {{ {shown} }}"
    )
    subprocess.run([COMPILER, "rows.c", "-o", "rows"], cwd=tmp_path, check=True)
    printed = subprocess.run([tmp_path / "rows"], capture_output=True, check=True).stdout
    read = [row[0] for row in csv.reader(io.StringIO(printed.decode(), newline=""))]
    assert read == [*names[:-1], "a?"]


def test_memories_called_as_variables_of_the_programs_compile(tmp_path):
    names = ("state", "frame", "say", "a-b", "a_b")
    model = summed(["x", "frame", "say", "state"])
    memories = [Memory(name=names[0], size=10**5)]
    memories += [Memory(name=name, size=10**6, is_slow=True) for name in names[1:]]
    plan = fit(model.network, memories=memories, budget=1).best.plan
    all_compiled(library(model, plan, name="net").files, tmp_path)


@pytest.mark.slow
def test_networks_in_one_arena_called_as_variables_of_the_test_compile(tmp_path):
    members = []
    for name in ("arena", "say", "failed", "turn", "element", "test", "int", "networks"):
        model = summed(["x", "say", "arena"], name)
        members.append(Member(model=model, plan=fit(model.network, budget=1).least.plan))
    all_compiled(dict(combined_libraries(members).files), tmp_path, "networks")


def test_actors_and_channels_called_as_identifiers_of_the_generated_c_compile(tmp_path):
    names = sorted({word or "empty" for word in (*WORDS, *template_words())})[::8]
    builder = GraphBuilder("actor")
    for name in names:
        builder.actor(name, [1])
    for first, second in itertools.pairwise(names):
        builder.channel(first, [1], second, [1], name=second)
    planned = planned_graph(builder.graph(), order="single-appearance")
    all_compiled(dict(graph_program(planned, name="actor").files), tmp_path, "actor")


def test_the_example_prints_the_class_where_inputs_are_called_as_its_variables(tmp_path):
    written(library_of(["i", "say", "frame", "value", "largest"], budget=1), tmp_path)
    sources = ["src/net.c", "src/net_weights.c", "examples/classify.c"]
    built = [COMPILER, *FLAGS, "-Iinclude", *sources, "-lm", "-o", "example"]
    subprocess.run(built, cwd=tmp_path, check=True)
    # Two frames of five inputs of four numbers: sums are largest at places 2 and 0.
    frames = "0 0 1 0 " * 5 + "2.5 0 0 0 " + "0 0 0 1 " * 2 + "0 0 0 0 " * 2
    ran = subprocess.run(
        ["./example"], cwd=tmp_path, input=frames, capture_output=True, text=True, check=True
    )
    assert ran.stdout == "class 2 5.0000\nclass 0 2.5000\n"
