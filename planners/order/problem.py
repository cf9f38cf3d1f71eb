"""Graphs of tensors whose steps may run in any topological order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from itertools import accumulate
from typing import Any, NamedTuple

from csdf.errors import InvalidGraph
from csdf.kernels import compile as compiler
from planners.kernels import order_states as kernel


@dataclass(frozen=True, slots=True, kw_only=True)
class StepAlternative:
    """An implementation of a step: tensors it reads, bytes of each tensor it writes, and its price.

    scratch: bytes while the step runs, besides the scratch of the step. price: in any unit, such as
    multiply-accumulates.
    """

    reads: tuple[str, ...]
    sizes: Mapping[str, int]
    scratch: int = 0
    price: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A step of an execution, such as a layer: reads tensors, and writes tensors.

    overwrites: inputs that the single result may overwrite, if no other step reads them later. scratch:
    further bytes while the step runs. earliest, latest: the first and last position in the order, from
    0. alternatives: implementations; each order uses a single implementation. repeat_price: of each run
    after the first; None for a step that runs once.
    """

    name: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    overwrites: tuple[str, ...] = ()
    scratch: int = 0
    earliest: int = 0
    latest: int | None = None
    alternatives: tuple[StepAlternative, ...] = ()
    repeat_price: int | None = None


class ReusePrice(NamedTuple):
    """Two tensors, and the price if they have bytes in common, such as that of a synchronisation."""

    first: str
    second: str
    price: int


