"""Plans without a search: layer by layer, row by row, and in rings with an order of firings."""

from collections import defaultdict

from cnn2csdf.granularity import ROWS
from planners.arena.allocation import plan_arena
from planners.memory.build import bounded_plan
from planners.memory.order import topological_order
from planners.memory.plain_plans import layer_by_layer, row_by_row
from planners.memory.stages import StageTable
from planners.memory.stateful import MOST_STEPS
from planners.plan.plan import Kind, PlannedGroup, Stage, StreamBuffer, Turns
from planners.reuse.application import Application, of_one_size, single_partition
from planners.reuse.deployment import OrderedPlan
from planners.reuse.evaluation import Costs, Evaluator
from planners.reuse.placement import tensor_problem


def plan_of(layer_order, table, groups, *, is_streamed):
    """The plan of a chain of groups."""
    return bounded_plan(layer_order, table, groups, is_streamed=is_streamed)[0]


def whole_plan(network):
    return layer_by_layer(topological_order(network), StageTable(network)).plan


def rows_plan(network, granularity=ROWS, **options):
    return row_by_row(topological_order(network), StageTable(network), granularity, **options).plan


def ordered_plan(network, granularity=ROWS, *, element_bytes=None):
    """Every edge in a ring of its own, in the order of one processor, as plan reuse does."""
    application = Application(name=network.name, members=(single_partition(network),))
    application = application if element_bytes is None else of_one_size(application)
    costs = Costs(element_bytes=element_bytes or application.unit, parameter_bytes=element_bytes)
    evaluator = Evaluator(application, costs)
    names = application.members[0].layers
    plan = evaluator.plan(tuple(granularity.layers.get(one, granularity.rows) for one in names))
    layers = [layer.name for layer in evaluator.models[0].table.layers]
    tensors, place_of = tensor_problem(evaluator, plan)
    held = defaultdict(list)
    for edge in plan.edges:
        held[place_of[edge.name]].append(edge.connection)
    arena = plan_arena(tensors, budget=MOST_STEPS)
    rings = tuple(
        StreamBuffer(
            name=one.name,
            kind=Kind.RING,
            tensor=held[one.name][0].producer,
            readers=tuple(dict.fromkeys(edge.consumer for edge in held[one.name])),
            size=one.size,
            offset=arena.offsets[one.name],
            rows=0,  # as many as fit
            begin=0,
            end=1,
        )
        for one in arena.problem.buffers
    )
    return OrderedPlan(
        network,
        rings,
        [
            PlannedGroup(
                stages=tuple(
                    Stage(layers=(name,), rows=rows)
                    for name, rows in zip(layers, plan.rows[0], strict=True)
                ),
                order=(Turns(times=1, results=tuple(layers[n] for n in plan.orders[0])),),
            )
        ],
        last_firings={one.name: one.end - 1 for one in arena.problem.buffers},
        element_bytes=element_bytes,
    ).plan()
