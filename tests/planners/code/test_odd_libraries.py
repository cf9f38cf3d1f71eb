"""Networks at the edge: several inputs and outputs, maps of one place, one row, odd names, as C."""

import string
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cnn2csdf import operators as op
from cnn2csdf.builder import NetworkBuilder
from cnn2csdf.simplify import simplified
from cnn2csdf.weights import Model, random_weights
from csdf.errors import InvalidNetwork, InvalidPlan
from planners.code.c_text import identifier
from planners.code.library import library
from planners.memory.answer import INPUTS, OUTPUT_MEMORIES, SEARCHED
from planners.memory.fit import fit
from tests.cnn2csdf.execution.random_networks import _added, operators
from tests.planners.code.compiling import libraries, needs_compiler, run_all
from tests.planners.code.drawing import same_in_each_run
from tests.planners.memory.streamed import random_plan

pytestmark = pytest.mark.slow

ODD_LETTERS = string.printable + "éß漢\u202e\x00\x7f"
DIMS = st.tuples(st.integers(1, 5), st.integers(1, 9), st.integers(1, 7))


@st.composite
def odd_names(draw):
    return draw(st.text(ODD_LETTERS, max_size=12))


@st.composite
def networks(draw):
    """Several inputs, layers that read any of the last, outputs of what is read further, too."""
    builder = NetworkBuilder(draw(odd_names()) or "unnamed")
    names = []
    for number in range(draw(st.integers(1, 3))):
        names.append(builder.input(draw(DIMS), name=f"{draw(odd_names())}{number}"))
    inputs = len(names)
    for _ in range(draw(st.integers(1, 7))):
        source = draw(st.sampled_from(names[-4:]))
        names += _added(builder, draw(operators()), source)
        pair = draw(st.tuples(st.sampled_from(names), st.sampled_from(names)))
        joined = draw(
            st.sampled_from(
                [
                    op.Elementwise(function="add"),
                    op.Elementwise(function="multiply"),
                    op.Concatenation(axis=0),
                    op.Concatenation(axis=2),
                ]
            )
        )
        names += _added(builder, joined, *pair)
    if len(names) == inputs:
        names.append(builder.add(op.Activation(function="relu"), names[0]))
    consumers = builder.network().consumers
    for number, name in enumerate(names):
        if not consumers[name] or (number >= inputs and draw(st.integers(0, 4)) == 0):
            builder.output(name, name=f"{draw(odd_names())} out {number}")
    return builder.network()


def drawn(count):
    """Models with a random plan each; the same in each run."""
    found = []

    @same_in_each_run(count)
    @given(network=networks(), seed=st.integers(0, 2**32), outside=st.booleans())
    def collect(network, seed, outside):
        model = Model(network=network, weights=random_weights(network, seed % 100))
        model = simplified(model) if seed % 2 else model
        is_streamed = seed % 3 == 0 and len(network.inputs) == 1
        plan = random_plan(
            model.network, seed, is_streamed=is_streamed, is_outside=outside, parts=(2, 3)
        )
        found.append((model, plan))

    collect()
    return found


def gives_back(network, plan):
    """Whether an output is the input itself, which comes row by row: the one thing that cannot be."""
    return any(layer.inputs == (plan.groups[0].streamed_input,) for layer in network.outputs)


@needs_compiler
def test_any_network_with_ends_of_any_kind_gives_what_it_gives_as_a_whole(tmp_path):
    cases = []
    for model, plan in drawn(14):
        if gives_back(model.network, plan):
            with pytest.raises(InvalidPlan, match="does not stay"):
                library(model, plan)
        else:
            cases.append((model, plan))
    assert len(cases) >= 9
    assert sum(len(model.network.inputs) > 1 for model, _ in cases) >= 3
    assert sum(len(model.network.outputs) > 1 for model, _ in cases) >= 3
    assert run_all(libraries(cases), tmp_path) == []


def tiny(dims, kernel):
    """Windows larger than the map, on maps of one place, one row or one column."""
    builder = NetworkBuilder("tiny")
    pads = (kernel[0] // 2, kernel[1] // 2) * 2
    window = op.Window(kernel=kernel, padding=pads)
    last = builder.input(dims)
    first = builder.add(op.Convolution(filters=7, window=window), last)
    deep = builder.add(op.Convolution(filters=7, groups=7, window=window), first)
    thin = builder.add(op.Convolution(filters=7, window=op.Window(kernel=(1, 1))), deep)
    both = builder.add(op.Elementwise(function="add"), first, thin)
    pooled = builder.add(op.GlobalPooling(function="average"), both)
    builder.output(builder.add(op.FullyConnected(units=3), pooled))
    network = builder.network()
    return Model(network=network, weights=random_weights(network, 3))


@needs_compiler
def test_all_variants_run_on_maps_of_one_pixel_or_one_row(tmp_path):
    cases = []
    for dims in ((1, 1, 1), (3, 1, 6), (3, 6, 1)):
        for kernel in ((1, 1), (3, 3)):
            model = tiny(dims, kernel)
            for input_ in INPUTS:
                result = OUTPUT_MEMORIES[len(cases) % 2]
                options = {"input": input_, "output": result, "searched": SEARCHED}
                found = fit(model.network, element_bytes=4, **options)
                cases.append((model, Random(len(cases)).choice(found.methods).plan))
    assert len(cases) == 18
    assert run_all(libraries(cases), tmp_path) == []


def test_a_network_without_a_layer_is_refused():
    builder = NetworkBuilder("empty")
    builder.output(builder.input((1, 2, 3)))
    with pytest.raises(InvalidNetwork, match="'empty' has no layer between input and output"):
        fit(builder.network())


@given(name=odd_names())
def test_any_name_becomes_an_identifier_of_c(name):
    found = identifier(name)
    assert found.isidentifier()
    assert found.isascii()
    assert len(found) <= 48