@dataclass(frozen=True, kw_only=True)
class OrderProblem:
    """Steps in the order of their file, and the bytes of each tensor.

    A tensor that no step writes is an input: live from the start. A tensor is live from the step that
    writes it, until the last step that reads it; outputs, and inputs that no step reads, are live until
    the end. A step needs the bytes that are live before it, its scratch, and the bytes of the tensors
    that it writes, unless it overwrites a tensor. Weights do not count.

    Raises InvalidGraph for a name that is not a tensor, two writers, a cycle, or an overwritten tensor
    that is smaller than the result.
    """

    name: str
    sizes: Mapping[str, int]
    steps: tuple[Step, ...]
    outputs: tuple[str, ...]
    reuse_prices: tuple[ReusePrice, ...] = ()

    def __post_init__(self) -> None:
        for tensor, size in self.sizes.items():
            if size < 0:
                self._refuse(f"tensor {tensor!r} has {size} bytes; expected at least 0")
        self._check_steps()
        for tensor in self.outputs:
            self._require_tensor(tensor, "the outputs")
        self._check_prices()
        if self.has_repeats and (self.has_alternatives or self.has_times or self.reuse_prices):
            self._refuse(
                "steps that may run again, and alternatives, positions or prices of reuse; expected "
                "either of both"
            )
        try:
            tuple(TopologicalSorter(self.predecessors()).static_order())
        except CycleError as error:
            names = " -> ".join(map(repr, reversed(error.args[1])))
            raise InvalidGraph(
                f"graph {self.name!r}: cycle {names}; expected an order in which each step comes "
                "after those whose tensors it reads"
            ) from None

    def _check_steps(self) -> None:
        names = Counter(step.name for step in self.steps)
        for name, count in names.items():
            if count > 1:
                self._refuse(f"{count} steps have the name {name!r}; expected one")
        writers: dict[str, str] = {}
        for step in self.steps:
            where = f"step {step.name!r}"
            for tensor in (*step.reads, *step.writes, *step.overwrites):
                self._require_tensor(tensor, where)
            for tensor in step.writes:
                if tensor in writers:
                    before = writers[tensor]
                    self._refuse(f"tensor {tensor!r} is written by {before} and by {where}")
                writers[tensor] = where
            self._check_overwrites(step)
            self._check_alternatives(step)
            self._check_numbers(step)

    def _check_overwrites(self, step: Step) -> None:
        if step.overwrites and len(step.writes) != 1:
            self._refuse(
                f"step {step.name!r} overwrites a tensor and writes {len(step.writes)} tensors; "
                "expected one"
            )
        for tensor in step.overwrites:
            if tensor not in step.reads:
                self._refuse(f"step {step.name!r} overwrites {tensor!r}, which it does not read")
            if not self.has_alternatives and self.sizes[tensor] < self.sizes[step.writes[0]]:
                self._refuse(
                    f"step {step.name!r} overwrites {tensor!r} of {self.sizes[tensor]} bytes by "
                    f"{self.sizes[step.writes[0]]} bytes; expected at most as many"
                )

    def _check_alternatives(self, step: Step) -> None:
        where = f"step {step.name!r}"
        for alternative in step.alternatives:
            if set(alternative.sizes) != set(step.writes):
                self._refuse(
                    f"{where}: an alternative has bytes of {sorted(alternative.sizes)}; expected of "
                    f"the tensors that the step writes, {sorted(step.writes)}"
                )
            for tensor in alternative.reads:
                if tensor not in step.reads:
                    self._refuse(f"{where}: an alternative reads {tensor!r}, and the step does not")

    def _check_prices(self) -> None:
        names = Counter(frozenset(pair[:2]) for pair in self.reuse_prices)
        for pair in self.reuse_prices:
            for tensor in pair[:2]:
                self._require_tensor(tensor, "the prices of reuse")
            if pair.first == pair.second or names[frozenset(pair[:2])] > 1 or pair.price < 0:
                self._refuse(
                    f"the price {pair.price} of reuse of {pair.first!r} and {pair.second!r}; expected "
                    "a price of at least 0, of two tensors, each pair once"
                )

    def _check_numbers(self, step: Step) -> None:
        numbers = [step.scratch, step.earliest, step.repeat_price or 0]
        for alternative in step.alternatives:
            numbers += [alternative.scratch, alternative.price, *alternative.sizes.values()]
        if min(numbers) < 0:
            self._refuse(
                f"step {step.name!r} has {min(numbers)} as its scratch, bytes, price or position; "
                "expected at least 0"
            )
        last = len(self.steps) - 1 if step.latest is None else step.latest
        if not step.earliest <= last < len(self.steps):
            self._refuse(
                f"step {step.name!r} has positions {step.earliest} to {last}; expected a range within "
                f"0 to {len(self.steps) - 1}"
            )

    def _require_tensor(self, tensor: str, where: str) -> None:
        if tensor not in self.sizes:
            self._refuse(f"{where}: {tensor!r} is not a tensor of the graph")

    def _refuse(self, text: str) -> None:
        raise InvalidGraph(f"graph {self.name!r}: {text}")

    def predecessors(self) -> dict[str, list[str]]:
        """Return the steps whose tensors each step reads."""
        writers = {tensor: step.name for step in self.steps for tensor in step.writes}
        return {
            step.name: [writers[tensor] for tensor in step.reads if tensor in writers]
            for step in self.steps
        }

    @property
    def has_alternatives(self) -> bool:
        """Whether a step has several implementations."""
        return any(step.alternatives for step in self.steps)

    @property
    def has_repeats(self) -> bool:
        """Whether a step may run again."""
        return any(step.repeat_price is not None for step in self.steps)

    @property
    def has_times(self) -> bool:
        """Whether a step has a position in the order, or a range of positions."""
        return any(step.earliest or step.latest is not None for step in self.steps)

    @property
    def inputs(self) -> tuple[str, ...]:
        """The tensors that no step writes."""
        written = {tensor for step in self.steps for tensor in step.writes}
        return tuple(tensor for tensor in self.sizes if tensor not in written)

    @cached_property
    def numbered(self) -> NumberedGraph:
        """The graph as numbers."""
        return NumberedGraph.of(self)

    def named(self, order: Iterable[int]) -> list[str]:
        """Return the names of steps in an order of their numbers."""
        return [self.steps[number].name for number in order]


