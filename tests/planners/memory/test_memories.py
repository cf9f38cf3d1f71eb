"""Plans in a fast and a slow memory: what moves between them, counted, and beside every other plan."""

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cnn2csdf import operators as op
from cnn2csdf.builder import NetworkBuilder
from cnn2csdf.catalogue.networks import from_catalogue
from cnn2csdf.dtypes import Element, Quantization
from cnn2csdf.execution.layer_by_layer import run_layer_by_layer
from cnn2csdf.platforms import BoardMemory
from csdf.errors import CsdfError, InvalidPlan
from csdf.time_limit import Stop
from planners.memory import fit as fit_module
from planners.memory.answer import EXTERNAL, INPUTS, OUTPUT_MEMORIES, RESIDENT, ROWS
from planners.memory.fit import fit
from planners.memory.loaded_plan import fit_of
from planners.memory.memories import planned_in_memories
from planners.memory.plan_runs import run_plan
from planners.memory.request import fit_request
from planners.plan.carried_out import require_carried_out
from planners.plan.plan import Memory
from planners.plan.ram import RamBeside
from planners.plan.text import format_plans, parse_plans
from planners.traffic.layer_text import layers_from_text
from planners.traffic.network_traffic import NetworkSearch
from tests.cnn2csdf.execution.random_networks import models
from tests.planners.memory.any_split import least_of_any_split
from tests.planners.memory.streamed import random_frame
from tests.planners.memory.test_streamed_runs import require_equal, works


def memories(fast, slow=10**7):
    return Memory(name="sram", size=fast), Memory(name="psram", size=slow, is_slow=True)


