"""Firings in an order that a plan gives: found, written as turns, and carried out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np

from cnn2csdf.weights import Array
from csdf.errors import ExecutionError
from planners.streaming.plan import Turns
from planners.streaming.running_stage import RunningStage

LONGEST = 1024  # firings that are looked at as one turn
FEWEST = 4  # firings that turns are written for


def turns_of(results: Sequence[str]) -> tuple[Turns, ...]:
    """Return firings as turns: wherever some firings repeat at once, those that cover the most.

    Greedy from the first firing on; of turns that cover as many firings the shortest.
    """
    known = {name: number for number, name in enumerate(dict.fromkeys(results))}
    numbers = np.array([known[name] for name in results], np.int64)
    found: list[Turns] = []
    alone: list[str] = []  # firings that have not been found to repeat
    place = 0
    while place < len(results):
        length, times = _repeating(numbers[place:])
        if times == 1:
            alone.append(results[place])
            place += 1
            continue
        if alone:
            found.append(Turns(times=1, results=tuple(alone)))
            alone = []
        found.append(Turns(times=times, results=tuple(results[place : place + length])))
        place += length * times
    return (*found, Turns(times=1, results=tuple(alone))) if alone else tuple(found)


def _repeating(numbers: Array) -> tuple[int, int]:
    """The length and the times of what repeats from the first number on, and covers the most."""
    best, covered = (1, 1), FEWEST - 1
    for length in range(1, min(len(numbers) // 2, LONGEST) + 1):
        if numbers[length] != numbers[0]:
            continue
        differs = np.flatnonzero(numbers[length:] != numbers[:-length])
        same = int(differs[0]) if len(differs) else len(numbers) - length
        times = same // length + 1
        if times > 1 and times * length > covered:
            best, covered = (length, times), times * length
    return best


def results_in_order(order: Sequence[Turns]) -> Iterator[str]:
    """Yield the results of the stages that fire, one firing after the other."""
    for turns in order:
        for _ in range(turns.times):
            yield from turns.results


class Group(Protocol):
    """The stages that take turns."""

    number: int

    def lacking(self, stage: RunningStage) -> str | None:
        """Return a tensor of which the next firing lacks rows."""

    def fire(self, stage: RunningStage) -> None:
        """Carry out the next firing."""


def fire_in_turn(group: Group, stage: RunningStage | None, result: str) -> None:
    """Fire a stage whose turn it is.

    Raises ExecutionError where it has nothing left to make, or what it reads is not there.
    """
    named = f"group {group.number + 1}: {result!r}"
    if stage is None or stage.is_done:
        raise ExecutionError(f"{named} is to be made once more than it can be")
    if (lacking := group.lacking(stage)) is not None:
        raise ExecutionError(f"{named} is to be made before {lacking!r} is there")
    group.fire(stage)
