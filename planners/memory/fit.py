"""Memory fit of a network: whether RAM and flash suffice, and the best memory plan, by plan search.

Three execution strategies are planned: layer by layer; row by row, with all layers in one group and
no recomputation; and fused groups with line buffers and column strips, by the label-setting dynamic
programming of planners.memory.labels. All plans are values of the same class, StreamingPlan, so
their bytes, MACs and times compare directly. A loaded plan is checked instead, without a search.

Example: a network with a tensor of 40 kB before a layer and a tensor of 20 kB after the layer needs
60 kB layer by layer. A fused group that keeps 3 of 40 rows of the larger tensor needs 3 kB for this
tensor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING

from cnn2csdf.fixed_point.flash import flash_bytes
from cnn2csdf.instructions import kernels_without_counts
from cnn2csdf.network import Network
from cnn2csdf.platforms import (
    USUAL_PLATFORM,
    BoardMemory,
    Platform,
)
from cnn2csdf.weights import Model
from csdf.arguments import Bytes, Positive, public
from csdf.errors import InvalidArgument, InvalidNetwork
from csdf.model.exact import Exact
from csdf.status import Reason, Status, because
from csdf.time_limit import Budget, Stop, stop_of
from csdf.units import bytes_in_words, nanoseconds_in_words
from planners.memory.answer import (
    LINES_AGAIN,
    PLAIN,
    RESIDENT,
    ROWS,
    SEARCHED_FIRST,
    TWO_MEMORIES,
    WHOLE_LAYERS,
    Fit,
    FitMethod,
    FitWhy,
    SlowTraffic,
)
from planners.memory.labels import WIDTHS
from planners.memory.layer_orders import SEARCHED_ORDER
from planners.memory.moved_weights import layout_of
from planners.memory.network_searches import methods_of_orders
from planners.memory.order import topological_order
from planners.memory.plain_plans import layer_by_layer
from planners.memory.request import FitRequest, fit_request
from planners.memory.search import method_of
from planners.memory.stages import StageTable
from planners.memory.stateful import stateful_plan
from planners.plan.plan import Memory
from planners.plan.ram import RamBeside, state_bytes
from planners.plan.stack import stage_stack_bytes

if TYPE_CHECKING:
    from planners.memory.memories import PlanInMemories

NEARLY_AS_FAST = Fraction(1, 100)  # no difference that a model of a platform can tell
NEARLY_AS_SMALL = Fraction(1, 20)  # of the RAM of the method that is taken without a limit
FRONT = (1, 2, 4, 8, 16, 32)  # quarters of the size of the first memory


@public
def fit(
    network: Network | Model,
    *,
    ram: Bytes | None = None,
    flash: Bytes | None = None,
    nanoseconds: Exact | None = None,
    element_bytes: Positive | None = None,
    parameter_bytes: Positive | None = None,
    input: str = RESIDENT,  # noqa: A002 - the word of the command
    output: str = RESIDENT,
    searched: Sequence[str] = SEARCHED_FIRST,
    labels: Sequence[Positive] = WIDTHS,
    platform: Platform | str | None = USUAL_PLATFORM,
    durations: Mapping[str, Sequence[int]] | None = None,
    memories: Sequence[Memory | BoardMemory | str] = (),
    beside: RamBeside | None = None,
    order: str = SEARCHED_ORDER,
    budget: Budget = None,
) -> Fit:
    """Return whether a network fits into RAM and flash, and the best plan for the network.

    The network is planned in its present form. `csdf fit` simplifies the network first; in Python
    call cnn2csdf.simplified. A Model with layers that can be merged causes a Suspicious warning.

    With `ram`, the best plan is the fastest plan among the plans with the fewest MACs within the
    limit. Without `ram`, the plans with the fewest MACs are compared up to a limit of RAM: 5% above
    the RAM of the plan with the smallest product of RAM and time. Up to that limit the best plan is
    the smallest plan within 1% of the fastest. With memories, the best plan has the minimum time if
    the rates of slow memories and the clock of the platform are known, and otherwise the minimum
    slow-memory traffic; layers are then executed row by row and in strips, and input and output are
    resident.

    ram: limit on RAM, as bytes or as a string such as "256kB"; None for no limit.
    flash: limit on parameters in flash, as `ram`.
    nanoseconds: limit on the time of a frame.
    element_bytes: bytes of each element of all tensors and parameters; default: the bytes of the
        network's element types.
    parameter_bytes: bytes of each parameter, if parameters and tensors differ.
    input: memory of the inputs, of INPUTS. Several inputs are all resident or all external. An
        input that is also an output is external if `input` is, and otherwise resident.
    output: memory of the results, of OUTPUT_MEMORIES. A result that a layer reads is resident.
    searched: sets of moves, of SEARCHED, in addition to the baselines; default: line buffers and
        strips.
    labels: limit on the labels of a state, for each successive search. A higher limit gives better
        plans and takes longer.
    platform: a Platform, a name of cnn2csdf.PLATFORMS, or FILE.json. None: no times are predicted,
        and the plan with the minimum RAM is best.
    durations: measured nanoseconds of the phases of each layer, which replace predicted times. The
        start-up time of a phase is always the platform's.
    memories: fast memories, then slow memories, instead of `ram`; also strings such as
        "psram=2MB:slow", which modify the memories of a board. Default: the memories of the
        platform. A memory for weights only is flash: weight bytes that a frame reads from flash
        count, and weights may be copied to fast memory.
    beside: stack and reserve, which count within `ram` together with the execution state of the C
        library. None: `ram` limits the arena alone.
    order: of ORDERS: the layer order of the network alone, or canonical orders as well, such as the
        order with the lowest peak of whole tensors. With memories, and for a network with a state,
        the layer order of the network is used.
    budget: a Stop, seconds, or a string such as "60s". When the budget or Ctrl-C ends the search,
        the best plan so far is returned, and the reason states the early end.
    """
    request = fit_request(
        network,
        ram=ram,
        flash=flash,
        nanoseconds=nanoseconds,
        element_bytes=element_bytes,
        parameter_bytes=parameter_bytes,
        input=input,
        output=output,
        searched=searched,
        labels=labels,
        platform=platform,
        durations=durations,
        memories=memories,
        beside=beside,
        order=order,
    )
    return answer(request, budget)


def answer(request: FitRequest, budget: Budget = None) -> Fit:
    """Return the answer to a request of `fit`. budget: as in `fit`."""
    stop = stop_of(budget)  # the searches of the request share its seconds
    if request.memories and layout_of(request.memories).stack is None:
        request = replace(request, beside=None)
    if request.network.keeps_state:
        return _fit_with_state(request, stop)
    if request.memories:
        return _fit_in_memories(request, stop)
    return _fit_in_one_memory(request, stop)


def slow_front(request: FitRequest, stop_for: Callable[[int], Stop]) -> list[SlowTraffic]:
    """Return the traffic for a first memory of a quarter to eight times its size.

    stop_for: the stop of the search for a size in bytes.
    """
    first, *further_memories = request.memories
    sizes = [max(1, first.size * quarters // 4) for quarters in FRONT]
    fits = (
        answer(replace(request, memories=(replace(first, size=size), *further_memories)), stop)
        for size, stop in zip(sizes, map(stop_for, sizes), strict=True)
    )
    return [fit.slow for fit in fits if fit.slow is not None]


def answer_about(
    methods: Sequence[FitMethod],
    request: FitRequest,
    status: Status,
    reason: Reason,
    *,
    lower_bound: int,
    best: FitMethod | None = None,
    slow: SlowTraffic | None = None,
) -> Fit:
    """Return the verdict of a request: the best method, unless flash or the time limit rules it out.

    lower_bound: bytes of RAM below which no plan exists.
    best: one of the methods; default: the first.
    slow: traffic of a plan in several memories.
    """
    best = best or methods[0]
    core = None if request.beside is None else request.beside.core
    needed = flash_bytes(request.network, request.bytes_of_parameter, core)
    longest = request.nanoseconds
    if request.flash is not None and needed > request.flash:
        status = Status.INFEASIBLE
        reason = because(FitWhy.FLASH, needed=needed, flash=request.flash)
    elif longest is not None and status is Status.FEASIBLE and (best.nanoseconds or 0) > longest:
        status, reason = Status.UNKNOWN, _too_slow([best], request)
    is_predicted = request.durations is None and any(
        method.nanoseconds is not None for method in methods
    )
    platform = request.platform if is_predicted else None
    return Fit(
        network=request.network.name,
        input=request.input_memory,
        output=request.output,
        ram=request.ram,
        flash=request.flash,
        flash_bytes=needed,
        methods=tuple(methods),
        best=best if status is Status.FEASIBLE else None,
        lower_bound=lower_bound,
        status=status,
        reason=reason,
        slow=slow,
        beside=request.beside,
        platform=platform,
        uncounted=()
        if platform is None
        else kernels_without_counts(platform, request.network, request.element_bytes),
    )


def _least_bytes(request: FitRequest, table: StageTable) -> int:
    """Return a lower bound on the RAM of any plan: all resident inputs, or all results."""
    network = request.network
    inputs = [] if request.is_streamed else [layer.name for layer in network.inputs]
    return max(sum(map(table.arena_bytes, names)) for names in (inputs, network.results))


def _fit_in_one_memory(request: FitRequest, stop: Stop) -> Fit:
    """Return the answer for one memory: the plans of all searches, and the best that fits."""
    table = request.table(request.network)
    lower_bound = _least_bytes(request, table)
    # Where the ends alone are too large, no search changes the answer.
    is_hopeless = request.room is not None and lower_bound > request.room
    searched_methods, ended = methods_of_orders(request, stop, is_hopeless=is_hopeless)
    methods = tuple(_worth_showing(searched_methods))
    with_room = [method for method in methods if request.has_room_for(method)]
    in_time = [method for method in with_room if request.is_in_time(method)]
    best = _chosen(in_time, is_limited=request.ram is not None)
    smallest_ram = min(method.needed_ram for method in methods)
    # A search is not exhaustive: only the lower bound proves that no plan fits.
    if best is not None and ended is None:
        status, reason = Status.FEASIBLE, _chosen_reason(best, in_time, request)
    elif best is not None:
        status, reason = Status.FEASIBLE, because(FitWhy.LEAST_BY_THEN, end=ended)
    elif with_room:
        status, reason = Status.UNKNOWN, _too_slow(with_room, request)
    elif is_hopeless:
        status = Status.INFEASIBLE
        reason = _too_large_ends(table, lower_bound, ended, request.beside)
    elif ended is None:
        status, reason = Status.UNKNOWN, because(FitWhy.TOO_LARGE, least=smallest_ram)
    else:
        status = Status.UNKNOWN
        reason = because(FitWhy.TOO_LARGE_BY_THEN, end=ended, least=smallest_ram)
    return answer_about(methods, request, status, reason, lower_bound=lower_bound, best=best)


def _too_large_ends(
    table: StageTable, least: int, end: Reason | None = None, beside: RamBeside | None = None
) -> Reason:
    """Return the reason if inputs or results alone exceed the RAM.

    The reason names the first input that all readers convert to an element type of fewer bytes.

    least: minimum bytes of input and output.
    end: reason of an early end of the search.
    """
    network = table.network
    words = "" if beside is None else f", stack and reserve at least {beside.bytes} bytes"
    for source in network.inputs:
        readers = [network.layer(name) for name in network.consumers[source.name]]
        elements = {reader.element for reader in readers}
        if len(elements) == 1 and all(reader.operator.converts for reader in readers):
            converted_bytes = source.shape.elements * table.bytes_of(readers[0].name)
            if converted_bytes < table.tensor_bytes(source.name):
                return because(
                    FitWhy.REAL_ENDS,
                    least=least,
                    name=source.name,
                    element=source.element.value,
                    other=elements.pop().value,
                    bytes=converted_bytes,
                    beside=words,
                    end=end,
                )
    return because(FitWhy.ENDS, least=least, beside=words, end=end)


def _too_slow(methods: Sequence[FitMethod], request: FitRequest) -> Reason:
    """The reason if no plan is within the time limit of a frame."""
    platform = None if request.durations is not None else request.platform
    fastest = min(method.nanoseconds or 0 for method in methods)
    longest, end = int(request.nanoseconds or 0), ""
    time = nanoseconds_in_words(fastest)
    if platform is not None and platform.core is not None:
        at_best = platform.core.at_best(fastest)
        end = " even at the minimum" if at_best > longest else " at the maximum"
        number, unit = nanoseconds_in_words(at_best).split()
        time = f"{number}{'' if time.endswith(f' {unit}') else f' {unit}'} to {time}"
    return because(
        FitWhy.TOO_SLOW,
        nanoseconds=fastest,
        end=end,
        time=time,
        basis="measured" if platform is None else "predicted",
        longest=nanoseconds_in_words(longest),
    )


def _fit_in_memories(request: FitRequest, stop: Stop) -> Fit:
    """Return the answer for fast and slow memories: the best plan of the search, or layer by layer."""
    network, memories, element_bytes = request.network, request.memories, request.element_bytes
    if request.bytes_of_parameter != element_bytes and any(
        isinstance(memory, BoardMemory) and memory.is_flash for memory in memories
    ):
        raise InvalidArgument(
            f"fit: {request.parameter_bytes} bytes for a parameter and {element_bytes or 'its own'} "
            "for an element; weights in memories have the bytes of elements"
        )
    planned = _planned_beside_stack(request, stop)
    table = request.table(network)
    plan = planned.plan or layer_by_layer(topological_order(network), table, budget=stop).plan
    name = TWO_MEMORIES if planned.plan else WHOLE_LAYERS
    time = planned.traffic.nanoseconds
    method = method_of(name, plan, network, time, beside=request.beside)
    ends = _least_bytes(request, table)
    status, reason = (Status.FEASIBLE if planned.plan else Status.UNKNOWN), planned.reason
    home, beside = layout_of(memories).stack, request.beside
    if ends > sum(memory.size for memory in memories):
        status, reason = Status.INFEASIBLE, _too_large_ends(table, ends)
    elif home is not None and beside is not None and beside.bytes >= home.size:
        status = Status.INFEASIBLE
        reason = because(FitWhy.STACK, name=home.name, size=home.size, needed=beside.bytes)
    return answer_about([method], request, status, reason, lower_bound=ends, slow=planned.traffic)


def _planned_beside_stack(request: FitRequest, stop: Stop) -> PlanInMemories:
    """Return the plan in memories, with stack and reserve in the memory that holds them, if any.

    The execution state, and the stack of the stages, follow from the plan. If a plan leaves too few
    bytes for them, the search is repeated with a memory that is smaller by the bytes of that plan.
    Without a byte left in this memory, no plan is the answer.
    """
    module = import_module("planners.memory.memories")  # slow to import
    planned_in_memories: Callable[..., PlanInMemories] = module.planned_in_memories
    layout, beside = layout_of(request.memories), request.beside
    home = layout.stack
    if home is None or beside is None:
        return planned_in_memories(replace(request, memories=layout.all), stop)
    reserved = beside.bytes
    while True:
        memories = [
            replace(memory, size=max(1, memory.size - reserved)) if memory == home else memory
            for memory in layout.all
        ]
        planned = planned_in_memories(replace(request, memories=memories), stop)
        planned.traffic = planned.traffic._replace(memories=layout.all)
        plan = planned.plan
        if plan is None:
            return planned
        needed = beside.bytes + state_bytes(plan, request.network)
        needed += stage_stack_bytes(plan, request.network)
        used = sum(memory.size for memory in plan.memories if memory.name == home.name)
        if used + needed <= home.size:
            return planned
        if reserved >= home.size:
            planned.plan = None
            planned.traffic = planned.traffic._replace(moved=None, nanoseconds=None)
            planned.reason = because(
                FitWhy.STACK_AND_STATE, name=home.name, size=home.size, needed=needed
            )
            return planned
        # More than `reserved`, because the plan is within the bytes beside them.
        reserved = needed


def _fit_with_state(request: FitRequest, stop: Stop) -> Fit:
    """Return the answer for a network with a state, whose frames are computed layer by layer."""
    network = request.network
    if request.input == ROWS:
        raise InvalidNetwork(
            f"network {network.name!r} keeps a state, and a frame of it comes as a whole; leave out "
            "the input by rows"
        )
    table = request.table(network)
    plan_away = partial(
        stateful_plan,
        network,
        element_bytes=request.element_bytes,
        external=table.outside,
        budget=stop,
    )
    stateful = plan_away()
    times = request.times(table)
    time = None if times is None else times.of(stateful.plan)
    method = method_of(WHOLE_LAYERS, stateful.plan, network, time, beside=request.beside)
    slow, room = None, request.room
    status, reason = Status.FEASIBLE, because(FitWhy.KEEPS_STATE)
    if request.memories:
        module = import_module("planners.memory.state_in_memories")
        method, slow, lacking = module.state_in_memories(request, method, plan_away)
        plan = method.plan
        in_slow = sum(b.size for b in plan.buffers if b.persists and plan.is_in_slow_memory(b))
        if lacking is not None:
            status, reason = Status.UNKNOWN, lacking
        elif in_slow:
            reason = because(FitWhy.KEEPS_STATE_IN_SLOW, slow=in_slow)
    elif not request.has_room_for(method):
        is_proved = room is not None and stateful.lower_bound > room
        status = Status.INFEASIBLE if is_proved else Status.UNKNOWN
        reason = because(FitWhy.STATE_TOO_LARGE, least=method.needed_ram)
    lower_bound = stateful.plan.kept_bytes
    return answer_about([method], request, status, reason, lower_bound=lower_bound, slow=slow)


def _chosen(fitting: Sequence[FitMethod], *, is_limited: bool) -> FitMethod | None:
    """Return the plan with the fewest MACs; ties by time; among nearly equal times the smallest plan.

    Without a RAM limit, plans are compared up to a limit of RAM: the RAM of the plan with the
    minimum product of RAM and predicted time, plus NEARLY_AS_SMALL. Example: 40 kB in 10 ms
    (product 400) is preferred to 20 kB in 27 ms (product 540), because halving the RAM takes 2.7
    times as long. Without predicted times the smallest plan is chosen.

    fitting: plans within the limits.
    is_limited: whether a RAM limit is set; RAM within the limit then costs nothing.
    """
    lowest = min((method.mac_ratio for method in fitting), default=None)
    methods = [method for method in fitting if method.mac_ratio == lowest]
    timed = [method for method in methods if method.nanoseconds is not None]
    if timed and not is_limited:
        balanced = min(timed, key=lambda method: method.ram_bytes * (method.nanoseconds or 0))
        most_bytes = balanced.ram_bytes * (1 + NEARLY_AS_SMALL)
        timed = [method for method in timed if method.ram_bytes <= most_bytes]
    if timed:
        longest = min(method.nanoseconds or 0 for method in timed) * (1 + NEARLY_AS_FAST)
        methods = [method for method in timed if (method.nanoseconds or 0) <= longest]
    return min(methods, key=lambda method: method.ram_bytes, default=None)


def _chosen_reason(best: FitMethod, methods: Sequence[FitMethod], request: FitRequest) -> Reason:
    """The reason for the best plan: its MACs, and its time if a smaller plan has no more MACs.

    methods: those that fit and are in time.
    """
    smaller = [
        method
        for method in methods
        if method.mac_ratio == best.mac_ratio and method.ram_bytes < best.ram_bytes
    ]
    if not smaller:
        return because(FitWhy.LEAST_WORK)
    if request.ram is not None:
        return because(FitWhy.FASTEST)
    least = min(smaller, key=lambda method: method.ram_bytes)
    factor = Fraction(least.nanoseconds or 0, best.nanoseconds or 1)
    return because(
        FitWhy.BALANCED,
        name=least.name,
        saved=bytes_in_words(best.ram_bytes - least.ram_bytes),
        factor=f"{float(factor):.3g}",
        least=least.needed_ram,
    )


# The smallest plan of each of these names is shown, even if another plan is smaller with no more MACs.
# Plans of LINES_AGAIN compute keys and values of all heads together, which is faster than head by head.
ALWAYS_SHOWN = (*PLAIN, LINES_AGAIN)


def _worth_showing(methods: Sequence[FitMethod]) -> Iterator[FitMethod]:
    """Yield the Pareto front of plans in RAM and MACs, and plans of ALWAYS_SHOWN, in order of RAM."""
    fewest_macs: Fraction | None = None
    names = set(ALWAYS_SHOWN)
    for method in sorted(
        methods, key=lambda method: (method.ram_bytes, method.mac_ratio, len(method.plan.groups))
    ):
        is_in_front = fewest_macs is None or method.mac_ratio < fewest_macs
        if is_in_front or method.name in names:
            names.discard(method.name)
            yield method
        if is_in_front:
            fewest_macs = method.mac_ratio
