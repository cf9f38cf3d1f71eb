"""Real layers among integer ones in C: what the whole network gives, in the bytes of the plan."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cnn2csdf import operators as op
from cnn2csdf.builder import NetworkBuilder
from cnn2csdf.dtypes import Arithmetic, Element, Quantization
from cnn2csdf.execution.layer_by_layer import run_layer_by_layer
from cnn2csdf.simplify import simplified
from cnn2csdf.weights import Model, random_weights
from planners.code.frames import random_frame, tolerances
from planners.code.library import library, write_library
from planners.code.parts import (
    INTEGERS,
    REALS,
    SCHEDULER,
    SHORT_SINGLES,
    SHORTS,
    SINGLES,
    as_real,
    defined_names,
)
from planners.memory.answer import INPUTS
from planners.memory.fit import fit
from tests.cnn2csdf.execution.random_networks import models
from tests.planners.code.compiling import FLAGS, needs_compiler, run_all
from tests.planners.code.drawing import same_in_each_run
from tests.planners.code.mixed_networks import Mixing
from tests.planners.code.test_library_on_target import TEST_STACK, make, needs_target, printed
from tests.planners.memory.streamed import random_plan

RANDOM_NETWORKS = 12
WINDOW = op.Window(kernel=(3, 3), padding=(1, 1, 1, 1))


def drawn(count, elements=(Element.INT8, Element.UINT8)):
    """Mixed models with a random plan each; the same in each run."""
    found = []

    @same_in_each_run(count)
    @given(model=models(), seed=st.integers(0, 2**32), is_streamed=st.booleans())
    def collect(model, seed, is_streamed):
        is_short = elements[0].bytes > 1
        arithmetic = (
            Arithmetic.SINGLE_PRECISION if is_short else list(Arithmetic)[seed % len(Arithmetic)]
        )
        is_single = arithmetic is Arithmetic.SINGLE_PRECISION
        element = elements[seed // 2 % 2 if is_single else 0]
        mixed = Mixing(seed, arithmetic, element).mixed(model.network)
        mixed = simplified(mixed, ("fuse-activation",)) if seed % 3 else mixed
        network = mixed.network
        outputs = {layer.name for layer in network.outputs}
        kinds = {layer.quantization is None for layer in network.layers if layer.inputs}
        if len(kinds) == 2 and any(
            layer.inputs and layer.name not in outputs for layer in network.layers
        ):
            plan = random_plan(network, seed, is_streamed=is_streamed, element_bytes=None)
            found.append((mixed, plan))

    collect()
    return found


@pytest.mark.slow
@needs_compiler
def test_any_plan_of_both_kinds_of_layers_gives_what_the_whole_network_gives(tmp_path):
    cases = drawn(RANDOM_NETWORKS)
    assert len(cases) > RANDOM_NETWORKS // 2
    made = [library(*case, name=f"net{number}") for number, case in enumerate(cases)]
    for (_, plan), one in zip(cases, made, strict=True):
        assert f"_ARENA_BYTES {plan.arena_bytes}\n" in one.written.header
    assert run_all(made, tmp_path) == []


@pytest.mark.slow
@needs_compiler
def test_integers_of_16_bits_in_single_precision_give_what_the_whole_network_gives(tmp_path):
    cases = drawn(RANDOM_NETWORKS // 2, (Element.INT16, Element.UINT16))
    assert len(cases) > RANDOM_NETWORKS // 4
    made = [library(*case, name=f"net{number}") for number, case in enumerate(cases)]
    assert run_all(made, tmp_path) == []


def head(arithmetic, seed=0):
    """Integers with a float head, and a curve and a resize that were left in real numbers."""
    builder = NetworkBuilder("head")
    last = builder.input((3, 13, 11))
    last = builder.add(op.Convolution(filters=8, window=WINDOW), last)
    last = builder.add(op.Activation(function="hard swish"), last)
    last = builder.add(op.Convolution(filters=8, groups=8, window=WINDOW), last)
    last = builder.add(op.InstanceNormalization(), last)
    last = builder.add(op.Resize(size=(9, 15), function="linear"), last)
    last = builder.add(op.Convolution(filters=6, window=WINDOW), last)
    builder.output(builder.add(op.Softmax(axis=0), last))
    last = builder.add(op.Reduction(function="mean", axes=(1, 2)), last)
    last = builder.add(op.FullyConnected(units=10), last)
    builder.output(builder.add(op.Activation(function="sigmoid"), last))
    return Mixing(seed, arithmetic, real=REAL_KINDS).mixed(builder.network())


@pytest.mark.slow
@needs_compiler
def test_strips_of_floats_at_odd_bytes_give_what_the_whole_network_gives(tmp_path):
    builder = NetworkBuilder("strips")
    last = builder.add(op.Convolution(filters=5, window=WINDOW), builder.input((3, 7, 6)))
    last = builder.add(op.Activation(function="hard swish"), last)
    window = op.Window(kernel=(3, 3), stride=(2, 2))
    last = builder.add(op.Pooling(function="max", window=window), last)
    builder.output(builder.add(op.Convolution(filters=5, window=op.Window(kernel=(2, 2))), last))
    model = Mixing(3, Arithmetic.FIXED_POINT, real=(op.Activation,)).mixed(builder.network())
    plan = fit(model.network, input="external").least.plan
    strips = {strip.layer: strip.columns for one in plan.groups[0].stages for strip in one.strips}
    assert strips["convolution"] * 5 % 4  # bytes before the strip of its floats
    assert run_all([library(model, plan, name="net")], tmp_path, FLAGS) == []


REAL_KINDS = (op.Activation, op.InstanceNormalization, op.Resize, op.Softmax)


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize("arithmetic", Arithmetic)
def test_every_way_of_a_float_head_runs_in_the_planned_arena(arithmetic, tmp_path):
    model = head(arithmetic)
    frames = [random_frame(model.network, seed) for seed in range(2)]
    made = {}
    for input_ in INPUTS:
        found = fit(model.network, input=input_)
        for number, way in enumerate(found.methods[::2]):
            name = f"net{number}_{input_}"
            made[name] = library(model, way.plan, name=name, frames=frames)
            written = made[name].written
            assert written.weight_bytes == found.flash_bytes
            assert f"_ARENA_BYTES {way.plan.arena_bytes}\n" in written.header
            assert f"_ARENA_ELEMENTS {way.plan.arena_bytes}\n" in written.header
    assert len(made) > 4
    assert run_all(made.values(), tmp_path) == []


@pytest.mark.slow
@needs_target
@pytest.mark.parametrize(
    ("arithmetic", "target"),
    [
        (Arithmetic.FIXED_POINT, "qemu-m55"),
        (Arithmetic.UNSIGNED_FIXED_POINT, "qemu"),
        (Arithmetic.SINGLE_PRECISION, "qemu-m55"),
    ],
)
def test_a_float_head_runs_on_a_cortex_m(arithmetic, target, tmp_path):
    model = head(arithmetic)
    plan = fit(model.network, input="rows").least.plan
    made = write_library(model, plan, tmp_path, name="head")
    ran = make(tmp_path, target)
    said = ran.stdout + ran.stderr
    assert ran.returncode == 0, said
    assert printed(said, "arena") == plan.arena_bytes
    assert printed(said, "state") <= made.written.state_bytes
    assert printed(said, "stack") <= made.written.stack_bytes + TEST_STACK


def test_kernels_for_real_numbers_have_names_of_their_own_among_integers():
    # what depends on the element is there twice, under different names; the rest is there once
    reals = {name for file in REALS for name in defined_names(file)}
    renamed = {as_real(name) for name in reals} - reals
    integers = {
        name for files in (INTEGERS, SINGLES, SHORTS, SHORT_SINGLES, SCHEDULER) for file in files
        for name in defined_names(file)
    }  # fmt: skip
    assert "convolve_of_reals" in renamed
    assert "EACH_ELEMENT_OF_REALS" in renamed
    assert not renamed & integers
    for name in ("run", "layer", "stage", "tensor", "sweep", "sweep_parts", "sliced", "LAYER"):
        assert as_real(name) == name


@pytest.mark.parametrize("is_first", [True, False])
def test_a_rounding_after_a_concatenation_of_any_computed_input_has_a_tolerance(is_first):
    builder = NetworkBuilder("joined")
    features = builder.input((3, 6, 6))
    computed = builder.add(op.Convolution(filters=3, window=WINDOW), features)
    pair = (computed, features) if is_first else (features, computed)
    joined = builder.add(op.Concatenation(), *pair)
    types = Quantization(scales=(2.0**-14,), zero_point=0, element=Element.INT16)
    builder.output(
        builder.add(op.Conversion(), joined, element=Element.INT16, quantization=types),
        name="integers",
    )
    network = builder.network()
    model = Model(network=network, weights=random_weights(network, 0))
    frame = random_frame(network, 0)
    permitted = tolerances(model, frame, run_layer_by_layer(model, frame))
    assert permitted["integers"] > 0


def test_only_outputs_behind_rounded_numbers_have_a_tolerance():
    builder = NetworkBuilder("ways")
    last = builder.add(op.Convolution(filters=4, window=WINDOW), builder.input((3, 6, 6)))
    builder.output(last, name="integers")
    last = builder.add(op.Convolution(filters=4, window=WINDOW), last)
    last = builder.add(op.InstanceNormalization(), last)
    builder.output(last, name="real")
    builder.output(builder.add(op.Convolution(filters=3, window=WINDOW), last), name="behind")
    mixing = Mixing(0, Arithmetic.SINGLE_PRECISION, Element.INT16, REAL_KINDS)
    model = mixing.mixed(builder.network())
    frame = random_frame(model.network, 0)
    found = tolerances(model, frame, run_layer_by_layer(model, frame))
    assert found["integers"] == found["real"] == 0
    # numbers lie between two of 65536 integers now and then, which moves a sum by a step or so
    assert 0 < found["behind"] <= 8
