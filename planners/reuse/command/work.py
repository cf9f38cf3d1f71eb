"""The work of `csdf plan reuse`: plans of several networks are searched, told and written."""

from __future__ import annotations

import argparse
import json
import sys
import time

from cnn2csdf.commands.cnn import options as shared
from cnn2csdf.platforms import PLATFORMS
from csdf.cli import answers
from csdf.cli.frame import output
from csdf.cli.frame.long_work import stop_after
from csdf.cli.pictures import suffix_of
from planners.reuse.application.application import Application, of_one_size
from planners.reuse.application.published_rates import as_published
from planners.reuse.buffers.sharing import best_shared, shared_buffers
from planners.reuse.command.answer import ReusePlans, as_json, as_text, plot
from planners.reuse.command.application import application_of
from planners.reuse.command.choice import concluded, plans_of
from planners.reuse.command.options import PUBLISHED
from planners.reuse.command.published import front_at_once, measured_times
from planners.reuse.command.search import searched
from planners.reuse.cost.evaluation import Costs, Evaluator
from planners.reuse.deployment.c_tables import format_tables
from planners.reuse.deployment.deployment import Deployment
from planners.reuse.front.selection import Demands
from planners.streaming.given.plan_text import format_plans


def work(options: argparse.Namespace) -> int:
    """Search, choose, print; return the exit code: 1 if no plan meets the demands."""
    demands = Demands(throughput=dict(options.throughput))
    application = application_of(options)
    if options.is_element_given:
        application = of_one_size(application)
    if options.accounting == PUBLISHED:
        application = as_published(application)
    demands.check_names(application)
    answer = _answer(application, options, demands)
    _remark_on_platform(application, options)
    if options.output and answer.deployment is not None:
        text = _document(application, answer.deployment, options)
        output.write("csdf plan reuse", options.output, text)
    elif options.output:
        print(
            f"csdf plan reuse: {options.output} is not written: there is no plan", file=sys.stderr
        )
    print(json.dumps(as_json(answer), indent=2) if options.json else as_text(answer))
    if options.plot:
        plot(options.plot, answer)
    if answer.chosen is None:
        is_proved = answer.front.is_proved or answer.is_below_bound
        return answers.NO if is_proved else answers.GAVE_UP
    return answers.ANSWERED if answer.is_equal and answer.is_within_limit else answers.NO


def _remark_on_platform(application: Application, options: argparse.Namespace) -> None:
    """Say of which processor the times are, of networks without measured ones."""
    measured = dict.fromkeys(name for name, _ in options.durations)
    if len(measured) < len(application.members):
        shared.remark_on_platform("csdf plan reuse", options, tuple(measured))


def _document(application: Application, plan: Deployment, options: argparse.Namespace) -> str:
    """The plan as JSON in the form of all plans, or as tables for C."""
    if suffix_of(options.output) == "h":
        return format_tables(plan)
    return format_plans(plans_of(application, plan, options))


def _answer(application: Application, options: argparse.Namespace, demands: Demands) -> ReusePlans:
    begin = time.perf_counter()
    size = options.element_bytes if options.is_element_given else application.unit
    costs = Costs(
        element_bytes=size,
        parameter_bytes=options.parameter_bytes or (size if options.is_element_given else None),
        platform=PLATFORMS[options.platform],
        measured=measured_times(application, options.durations),
    )
    is_ours = options.method == "beyond" and options.selection != PUBLISHED
    evaluator = Evaluator(application, costs, share=best_shared if is_ours else shared_buffers)
    stop = stop_after(options.budget)
    front = front_at_once(evaluator, options) or searched(evaluator, options, stop)
    with answers.working("placing buffers, proving bounds"):
        return concluded(evaluator, front, options, demands, begin=begin, stop=stop)
