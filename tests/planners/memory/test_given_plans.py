"""Plans read back from JSON, and the checker who looks at them before anybody carries them out."""

import json
import re
from dataclasses import replace
from functools import cache
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cnn2csdf import operators as op
from cnn2csdf.builder import NetworkBuilder
from cnn2csdf.catalogue.networks import from_catalogue
from cnn2csdf.simplify import simplified
from cnn2csdf.weights import Model
from csdf.errors import CsdfError, ExecutionError, InvalidPlan, UnreadableFile
from planners.memory.answer import INPUTS, SEARCHED
from planners.memory.fit import fit
from planners.memory.loaded_plan import fit_of
from planners.memory.stages import StageTable
from planners.plan.carried_out import require_carried_out
from planners.plan.executor import PlanMachine
from planners.plan.plan import Kind, Span
from planners.plan.text import format_plans, parse_plans, plan_as_json
from tests.cnn2csdf.execution.random_networks import models
from tests.planners.memory.plain import whole_plan
from tests.planners.memory.streamed import random_plan


@cache
def network_of(name="keyword_spotting:rows=13"):
    return simplified(Model(network=from_catalogue(name))).network


@cache
def planned(network, **options):
    return fit(network, searched=SEARCHED, **options).least.plan


@settings(max_examples=40)
@given(model=models(), seed=st.integers(0, 2**32), is_streamed=st.booleans(), outside=st.booleans())
def test_any_plan_reads_back_as_itself_and_is_passed(model, seed, is_streamed, outside):
    outputs = {layer.name for layer in model.network.outputs}
    if not any(layer.inputs and layer.name not in outputs for layer in model.network.layers):
        return
    plan = random_plan(
        model.network, seed, is_streamed=is_streamed, is_outside=outside, parts=(2, 4)
    )
    (found,) = parse_plans(format_plans([plan]), "plan.json")
    assert found == plan
    require_carried_out(model.network, found)


@pytest.mark.parametrize("input_", INPUTS)
def test_a_given_plan_fits_as_the_search_said(input_):
    network = network_of()
    searched = fit(network, input=input_)
    found = fit_of(network, searched.least.plan, ram=searched.least.ram_bytes)
    assert found.best.ram_bytes == searched.least.ram_bytes
    assert found.best.mac_ratio == searched.least.mac_ratio
    assert (found.input, found.lower_bound) == (searched.input, searched.lower_bound)
    assert found.flash_bytes == searched.flash_bytes
    assert fit_of(network, searched.least.plan, ram=searched.least.ram_bytes - 1).best is None


def test_several_plans_read_back_in_order():
    plans = [planned(network_of()), planned(network_of("resnet8:resolution=8"))]
    assert parse_plans(format_plans(plans), "plan.json") == tuple(plans)


def without_a_buffer(plan, kind):
    return replace(plan, buffers=tuple(one for one in plan.buffers if one.kind is not kind))


def with_buffers(plan, kind, **changes):
    return replace(
        plan,
        buffers=tuple(
            replace(one, **{key: change(one) for key, change in changes.items()})
            if one.kind is kind
            else one
            for one in plan.buffers
        ),
    )


def with_stages(plan, change):
    """The plan with the stages of its last group changed."""
    *groups, last = plan.groups
    return replace(plan, groups=(*groups, replace(last, stages=change(last.stages))))


def with_stage(plan, change):
    """The plan with its last stage changed."""
    return with_stages(plan, lambda stages: (*stages[:-1], change(stages[-1])))


