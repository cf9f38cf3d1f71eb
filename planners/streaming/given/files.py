"""Files of plans, for models that are at hand."""

from __future__ import annotations

from cnn2csdf.weights import Model
from csdf.errors import CsdfError, InvalidPlan, counted
from csdf.io.files import decoded, read_bytes
from planners.streaming.given.apart import require_apart
from planners.streaming.given.plan_text import parse_plans
from planners.streaming.plan import StreamingPlan
from planners.tiling.layer_ranges import layer_range


def worked_part(model: Model, plan: StreamingPlan) -> Model:
    """Return the layers of a model that a plan works; all, where it does not say which."""
    return model if plan.layers is None else layer_range(model, *plan.layers)


def plans_for(path: str, models: int) -> tuple[StreamingPlan, ...]:
    """Return the plans of a file, one for each of so many models, all in one arena.

    Raises InvalidPlan where networks that may work at the same time have bytes in common.
    """
    plans = parse_plans(decoded(read_bytes(path), path), path)
    if len(plans) != models:
        raise CsdfError(
            f"{path}: found {counted(len(plans), 'plan')} for {counted(models, 'model')}; give the "
            "models that it was planned for, in the same order"
        )
    try:
        require_apart(plans)
    except InvalidPlan as error:
        raise InvalidPlan(f"{path}: {error}") from None
    return plans
