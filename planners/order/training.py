"""Training graphs: forward steps, which may run again, and backward steps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from csdf.arguments import public
from csdf.errors import InvalidGraph
from csdf.names import free_name, meant
from planners.order.problem import OrderProblem, Step


@public
def training_graph(
    forward: OrderProblem,
    *,
    saved: Mapping[str, Sequence[str]] | None = None,
    prices: Mapping[str, int] | None = None,
) -> OrderProblem:
    """Return forward and backward steps of one training iteration, with the loss between both.

    Each forward step has a backward step, which reads the gradient of its result and activations, and
    writes a gradient for each tensor that it reads, without those of the graph's inputs. Gradients of a
    tensor with several readers are summed in place. Gradients of outputs have the sizes of the outputs.
    Weights and their gradients are not counted.

    saved: activations that the backward step of a forward step reads; by default the inputs of that
    step. prices: of further runs of a forward step, instead of retaining its result; by default the
    repeat price of the step, else 1.

    Raises InvalidGraph where a forward step writes several tensors or has alternatives, or where
    `saved` or `prices` name a step or a tensor that the forward graph does not have.
    """
    return _Training(forward, saved or {}, prices or {}).graph()


class _Training:
    """The steps of a training graph."""

    def __init__(
        self, forward: OrderProblem, saved: Mapping[str, Sequence[str]], prices: Mapping[str, int]
    ) -> None:
        for step in forward.steps:
            if len(step.writes) != 1 or step.alternatives:
                raise InvalidGraph(
                    f"graph {forward.name!r}: step {step.name!r} writes {len(step.writes)} tensors and "
                    f"has {len(step.alternatives)} alternatives; expected one tensor and no alternative"
                )
        _require_names(forward, saved, prices)
        self._forward, self._saved, self._prices = forward, saved, prices
        self._writer = {step.writes[0]: step for step in forward.steps}
        self._sizes = dict(forward.sizes)
        self._parts: dict[str, list[str]] = {}  # the gradients of each tensor, to be summed
        self._steps = {step.name for step in forward.steps}

    def graph(self) -> OrderProblem:
        """Return the training graph: forward steps, losses, then backward steps from the last."""
        order = self._forward.named(self._forward.numbered.topological)
        steps = {step.name: step for step in self._forward.steps}
        outputs = [t for t in dict.fromkeys(self._forward.outputs) if t in self._writer]
        backward = [self._loss(tensor) for tensor in outputs]
        for name in reversed(order):
            step = steps[name]
            backward += self._summed(step.writes[0])
            if self._parts.get(step.writes[0]):
                backward.append(self._backward(step))
        return OrderProblem(
            name=f"{self._forward.name}, training",
            sizes=self._sizes,
            steps=(*map(self._repeatable, self._forward.steps), *backward),
            outputs=(),
            reuse_prices=self._forward.reuse_prices,
        )

    def _repeatable(self, step: Step) -> Step:
        """Return a forward step with the price of further runs."""
        price = 1 if step.repeat_price is None else step.repeat_price
        return replace(step, repeat_price=self._prices.get(step.name, price))

    def _loss(self, tensor: str) -> Step:
        """Return the step that writes the gradient of an output, over the output if it may."""
        gradient = self._gradient(tensor, "loss")
        name = self._step_name(f"loss of {tensor}")
        return Step(name=name, reads=(tensor,), writes=(gradient,), overwrites=(tensor,))

    def _step_name(self, wanted: str) -> str:
        """Return a name that no step of the training graph has yet."""
        name = free_name(wanted, self._steps)
        self._steps.add(name)
        return name

    def _new_tensor(self, wanted: str, tensor: str) -> str:
        """Return the name of a new tensor with the bytes of an existing tensor."""
        name = free_name(wanted, self._sizes)
        self._sizes[name] = self._sizes[tensor]
        return name

    def _gradient(self, tensor: str, reader: str) -> str:
        """Return a new gradient of a tensor, which a reader of the tensor writes."""
        name = self._new_tensor(f"gradient of {tensor} by {reader}", tensor)
        self._parts.setdefault(tensor, []).append(name)
        return name

    def _summed(self, tensor: str) -> Iterator[Step]:
        """Yield the steps that add the gradients of a tensor, two at a time and in place."""
        parts = self._parts.get(tensor, [])
        while len(parts) > 1:
            first, second = parts[:2]
            wanted = f"sum of {second} and before"
            total = self._new_tensor(wanted, tensor)
            parts[:2] = [total]
            yield Step(
                name=self._step_name(wanted),
                reads=(first, second),
                writes=(total,),
                overwrites=(first, second),
            )

    def _backward(self, step: Step) -> Step:
        """Return the backward step of a forward step, whose result has a single gradient by now."""
        (gradient,) = self._parts[step.writes[0]]
        saved = tuple(self._saved.get(step.name, step.reads))
        writes = tuple(
            self._gradient(tensor, step.name)
            for tensor in dict.fromkeys(step.reads)
            if tensor in self._writer
        )
        sizes = [self._sizes[tensor] for tensor in writes]
        return Step(
            name=self._step_name(f"{step.name} backward"),
            reads=tuple(dict.fromkeys((gradient, *saved))),
            writes=writes,
            overwrites=(gradient,) if sizes == [self._sizes[gradient]] else (),
        )


def _require_names(
    forward: OrderProblem, saved: Mapping[str, Sequence[str]], prices: Mapping[str, int]
) -> None:
    """Raise InvalidGraph for a step or a tensor that the forward graph does not have."""
    steps = [step.name for step in forward.steps]
    named = [("saved", "step", name, steps) for name in saved]
    named += [("prices", "step", name, steps) for name in prices]
    tensors = (tensor for row in saved.values() for tensor in row)
    named += [("saved", "tensor", tensor, list(forward.sizes)) for tensor in tensors]
    for argument, kind, name, names in named:
        if name not in names:
            raise InvalidGraph(
                f"graph {forward.name!r}: {argument} names {kind} {name!r}, which the graph does not "
                f"have{meant(name, names) or f'; expected a {kind} of it'}"
            )