WRONG = {
    "does not work layer": lambda plan: with_stages(plan, lambda stages: stages[:-1]),
    "twice": lambda plan: replace(plan, groups=(*plan.groups, plan.groups[-1])),
    "before": lambda plan: with_stages(plan, lambda stages: stages[::-1]),
    "multiply-accumulates": lambda plan: replace(plan, multiply_accumulates=1),
    "no staging buffer": lambda plan: without_a_buffer(plan, Kind.STAGING),
    "does not lie whole": lambda plan: without_a_buffer(plan, Kind.WHOLE),
    "leaves the arena": lambda plan: replace(plan, arena_bytes=plan.arena_bytes - 4),
    "its rows take": lambda plan: with_buffers(plan, Kind.WHOLE, size=lambda one: one.size - 4),
    "all tensors of the network": lambda plan: replace(plan, arena_bytes=10**9),
    "cannot be carried out": lambda plan: with_buffers(plan, Kind.LINE, offset=lambda one: 0),
    "makes 9 rows of 1": lambda plan: with_stage(plan, lambda one: replace(one, rows=9)),
    "which no layer sums": lambda plan: with_stage(
        plan, lambda one: replace(one, channel_blocks=2)
    ),
    "only the one input": lambda plan: replace(
        plan, groups=tuple(replace(one, streamed_input="softmax") for one in plan.groups)
    ),
}


@pytest.mark.parametrize("words", WRONG)
def test_a_wrong_plan_is_refused_with_what_is_wrong(words):
    network = network_of()
    plan = planned(network, element_bytes=4)
    require_carried_out(network, plan)
    with pytest.raises(InvalidPlan, match=re.escape(words)):
        require_carried_out(network, WRONG[words](plan))


def residual():
    """A convolution whose result the next one reads, and an addition behind it reads again."""
    builder = NetworkBuilder("residual")
    window = op.Window(kernel=(3, 3), padding=(1, 1, 1, 1))
    first = builder.add(op.Convolution(filters=8, window=window), builder.input((3, 6, 6)))
    second = builder.add(op.Convolution(filters=8, window=op.Window(kernel=(1, 1))), first)
    builder.output(builder.add(op.Elementwise(function="add"), first, second))
    return builder.network(), (first, second)


def test_what_is_read_again_does_not_work_in_parts():
    network, (first, second) = residual()
    layers = network.layers[-2].name
    table = StageTable(network)
    assert table.accumulating_layer((first, second)) is None
    stages = [
        group.stages[0]
        for seed in range(30)
        for group in random_plan(network, seed, is_streamed=False, parts=(2, 4)).groups
    ]
    assert any(one.layers == (first, second, layers) for one in stages)
    assert not any(one.accumulating_layer for one in stages)


def test_a_plan_in_which_it_does_is_refused_by_the_machine():
    network, (first, second) = residual()
    plan = next(
        plan
        for plan in (random_plan(network, seed, is_streamed=False) for seed in range(30))
        if len(plan.groups[0].stages[0].layers) == 3
    )
    wrong = with_stage(
        plan,
        lambda one: replace(one, channel_blocks=2, accumulating_layer=second),
    )
    with pytest.raises(InvalidPlan, match="cannot sum channel blocks"):
        require_carried_out(network, wrong)
    with pytest.raises(ExecutionError, match=f"reads '{first}', which holds one channel block"):
        PlanMachine(network, wrong).run()


def test_the_plan_of_another_network_is_refused_by_its_layer():
    plan = planned(network_of())
    with pytest.raises(InvalidPlan, match=r"'keyword_spotting'.*'resnet8' has not"):
        require_carried_out(network_of("resnet8:resolution=8"), plan)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "plan.json:1: not JSON"),
        ("[]", "expected at least one plan"),
        (
            '{"version": 3}',
            "found version 3 of a plan; this program reads version 7, so plan again",
        ),
        ("7", "expected an object"),
        ("{}", "found version None of a plan"),
        ('{"version": true}', "found version True of a plan"),
        ('{"version": 7}', "the key 'network' is missing; expected in version 7: network, element"),
    ],
)
def test_what_is_no_plan_is_refused_with_its_place(text, words):
    with pytest.raises(UnreadableFile, match=re.escape(words)):
        parse_plans(text, "plan.json")


