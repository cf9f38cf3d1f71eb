"""An application under the methodologies that the published evaluation compares.

Source: Minakova and Stefanov, TODAES 28(1), 2022, Table 6.6 of the thesis.
"""

from __future__ import annotations

from dataclasses import dataclass

from planners.reuse.application.application import Application, without_parallelism
from planners.reuse.cost.evaluation import Costs, Evaluator
from planners.reuse.edge_buffers import shared_buffers


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Bytes of buffers by methodology, and of weights, which are in none of them.

    no_reduction: a buffer for each edge, double where it is cut. reuse_only: whole buffers shared
    within one network, which knows neither pipelines nor other networks ([76] of the thesis).
    pipelined_reuse: the same within the whole application, with its pipelines. parts_only: all
    layers work by rows, nothing is shared ([65]). parts_and_reuse: both, by rows everywhere, which
    is one chromosome of many.
    """

    weights: int
    no_reduction: int
    reuse_only: int
    pipelined_reuse: int
    parts_only: int
    parts_and_reuse: int


def comparison(
    application: Application, costs: Costs | None = None, *, known: Evaluator | None = None
) -> Comparison:
    """Return what each methodology needs.

    known: an evaluator of the same application and costs; what it has evaluated is used again.
    """
    costs = costs or Costs()
    evaluator = known.sharing(shared_buffers) if known else Evaluator(application, costs)
    layers = len(application.layers)
    whole, parts = evaluator.plan((None,) * layers), evaluator.plan((1,) * layers)
    return Comparison(
        weights=evaluator.weights,
        no_reduction=whole.unshared_elements * costs.element_bytes,
        reuse_only=_reuse_within_networks(application) * costs.element_bytes,
        pipelined_reuse=whole.elements * costs.element_bytes,
        parts_only=parts.unshared_elements * costs.element_bytes,
        parts_and_reuse=parts.elements * costs.element_bytes,
    )


def _reuse_within_networks(application: Application) -> int:
    """Elements where each network shares its buffers, and nothing with another network."""
    total = 0
    for member in without_parallelism(application).members:
        alone = Evaluator(Application(name=member.name, members=(member,)))
        total += alone.plan((None,) * len(member.layers)).elements
    return total
