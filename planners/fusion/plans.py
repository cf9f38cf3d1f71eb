"""Plans of fusion: groups of layers, what they cost, and an arena with all of their buffers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cnn2csdf.network import Network
from cnn2csdf.parameters import multiply_accumulates
from csdf.model.shown import Shown
from csdf.outcome import Reason, Status, Why, because
from planners.arena.problem import Buffer, MemoryPlan, Problem
from planners.fusion.configurations import Chain, Configuration, Group
from planners.fusion.search import Cost, FusionPoint, Terms, merged
from planners.plan.plan import StreamingPlan


class PlanWhy(Why):
    """The reasons for the status of offsets."""

    NEEDIEST = "the neediest group takes as much"
    PLACED = "no smaller arena was found"


@dataclass(frozen=True, slots=True, kw_only=True)
class FusionPlan(Shown):
    """A configuration, its cost, and the plan in which all of its buffers have a place.

    least_bytes: no offsets of these buffers take fewer. parameter_bytes: of the weights, which lie
    outside the arena.
    """

    chain: Chain
    terms: Terms
    groups: Configuration
    cost: Cost
    plan: StreamingPlan
    least_bytes: int
    parameter_bytes: int

    @property
    def memory(self) -> int:
        """Bytes of the arena."""
        return self.plan.arena_bytes

    @property
    def arena(self) -> MemoryPlan:
        """The buffers with their offsets; a time is a group, in which tiles may share bytes."""
        buffers = [one for one in self.plan.buffers if one.size]
        is_least = self.memory == self.least_bytes
        return MemoryPlan(
            problem=Problem(
                name=self.plan.network,
                buffers=tuple(
                    Buffer(
                        name=one.name,
                        size=one.size,
                        start=one.begin,
                        end=one.end,
                        alignment=self._unit(one.tensor),
                    )
                    for one in buffers
                ),
            ),
            offsets={one.name: one.offset for one in buffers},
            lower_bound=self.least_bytes,
            status=Status.OPTIMAL if is_least else Status.FEASIBLE,
            reason=because(PlanWhy.NEEDIEST if is_least else PlanWhy.PLACED),
        )

    def _unit(self, tensor: str) -> int:
        return self.terms.element_bytes or self.chain.network.layer(tensor).element_bytes

    @property
    def redundant(self) -> int:
        """Multiply-accumulates beyond those of the network as a whole."""
        return self.cost.multiply_accumulates - necessary_work(self.chain.network)

    def to_json(self) -> dict[str, Any]:
        """Return groups, figures and offsets as a JSON value."""
        return {
            "groups": [self._group(group) for group in self.groups],
            "arena_bytes": self.memory,
            "weight_bytes": self.parameter_bytes,
            "nanoseconds": self.cost.nanoseconds,
            "multiply_accumulates": self.cost.multiply_accumulates,
            "redundant_multiply_accumulates": self.redundant,
            "buffers": [
                {"name": one.name, "offset": one.offset, "size": one.size}
                for one in self.plan.buffers
                if one.size
            ],
        }

    def _group(self, group: Group) -> dict[str, Any]:
        return {
            "layers": [layer.name for layer in self.chain.layers(group.first, group.upto)],
            "way": group.way.value,
            "row_ends": list(group.grid.rows) if group.is_tiled else None,
            "column_ends": list(group.grid.columns) if group.is_tiled else None,
        }

    def to_records(self) -> list[dict[str, Any]]:
        """Return a row for each group, as for a data frame."""
        found = [self.chain.layers(group.first, group.upto) for group in self.groups]
        return [
            {
                "first": layers[0].name,
                "last": layers[-1].name,
                "layers": len(layers),
                "way": str(group),
            }
            for layers, group in zip(found, self.groups, strict=True)
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class FusionAnswer(Shown):
    """The answer to a question for a plan within a limit.

    front: configurations no other improves on, as far as they were looked at. status: of `plan`;
    "optimal": none that was to be considered is faster and fits. lower_bound: bytes that no
    configuration is below.
    """

    plan: FusionPlan | None
    front: tuple[FusionPoint, ...]
    status: Status
    reason: Reason
    lower_bound: int

    def to_json(self) -> dict[str, Any]:
        """Return the answer with its front as a JSON value."""
        return {
            "status": str(self.status),
            "reason": str(self.reason),
            "lower_bound_bytes": self.lower_bound,
            "plan": None if self.plan is None else self.plan.to_json(),
            "front": [_point(point) for point in self.front],
        }

    def to_records(self) -> list[dict[str, Any]]:
        """Return a row for each point of the front, as for a data frame."""
        return [_point(point) for point in self.front]


def _point(point: FusionPoint) -> dict[str, Any]:
    """A point of the front as a JSON value."""
    return {
        "memory_bytes": point.memory,
        "nanoseconds": point.cost.nanoseconds,
        "multiply_accumulates": point.cost.multiply_accumulates,
        "groups": [f"{one.first}:{one.upto} {one}" for one in merged(point.groups)],
    }


def necessary_work(network: Network) -> int:
    """Return the multiply-accumulates of a network as a whole."""
    return sum(multiply_accumulates(layer, network.input_shapes(layer)) for layer in network.layers)
