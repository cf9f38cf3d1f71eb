"""The seconds of a report, shared out among its questions."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from csdf.cli import answers
from csdf.cli.deadline import Alarm
from csdf.errors import GaveUp

GRACE = 0.3  # seconds that a question may take to end by itself


class Budget:
    """Seconds that count from now on; what one question leaves over goes to the next."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._end = time.monotonic() + seconds

    @property
    def reason(self) -> str:
        """Why a question was given up; the same words for the same budget."""
        return f"the budget of {self._seconds:g} s is used up"

    def watch(self, share: float, describe: Callable[[Any], str]) -> Callable[[Any], None]:
        """Return a function that shows progress, and raises GaveUp after a share of what is left."""
        end = time.monotonic() + self._left * share
        show = answers.watch_progress(None, describe)

        def look(progress: Any) -> None:
            if time.monotonic() > end:
                raise GaveUp(self.reason)
            show(progress)

        return look

    def quiet_watch(self, share: float, what: str) -> Callable[[], None]:
        """Return such a function for work that does not tell how far it has come."""
        look = self.watch(share, lambda _: what)
        return lambda: look(None)

    def limited(self, share: float) -> AbstractContextManager[None]:
        """End what happens inside by GaveUp when it has overrun its share, though it did not look."""
        return Alarm(self._left * share + GRACE, self.reason)

    @property
    def _left(self) -> float:
        return max(0.0, self._end - time.monotonic())
