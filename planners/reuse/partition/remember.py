"""Answers that are kept to be given again, as long as there is room for them."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Answer = TypeVar("Answer")


def remember(known: dict[Key, Answer], key: Key, answer: Answer, most: int) -> Answer:
    """Keep the answer and return it; forget the oldest one where there would be more than `most`."""
    if len(known) >= most:
        del known[next(iter(known))]
    known[key] = answer
    return answer


class Learnt(Generic[Answer]):
    """Answers that were worked out since somebody asked for them; none are noted before."""

    def __init__(self) -> None:
        self._answers: list[Answer] | None = None

    def note(self, answer: Answer) -> None:
        """Note what was worked out, if somebody asks for it."""
        if self._answers is not None:
            self._answers.append(answer)

    def taken(self) -> list[Answer]:
        """Return what was noted since the last call; from now on all is noted."""
        found, self._answers = self._answers or [], []
        return found