@pytest.mark.parametrize(
    ("place", "key"),
    [("groups[0]", "order"), ("groups[0].stages[0]", "mode"), ("buffers[0]", "readers")],
)
def test_a_key_that_is_missing_or_unknown_deep_in_a_plan_is_named_with_its_place(place, key):
    for wrong in ("is missing", "is unknown"):
        entry = json.loads(format_plans([planned(network_of())]))
        found = entry
        for name in re.findall(r"\w+", place):
            found = found[int(name) if name.isdecimal() else name]
        if wrong == "is missing":
            del found[key]
        else:
            found[f"{key} too"] = 0
        with pytest.raises(UnreadableFile, match=re.escape(f"{place}: the key '{key}")):
            parse_plans(json.dumps(entry), "plan.json")


VALUES = (-1, 0, 1, 2, 7, 10**12, None, True, 1.5, "", "no such", [], {}, [0, 1])


def spoiled(value, random):
    """A JSON value with something in it replaced, dropped or doubled."""
    if isinstance(value, (dict, list)) and value and random.random() < 0.95:
        keys = list(value) if isinstance(value, dict) else range(len(value))
        key = random.choice(keys)
        found = value.copy()
        if random.random() < 0.9:
            found[key] = spoiled(value[key], random)
        elif isinstance(value, dict):
            del found[key]
        else:
            found[key : key + 1] = [] if random.random() < 0.5 else [value[key]] * 2
        return found
    if type(value) is int and random.random() < 0.5:
        return value + random.choice((-4, -1, 1, 4))
    return random.choice(VALUES)


def test_a_spoiled_plan_is_refused_or_still_a_plan():
    network = network_of()
    ways = [*fit(network, searched=SEARCHED).methods, *fit(network, input="rows").methods]
    plans = [plan_as_json(way.plan) for way in ways]
    refused = 0
    for seed in range(120):
        random = Random(seed)
        text = json.dumps(spoiled(random.choice(plans), random))
        try:
            (plan,) = parse_plans(text, "plan.json")
            require_carried_out(network, plan)
        except CsdfError:
            refused += 1
    assert refused > 60


def over_one_another(operator):
    """A layer whose result lies over its input."""
    builder = NetworkBuilder("over")
    builder.output(builder.add(operator, builder.input((3, 6, 6))))
    network = builder.network()
    plan = whole_plan(network)
    assert plan.arena_bytes == 2 * 4 * 3 * 6 * 6
    buffers = tuple(replace(one, offset=0) for one in plan.buffers)
    return network, replace(plan, buffers=buffers, arena_bytes=4 * 3 * 6 * 6)


def test_a_result_over_its_input_is_refused_unless_elements_lie_over_themselves():
    window = op.Window(kernel=(3, 3), padding=(1, 1, 1, 1))
    with pytest.raises(InvalidPlan, match="of 'input'"):
        require_carried_out(*over_one_another(op.Convolution(filters=3, window=window)))
    network, plan = over_one_another(op.Activation(function="relu"))
    require_carried_out(network, plan)
    moved = tuple(
        replace(one, offset=4) if one.tensor != "input" and one.size else one
        for one in plan.buffers
    )
    with pytest.raises(InvalidPlan, match="of 'input'"):
        require_carried_out(network, replace(plan, buffers=moved, arena_bytes=436))


def chain(*, sums=False):
    """Two convolutions, and maybe a layer that sums up all rows."""
    builder = NetworkBuilder("chain")
    window = op.Window(kernel=(3, 3), padding=(1, 1, 1, 1))
    last = builder.add(op.Convolution(filters=4, window=window), builder.input((4, 8, 8)))
    last = builder.add(op.Convolution(filters=4, window=window), last)
    if sums:
        last = builder.add(op.GlobalPooling(function="average"), last)
    builder.output(last)
    return builder.network()


