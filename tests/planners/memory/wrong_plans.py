"""Plans that are wrong in one respect, made from plans that are right: for the checker to find."""

import copy
from dataclasses import replace
from functools import cache
from typing import NamedTuple

from cnn2csdf import operators as op
from cnn2csdf.builder import NetworkBuilder
from cnn2csdf.granularity import Granularity
from cnn2csdf.simplify import simplified
from cnn2csdf.streams import as_stream
from cnn2csdf.weights import Model
from planners.fusion.groups import configuration
from planners.fusion.planning import fusion_plan
from planners.memory.answer import SEARCHED, GroupMode, ScratchCount
from planners.memory.fit import fit
from planners.memory.order import chain_of
from planners.plan.plan import Kind
from planners.primitives.library.layers import prepared_layer
from planners.primitives.planned import planned_primitives
from planners.reuse.application import Application
from planners.reuse.deployment import streaming_plans
from planners.reuse.evaluation import Costs, Evaluator
from tests.planners.code.calibrated import integer_model, real_model
from tests.planners.fusion.chains import TERMS
from tests.planners.memory.encoders import Sizes, encoder
from tests.planners.memory.gated import gated_block
from tests.planners.memory.plain import ordered_plan, whole_plan
from tests.planners.memory.streamed import random_plan
from tests.planners.memory.test_column_tiles import branched
from tests.planners.memory.test_memories import memories, two_layers
from tests.planners.memory.test_stateful import (
    changing_places,
    in_a_chain,
    in_slow_memory,
    paired,
    read_twice,
)
from tests.planners.memory.test_weights_in_memories import chain
from tests.planners.memory.test_weights_in_memories import memories as with_flash
from tests.planners.primitives.execution.test_selected_networks import SMALL, plain
from tests.planners.reuse.deployment.deployed import as_published
from tests.planners.reuse.front.small_applications import divided

VALUES = (-1, 0, 1, 2, 3, 7, 2**31 - 1, 2**31, 10**12, -(2**63), 1e300, float("nan"), 1.0, 1.5)
VALUES += (None, True, False, "", "no such", "input", [], {}, [0, 1], [1, 0], ["input"])


class Case(NamedTuple):
    """A model and a plan that works it. method: who planned."""

    method: str
    model: Model
    plan: object


