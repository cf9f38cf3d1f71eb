"""Schedules in which steps run again: live bytes of a list of runs, and its graph of single runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import accumulate, groupby
from typing import NamedTuple

from csdf.names import free_name
from planners.order.problem import OrderProblem


class Life(NamedTuple):
    """A computation of a tensor. start: position of its run, -1 for an input. uses: of its readers.

    An output is in addition read after the last run, at the position that is the number of all runs.
    """

    tensor: int
    start: int
    uses: list[int]


class Profile(NamedTuple):
    """Bytes at each position of a list of runs, and the lives of its tensors."""

    bytes: list[int]
    lives: list[Life]

    @property
    def peak(self) -> int:
        """The most bytes."""
        return max(self.bytes, default=0)

    def excess(self, bound: int) -> int:
        """Bytes above the bound, summed over all positions."""
        return sum(bytes_ - bound for bytes_ in self.bytes if bytes_ > bound)


class RepeatedRuns:
    """Lists of runs of a problem, as numbers of steps.

    Each run reads the last computation of a tensor before it. Between its last reader and the next
    computation a tensor is not live.
    """

    def __init__(self, problem: OrderProblem) -> None:
        self.problem = problem
        self.graph = problem.numbered
        self.prices = [step.repeat_price for step in problem.steps]

    def is_repeatable(self, tensor: int) -> bool:
        """Whether a step that may run again writes the tensor."""
        step = self.graph.producers[tensor]
        return step >= 0 and self.prices[step] is not None

    def price(self, runs: Sequence[int]) -> int:
        """Return the prices of all runs of a step after its first."""
        rows = ((step, sum(1 for _ in row)) for step, row in groupby(sorted(runs)))
        return sum((self.prices[step] or 0) * (count - 1) for step, count in rows)

    def profile(self, runs: Sequence[int]) -> Profile | None:
        """Return the bytes at each position; None where a run reads a tensor that is not written."""
        graph = self.graph
        lives: list[Life] = []
        last: dict[int, Life] = {}
        for tensor, producer in enumerate(graph.producers):
            if producer < 0:
                last[tensor] = Life(tensor, -1, [])
                lives.append(last[tensor])
        for position, step in enumerate(runs):
            for tensor in graph.reads[step]:
                if tensor not in last:
                    return None
                last[tensor].uses.append(position)
            for tensor in graph.writes[step]:
                last[tensor] = Life(tensor, position, [])
                lives.append(last[tensor])
        changes = [0] * (len(runs) + 2)
        for life in lives:
            if graph.is_output[life.tensor] and last[life.tensor] is life:
                life.uses.append(len(runs))
            changes[max(life.start, 0)] += graph.sizes[life.tensor]
            changes[(life.uses[-1] if life.uses else life.start) + 1] -= graph.sizes[life.tensor]
        bytes_ = list(accumulate(changes))[: len(runs)]
        ends = {(life.tensor, life.uses[-1]) for life in lives if life.uses}
        for position, step in enumerate(runs):
            bytes_[position] += graph.scratch[step]
            if any((tensor, position) in ends for tensor in graph.overwrites[step]):
                bytes_[position] -= sum(graph.sizes[tensor] for tensor in graph.writes[step])
        return Profile(bytes_, lives)

    def before(self, tensor: int, position: int, depth: int, profile: Profile) -> list[int] | None:
        """Return the runs before a position that recompute a tensor; None if its step runs only once.

        depth: the length of the longest chain of steps that are repeated for inputs that are not live.
        """
        step = self.graph.producers[tensor]
        if step < 0 or self.prices[step] is None:
            return None
        runs: list[int] = []
        live = {
            life.tensor
            for life in profile.lives
            if life.uses and life.start < position <= life.uses[-1]
        }
        for read in self.graph.reads[step]:
            if read not in live and depth:
                source = self.before(read, position, depth - 1, profile)
                runs += [run for run in source or () if run not in runs]
        return [*runs, step]

    def expanded(self, runs: Sequence[int]) -> tuple[OrderProblem, list[str], dict[str, int]]:
        """Return the graph with a step for each run, its order, and the step of each of its names."""
        problem = self.problem
        sizes = dict(problem.sizes)
        names = {step.name for step in problem.steps}
        steps, order, numbers = [], [], {}
        last = {tensor: tensor for tensor in problem.inputs}
        for number in runs:
            step = problem.steps[number]
            name, writes = step.name, {tensor: tensor for tensor in step.writes}
            if name in order:
                name = free_name(f"{step.name} again", names)
                writes = {
                    tensor: free_name(f"{tensor} again", set(sizes)) for tensor in step.writes
                }
            names.add(name)
            sizes |= {copy: problem.sizes[tensor] for tensor, copy in writes.items()}
            steps.append(
                replace(
                    step,
                    name=name,
                    reads=tuple(last[tensor] for tensor in step.reads),
                    writes=tuple(writes.values()),
                    overwrites=tuple(last[tensor] for tensor in step.overwrites),
                    repeat_price=None,
                )
            )
            last |= writes
            order.append(name)
            numbers[name] = number
        outputs = tuple(last[tensor] for tensor in problem.outputs)
        return replace(problem, sizes=sizes, steps=tuple(steps), outputs=outputs), order, numbers

    def without_one(self, runs: Sequence[int]) -> Iterator[list[int]]:
        """Yield the lists without a single run of a step that runs several times."""
        repeated = {step for step in runs if runs.count(step) > 1}
        for position, step in enumerate(runs):
            if step in repeated:
                yield [*runs[:position], *runs[position + 1 :]]