def small_case(random):
    """A network of up to three layers, and a fast memory too small for some of its tensors."""
    builder = NetworkBuilder("small")
    shape = random.randint(1, 3), random.randint(3, 8), random.randint(2, 6)
    tensors = [builder.input(shape)]
    for _ in range(random.choice([1, 2, 2, 2, 3])):
        source = random.choice([tensors[-1], tensors[-1], random.choice(tensors)])
        _, height, width = builder.shape(source).dims
        kind = random.randint(0, 5)
        stride = (random.randint(1, 2),) * 2
        kernel = (min(random.randint(1, 3), height), min(random.randint(1, 3), width))
        if kind < 3:
            window = op.Window(kernel=kernel, stride=stride, padding=(kernel[0] // 2,) * 4)
            layer = op.Convolution(filters=random.randint(1, 4), window=window)
        elif kind == 3:
            layer = op.Pooling(function="max", window=op.Window(kernel=kernel, stride=kernel))
        elif kind == 4:
            layer = op.GlobalPooling(function="average")
        else:
            alike = [one for one in tensors if builder.shape(one) == builder.shape(source)]
            tensors.append(
                builder.add(op.Elementwise(function="add"), source, random.choice(alike))
            )
            continue
        tensors.append(builder.add(layer, source))
    read = {one for name in tensors for one in builder.layer(name).inputs}
    for number, name in enumerate(one for one in tensors[1:] if one not in read):
        builder.output(name, f"output {number}")
    network = builder.network()
    largest = max(one.shape.elements for one in network.layers)
    return network, random.randint(largest // 4 + 4, 2 * largest)


def planned(network, fast, slow=10**6):
    return planned_in_memories(
        fit_request(network, memories=memories(fast, slow), element_bytes=1, platform=None), None
    )


def chain_of_convolutions(*stages):
    """A chain of 3x3 convolutions on a map of 1x16x16; stages: filters and stride of each."""
    builder = NetworkBuilder("convolutions")
    tensor = builder.input((1, 16, 16))
    for filters, stride in stages:
        window = op.Window(kernel=(3, 3), stride=(stride, stride), padding=(1,) * 4)
        tensor = builder.add(op.Convolution(filters=filters, window=window), tensor)
    builder.output(tensor, "output")
    return builder.network()


def test_a_second_memory_makes_no_plan_worse_than_the_first_memory_alone():
    for stages in ([(4, 2), (4, 1), (8, 2)], [(4, 2), (8, 1), (8, 2), (16, 1)]):
        network = chain_of_convolutions(*stages)
        for alone in fit(network, element_bytes=1).methods:
            beside = fit(network, memories=memories(alone.ram_bytes), element_bytes=1)
            assert beside.slow.moved == 0, stages
            assert beside.best.mac_ratio <= alone.mac_ratio, stages
            require_carried_out(network, beside.best.plan)


@pytest.mark.slow
def test_small_plans_move_as_little_as_any_split_in_any_order():
    told, tiled = 0, 0
    for seed in range(70):
        network, fast = small_case(Random(seed))
        found = planned(network, fast)
        least = least_of_any_split(network, fast, in_tiles=True)
        if least and fit(network, ram=fast, element_bytes=1).best is not None:
            least = 0  # results over dead rows of inputs, which the splits lack
        assert (found.plan and found.plan.slow_bytes) == least, seed
        tiled += found.plan is not None and bool(found.plan.rematerialised)
        if found.plan is not None:
            require_carried_out(network, found.plan)
            assert found.plan.memories[0].size <= fast
            assert found.plan.slow_bytes >= found.traffic.lower_bound
        told += bool(least)
    assert told > 25  # cases in which something moves
    assert tiled > 5  # in tiles of columns


@pytest.mark.slow
@settings(max_examples=25)
@given(
    model=models(),
    seed=st.integers(0, 2**32),
    source=st.sampled_from(INPUTS),
    output=st.sampled_from(OUTPUT_MEMORIES),
)
def test_a_run_computes_what_the_network_does_and_counts_what_the_plan_does(
    model, seed, source, output
):
    if not works(model.network):
        return
    sizes = [one.shape.elements * one.element_bytes for one in model.network.layers]
    fast = memories(Random(seed).randint(max(sizes) // 3, 2 * max(sizes)))
    found = fit(model, memories=fast, input=source, output=output)
    if found.best is None:
        return
    assert found.slow.lower_bound <= found.slow.moved
    frame = random_frame(model.network, seed)
    run = run_plan(model, found.best.plan, frame)
    require_equal(run.outputs, run_layer_by_layer(model, frame))
    assert run.slow_bytes == found.slow.moved


def two_layers():
    """Two convolutions whose input does not fit into 600 bytes, with rows of which they get by."""
    builder = NetworkBuilder("two")
    source = builder.input((2, 24, 16))
    for _ in range(2):
        window = op.Window(kernel=(3, 3), padding=(1, 1, 1, 1))
        source = builder.add(op.Convolution(filters=2, window=window), source)
    builder.output(source)
    return builder.network()


def test_input_and_output_alone_move_where_rows_between_them_fit():
    # Rows of 32 bytes: three and a row of the result for each layer. Both ends have 768 bytes.
    found = planned(two_layers(), 7 * 32)
    assert found.plan.slow_bytes == found.traffic.lower_bound == 2 * 768
    assert found.plan.memories[0].size <= 7 * 32
    # Each of three tensors in slow memory is written, or there, and read once; the last is written.
    assert found.traffic.all_slow == found.traffic.greedy == 4 * 768
    require_carried_out(two_layers(), found.plan)


@pytest.mark.parametrize(
    ("source", "output", "moved"),
    [
        (ROWS, RESIDENT, 768),  # the result alone: rows of the input pass through a ring
        (EXTERNAL, RESIDENT, 768),
        (RESIDENT, EXTERNAL, 768),
        (ROWS, EXTERNAL, 0),
        (EXTERNAL, EXTERNAL, 0),
    ],
)
def test_ends_in_other_memory_or_by_rows_do_not_move(source, output, moved):
    network = two_layers()
    found = planned_in_memories(
        fit_request(
            network,
            memories=memories(7 * 32),
            element_bytes=1,
            platform=None,
            input=source,
            output=output,
        ),
        None,
    )
    assert found.plan.slow_bytes == found.traffic.lower_bound == moved
    require_carried_out(network, found.plan)
    answer = fit(network, element_bytes=1, memories=memories(7 * 32), input=source, output=output)
    assert (answer.input, answer.output) == (source, output)
    assert answer.best.plan == found.plan
    checked = fit_of(network, found.plan)
    assert (checked.input, checked.output) == (source, output)


def test_nothing_moves_where_all_tensors_fit():
    assert planned(two_layers(), 2 * 768).plan.slow_bytes == 0


def test_a_network_that_does_not_fit_is_not_planned():
    found = planned(two_layers(), 8)
    assert found.plan is None
    assert "'convolution'" in str(found.reason)
    assert planned(two_layers(), 7 * 32, slow=700).plan is None


def test_a_plan_in_memories_reads_back_as_the_same_plan():
    plan = planned(two_layers(), 7 * 32).plan
    assert parse_plans(format_plans([plan]), "plan.json") == (plan,)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            lambda plan: {"traffic": (replace(plan.traffic[0], read=plan.traffic[0].read - 1),)},
            "and 768 to it; a frame moves 768 and 768",
        ),
        (lambda plan: {"memories": plan.memories[:1]}, "do not add up"),
        (lambda plan: {"memories": plan.memories[:1] * 2}, "expected different names"),
        (
            lambda plan: {"memories": tuple(replace(one, is_slow=True) for one in plan.memories)},
            "a slow memory has whole tensors",
        ),
        (
            lambda plan: {
                "memories": (
                    replace(plan.memories[0], size=plan.memories[0].size + 8),
                    replace(plan.memories[1], size=plan.memories[1].size - 8),
                )
            },
            "lies in more than one memory",
        ),
    ],
)
def test_a_plan_with_wrong_memories_is_refused(change, words):
    plan = planned(two_layers(), 7 * 32).plan
    with pytest.raises(InvalidPlan, match=words):
        require_carried_out(two_layers(), replace(plan, **change(plan)))


@pytest.mark.parametrize(
    "given",
    [
        {"memories": memories(10**4)[:1]},
        {"memories": memories(10**4)[::-1]},
        {"memories": (memories(10**4)[1], memories(10**4)[1])},
        {"memories": memories(10**4), "ram": 10**4},
    ],
)
def test_other_memories_than_a_fast_and_a_slow_one_are_refused(given):
    with pytest.raises(CsdfError, match="memories"):
        fit(two_layers(), **given)


def test_nothing_is_computed_twice_where_all_fits():
    network = from_catalogue("resnet8:resolution=16")
    once = fit(network, memories=memories(10**6)).best
    assert once.mac_ratio == 1


@pytest.mark.parametrize("layers", ["", "+conv:64,3x3,pad=1"])
def test_a_layer_and_a_pair_of_liao_move_what_plan_traffic_finds(layers):
    # 56 rows x 56 columns x 64 maps of 4 bytes, in 512 KiB that hold the weights as well.
    network = layers_from_text(f"conv:56x56x64,64,3x3,pad=1{layers}")
    traffic = NetworkSearch(network, 4).best(512 * 1024)
    weights = traffic.parts["weight"]
    fast = 512 * 1024 - weights
    plan = planned_in_memories(
        fit_request(network, memories=memories(fast), element_bytes=4, platform=None), None
    ).plan
    assert plan.slow_bytes == traffic.total_bytes - weights == 2 * 56 * 56 * 64 * 4


def test_an_arena_is_rounded_up_within_its_memory_alone():
    builder = NetworkBuilder("odd")
    scale = Quantization(element=Element.INT8, scales=(0.1,), zero_point=0)
    narrow = {"element": Element.INT8, "quantization": scale}
    source = builder.input((3, 5, 5), **narrow)
    pooled = builder.add(op.GlobalPooling(function="max"), source, name="pool", **narrow)
    builder.output(builder.add(op.Conversion(), pooled, name="real", element=Element.FLOAT32))
    network = builder.network()
    # 75 bytes of the input and 3 of its maxima: 80 in elements of float32.
    slow = BoardMemory(name="psram", size=1000, is_slow=True)
    for size, moved in ((78, 75), (80, 0)):
        found = fit(network, memories=(BoardMemory(name="sram", size=size), slow))
        assert found.best.plan.memories[0].size <= size
        assert found.slow.moved == moved


def test_a_memory_that_stack_and_state_fill_has_no_plan(monkeypatch):
    network = from_catalogue("keyword_spotting")
    stack = BoardMemory(name="dtcm", size=2000, holds=("stack",))
    given = (stack, BoardMemory(name="sram", size=200_000), *memories(1)[1:])
    planned_once, budgets = fit_module.layer_by_layer, []

    def layer_by_layer(*where, budget):
        budgets.append(budget)
        return planned_once(*where, budget=budget)

    monkeypatch.setattr(fit_module, "layer_by_layer", layer_by_layer)
    found = {
        size: fit(
            network, element_bytes=1, memories=given, beside=RamBeside(stack_bytes=size), budget=9
        )
        for size in (1900, 1990, 2000)
    }
    assert found[1900].status == "feasible"
    assert (found[1990].status, found[1990].slow.moved) == ("unknown", None)
    assert str(found[1990].reason) == (
        "stack, reserve and execution state need 2048 bytes of dtcm, its size is 2000"
    )
    assert found[2000].status == "infeasible"
    assert str(found[2000].reason).startswith("stack and reserve need 2000 bytes of dtcm")
    # The plan in place of one in these memories continues the same seconds.
    assert [isinstance(budget, Stop) for budget in budgets] == [True, True]
