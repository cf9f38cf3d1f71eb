"""Primitives in C: each against the whole network, selections deployed, and profiles from a bench."""

import random
import re
import shutil
from dataclasses import replace

import pytest

from cnn2csdf import operators as op
from cnn2csdf.builder import NetworkBuilder
from cnn2csdf.simplify import simplified
from cnn2csdf.weights import Model, random_weights
from csdf.errors import InvalidPlan, UnsupportedOperator
from planners.code.library import library, write_folder, write_library
from planners.code.primitives.bench import bench
from planners.code.primitives.calls import PrimitiveCalls, PrimitiveTables
from planners.plan.plan import Kind
from planners.primitives.library.layers import layer_variants
from planners.primitives.planned import planned_primitives, streaming_plan
from planners.primitives.profile import CHW, HWC, LAYER, Variant, read_profile
from planners.primitives.selection.planning import Constraint, best_selection
from planners.primitives.selection.problem import Objective, selection_problem
from tests.planners.code.compiling import needs_compiler, run_all
from tests.planners.code.test_library_on_target import make, needs_target
from tests.planners.primitives.execution.test_selected_networks import SMALL as BRANCHED

needs_make = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")


def convolution(filters, kernel, stride=(1, 1), dilation=(1, 1), padding=(0, 0, 0, 0), groups=1):
    window = op.Window(kernel=kernel, stride=stride, dilation=dilation, padding=padding)
    return op.Convolution(filters=filters, window=window, groups=groups)


def pooling(function, kernel, padding):
    window = op.Window(kernel=kernel, stride=(2, 1), padding=padding)
    return op.Pooling(function=function, window=window)


ROUND = (1, 1, 1, 1)
SHAPES = {  # input, convolution
    "uneven padding": ((5, 8, 7), convolution(4, (3, 3), padding=(0, 2, 3, 1))),
    "5x5": ((2, 13, 10), convolution(4, (5, 5), padding=(2, 2, 2, 2))),
    "3x5 cropped": ((2, 11, 12), convolution(3, (3, 5), padding=(-1, 1, 1, -2))),
    "strided": ((3, 12, 9), convolution(4, (3, 2), (2, 3), padding=(1, 0, 1, 1))),
    "dilated": ((2, 11, 9), convolution(3, (3, 2), (1, 2), (2, 3), (2, 1, 1, 2))),
    "groups": ((4, 7, 8), convolution(6, (3, 3), (2, 1), padding=ROUND, groups=2)),
    "depthwise": ((7, 9, 8), convolution(7, (3, 3), (2, 2), padding=ROUND, groups=7)),
    "pointwise": ((6, 7, 5), convolution(8, (1, 1))),
}


def planned(model, ways):
    """The plan of a selection, with the workspaces that its C needs."""
    calls = PrimitiveCalls(model, PrimitiveTables("x"))
    sizes = {
        layer.name: calls.workspace_bytes(layer, ways[layer.name]) for layer in model.network.layers
    }
    return planned_primitives(model.network, ways, sizes)


def in_all_ways():
    """A model with each convolution once for each way that has C, and these ways by layer."""
    builder, ways = NetworkBuilder(), {}
    for name, (dims, operator) in SHAPES.items():
        source = builder.input(dims, name=name)
        single = NetworkBuilder()
        single.output(single.add(operator, single.input(dims), name="layer"))
        network = single.network()
        calls = PrimitiveCalls(Model(network=network), PrimitiveTables("x"))
        for way in calls.variants(network.layer("layer")):
            layer = f"{name}: {' '.join(way)}"
            ways[layer] = way
            builder.output(builder.add(operator, source, name=layer), name=f"output of {layer}")
    network = builder.network()
    return Model(network=network, weights=random_weights(network, 1)), ways


@needs_compiler
@pytest.mark.slow
def test_every_primitive_in_c_is_the_convolution_of_the_whole_network(tmp_path):
    # Under sanitizers; outputs within 1e-4 of the largest, as transforms of tiles round.
    model, ways = in_all_ways()
    others = {layer.name: Variant(LAYER, CHW, CHW) for layer in model.network.layers}
    assert run_all([library(model, planned(model, others | ways), name="all")], tmp_path) == []
    kinds = "direct im2col im2row kn2row kn2col mec pointwise winograd"
    assert {re.split("[ ,]", way[0])[0] for way in ways.values()} == set(kinds.split())
    assert {way[1:] for way in ways.values()} == {(a, b) for a in (CHW, HWC) for b in (CHW, HWC)}


