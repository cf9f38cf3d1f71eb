"""Plans drawn at random from the space that the search of streaming plans goes through."""

from random import Random

import numpy as np

from planners.memory.moves import WHOLE, GroupMoves
from planners.memory.order import topological_order
from planners.memory.stages import StageTable
from planners.plan.computing import ModelComputing
from planners.plan.executor import PlanMachine
from planners.rewrites.rematerialisation import executed_model
from tests.planners.memory.plain import plan_of


def space(network, *, element_bytes=4, ends=(), parts=()):
    """The moves of a network. ends: inputs and results that lie outside, where no layer reads them."""
    layer_order = topological_order(network)
    read = {source for name in layer_order.layers for source in network.layer(name).inputs}
    inputs = {layer.name for layer in network.inputs}
    outside = frozenset(name for name in ends if name in inputs or name not in read)
    table = StageTable(network, element_bytes=element_bytes, outside=outside)
    return GroupMoves(layer_order, table, parts)


def random_groups(moves, source: Random, *, is_streamed):
    """Groups from the input to the end, each with moves drawn at random, long stages preferred.

    An input that comes row by row is collected first now and then.
    """
    groups, cut, last = [], 0, len(moves.layer_order.separators) - 1
    if is_streamed and source.random() < 0.3:
        groups.append(())
        is_streamed = False
    while cut < last:
        end = source.randint(cut + 1, last)
        streams = cut == 0 and is_streamed
        if end == cut + 1 and not streams and source.random() < 0.3:
            move, _ = moves.layer_by_layer(cut)
            groups.append((move,))
        else:
            chosen = random_moves(moves, source, cut, end, 1 if streams else WHOLE)
            groups.append(chosen)
        cut = end
    return groups


def random_moves(moves, source, cut, end, entry):
    """Moves of one group from one cut to another."""
    chosen = []
    while cut < end:
        known = [move for move in moves.moves_from(cut, entry) if move.end <= end]
        fused = [move for move in known if max(len(one.layers) for one in move.stages) > 1]
        move = source.choice(fused if fused and source.random() < 0.8 else known)
        chosen.append(move)
        cut, entry = move.end, move.rows
    return tuple(chosen)


def random_plan(network, seed, *, is_streamed, element_bytes=4, is_outside=False, parts=()):
    """A plan of the space. is_outside: inputs that are not streamed, and results, lie outside."""
    results = {source for layer in network.outputs for source in layer.inputs}
    inputs = set() if is_streamed else {layer.name for layer in network.inputs}
    ends = results | inputs if is_outside else ()
    moves = space(network, element_bytes=element_bytes, ends=ends, parts=parts)
    groups = random_groups(moves, Random(seed), is_streamed=is_streamed)
    return plan_of(moves.layer_order, moves.table, groups, is_streamed=is_streamed)


def outputs(model, plan, frame):
    """The outputs of a run of the plan, by the name of the output, in the order of the model's dims."""
    worked = executed_model(model, plan.rematerialised)
    machine = PlanMachine(worked.network, plan, ModelComputing(worked, frame))
    machine.run()
    assert machine.arena.written_end <= plan.arena_bytes
    found = {}
    for layer in model.network.outputs:
        array = machine.output(layer.inputs[0])
        array = array.transpose(2, 0, 1) if layer.shape.is_map else array
        found[layer.name] = array.reshape(layer.shape.dims)
    return found


def random_frame(network, seed):
    """A frame for each input."""
    source = np.random.default_rng(seed)
    return {
        layer.name: source.normal(size=layer.shape.dims).astype(np.float32)
        for layer in network.inputs
    }