class NumberedGraph(NamedTuple):
    """Steps and tensors by number, in the order of the problem.

    readers, producers: steps, by tensor. before, after: the direct predecessors and successors of each
    step. ancestors: of each step, as bits of an integer. topological: the steps in topological order.
    """

    sizes: list[int]
    scratch: list[int]
    reads: list[list[int]]
    writes: list[list[int]]
    overwrites: list[list[int]]
    readers: list[list[int]]
    producers: list[int]  # -1 for an input
    is_output: list[int]
    before: list[list[int]]
    after: list[list[int]]
    ancestors: list[int]
    topological: list[int]

    @classmethod
    def of(cls, problem: OrderProblem) -> NumberedGraph:
        """Return the numbers of a problem."""
        number = {tensor: index for index, tensor in enumerate(problem.sizes)}
        reads = [sorted({number[tensor] for tensor in step.reads}) for step in problem.steps]
        writes = [[number[write] for write in step.writes] for step in problem.steps]
        overwrites = [
            sorted({number[overwrite] for overwrite in step.overwrites}) for step in problem.steps
        ]
        readers: list[list[int]] = [[] for _ in number]
        producers = [-1] * len(number)
        for step, tensors in enumerate(reads):
            for tensor in tensors:
                readers[tensor].append(step)
        for step, tensors in enumerate(writes):
            for tensor in tensors:
                producers[tensor] = step
        outputs = set(problem.outputs)
        # Inputs without readers are live until the end, as outputs.
        is_output = [
            int(name in outputs or (producers[tensor] < 0 and not readers[tensor]))
            for name, tensor in number.items()
        ]
        before = [sorted({producers[tensor] for tensor in tensors} - {-1}) for tensors in reads]
        after = [
            sorted({reader for tensor in tensors for reader in readers[tensor]})
            for tensors in writes
        ]
        topological = list(TopologicalSorter(dict(enumerate(before))).static_order())
        ancestors = [0] * len(reads)
        for step in topological:
            for source in before[step]:
                ancestors[step] |= ancestors[source] | 1 << source
        scratch = [step.scratch for step in problem.steps]
        return cls(
            list(problem.sizes.values()), scratch, reads, writes, overwrites, readers, producers,
            is_output, before, after, ancestors, topological,
        )  # fmt: skip

    @property
    def steps(self) -> int:
        """The number of steps."""
        return len(self.reads)

    def tensors(self, backend: compiler.Backend) -> Any:
        """Return the graph for the kernels."""

        def in_rows(rows: Sequence[Sequence[int]]) -> tuple[Any, Any]:
            starts = accumulate(map(len, rows), initial=0)
            return backend.array(starts), backend.array(number_ for row in rows for number_ in row)

        produced = [
            sum(self.sizes[tensor] for tensor in row) + scratch
            for row, scratch in zip(self.writes, self.scratch, strict=True)
        ]
        retained = [
            sum(
                self.sizes[tensor]
                for tensor in row
                if self.readers[tensor] or self.is_output[tensor]
            )
            for row in self.writes
        ]
        return backend.kernel(kernel.Tensors)(
            *in_rows(self.writes),
            *in_rows(self.reads),
            *in_rows(self.overwrites),
            *in_rows(self.readers),
            *map(
                backend.array,
                (self.sizes, self.producers, self.is_output, produced, retained, self.scratch),
            ),
        )


def peak_of(problem: OrderProblem, order: Sequence[str]) -> int:
    """Return the peak of live bytes in an order, by simulation step by step.

    Raises InvalidGraph if the order is not topological, or does not have each step once.
    """
    steps = {step.name: step for step in problem.steps}
    if Counter(order) != Counter(steps.keys()):
        raise InvalidGraph(
            f"graph {problem.name!r}: an order of {len(order)} steps; expected each of "
            f"{len(steps)} steps once"
        )
    left = Counter(tensor for step in problem.steps for tensor in set(step.reads))
    retained = set(problem.outputs) | {tensor for tensor in problem.inputs if not left[tensor]}
    live = set(problem.inputs)
    total = peak = sum(problem.sizes[tensor] for tensor in live)
    for name in order:
        step = steps[name]
        for tensor in step.reads:
            if tensor not in live:
                raise InvalidGraph(
                    f"graph {problem.name!r}: step {name!r} reads {tensor!r} before it is written"
                )
        is_over = any(
            left[overwrite] == 1 and overwrite not in retained for overwrite in step.overwrites
        )
        written = sum(problem.sizes[tensor] for tensor in step.writes)
        peak = max(peak, total + step.scratch + (0 if is_over else written))
        left.subtract(set(step.reads))
        live.update(step.writes)
        done = {
            tensor
            for tensor in {*step.reads, *step.writes}
            if not left[tensor] and tensor not in retained
        }
        live -= done
        total += written - sum(problem.sizes[tensor] for tensor in done)
    return peak
