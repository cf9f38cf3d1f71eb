"""Search for the plans of a network: layer orders, and layers after concatenations for each input.

Each layer order is a search of planners.memory.search; the plans of all of them are candidates. So
the answer is never larger than that of a single order.

Efforts: `Stop.question` gives a search a share of the whole effort, whatever other searches have spent,
so that a search finds the same plans with and without the others. `Stop.part` gives a search a share of
the effort that is left, so that searches together spend no more than one effort.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction

from cnn2csdf.network import Network
from csdf.search.pareto import improving
from csdf.status import Ended, Reason
from csdf.time_limit import Stop, reason_of
from planners.memory.answer import PLAIN, FitMethod
from planners.memory.layer_orders import SEARCHED_ORDER, canonical_orders
from planners.memory.order import is_chain, topological_order
from planners.memory.request import FitRequest
from planners.memory.search import PlanSearch
from planners.plan.plan import Span
from planners.rewrites.concatenation_inputs import input_spans, layers_in_parts
from planners.rewrites.rematerialisation import executed_network

ORDER_SHARE = 0.1  # of the effort, for the order of the layers; most take some milliseconds
OTHERS_SHARE = 0.2  # of the effort, for canonical orders besides the first two
STAGES_SHARE = 0.25  # of the effort, for orders of the stages of the methods found
# Seconds of effort for the same where none is limited, as of the effort of 9 of csdf fit. With 2.25 and
# 4.5 a graph like YOLOv8n takes 90,112 bytes in 12 and 16 s (100 s without a limit), and stages 3 and
# 4 of HRNet take 356,510 and 355,502 bytes in 7 and 10 s.
STAGES_EFFORT = 2.25
BOUND_SHARE = 0.1  # of that, to bound what copies can improve; a search that is not bounded is run
INPUTS_SHARE = 0.5  # of the effort, for layers that are computed for each input of a concatenation


def methods_of_orders(
    request: FitRequest, stop: Stop, *, is_hopeless: bool = False
) -> tuple[list[FitMethod], Reason | None]:
    """Return the plans of all searched layer orders, and the reason if the budget ended a search.

    The network is searched first, then the network where layers after a concatenation are computed
    for each input of it; so no answer is larger than without these copies.

    is_hopeless: whether no plan can fit; one short search suffices.
    """
    network = request.network
    if is_hopeless:
        short = replace(request, labels=request.labels[:1])
        search = _OrderSearches(short).searched(network, stop)
        return search.methods, search.ended
    orders = _OrderSearches(request)
    if request.order != SEARCHED_ORDER or is_chain(network):
        search = orders.completed(network, stop)
        return search.methods, search.ended
    methods, ended = orders.methods(stop)
    # Measured durations are of the layers of the network, and so of none of the copies.
    spans = input_spans(network) if request.durations is None else ()
    if not spans or _is_cut_short(ended):
        return methods, ended
    rewritten = replace(request, network=executed_network(network, spans))
    parts = layers_in_parts(network, rewritten.network)
    orders = _OrderSearches(rewritten, parts=parts)
    copied, ended_in_copies = orders.methods(stop.question(INPUTS_SHARE), known=methods)
    methods = _with_one_baseline_each(
        [*methods, *(_with_spans(method, spans) for method in copied)]
    )
    # The end of INPUTS_SHARE is no early end of the search.
    return methods, ended_in_copies if _is_cut_short(ended_in_copies) else ended


def _is_cut_short(ended: Reason | None) -> bool:
    """Whether a search ended by its clock, memory or Ctrl-C, which end all further searches too."""
    return ended is not None and not ended.has(Ended.EFFORT)


def _with_spans(method: FitMethod, spans: tuple[Span, ...]) -> FitMethod:
    """Return a method of the network with copies in these spans as a method of the network itself."""
    plan = replace(method.plan, rematerialised=(*spans, *method.plan.rematerialised))
    return replace(method, plan=plan)


class _OrderSearches:
    """Searches for the plans of a network, each in one order of its layers."""

    def __init__(self, request: FitRequest, *, parts: frozenset[str] = frozenset()) -> None:
        """Set the request. parts: layers that are not copied, as of TopologicalOrder."""
        self._request, self._parts = request, parts

    def methods(
        self, stop: Stop, known: Sequence[FitMethod] = ()
    ) -> tuple[list[FitMethod], Reason | None]:
        """Return the plans in all searched orders, and the reason of an early end.

        Canonical orders are searched first: among equal plans the choice is then independent of the
        layer order of the file. For the same reason, stage orders are improved only in canonical
        orders. The order of the file is searched last, so that no answer is larger than the plan of
        that order.

        known: plans of the network without copies; if no order can improve them, only the baselines
        are planned. Ctrl-C ends all searches.
        """
        searches: list[PlanSearch] = []
        try:
            ended = self._search_orders(searches, stop, known)
        except KeyboardInterrupt as end:
            ended = reason_of(end)
        searches = searches or [self._with_baselines(self._request.network, stop)]
        methods = [method for search in searches for method in search.methods]
        return _with_one_baseline_each(methods), ended

    def _search_orders(
        self, searches: list[PlanSearch], stop: Stop, known: Sequence[FitMethod]
    ) -> Reason | None:
        """Append the searches of all orders for `methods`; return the reason of an early end.

        The reason is that of the first search with a full effort that ended early, or the end of all
        searches by clock, memory or Ctrl-C. The end of an effort that later orders share is no early
        end.
        """
        network = self._request.network
        first, later = canonical_orders(
            network,
            self._request.table(network),
            stop=stop.question(ORDER_SHARE),
        )
        if known:
            orders = dict.fromkeys((*first, network))
            plain = [self._with_baselines(ordered, stop) for ordered in orders]
            if not any(search.can_improve(known, stop.question(BOUND_SHARE)) for search in plain):
                searches += plain
                return None
        ended: Reason | None = None
        for ordered, stop_of_order in _with_stops(first, later, stop):
            search = self.completed(ordered, stop_of_order)
            searches.append(search)
            if search.is_interrupted:
                return search.ended
            if len(searches) <= len(first):
                ended = ended or search.ended
            if _is_cut_short(search.ended) and stop.is_over():
                return search.ended
        # A plan of another order may be smaller at first, and larger once both are improved.
        _improve_stages(searches[: len(first)], stop.question(STAGES_SHARE))
        _improve_stages(searches[len(first) :], stop.question(STAGES_SHARE))
        if all(ordered.layers != network.layers for ordered in first):
            search = self.completed(network, stop.question(1.0))
            searches.append(search)
            ended = search.ended if search.is_interrupted else ended or search.ended
        end = stop.end()
        return ended or (end if _is_cut_short(end) else None)

    def completed(self, ordered: Network, stop: Stop) -> PlanSearch:
        """Return the search of the network in a layer order; without a RAM limit if no plan fits."""
        search = self.searched(ordered, stop)
        has_room = any(map(self._request.has_room_for, search.methods))
        if not has_room and not search.is_interrupted:
            search.run_without_ram(stop.question(1.0))
        return search

    def searched(self, ordered: Network, stop: Stop) -> PlanSearch:
        """Return the search of the network in a layer order, within the RAM limit."""
        search = self._with_baselines(ordered, stop)
        search.run()
        return search

    def _with_baselines(self, ordered: Network, stop: Stop) -> PlanSearch:
        """Return the search of the network in a layer order, with the two baselines planned."""
        layer_order = replace(topological_order(ordered, carries=True), parts=self._parts)
        search = PlanSearch(self._request, layer_order, self._request.table(ordered), stop=stop)
        search.plan_baselines()
        return search


def _with_stops(
    first: Sequence[Network], later: Sequence[Network], stop: Stop
) -> Iterator[tuple[Network, Stop]]:
    """Yield the network in each canonical order, with the Stop that limits the search of the order.

    first: orders with the full effort of a search.
    later: orders that share OTHERS_SHARE of an effort, in equal parts.
    """
    for number, ordered in enumerate(first):
        yield ordered, stop.question(1.0) if number else stop
    shared = stop.question(OTHERS_SHARE)
    for number, ordered in enumerate(later):
        yield ordered, shared.part(share=1 / (len(later) - number))


def _improve_stages(searches: Sequence[PlanSearch], stop: Stop) -> None:
    """Search other stage orders for the plans on the Pareto front of several searches.

    Each plan has half of the effort that is left: the plan of the fewest MACs first, then the others of
    the front by increasing bytes. Last is the smallest plan with more MACs than the front, because
    another stage order adds no MACs: an Inception-C block takes 130,944 bytes from such a plan and
    135,168 without. Without a limit on the effort of the search, the limit is STAGES_EFFORT.
    """
    if stop.effort_left is None:
        stop = stop.part(effort=STAGES_EFFORT)
    methods = [method for search in searches for method in search.methods]
    search_of = {id(method): search for search in searches for method in search.methods}
    front = improving(methods, lambda method: (method.mac_ratio, method.ram_bytes))
    most_macs = max((method.mac_ratio for method in front), default=Fraction(0))
    beyond = [method for method in methods if method.mac_ratio > most_macs]
    smallest_beyond = sorted(beyond, key=lambda method: (method.ram_bytes, method.mac_ratio))[:1]
    for method in (*front[:1], *reversed(front[1:]), *smallest_beyond):
        search_of[id(method)].improve(method, stop.part(share=0.5))


def _with_one_baseline_each(methods: Sequence[FitMethod]) -> list[FitMethod]:
    """Return the plans of several layer orders; of each baseline only the plan with the least RAM."""
    baselines: dict[str, FitMethod] = {}
    for method in methods:
        if method.name in PLAIN:
            best = baselines.setdefault(method.name, method)
            baselines[method.name] = min(best, method, key=lambda plan: plan.ram_bytes)
    return [*baselines.values(), *(method for method in methods if method.name not in PLAIN)]