def small():
    """Layers of all kinds that a selection may have."""
    builder = NetworkBuilder()
    first = builder.add(convolution(8, (3, 3), (2, 2), padding=ROUND), builder.input((3, 17, 15)))
    first = builder.add(op.Activation(function="relu"), first)
    first = builder.add(op.LocalResponseNormalization(size=5, alpha=0.02), first, name="first")
    left = builder.add(convolution(6, (3, 3), padding=ROUND), first)
    left = builder.add(op.Activation(function="prelu"), left, name="left")
    right = builder.add(convolution(6, (1, 1)), first, name="right")
    both = builder.add(op.Elementwise(function="multiply"), left, right, name="both")
    pooled = builder.add(pooling("average", (3, 3), ROUND), both, name="pooled")
    most = builder.add(pooling("max", (2, 3), (0, 1, 1, 1)), both, name="most")
    joined = builder.add(op.Concatenation(), pooled, most, name="joined")
    scale = builder.add(op.GlobalPooling(function="average"), joined, name="scale")
    scale = builder.add(op.Activation(function="sigmoid"), scale, name="share")
    scaled = builder.add(op.Elementwise(function="add"), joined, scale, name="scaled")
    builder.output(scaled, name="map")
    last = builder.add(
        op.FullyConnected(units=7),
        builder.add(op.GlobalPooling(function="max"), scaled),
        name="last",
    )
    builder.output(builder.add(op.Softmax(axis=0), last), name="classes")
    network = simplified(Model(network=builder.network())).network  # fused where it can be
    return Model(network=network, weights=random_weights(network, 2))


SMALL = small()


def any_ways(seed):
    """A way with C for each layer of the small network."""
    calls = PrimitiveCalls(SMALL, PrimitiveTables("x"))
    chosen = random.Random(seed)
    return {
        layer.name: chosen.choice(calls.variants(layer))
        if layer.inputs
        else Variant(LAYER, CHW, CHW)
        for layer in SMALL.network.layers
    }


@needs_compiler
@pytest.mark.slow
def test_any_selection_of_a_network_is_the_whole_network(tmp_path):
    made = [library(SMALL, planned(SMALL, any_ways(at)), name=f"net{at}") for at in range(8)]
    assert run_all(made, tmp_path) == []
    assert len({one.files[f"src/{one.name}.c"].partition("works[")[2] for one in made}) == 8


@needs_compiler
@needs_make
def test_the_best_selection_of_a_benched_profile_deploys(tmp_path):
    found = bench(SMALL)
    write_folder(tmp_path / "bench", found.files)
    ran = make(tmp_path / "bench", "profile", "CFLAGS=-O1 -Werror -DREPEATS=1")
    assert ran.returncode == 0, ran.stderr
    problem = selection_problem(SMALL.network, read_profile(tmp_path / "bench" / "profile.csv"))
    assert sum(map(len, problem.candidates)) >= found.ways - 2 * len(
        list(SMALL.network.connections)
    )
    selection = best_selection(problem, Constraint(objective=Objective.NETWORK)).selection
    written = write_library(SMALL, streaming_plan(SMALL.network, selection), tmp_path / "c")
    ran = make(tmp_path / "c", "test", "CFLAGS=-O1 -Werror")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert written.written.weight_bytes == selection.parameter_bytes


@needs_compiler
@needs_make
def test_a_bench_that_was_interrupted_goes_on(tmp_path):
    write_folder(tmp_path, bench(SMALL).files)
    profile = tmp_path / "profile.csv"
    assert make(tmp_path, "profile", "CFLAGS=-O1 -DREPEATS=1").returncode == 0
    lines = profile.read_text().splitlines(keepends=True)
    kept = [line.replace(",0\n", ",7\n") for line in lines[:40]]
    profile.write_text("".join(kept))
    assert make(tmp_path, "profile").returncode == 0
    found = profile.read_text().splitlines(keepends=True)
    assert found[:40] == kept
    timeless = [line.rsplit(",", 2)[0] for line in found]
    assert timeless == [line.rsplit(",", 2)[0] for line in lines]
    profile.write_text("a,b\n")
    ran = make(tmp_path, "profile")
    assert ran.returncode != 0
    assert "not a profile by this program" in ran.stderr
    assert profile.read_text() == "a,b\n"