def once_more(plan, kind, **changes):
    """The plan with its last buffer of a kind given a second time, behind the arena."""
    one = [one for one in plan.buffers if one.kind is kind][-1]
    offset = max(plan.all_bytes, one.offset + one.size)
    again = replace(one, name=f"{one.name} again", offset=offset, **changes)
    bytes_ = plan.arena_bytes if kind is Kind.EXTERNAL else offset + one.size
    return replace(plan, buffers=(*plan.buffers, again), arena_bytes=bytes_)


def test_an_input_outside_the_arena_does_not_come_row_by_row():
    # The C code has no memory of the caller to write the rows to.
    network = chain()
    plan = planned(network, input="external")
    first, *others = plan.groups
    wrong = replace(plan, groups=(replace(first, streamed_input="input"), *others))
    with pytest.raises(InvalidPlan, match="'input' comes row by row, but lies outside the arena"):
        require_carried_out(network, wrong)


def test_a_result_outside_the_arena_is_not_given_twice():
    # The C code wrote the second one behind the end of the arena.
    network = chain()
    plan = planned(network, output="external")
    with pytest.raises(InvalidPlan, match="outside the arena; expected one buffer"):
        require_carried_out(network, once_more(plan, Kind.EXTERNAL))


def test_an_arena_beyond_what_is_outside_is_refused():
    # Bytes of what is outside begin behind the arena; a ValueError was shown with a traceback.
    network = chain()
    plan = planned(network, output="external")
    with pytest.raises(InvalidPlan, match="leave the arena"):
        require_carried_out(network, replace(plan, arena_bytes=plan.all_bytes + 4096))


def test_a_whole_tensor_is_given_twice_for_different_readers_only():
    network = chain(sums=True)
    plan = whole_plan(network)
    first, second = (layer.name for layer in network.layers[1:3])
    made = next(one for one in plan.buffers if one.tensor == first)
    others = [one for one in plan.buffers if one is not made]
    behind = replace(plan, arena_bytes=plan.arena_bytes + made.size)
    for readers in ((), (second,)):
        both = (
            replace(made, readers=readers),
            replace(made, name="again", offset=plan.arena_bytes, readers=readers),
        )
        with pytest.raises(InvalidPlan, match="for the same readers"):
            require_carried_out(network, replace(behind, buffers=(*others, *both)))
    both = (made, replace(both[1], readers=(second,)))
    require_carried_out(network, replace(behind, buffers=(*others, *both)))


def test_a_plan_without_groups_is_refused_with_its_place():
    entry = json.loads(format_plans([planned(chain())])) | {"groups": []}
    with pytest.raises(UnreadableFile, match=r"plan.json: found .*; expected at least one group"):
        parse_plans(json.dumps(entry), "plan.json")


def test_layers_twice_between_a_tensor_and_one_before_it_are_refused():
    network = chain()
    plan = planned(network)
    last = network.layers[2].name
    for source, result in ((last, "input"), ("input", "input")):
        wrong = replace(plan, rematerialised=(Span(source, result),))
        with pytest.raises(InvalidPlan, match="has no sums of a map between"):
            require_carried_out(network, wrong)


def test_a_result_over_the_sums_it_is_made_of_is_refused():
    # C rescales one sum after another: a result that begins at the third sum is written over it first.
    network = network_of()
    ways = fit(network, searched=SEARCHED, element_bytes=1).methods
    plan = next(
        way.plan for way in ways if any(one.kind is Kind.ACCUMULATORS for one in way.plan.buffers)
    )
    require_carried_out(network, plan)
    (sums,) = (one for one in plan.buffers if one.kind is Kind.ACCUMULATORS)
    buffers = tuple(
        replace(one, offset=sums.offset + 8)
        if one.kind not in (Kind.ACCUMULATORS, Kind.STAGING) and one.tensor == sums.tensor
        else one
        for one in plan.buffers
    )
    with pytest.raises(InvalidPlan, match="lies over its sums"):
        require_carried_out(network, replace(plan, buffers=buffers))
