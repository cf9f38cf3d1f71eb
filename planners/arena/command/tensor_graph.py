"""Graphs of tensors for `csdf plan arena --order`: the order of minimum peak, then the offsets."""

from __future__ import annotations

import argparse
from pathlib import PurePath
from typing import Any

from csdf.cli import answers
from csdf.cli.frame.long_work import stop_after
from csdf.errors import CsdfError, InvalidGraph, UnreadableFile
from csdf.io.files import read_bytes
from csdf.io.graph_files import graph_of_content
from csdf.io.json_value import JsonValue
from csdf.status import Ended, Status
from csdf.units import bytes_in_words
from planners.arena.problem import Problem
from planners.formats.tensor_graphs import parse_tensor_graph
from planners.order.firings import firing_graph
from planners.order.lifetimes import tensor_lifetimes
from planners.order.order_plan import OrderPlan
from planners.order.problem import OrderProblem
from planners.order.reuse import PricedOrder, plan_reuse
from planners.order.search import EFFORT, plan_order
from planners.order.training import training_graph

DATAFLOW = (".xml", ".pi", ".scenario")  # of files of dataflow graphs, as well as .json


class AskedOrder:
    """The order of minimum peak of the graph of a file, and the buffers of this order."""

    def __init__(self, options: argparse.Namespace) -> None:
        path = options.model
        graph = _read(options)
        self._reuse: PricedOrder | None = None
        try:
            if options.training:
                graph = training_graph(graph)
            stop = stop_after(
                options.time_limit, f"{graph.name}: searching the order of least peak"
            )
            limit, budget = options.price_limit, stop.part(effort=EFFORT)
            if graph.reuse_prices:
                self._reuse = plan_reuse(graph, price_limit=limit, budget=budget)
                self.plan: OrderPlan = self._reuse.order
                self.problem: Problem = self._reuse.problem
            else:
                self.plan = plan_order(
                    graph, price_limit=limit, peak_limit=options.capacity, budget=budget
                )
                self.problem = tensor_lifetimes(self.plan.problem, self.plan.order)
        except InvalidGraph as error:
            raise UnreadableFile(f"{path}: {error}") from None

    @property
    def is_interrupted(self) -> bool:
        """Whether Ctrl-C ended the search for the order, or for an arena at prices of reuse."""
        reuse = (self._reuse, self._reuse.arena) if self._reuse else ()
        return any(answer.reason.has(Ended.INTERRUPTED) for answer in (self.plan, *reuse))

    def to_json(self) -> dict[str, Any]:
        """Return the order, and the prices of reuse, as a JSON value."""
        reuse = {} if self._reuse is None else {"reuse": self._reuse.to_json()}
        return self.plan.to_json() | reuse

    def in_words(self, options: argparse.Namespace) -> str:
        """Return peaks, bound and order in lines."""
        plan = self.plan
        # A peak within --capacity is optimal, and may be above the lower bound.
        has_no_gap = plan.status == Status.OPTIMAL or not plan.gap
        gap = "" if has_no_gap else f", {answers.gap_above(plan.peak, plan.lower_bound)}"
        lines = [
            f"order: {plan.status}: {plan.reason}",
            f"  peak        {bytes_in_words(plan.peak)} ({answers.counted(plan.peak, 'byte')}){gap}",
            f"  file order  {bytes_in_words(plan.file_peak)} "
            f"({answers.counted(plan.file_peak, 'byte')})",
            f"  steps       {', '.join(plan.order)}",
        ]
        if plan.alternatives:
            chosen = (f"{step} {number}" for step, number in plan.alternatives.items())
            lines.append(f"  chosen      {', '.join(chosen)}")
        if plan.repeated:
            lines.append(f"  repeated    {', '.join(plan.repeated)}")
        if plan.alternatives or plan.repeated:
            lines.append(f"  price       {plan.price}")
        if (reuse := self._reuse) is not None:
            pairs = ", ".join(f"{pair.first} and {pair.second}" for pair in reuse.paid) or "none"
            size = (
                f"{bytes_in_words(reuse.arena.peak)} ({answers.counted(reuse.arena.peak, 'byte')})"
            )
            verdict = f"{reuse.status}: {reuse.reason}"
            lines.append(f"reuse: arena of {size} at a price of {reuse.price}, {verdict}")
            lines.append(f"  paid pairs  {pairs}")
        return answers.in_words(lines, options)


def _read(options: argparse.Namespace) -> OrderProblem:
    """Return the graph of tensors of a file, or the firings of a dataflow graph."""
    path = options.model
    content = read_bytes(path)
    is_dataflow = PurePath(path).suffix.lower() in DATAFLOW or content.lstrip()[:1] == b"<"
    try:
        text = "" if is_dataflow else content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UnreadableFile(f"{path}: is not text; expected JSON with 'nodes'") from None
    if is_dataflow or (text.lstrip()[:1] == "{" and "actors" in JsonValue.parse(text, path).value):
        if options.in_place:
            raise CsdfError(f"--in-place is for a graph of tensors; {path} has actors")
        return firing_graph(graph_of_content(content, str(path)))
    return parse_tensor_graph(
        text, path, elementwise_in_place=options.in_place, title=PurePath(path).stem
    )
