"""`csdf plan fusion` without its own search: a given configuration, or the choice of MAFAT."""

from __future__ import annotations

import argparse

from csdf.outcome import Reason, Status, Why, because
from csdf.stopping import Budget
from planners.fusion.chains import Chain
from planners.fusion.choices import Terms
from planners.fusion.configurations import Configuration
from planners.fusion.planning import fusion_plan
from planners.fusion.plans import FusionAnswer
from planners.fusion.published import (
    MB,
    Predictor,
    named_configuration,
    paper_name,
    paper_search,
    predicted,
)

EXACT = "exact"
METHODS = {"published": Predictor.PRINTED, "fitted": Predictor.FITTED}


class ChosenWhy(Why):
    """The source of a plan that no search here has found."""

    GIVEN = "{name} as given; MAFAT predicts {printed:.1f} MiB, with the fit {fitted:.1f} MiB"
    PUBLISHED = (
        "Algorithm 3 of MAFAT chooses {name}; predicted {printed:.1f} MiB, with the fit "
        "{fitted:.1f} MiB"
    )
    TOO_LARGE = (
        "Algorithm 3 of MAFAT finds nothing below {limit} bytes and takes {name}; predicted "
        "{printed:.1f} MiB, with the fit {fitted:.1f} MiB"
    )
    BEYOND = "{name} as given needs an arena of {needed} bytes, more than {limit}"


def add_chosen_options(parser: argparse.ArgumentParser) -> None:
    """Add what takes the place of the search."""
    parser.add_argument(
        "--configuration",
        metavar="TILES[/CUT/TILES..]",
        help="plan this one instead of searching, as MAFAT writes it: 2x2/NoCut, or 5x5/8/2x2 for 5x5 "
        "tiles up to layer 8 and 2x2 from there; overlaps are computed again",
    )
    parser.add_argument(
        "--method",
        choices=[EXACT, *METHODS],
        default=EXACT,
        help="exact (default): the search; published: Algorithm 3 of MAFAT with its predictor as "
        "printed, of which --memory is then the limit; fitted: with a predictor that is fitted to "
        "its Table 4.1",
    )


def require_question(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """Refuse options that ask for nothing, or for two things at once."""
    has_limit = (options.memory, options.ram) != (None, None)
    if not is_chosen(options):
        if not has_limit and not options.front:
            parser.error("give --ram, --memory, --front or --configuration")
        return
    if options.front or options.plot:
        parser.error("--front and --plot show a search; --configuration and --method make none")
    if options.configuration is not None and options.method != EXACT:
        parser.error("--configuration is a choice, and --method makes one; give one of them")
    if options.configuration is None and not has_limit:
        parser.error("--method needs a limit: give --memory or --ram")


def is_chosen(options: argparse.Namespace) -> bool:
    """Whether a configuration is given, or MAFAT's search asked for."""
    return options.configuration is not None or options.method != EXACT


def chosen_answer(
    chain: Chain, terms: Terms, options: argparse.Namespace, limit: int | None, budget: Budget
) -> FusionAnswer:
    """Return the plan of the configuration that is given, or that MAFAT's search chooses.

    Raises InvalidPlan where the configuration does not fit the chain.
    """
    if options.configuration is not None:
        groups = named_configuration(chain, options.configuration)
        reason = _reason(ChosenWhy.GIVEN, chain, groups)
    else:
        memory, predictor = limit or 0, METHODS[options.method]
        groups = paper_search(chain, memory, predictor)
        fits = predicted(chain, groups, predictor) < memory
        why = ChosenWhy.PUBLISHED if fits else ChosenWhy.TOO_LARGE
        reason = _reason(why, chain, groups, limit=memory)
    plan = fusion_plan(chain, groups, terms, budget=budget)
    answer = FusionAnswer(plan=plan, front=(), status=Status.FEASIBLE, reason=reason, lower_bound=0)
    if options.configuration is None or limit is None or plan.memory <= limit:
        return answer
    beyond = because(ChosenWhy.BEYOND, name=options.configuration, needed=plan.memory, limit=limit)
    return FusionAnswer(
        plan=None, front=(), status=Status.INFEASIBLE, reason=beyond, lower_bound=plan.memory
    )


def _reason(why: ChosenWhy, chain: Chain, groups: Configuration, **values: int) -> Reason:
    """Why, with what both predictors say of the configuration."""
    printed, fitted = (predicted(chain, groups, one) / MB for one in Predictor)
    return because(why, name=paper_name(groups), printed=printed, fitted=fitted, **values)
