"""Libraries whose stages work with parts of their channels, or read and write outside the arena."""

import re
from random import Random

import pytest

from cnn2csdf import operators as op
from cnn2csdf.builder import NetworkBuilder
from cnn2csdf.simplify import simplified
from cnn2csdf.weights import Model, random_weights
from planners.code.library import library, write_library
from planners.memory.answer import EXTERNAL, IN_PARTS, ROWS
from planners.memory.fit import fit
from planners.plan.plan import Kind
from tests.planners.code.compiling import inlined, libraries, needs_compiler, run_all
from tests.planners.code.test_library_on_target import TEST_STACK, make, needs_target, printed
from tests.planners.code.test_quantised_libraries import everything, quantised, wide
from tests.planners.memory.streamed import random_plan

pytestmark = pytest.mark.slow

WINDOWS = (
    op.Window(kernel=(1, 1)),
    op.Window(kernel=(3, 3), padding=(1, 1, 1, 1)),
    op.Window(kernel=(3, 2), stride=(2, 1), padding=(1, 0, 0, 1)),
)


def expanded(seed):
    """Channels made many, worked one by one, and made few again, twice; of odd sizes."""
    source = Random(seed)
    builder = NetworkBuilder("expanded")
    last = builder.input((source.randint(1, 6), source.randint(5, 9), source.randint(5, 8)))
    for _ in range(2):
        count = source.randint(4, 19)
        last = first_of(builder, source, last, count)
        for _ in range(source.randint(0, 2)):
            last = builder.add(between(source, builder.shape(last).channels), last)
        window = source.choice(WINDOWS[:2])
        last = builder.add(op.Convolution(filters=source.randint(1, 9), window=window), last)
        if source.random() < 0.5:
            last = builder.add(op.Activation(function="relu"), last)
    builder.output(last)
    network = builder.network()
    return Model(network=network, weights=random_weights(network, seed))


def first_of(builder, source, last, count):
    """Draw a layer that a stage in parts may begin with."""
    channels = builder.shape(last).channels
    kind = source.random()
    if kind < 0.2:
        return builder.add(between(source, channels), last)
    groups = source.choice([one for one in (1, 1, 2, 3, channels) if channels % one == 0])
    filters = channels if groups == channels and kind < 0.6 else -(-count // groups) * groups
    window = source.choice(WINDOWS)
    return builder.add(op.Convolution(filters=filters, groups=groups, window=window), last)


def between(source, channels):
    """A layer that works channel by channel."""
    window = source.choice(WINDOWS[1:2])
    return source.choice(
        [
            op.Convolution(filters=channels, groups=channels, window=window),
            op.Activation(function="relu"),
            op.Activation(function="prelu"),
            op.Activation(function="sigmoid"),
            op.Pooling(function="max", window=window),
            op.Pooling(function="average", window=window),
        ]
    )


def in_parts(model, seed, **options):
    """A plan of the space in which a stage works in parts, of some dozens that are drawn; or none."""
    for attempt in range(60):
        plan = random_plan(model.network, 100 * seed + attempt, parts=(2, 3, 4, 16), **options)
        if any(one.accumulating_layer for group in plan.groups for one in group.stages):
            return plan
    return None


@needs_compiler
def test_parts_of_channels_give_what_the_whole_network_gives(tmp_path):
    cases = []
    for seed in range(9):
        model = expanded(seed)
        model = simplified(model) if seed % 3 == 0 else model
        plan = in_parts(model, seed, is_streamed=seed % 2 == 0, is_outside=seed % 5 == 0)
        cases += [(model, plan)] if plan is not None else []
    assert len(cases) >= 6
    assert run_all(libraries(cases), tmp_path) == []


@needs_compiler
def test_parts_of_channels_of_integers_give_the_bytes_of_the_whole_network(tmp_path):
    cases = []
    for seed in range(9):
        model = quantised(expanded(seed).network, seed)
        model = simplified(model, ("fuse-activation",)) if seed % 3 == 0 else model
        ends = {"is_streamed": seed % 2 == 0, "is_outside": seed % 5 == 0}
        plan = in_parts(model, seed, element_bytes=1, **ends)
        cases += [(model, plan)] if plan is not None else []
    assert len(cases) >= 6
    assert run_all(libraries(cases), tmp_path) == []


@needs_target
@pytest.mark.parametrize("target", ["qemu", "qemu-m55"])
@pytest.mark.parametrize("element_bytes", [1, 4])
def test_parts_of_channels_run_on_a_cortex_m_in_the_promised_stack(tmp_path, element_bytes, target):
    model = expanded(3)
    model = quantised(model.network, 3) if element_bytes == 1 else model
    plan = in_parts(model, 3, is_streamed=True, element_bytes=element_bytes)
    made = write_library(model, plan, tmp_path)
    ran = make(tmp_path, target)
    said = ran.stdout + ran.stderr
    assert ran.returncode == 0, said
    assert printed(said, "arena") == plan.arena_bytes
    assert printed(said, "stack") <= made.written.stack_bytes + TEST_STACK


def test_the_least_memory_of_parts_is_written():
    """The way that csdf fit finds for a fat block, with the sums of its parts."""
    builder = NetworkBuilder("fat")
    last = builder.input((8, 16, 16))
    for operator in (
        op.Convolution(filters=96, window=WINDOWS[0]),
        op.Convolution(filters=96, groups=96, window=WINDOWS[1]),
        op.Convolution(filters=8, window=WINDOWS[0]),
    ):
        last = builder.add(operator, last)
    builder.output(last)
    network = builder.network()
    model = Model(network=network, weights=random_weights(network, 0))
    found = fit(network, input=ROWS, searched=(IN_PARTS,)).least
    assert found.name == IN_PARTS
    text = inlined(library(model, found.plan).files, "src/fat.c")
    assert "BY_PARTS" in re.sub(r"enum \{.*?\}", "", text)
    assert "sum_parts" in text


def outside(network, seed, **options):
    return random_plan(network, seed, is_streamed=False, is_outside=True, **options)


@needs_compiler
def test_what_lies_outside_is_read_and_written_there(tmp_path):
    cases = []
    for seed in range(4):
        model = quantised((everything(), wide())[seed % 2], seed)
        cases.append((model, outside(model.network, seed, element_bytes=1)))
    assert all(any(one.kind is Kind.EXTERNAL for one in plan.buffers) for _, plan in cases)
    assert run_all(libraries(cases), tmp_path) == []


@needs_compiler
def test_rows_come_in_and_results_go_out_to_the_caller(tmp_path):
    cases = []
    for seed in range(2):
        model = expanded(seed)
        cases += [
            (model, way.plan)
            for way in fit(model.network, input=ROWS, output=EXTERNAL, element_bytes=4).methods
        ]
    assert run_all(libraries(cases), tmp_path) == []


def test_no_byte_of_what_lies_outside_is_copied():
    model = expanded(1)
    plan = outside(model.network, 1)
    text = inlined(library(model, plan, name="net").files, "src/net.c")
    begin_to_run = text[text.index("net_status net_begin(") :]
    assert "memcpy" not in begin_to_run
    assert begin_to_run.count("state->outside[") == 2
