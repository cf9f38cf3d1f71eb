"""Answers that are kept to be given again, as long as there is room for them."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TypeVar

Key = TypeVar("Key", bound=Hashable)
Answer = TypeVar("Answer")


def remember(known: dict[Key, Answer], key: Key, answer: Answer, most: int) -> Answer:
    """Keep the answer and return it; forget the oldest one where there would be more than `most`."""
    if len(known) >= most:
        del known[next(iter(known))]
    known[key] = answer
    return answer
