"""`csdf plan arena`: offsets for buffers with lifetimes, or for the tensors of a network, proved."""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import PurePath
from typing import Any

from cnn2csdf.catalogue.networks import CATALOGUE
from cnn2csdf.commands.cnn import options as shared
from csdf.cli import answers, graph_input, option_values, parsers
from csdf.cli.frame import output, terminal
from csdf.cli.frame.long_work import stop_after
from csdf.cli.loading import drawing, suffix_of
from csdf.errors import CsdfError, InvalidPlan, UnreadableFile, UnwritableFile
from csdf.io.files import is_file_or_stream, read_bytes
from csdf.io.json_value import JsonValue
from csdf.names import expected_names
from csdf.status import Ended, Status
from csdf.time_limit import Stop
from csdf.units import bytes_in_words, time_in_words
from planners.arena.allocation import bytes_so_far, plan_arena
from planners.arena.banks import BankWhy, plan_banks
from planners.arena.checker import check_plan
from planners.arena.problem import Bank, MemoryPlan, Problem
from planners.formats.allocation_traces import format_offsets, parse_buffers, parse_traces
from planners.formats.c_header import format_header
from planners.formats.json_problems import parse_problems
from planners.formats.tflite_micro import offline_plan

# Seconds of a usual machine: twice those of the hardest known problem whose search ends at all.
EFFORT = 60.0
PROGRAM = "csdf plan arena"
INTERPRETED = "tflite"  # the suffix for the network file itself, with the plan of its tensors
SINGLE = ("csv", "bin", INTERPRETED)  # formats that hold one plan
SHOWN = 5  # maximum number of names in a remark
FORMATS = ("json", "h", *SINGLE)

Timed = tuple[MemoryPlan, float]


def work(options: argparse.Namespace) -> int:
    """Print the plans; return the exit code: 1 if a problem is infeasible, 3 if one is undecided."""
    # At most one is set: a graph to order, the file to add a plan to, a network to plan.
    graph = file = network = None
    # The readers of networks and graphs import NumPy, so they are loaded only for networks and graphs.
    _check_order(options)
    if options.order:
        graph = import_module("planners.arena.command.tensor_graph").AskedOrder(options)
    elif options.output and suffix_of(options.output) == INTERPRETED:
        file = import_module("planners.arena.command.networks").AskedFile(options)
    elif _is_network(options.model):
        network = import_module("planners.arena.command.networks").AskedNetwork(options)
    source = graph or file or network
    problems = read_problems(options.model) if source is None else [source.problem]
    problems = _in_banks(_chosen(problems, options), options.banks)
    _require_writable(options, problems)
    for problem in problems:
        # Buffers without a lifetime are a mistake if the file counts the last time as live.
        if problem.dead:
            names = answers.listed_up_to([repr(name) for name in problem.dead], SHOWN)
            _remark(
                f"warning: {problem.name}: {names}: never live, as the end is not included: a "
                "buffer that ends where it starts gets no bytes"
            )
    is_interrupted = graph is not None and graph.is_interrupted
    plans = _planned(problems, options, is_interrupted=is_interrupted)
    if file is not None:
        plans = [(file.settled(plan), seconds) for plan, seconds in plans]
    for plan, _ in plans if options.json or len(plans) != 1 else ():
        if plan.status != Status.OPTIMAL:  # the table of a single plan says why
            _remark(f"{plan.problem.name}: {plan.status}: {plan.reason}")
    document: dict[str, Any] = {
        "problems": [plan.to_json() | {"seconds": round(seconds, 6)} for plan, seconds in plans]
    }
    if graph is not None:
        document["order"] = graph.to_json()
    if file is not None and plans[0][0].has_offsets:
        document["interpreter"] = file.to_json(plans[0][0])
    if options.output:
        _write(options.output, plans, answers.json_text(document), file)
    fit = None if network is None else network.fit()
    if options.json:
        if network is not None:
            document["fit"] = None if fit is None else fit[1]
        print(answers.json_text(document))
    else:
        if graph is not None:
            print(graph.in_words(options))
        print(answers.in_words(_lines(plans), options))
        if file is not None and "interpreter" in document:
            print(file.in_words(plans[0][0]))
        if fit is not None:
            print(f"  csdf fit   {fit[0]}")
    if options.plot:
        _plot(options.plot, plans[0][0], options.capacity)
    statuses = {plan.status for plan, _ in plans}
    if Status.INFEASIBLE in statuses:
        return answers.NO
    is_cut_short = any(map(_is_cut_short, (plan for plan, _ in plans))) and not options.best_effort
    return answers.UNKNOWN if Status.UNKNOWN in statuses or is_cut_short else answers.ANSWERED