@needs_target
@pytest.mark.slow
def test_a_profile_of_a_cortex_m_predicts_the_instructions_of_the_network(tmp_path):
    write_folder(tmp_path / "bench", bench(BRANCHED, ram=1_000_000, flash=500_000).files)
    ran = make(tmp_path / "bench", "profile-qemu")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    problem = selection_problem(BRANCHED.network, read_profile(tmp_path / "bench" / "profile.csv"))
    selection = best_selection(problem, Constraint(objective=Objective.NETWORK)).selection
    write_library(BRANCHED, streaming_plan(BRANCHED.network, selection), tmp_path / "c")
    ran = make(tmp_path / "c", "instructions")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    counted = int(re.search(r"instructions of a frame: (\d+)", ran.stdout + ran.stderr)[1])
    # Copies at the ends of a frame and calls are beside it: some thousand instructions.
    assert selection.nanoseconds / 1000 <= counted + 1
    assert counted <= selection.nanoseconds / 1000 * 1.02 + 20


def test_ways_that_do_not_fit_are_not_timed():
    everything, little = bench(SMALL), bench(SMALL, ram=16_000, flash=3000)
    assert little.arena_bytes <= 16_000
    assert little.weight_bytes <= 3000
    assert 50 < little.ways < everything.ways


def test_a_change_of_layout_that_does_not_fit_is_avoided():
    builder = NetworkBuilder()
    wide = builder.add(
        convolution(16, (3, 3), padding=ROUND), builder.input((3, 32, 32)), name="wide"
    )
    builder.output(builder.add(convolution(1, (3, 3), padding=ROUND), wide))
    network = builder.network()
    model = Model(network=network, weights=random_weights(network, 0))
    needed = 2 * 16 * 32 * 32 * 4  # more than any layer has
    assert bench(model, ram=needed).arena_bytes == needed
    little = bench(model, ram=80_000)
    assert little.arena_bytes <= 80_000
    layouts = re.findall(r'"wide,[^,].*,(CHW|HWC),(CHW|HWC),\d', little.files["test/main.c"])
    assert set(layouts) == {("CHW", "CHW"), ("HWC", "CHW")}  # the input fits in two layouts


def test_a_primitive_without_c_is_refused_by_name():
    layer = SMALL.network.layer("convolution 2")
    fourier = next(
        way for way in layer_variants(SMALL.network, layer) if way[0].startswith("fourier")
    )
    plan = planned(SMALL, any_ways(0) | {"convolution 2": fourier})
    with pytest.raises(
        UnsupportedOperator, match=r"'convolution 2'.*primitive 'fourier.*--without fourier"
    ):
        library(SMALL, plan)


def test_a_workspace_that_is_too_small_for_c_is_refused():
    way = next(
        way
        for way in layer_variants(SMALL.network, SMALL.network.layer("convolution 2"))
        if way[0] == "im2col"
    )
    plan = planned(SMALL, any_ways(0) | {"convolution 2": way})
    buffers = tuple(
        replace(one, size=64)
        if one.kind is Kind.SCRATCH and one.readers == ("convolution 2",)
        else one
        for one in plan.buffers
    )
    with pytest.raises(
        InvalidPlan, match="'convolution 2' has a workspace of 64 bytes; 'im2col' needs"
    ):
        library(SMALL, replace(plan, buffers=buffers))


def test_a_layer_without_c_is_refused_by_name():
    builder = NetworkBuilder()
    layer = builder.add(op.ChannelShuffle(groups=2), builder.input((4, 3, 3)), name="dealt")
    builder.output(layer)
    network = builder.network()
    model = Model(network=network, weights=random_weights(network, 0))
    with pytest.raises(UnsupportedOperator, match=r"'dealt'.*ChannelShuffle in a selection"):
        bench(model)
    with pytest.raises(UnsupportedOperator, match=r"'dealt'.*ChannelShuffle in a selection"):
        library(
            model, planned(model, {one.name: Variant(LAYER, CHW, CHW) for one in network.layers})
        )
