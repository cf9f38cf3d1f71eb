"""Files of plans, for models that are at hand."""

from __future__ import annotations

from csdf.errors import CsdfError, counted
from csdf.io.files import decoded, read_bytes
from planners.streaming.given.plan_text import parse_plans
from planners.streaming.plan import StreamingPlan


def plans_for(path: str, models: int) -> tuple[StreamingPlan, ...]:
    """Return the plans of a file, one for each of so many models."""
    plans = parse_plans(decoded(read_bytes(path), path), path)
    if len(plans) != models:
        raise CsdfError(
            f"{path}: found {counted(len(plans), 'plan')} for {counted(models, 'model')}; give the "
            "models that it was planned for, in the same order"
        )
    return plans