def command_parser() -> argparse.ArgumentParser:
    """Return the parser of this command."""
    parser = parsers.new_parser(
        "csdf plan arena",
        "Offsets for buffers with lifetimes in one arena: the smallest arena, with proof, or a "
        "plan that fits a capacity; in JSON also several banks. For a network: offsets of its "
        "tensors, executed layer by layer. The search counts its steps: the same command gives "
        "the same answer. Ctrl-C and the time limit print the best plan so far.",
        "csdf plan arena models/alloc/keyword_spotting.csv -o offsets.h",
        "csdf plan arena resnet8 --element-bytes 1",
        "csdf plan arena models/alloc/keyword_spotting.csv --capacity 32kB --plot arena.png",
        "csdf plan arena models/order/branches.json --order",
        work=work,
    )
    shared.add_model_argument(
        parser,
        "model",
        help="MiniMalloc CSV, Glow trace, or JSON, which may hold many problems; or a network: "
        "ONNX or TensorFlow Lite (.onnx, .tflite), Darknet (.cfg), or one of the catalogue",
    )
    shared.add_reading_options(parser)
    shared.add_element_bytes_option(parser, is_by_tensor=True)
    _add_order_options(parser)
    parser.add_argument("--only", metavar="NAME", help="only the problem of this name in the file")
    parser.add_argument(
        "--capacity",
        type=option_values.size,
        metavar="SIZE",
        help="stop at a plan of at most this size; with --order: the lowest price of alternatives "
        "and recomputation within it",
    )
    parser.add_argument(
        "--bank",
        type=bank,
        action="append",
        dest="banks",
        default=[],
        metavar="NAME=SIZE[:COST]",
        help="a memory, the preferred one first, instead of those in the file; with a cost per "
        "access for one of two banks, the total cost of accesses is minimised. Without access "
        "counts in the file, each byte is accessed once",
    )
    parsers.add_effort(
        parser,
        "effort of the search for each problem, which ends with the best plan so far",
        EFFORT,
    )
    parser.add_argument(
        "--method",
        choices=("own", "cp-sat"),
        default="own",
        help="cp-sat: the solver of OR-Tools as a second opinion (extra: cp)",
    )
    parsers.add_json_option(parser)
    parsers.add_plot_option(parser, "the arena")
    parsers.add_output_option(
        parser,
        ".csv with offsets, .json, .h for C, .bin for TensorFlow Lite Micro (offline plan); .tflite: "
        "the file MODEL with such a plan for its tensors, which the interpreter follows",
        required=False,
    )
    return parser


