"""`csdf plan fusion` without its own search: a given configuration, or the choice of MAFAT."""

from __future__ import annotations

import argparse

from csdf.outcome import Reason, Status, Why, because
from planners.fusion.chains import Chain
from planners.fusion.choices import Terms
from planners.fusion.command.options import FITTED, PUBLISHED
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

PREDICTORS = {PUBLISHED: Predictor.PRINTED, FITTED: Predictor.FITTED}  # by --method


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


def chosen_answer(
    chain: Chain, terms: Terms, options: argparse.Namespace, limit: int | None
) -> FusionAnswer:
    """Return the plan of the configuration that is given, or that MAFAT's search chooses.

    Raises InvalidPlan where the configuration does not fit the chain.
    """
    if options.configuration is not None:
        groups = named_configuration(chain, options.configuration)
        reason = _reason(ChosenWhy.GIVEN, chain, groups)
    else:
        memory, predictor = limit or 0, PREDICTORS[options.method]
        groups = paper_search(chain, memory, predictor)
        fits = predicted(chain, groups, predictor) < memory
        why = ChosenWhy.PUBLISHED if fits else ChosenWhy.TOO_LARGE
        reason = _reason(why, chain, groups, limit=memory)
    plan = fusion_plan(chain, groups, terms)
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