def convolution(filters, kernel=3, stride=1, groups=1):
    window = op.Window(kernel=(kernel, kernel), stride=(stride, stride), padding=(kernel // 2,) * 4)
    return op.Convolution(filters=filters, window=window, groups=groups)


def residual(*, sums=True):
    """Convolutions, an addition, a pooling, and a layer that sums up."""
    builder = NetworkBuilder("residual")
    first = builder.add(convolution(3), builder.input((2, 7, 6)))
    second = builder.add(convolution(3), first)
    both = builder.add(op.Elementwise(function="add"), first, second)
    small = builder.add(convolution(4, stride=2), both)
    if sums:
        small = builder.add(op.FullyConnected(units=3), small)
    builder.output(small)
    return builder.network()


def joined():
    """A concatenation of two branches; the map goes out beside what is computed from it."""
    builder = NetworkBuilder("joined")
    source = builder.input((2, 6, 5))
    left = builder.add(convolution(2), source)
    right = builder.add(convolution(3, kernel=1), source)
    both = builder.add(op.Concatenation(), left, right)
    last = builder.add(convolution(2), both)
    builder.output(last)
    builder.output(builder.add(op.GlobalPooling(function="average"), last))
    return builder.network()


def separable():
    """A depthwise convolution between two of one place, which sums up parts of its channels."""
    builder = NetworkBuilder("separable")
    source = builder.add(convolution(4, kernel=1), builder.input((2, 6, 6)))
    source = builder.add(convolution(4, groups=4), source)
    source = builder.add(convolution(2, kernel=1), source)
    source = builder.add(convolution(3), source)
    builder.output(builder.add(op.GlobalPooling(function="average"), source))
    return builder.network()


def two_inputs():
    builder = NetworkBuilder("two inputs")
    left, right = builder.input((2, 5, 4)), builder.input((2, 10, 8))
    half = builder.add(convolution(2, stride=2), right)
    both = builder.add(op.Elementwise(function="add"), left, half)
    builder.output(builder.add(convolution(2), both))
    return builder.network()


def gated():
    return gated_block(2, 4, 6)


def streamed_cases(model, unit):
    """Plans of `csdf fit`, and random ones of its space."""
    network = model.network
    for ends in (("resident", "resident"), ("rows", "external"), ("external", "external")):
        found = fit(network, element_bytes=unit, searched=SEARCHED, input=ends[0], output=ends[1])
        for way in found.methods:
            yield Case("fit", model, way.plan)
    for seed in range(6):
        plan = random_plan(
            network,
            seed,
            is_streamed=seed % 2 == 0 and len(network.inputs) == 1,
            element_bytes=unit,
            is_outside=seed % 3 == 0,
            parts=(2, 4),
        )
        yield Case("random", model, plan)


def arena_cases(model):
    """Plans of `csdf cnn memory`: all tensors whole, all in rings."""
    network = model.network
    yield Case("whole", model, whole_plan(network))
    for rows in (1, 2):
        yield Case("rings", model, ordered_plan(network, Granularity(rows=rows)))


def tiled_cases(model):
    """Plans of `csdf plan fusion`."""
    chain = chain_of(model.network)
    terms = replace(TERMS, scratch=ScratchCount.NONE, element_bytes=None)
    for way in (GroupMode.RECOMPUTED, GroupMode.CACHED):
        for cuts, grids in (((), [(2, 3)]), ((1,), [(2, 1), (1, 2)])):
            groups = configuration(chain, cuts, grids, way)
            yield Case("tiles", model, fusion_plan(chain, groups, terms).plan)


def pipelined_cases(model):
    """Plans of `csdf plan reuse`, with partitions that work at the same time."""
    network = model.network
    count = len(network.layers)
    member = divided(network, (count // 2, count - count // 2))
    names = frozenset(one.name for one in member.partitions)
    for parallel in ((names,), ()):
        application = Application(name="pipelined", members=(member,), parallel=parallel)
        evaluator = Evaluator(application, Costs(element_bytes=application.unit))
        for genes in ((None,) * count, (1,) * count):
            (plan,) = streaming_plans(as_published(evaluator, genes))
            yield Case("reuse", model, plan)


def primitive_cases():
    network, ways = SMALL.network, plain(SMALL.network)
    workspaces = {
        layer.name: prepared_layer(SMALL, layer, ways[layer.name]).workspace_bytes
        for layer in network.layers
    }
    yield Case("primitives", SMALL, planned_primitives(network, ways, workspaces))


def in_memories():
    """Plans in a fast and a slow memory, some in tiles of columns or with moved weights."""
    for make, sizes in ((two_layers, (90, 140)), (branched, (90, 200))):
        model = integer_model(make())
        for size in sizes:
            yield Case("memories", model, fit(model, memories=memories(size)).best.plan)
    model = integer_model(chain(2))
    for size in (200, 655):
        yield Case("weights", model, fit(model, memories=with_flash(size)).best.plan)


def head_by_head():
    """Plans of attention whose heads work one after another."""
    model = simplified(encoder(Sizes(tokens=6, width=4, heads=2, hidden=5)))
    for way in fit(model, element_bytes=4).methods:
        if way.plan.rematerialised:
            yield Case("heads", model, way.plan)


def stateful_cases():
    """Plans of networks that keep a state."""
    for make in (changing_places, read_twice):
        model = paired("kept", make)
        yield Case("state", model, fit(model, element_bytes=4).best.plan)


def hops():
    """Plans of windows that slide: rings of rows that stay, windows and padded rows that are joined."""
    for seed, (rows, padded) in enumerate(((1, 0), (3, 0), (1, 1))):
        builder = NetworkBuilder("hop")
        source = builder.input((2, 10, 4))
        window = op.Window(kernel=(4 - seed, 2), padding=(0, 0, 0, 1))
        first = builder.add(op.Convolution(filters=3, window=window), source)
        window = op.Window(kernel=(1 + 2 * seed, 3), padding=(padded, 1, padded, 1))
        builder.output(builder.add(op.Convolution(filters=2, window=window), first))
        model = as_stream(real_model(builder.network()), rows)
        for way in fit(model, element_bytes=4).methods:
            yield Case("hops", model, way.plan)


def summed_hop():
    """A window whose fully connected layer keeps accumulators, the state of a layer, and a ring."""
    builder = NetworkBuilder("summed")
    window = op.Window(kernel=(3, 2))
    source = builder.add(op.Convolution(filters=3, window=window), builder.input((2, 10, 4)))
    builder.output(builder.add(op.FullyConnected(units=2), source))
    return as_stream(integer_model(builder.network()), 1)


def depthwise_hop(made):
    """A window with a depthwise convolution, which reads a ring in place, and another convolution."""
    builder = NetworkBuilder("depthwise")
    window = op.Window(kernel=(4, 2))
    source = builder.add(
        op.Convolution(filters=3, window=window, groups=3), builder.input((3, 10, 2))
    )
    window = op.Window(kernel=(3, 1))
    builder.output(builder.add(op.Convolution(filters=2, window=window), source))
    return as_stream(made(builder.network()), 1)


def slow_states():
    """Plans of networks whose states are in slow memory: variables, rings, accumulators."""
    models = [paired("kept", make) for make in (in_a_chain, changing_places, read_twice)]
    models += [summed_hop(), depthwise_hop(real_model), depthwise_hop(integer_model)]
    models += [*{id(case.model): case.model for case in hops()}.values()]
    for model in models:
        unit = 4 if model.network.layers[0].quantization is None else None
        for part in (0, 0.5):
            yield Case("slow states", model, in_slow_memory(model, part, unit=unit))


def resident_weights():
    """Plans in which the weights of several layers stay, or are copied, beside tensors of two bytes."""
    for model in (real_model(chain(3, height=6, channels=2)), integer_model(chain(3))):
        for size in (300, 700, 1100, 1500):
            best = fit(model, memories=with_flash(size)).best
            if best is not None:
                yield Case("resident weights", model, best.plan)


def any_right(random, *, without=()):
    """A case of `right_plans`, of each method as often."""
    method = random.choice(sorted({case.method for case in right_plans()} - set(without)))
    return random.choice([case for case in right_plans() if case.method == method])


@cache
def right_plans():
    """Plans of all methods for small networks, in real numbers and in integers; none twice."""
    found = []
    for make in (residual, joined, separable, two_inputs, gated):
        for model in (real_model(make()), integer_model(make())):
            unit = 4 if model.network.layers[0].quantization is None else None
            found += [*streamed_cases(model, unit), *arena_cases(model)]
            if make in (residual, two_inputs):
                found += pipelined_cases(model)
    for make in (real_model, integer_model):
        found += tiled_cases(make(residual(sums=False)))
    found += [*primitive_cases(), *in_memories(), *head_by_head(), *stateful_cases()]
    found += [*hops(), *slow_states(), *resident_weights()]
    return tuple({repr((one.model.network, one.plan)): one for one in found}.values())


def leaves(value, path=()):
    """The paths of all values inside a JSON value, containers too."""
    for key in value if isinstance(value, dict) else range(len(value)):
        yield (*path, key)
        if isinstance(value[key], dict | list):
            yield from leaves(value[key], (*path, key))


def at(value, path):
    for key in path:
        value = value[key]
    return value


def spoil_a_value(plan, random):
    """Something anywhere is replaced by what it is not, or by a number close by."""
    *path, key = random.choice(list(leaves(plan)))
    place = at(plan, path)
    if type(place[key]) is int and random.random() < 0.6:
        place[key] += random.choice((-8, -4, -3, -2, -1, 1, 2, 3, 4, 8))
    else:
        place[key] = random.choice(VALUES)


def drop_or_double(plan, random):
    """A key is dropped or unknown; an entry of a list is dropped, doubled or moved."""
    *path, key = random.choice(list(leaves(plan)))
    place = at(plan, path)
    if isinstance(place, dict):
        if random.random() < 0.5:
            del place[key]
        else:
            place[f"{key} too"] = place[key]
    elif random.random() < 0.3:
        del place[key]
    else:
        entry = copy.deepcopy(place[key]) if random.random() < 0.6 else place.pop(key)
        place.insert(random.randint(0, len(place)), entry)


def swap(plan, random):
    """Two objects of one kind exchange a value, or all of them; of texts, any two in the plan."""
    if random.random() < 0.3:
        texts = [path for path in leaves(plan) if isinstance(at(plan, path), str)]
        one, other = random.sample(texts, 2)
        first, second = at(plan, one), at(plan, other)
        at(plan, one[:-1])[one[-1]] = second
        if random.random() < 0.5:
            at(plan, other[:-1])[other[-1]] = first
        return
    stages = [stage for group in plan["groups"] for stage in group["stages"]]
    entries = random.choice(
        [some for some in (plan["buffers"], stages, plan["groups"]) if some[1:]]
    )
    one, other = random.sample(entries, 2)
    for key in random.choice([[name] for name in one] + [list(one)]):
        one[key], other[key] = other[key], one[key]


def change_a_buffer(plan, random):
    """A buffer is moved, grows, shrinks, lives longer or shorter, or is of another kind."""
    one = random.choice(plan["buffers"])
    other = random.choice(plan["buffers"])
    groups = len(plan["groups"])
    match random.randrange(7):
        case 0:
            one["offset"] = random.choice((0, other["offset"], plan["arena_bytes"]))
        case 1:
            one["offset"] = random.randrange(plan["arena_bytes"] + 1)
        case 2:
            begin = random.randrange(groups)
            one |= {"begin": begin, "end": random.randint(begin + 1, groups)}
        case 3:
            one["kind"] = random.choice(KINDS)
        case 4:
            one["rows"] += random.choice((-1, 1))
            one["size"] += random.choice((-4, -1, 0, 1, 4))
        case 5 if one["rows"]:
            row = one["size"] // one["rows"]
            one["rows"] += random.choice((-1, 1))
            one["size"] = one["rows"] * row
        case _:
            one["readers"] = random.sample(names(plan), random.randint(0, 2))


def add_a_buffer(plan, random):
    """A buffer is given once more: where it is, elsewhere, for other readers, or of another kind."""
    one = copy.deepcopy(random.choice(plan["buffers"]))
    if random.random() < 0.8:
        one["name"] += " once more"
    if random.random() < 0.7:
        one["offset"] = -(-plan["arena_bytes"] // 8) * 8
        if one["kind"] == "external":
            one["offset"] += sum(b["size"] for b in plan["buffers"] if b["kind"] == "external") + 8
        elif random.random() < 0.8:
            plan["arena_bytes"] = one["offset"] + one["size"]
    if random.random() < 0.3:
        one["kind"] = random.choice(KINDS)
    if random.random() < 0.5:
        readers = [stage["layers"][0] for group in plan["groups"] for stage in group["stages"]]
        one["readers"] = random.sample(readers, random.randint(0, min(2, len(readers))))
    if random.random() < 0.3:
        begin = random.randrange(len(plan["groups"]))
        one |= {"begin": begin, "end": random.randint(begin + 1, len(plan["groups"]))}
    plan["buffers"].insert(random.randint(0, len(plan["buffers"])), one)


def change_a_group(plan, random):
    """Wrong arrivals, transfers, concurrency, orders and stages of a group."""
    number = random.randrange(len(plan["groups"]))
    group = plan["groups"][number]
    buffers = [one["name"] for one in plan["buffers"]]
    results = [one["layers"][-1] for one in group["stages"]]
    match random.randrange(8):
        case 0:
            group["streamed_input"] = random.choice((None, *names(plan)))
        case 1:
            source, target = random.choices(buffers, k=2)
            group["transfers"].append({"source": source, "target": target})
        case 2:
            group["concurrent"] = random.choice((None, "", "as one", names(plan)[0]))
        case 3:
            random.shuffle(group["order"])
        case 4 if results:
            turns = {"times": random.randint(1, 3), "results": random.sample(results, 1)}
            group["order"].insert(random.randint(0, len(group["order"])), turns)
        case 5 if len(results) > 1:  # two groups instead of one
            cut = random.randint(1, len(results) - 1)
            rest = {**copy.deepcopy(group), "streamed_input": None, "order": [], "transfers": []}
            rest["stages"], group["stages"] = group["stages"][cut:], group["stages"][:cut]
            plan["groups"].insert(number + 1, rest)
            for one in plan["buffers"]:
                one |= {key: one[key] + (one[key] > number) for key in ("begin", "end")}
        case 6 if number + 1 < len(plan["groups"]):  # one group instead of two
            group["stages"] += plan["groups"].pop(number + 1)["stages"]
            for one in plan["buffers"]:
                begin, end = (one[key] - (one[key] > number) for key in ("begin", "end"))
                one |= {"begin": begin, "end": max(end, begin + 1)}
        case _:
            random.shuffle(group["stages"])


def change_a_stage(plan, random):
    """Rows, parts, sums, tiles, strips and primitives of a stage; layers of two stages as one."""
    group = random.choice(plan["groups"])
    if not group["stages"]:
        return
    stage = random.choice(group["stages"])
    match random.randrange(8):
        case 0:
            stage["rows"] = random.randint(1, 8)
        case 1:
            stage["mode"] = random.choice(("rows", "accumulating", "channels", "tiles"))
        case 2:
            stage["channel_blocks"] = random.randint(1, 4)
            stage["accumulating_layer"] = random.choice((None, *stage["layers"]))
        case 3:
            ends = [sorted(random.sample(range(1, 9), random.randint(1, 3))) for _ in "rc"]
            stage["tiles"] = {"row_ends": ends[0], "column_ends": ends[1], "halo_cached": True}
            stage["mode"] = "tiles"
        case 4 if stage["tiles"]:
            stage["tiles"]["halo_cached"] = not stage["tiles"]["halo_cached"]
        case 5 if stage["strips"]:
            strip = random.choice(stage["strips"])
            strip[random.choice(("rows", "columns"))] += random.choice((-1, 1))
        case 6:
            layouts = [random.choice(("HWC", "CHW")) for _ in "rw"]
            stage["primitive"] = {"name": "direct", "reads": layouts[0], "writes": layouts[1]}
        case _:
            other = random.choice(group["stages"])
            if other is not stage:
                stage["layers"] += other["layers"]
                group["stages"].remove(other)


def change_the_plan(plan, random):
    """The size of the arena or of an element, what is worked, tensors in others, copies."""
    match random.randrange(7):
        case 0:
            plan["arena_bytes"] += random.choice((-8, -4, -1, 1, 4, 8, 64, 4096))
        case 1:
            plan["element_bytes"] = random.choice((None, 1, 2, 4, 8))
        case 2:
            plan["layers"] = random.choice((None, [0, 1], [0, 3], [1, 4], [0, 99]))
        case 3:
            inner, host = random.sample(names(plan), 2)
            where = [random.choice((0, 0, 1, 2)) for _ in "rcc"]
            alias = dict(
                zip(
                    ("tensor", "host", "row", "column", "channel"),
                    (inner, host, *where),
                    strict=True,
                )
            )
            plan["aliases"].append(alias)
            if random.random() < 0.7:
                plan["buffers"] = [one for one in plan["buffers"] if one["tensor"] != inner]
        case 4 if plan["aliases"]:
            one = random.choice(plan["aliases"])
            one[random.choice(("row", "column", "channel"))] += random.choice((-1, 1))
        case 5:
            source, result = random.sample(names(plan), 2)
            heads = {"by_heads": random.random() < 0.5}
            plan["rematerialised"].append({"source": source, "result": result, **heads})
        case _:
            plan["network"] = "another"


def lay_over(plan, random):
    """A buffer lies over another, at its first or last bytes, or a few bytes beside."""
    one, other = random.sample(plan["buffers"], 2) if plan["buffers"][1:] else plan["buffers"] * 2
    shift = random.choice((0, 0, other["size"] - one["size"], other["size"] - 4, -one["size"] + 4))
    one["offset"] = max(0, other["offset"] + shift + random.choice((0, 0, 0, 1, -1, 2, 4, -4)))
    plan["arena_bytes"] = max(plan["arena_bytes"], one["offset"] + one["size"])
    grow_the_last_memory(plan)


def move_by_odd_bytes(plan, random):
    """A buffer, or all from one on, begin a few bytes later; the arena grows by as many."""
    shift = random.choice((1, 2, 3, 4, 5, 8))
    chosen = random.choice(plan["buffers"])
    for buffer in plan["buffers"]:
        is_behind = buffer["offset"] >= chosen["offset"] and random.random() < 0.8
        if buffer is chosen or (is_behind and shift % 4):
            buffer["offset"] += shift
    plan["arena_bytes"] += shift
    grow_the_last_memory(plan)


def change_the_lifetimes(plan, random):
    """Buffers live for one group, for all, or exchange their lifetimes."""
    groups = len(plan["groups"])
    for one in random.sample(plan["buffers"], min(2, len(plan["buffers"]))):
        begin = random.randrange(groups)
        one |= random.choice(
            (
                {"begin": 0, "end": groups},
                {"begin": begin, "end": begin + 1},
                {"begin": 0},
                {"end": groups},
            )
        )


def pack(plan, random):
    """Buffers are placed again, first fit in any order, and one of them is forgotten."""
    placed, forgotten = [], random.choice(plan["buffers"])["name"]
    order = [one for one in plan["buffers"] if one["kind"] != "external"]
    random.shuffle(order)
    for one in order:
        barred = [
            other
            for other in placed
            if other["name"] != forgotten
            and (other["begin"] < one["end"] and one["begin"] < other["end"])
        ]
        ends = sorted({0, *(-(-(other["offset"] + other["size"]) // 4) * 4 for other in barred)})
        one["offset"] = next(
            end
            for end in ends
            if all(
                end + one["size"] <= other["offset"] or other["offset"] + other["size"] <= end
                for other in barred
            )
        )
        placed.append(one)
    if not plan["memories"]:
        plan["arena_bytes"] = max(one["offset"] + one["size"] for one in order)


def change_the_memories(plan, random):
    """Memories, what is slow, the flash, and what moves."""
    if not plan["memories"]:
        return lay_over(plan, random)
    memory = random.choice(plan["memories"])
    match random.randrange(5):
        case 0:
            memory["size"] += random.choice((-4, -1, 1, 4, 64))
        case 1:
            memory["is_slow"] = not memory["is_slow"]
        case 2:
            random.shuffle(plan["memories"])
        case 3:
            plan["flash"] = random.choice((None, "flash", memory["name"]))
        case _ if plan["traffic"]:
            random.choice(plan["traffic"])[random.choice(("read", "written"))] += random.choice(
                (-1, 1)
            )
    return None


def grow_the_last_memory(plan):
    """Let the memories add up to the arena."""
    if plan["memories"]:
        missing = plan["arena_bytes"] - sum(one["size"] for one in plan["memories"])
        plan["memories"][-1]["size"] = max(0, plan["memories"][-1]["size"] + missing)


KINDS = tuple(one.value for one in Kind)
WAYS = (lay_over, lay_over, move_by_odd_bytes, change_the_lifetimes, pack, change_the_memories)
WAYS += (spoil_a_value, drop_or_double, swap, change_a_buffer, add_a_buffer)
WAYS += (change_a_group, change_a_stage, change_the_plan)


def names(plan):
    """Tensors that the plan names."""
    found = [one["tensor"] for one in plan["buffers"]]
    found += [
        layer for group in plan["groups"] for one in group["stages"] for layer in one["layers"]
    ]
    return list(dict.fromkeys((*found, "input", "output")))


def spoiled(plan, random):
    """The document of a plan, changed in one respect, and the name of the way."""
    found = copy.deepcopy(plan)
    way = random.choice(WAYS)
    way(found, random)
    return found, way.__name__
