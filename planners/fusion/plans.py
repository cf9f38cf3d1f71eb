"""Plans of fusion: groups of layers, what they cost, and an arena with all of their buffers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cnn2csdf.network import Network
from cnn2csdf.parameters import multiply_accumulates
from csdf.model.graph import Graph
from csdf.model.shown import Shown
from csdf.outcome import Reason, Status
from planners.fusion.chains import Chain
from planners.fusion.choices import Cost, Terms
from planners.fusion.configurations import Configuration, Group
from planners.fusion.search import FusionPoint, merged
from planners.fusion.tiles import TiledGroup
from planners.plan import MemoryPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class FusionPlan(Shown):
    """A configuration, its cost, and an arena in which all of its buffers have a place.

    parameter_bytes: of the weights, which lie outside the arena. tiled, graphs: by number of group,
    the tiles of those that work tile by tile, the graphs of those that stream rows.
    """

    chain: Chain
    terms: Terms
    groups: Configuration
    cost: Cost
    arena: MemoryPlan
    parameter_bytes: int
    tiled: Mapping[int, TiledGroup] = field(default_factory=dict)
    graphs: Mapping[int, Graph] = field(default_factory=dict)

    @property
    def memory(self) -> int:
        """Bytes of the arena."""
        return self.arena.peak

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
                {"name": one.name, "offset": self.arena.offsets[one.name], "size": one.size}
                for one in self.arena.problem.buffers
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