def _add_order_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of --order: the search for an execution order."""
    parser.add_argument(
        "--order",
        action="store_true",
        help="MODEL is JSON with nodes and bytes of tensors, or a dataflow graph, whose firings "
        "are the nodes: choose the order of nodes with the minimum peak memory, then offsets",
    )
    parser.add_argument(
        "--in-place",
        action="store_true",
        help="with --order: nodes whose op is Add, Sub, Mul, Relu, Sigmoid, Tanh or HardSwish may "
        "overwrite an input of their size",
    )
    parser.add_argument(
        "--price-limit",
        type=option_values.from_zero,
        metavar="N",
        help="with --order: maximum total price of alternatives, recomputed nodes and in-place "
        "outputs",
    )
    parser.add_argument(
        "--training",
        action="store_true",
        help="with --order: add the backward nodes of a training iteration; activations are "
        "retained, or recomputed",
    )


def bank(text: str) -> Bank:
    """Parse a bank such as sram=64kB or psram=8MB:1; for argparse."""
    name, is_given, size = text.partition("=")
    size, has_cost, cost = size.partition(":")
    if not (name.strip() and is_given):
        raise option_values.unfit(text, "a name and a size, such as sram=64kB or psram=8MB:1")
    number = option_values.from_zero(cost) if has_cost else 0
    return Bank(name=name.strip(), capacity=option_values.size(size), cost=number)


def _check_order(options: argparse.Namespace) -> None:
    """Raise CsdfError for a network with --order, and for an option of --order without it."""
    if not options.order:
        for name in ("training", "in_place", "price_limit"):
            if getattr(options, name) is not None and getattr(options, name) is not False:
                option = f"--{name.replace('_', '-')}"
                raise CsdfError(f"{option} is for a graph of tensors; give --order as well")
    elif _is_network(options.model):
        raise CsdfError(
            f"--order reads JSON with the nodes of a graph; found the network {options.model}"
        )
    elif options.output and suffix_of(options.output) == INTERPRETED:
        raise CsdfError(f"--order makes no {INTERPRETED} file; write .json, .csv or .h")


def _chosen(problems: list[Problem], options: argparse.Namespace) -> list[Problem]:
    """Return the problem that --only names, or all problems without --only."""
    if options.only is None:
        return problems
    chosen = [problem for problem in problems if problem.name == options.only]
    if not chosen:
        count = answers.counted(len(problems), "problem")
        expected = expected_names(options.only, [problem.name for problem in problems])
        raise UnreadableFile(
            f"{options.model}: of its {count} none has the name {options.only!r}{expected}"
        )
    return chosen


def _in_banks(problems: list[Problem], banks: Sequence[Bank]) -> list[Problem]:
    """Return the problems with these banks; a file without access counts gets one for each byte."""
    if not banks:
        return problems
    in_banks = []
    for problem in problems:
        buffers = problem.buffers
        if not any(buffer.accesses for buffer in buffers):
            buffers = tuple(replace(buffer, accesses=buffer.size) for buffer in buffers)
        try:
            in_banks.append(replace(problem, buffers=buffers, banks=tuple(banks)))
        except InvalidPlan as error:
            raise CsdfError(f"--bank: {error}") from None
    return in_banks


def _require_writable(options: argparse.Namespace, problems: list[Problem]) -> None:
    """Refuse an output before the search that could not be written after it."""
    suffix = suffix_of(options.output) if options.output else FORMATS[0]
    if suffix not in FORMATS:
        raise UnwritableFile(
            f"{options.output}: cannot write {suffix!r}; expected one of {', '.join(FORMATS)}"
        )
    where = options.plot or (options.output if suffix in SINGLE else None)
    if where and len(problems) != 1:
        raise UnwritableFile(
            f"{where}: holds one plan, but there are {len(problems)} problems; choose with --only"
        )
    if where and len(problems[0].banks) > 1:
        raise UnwritableFile(
            f"{where}: holds one plan, but there are {len(problems[0].banks)} banks; write .json or .h"
        )


def _planned(
    problems: list[Problem], options: argparse.Namespace, *, is_interrupted: bool
) -> list[Timed]:
    """Return the plans, problem by problem; an interrupt after the first plan ends the sequence.

    is_interrupted: whether each search ends at once, with its first plan.
    """
    plans: list[Timed] = []
    for problem in problems:
        begin = time.perf_counter()
        try:
            plans_of_problem = _plans_of(problem, options, is_interrupted=is_interrupted)
        except KeyboardInterrupt:
            if not plans:
                raise
            _remark(f"interrupted; {len(plans)} of {len(problems)} problems are done")
            break
        seconds = time.perf_counter() - begin
        plans += [(plan, seconds) for plan in plans_of_problem]
        if any(plan.reason.has(Ended.INTERRUPTED) for plan in plans_of_problem):
            break
    return plans


def _plans_of(
    problem: Problem, options: argparse.Namespace, *, is_interrupted: bool
) -> list[MemoryPlan]:
    """Return the plan of a problem, or of each of its banks."""
    words: str | partial[str] = partial(bytes_so_far, problem.name)
    if problem.banks:
        count = answers.counted(len(problem.banks), "bank")
        words = f"{problem.name}: searching offsets for each buffer in {count}"
    stop = stop_after(options.time_limit, words, effort=options.effort)
    if is_interrupted:
        stop.interrupt()
    if options.method == "cp-sat":
        return [_by_cp_sat(problem, options, stop)]
    if not problem.banks:
        return [plan_arena(problem, capacity=options.capacity, budget=stop)]
    planned_banks = plan_banks(problem, budget=stop)
    if planned_banks.plans:
        return list(planned_banks.plans.values())
    bound, status, reason = planned_banks.lower_bound, planned_banks.status, planned_banks.reason
    return [MemoryPlan(problem=problem, lower_bound=bound, status=status, reason=reason)]


def _by_cp_sat(problem: Problem, options: argparse.Namespace, stop: Stop) -> MemoryPlan:
    """Return the plan of OR-Tools until the stop, checked like our own plans."""
    if problem.banks or options.capacity is not None:
        raise CsdfError("--method cp-sat finds the smallest single arena only")
    try:
        module = import_module("planners.arena.cp_sat")
    except ModuleNotFoundError:
        raise CsdfError("--method cp-sat needs ortools: pip install ortools") from None
    with answers.working(f"{problem.name}: OR-Tools is searching"):
        plan: MemoryPlan = module.plan_with_cp_sat(problem, budget=stop)
    if plan.has_offsets:
        check_plan(plan)
    return plan


def _is_cut_short(plan: MemoryPlan) -> bool:
    """Whether the time limit ended the search before a proof, or before a plan within the capacity."""
    return plan.status != Status.INFEASIBLE and plan.reason.has(Ended.TIME_LIMIT)


def _remark(text: str) -> None:
    output.remark(PROGRAM, text)


def _plot(path: str, plan: MemoryPlan, capacity: int | None) -> None:
    if not plan.has_offsets:
        _remark(f"{path} is not written: there is no plan to draw")
        return
    module = drawing("planners.arena.command.picture")
    boxes = [
        module.DrawnBuffer(
            buffer.name, buffer.start, buffer.end, plan.offsets[buffer.name], buffer.size
        )
        for buffer in plan.problem.buffers
        if buffer.takes_bytes
    ]
    buffers, size = answers.counted(len(boxes), "buffer"), answers.counted(plan.peak, "byte")
    title = f"{plan.problem.name}: {buffers} in {size}, {plan.status}"
    picture = module.arena_picture(
        title, boxes, bound=plan.lower_bound, capacity=capacity, suffix=suffix_of(path)
    )
    output.write(PROGRAM, path, picture)


def _write(path: str, plans: list[Timed], document: str, file: Any) -> None:
    """Write the plans in the format of the suffix, if a plan fits for every problem.

    JSON contains the answers for several problems, and is written if a plan fits for any of them.
    file: the network file to which the plan is added, for a suffix of networks.
    """
    suffix = suffix_of(path)
    plans_only = [plan for plan, _ in plans]
    fits = [plan.status in (Status.OPTIMAL, Status.FEASIBLE) for plan in plans_only]
    has_plans = not fits or (any(fits) and (suffix == "json" or all(fits)))
    if not has_plans:
        _remark(f"{path} is not written: there is not a plan that fits for every problem")
        return
    if suffix == "json":
        output.write(PROGRAM, path, document + "\n")
        return
    content: str | bytes
    try:
        if file is not None:
            content = file.written(plans_only[0])
        elif suffix == "h":
            content = format_header(plans_only)
        elif suffix == "csv":
            content = format_offsets(plans_only[0])
        else:
            content = offline_plan(plans_only[0])
        output.write(PROGRAM, path, content)
    except InvalidPlan as error:
        raise UnwritableFile(f"{path}: {error}") from None


def _lines(plans: list[Timed]) -> list[str]:
    """Return the answer: the offsets of a single problem, or a table with a row for each problem."""
    if len(plans) == 1:
        (plan, seconds), lines = plans[0], []
        buffers, bound = answers.counted(len(plan.problem.buffers), "buffer"), plan.lower_bound
        verdict = f"{plan.status}: {plan.reason}"
        if plan.has_offsets:
            size = f"arena {bytes_in_words(plan.peak)} ({answers.counted(plan.peak, 'byte')})"
            gap = "" if plan.peak == bound else f", {answers.gap_above(plan.peak, bound)}"
            verdict = f"{size} for {buffers}, {plan.status}{gap}"
            rows = [
                (
                    buffer.name,
                    f"[{plan.offsets[buffer.name]}, {plan.offsets[buffer.name] + buffer.size})",
                    f"[{buffer.start}, {buffer.end})",
                )
                for buffer in plan.problem.buffers
            ]
            head = ("buffer", "bytes", "live")
            lines = [
                *terminal.aligned([head, *rows], texts=(0, 1, 2), indent="  "),
                f"  lower bound: {plan.reason}",
            ]
        taken = answers.Detail(f"  time: {time_in_words(seconds)}")
        line = f"{plan.problem.name}: {verdict}"
        line = answers.cut_short(line) if _is_cut_short(plan) else line
        return [line, *lines, taken]
    table = [("problem", "buffers", "arena", "lower bound", "gap", "status")]
    for plan, _ in plans:
        peak, gap = (str(plan.peak), f"{float(plan.gap):.2%}") if plan.has_offsets else ("-", "-")
        counts = (str(len(plan.problem.buffers)), peak, str(plan.lower_bound), gap)
        table.append((plan.problem.name, *counts, str(plan.status)))
    ends = Counter(str(plan.status) for plan, _ in plans)
    verdict = ", ".join(f"{number} {status}" for status, number in ends.items())
    line = f"{answers.counted(len(plans), 'arena')}: {verdict}"
    lines = [
        answers.cut_short(line) if any(_is_cut_short(plan) for plan, _ in plans) else line,
        *terminal.aligned(table, texts=(0, 5), indent="  "),
        answers.Detail(f"  time: {time_in_words(sum(seconds for _, seconds in plans))}"),
    ]
    if plans and plans[0][0].reason.has(BankWhy.COST):
        lines.insert(-1, f"  bound: {plans[0][0].reason}")
    return lines


def _is_network(source: str) -> bool:
    """Whether the source is a network file, or the name of a network of the catalogue."""
    if PurePath(source).suffix.lower() in graph_input.NETWORKS:
        return True
    return source.partition(":")[0] in CATALOGUE and not is_file_or_stream(source)


def read_problems(path: str) -> list[Problem]:
    """Return the problems of a file: JSON, a Glow trace or MiniMalloc's CSV, by its first line."""
    try:
        text = read_bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UnreadableFile(f"{path}: is not text; expected CSV, JSON or a Glow trace") from None
    lines = (line.strip() for line in text.splitlines())
    begin = next((line for line in lines if line and not line.startswith("#")), "")
    document = JsonValue.parse(text, path).value if begin.startswith("{") else {}
    if begin.startswith("<") or not document.keys().isdisjoint(("actors", "nodes")):
        raise UnreadableFile(
            f"{path}: a graph; `{PROGRAM} --order` plans it. Expected CSV, JSON with 'problems' or a "
            "Glow trace"
        )
    if begin.startswith("{"):
        return parse_problems(text, path)
    if begin.split(maxsplit=1)[:1] == ["MODEL"]:
        return parse_traces(text, path)
    return [parse_buffers(text, path, PurePath(path).stem)]
