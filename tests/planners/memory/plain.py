"""Plans without a search: layer by layer, row by row, and in rings with an order of firings."""

from cnn2csdf.granularity import ROWS
from planners.memory.build import bounded_plan
from planners.memory.order import topological_order
from planners.memory.plain_plans import layer_by_layer, row_by_row
from planners.memory.stages import StageTable
from planners.memory.stateful import MOST_STEPS
from planners.reuse.application import Application, of_one_size, single_partition
from planners.reuse.deployment import deployment, streaming_plans
from planners.reuse.evaluation import Costs, Evaluator
from planners.reuse.placement import free_offsets


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
    memory = free_offsets(evaluator, plan, budget=MOST_STEPS)
    planned = deployment(evaluator, plan, memory)
    (streaming_plan,) = streaming_plans(planned, element_bytes=element_bytes)
    return streaming_plan
