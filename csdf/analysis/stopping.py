"""The end of an analysis by the clock, for those who call it from a program."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import ParamSpec

from csdf.errors import CsdfError, GaveUp

Arguments = ParamSpec("Arguments")


def within(budget: float | None, watch: Callable[Arguments, None]) -> Callable[Arguments, None]:
    """Return a watch that also raises GaveUp once the budget (seconds) is used up.

    The time runs from this call on. Raises CsdfError for a budget that is not above zero.
    """
    if budget is None:
        return watch
    if not budget > 0:
        raise CsdfError(f"a budget of {budget} seconds; expected more than 0")
    end = time.monotonic() + budget

    def look(*args: Arguments.args, **kwargs: Arguments.kwargs) -> None:
        if time.monotonic() > end:
            raise GaveUp(f"the budget of {budget:g} s is used up")
        watch(*args, **kwargs)

    return look
