"""The inputs of layers as links, and the two ways to count the memory of a selection."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum

from planners.primitives.profile import LayerProfile, TransformProfile


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """An input of a layer; producer, consumer: numbers of layers.

    map_bytes: of what goes over it. changes: of its layout, each at most once.
    """

    producer: int
    consumer: int
    index: int
    map_bytes: int
    changes: tuple[TransformProfile, ...]
    _by_ends: dict[tuple[str, str], TransformProfile] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        ends = {(one.source_layout, one.target_layout): one for one in self.changes}
        object.__setattr__(self, "_by_ends", ends)

    def change(self, source: str, target: str) -> TransformProfile | None:
        """Return what it takes to change the layout; None where both are the same."""
        return None if source == target else self._by_ends[source, target]

    def can_change(self, source: str, target: str) -> bool:
        """Whether a map that is written in one layout can be read in the other."""
        return source == target or (source, target) in self._by_ends


class Objective(Enum):
    """The way to count the memory of a selection.

    NETWORK: each layer keeps a workspace and its weights for itself, and each changed map is a
    buffer of its own: the sum. WORKSPACE: one workspace serves a layer after the other: the largest.
    Feature maps in the layout in which they are written are the same for every selection and are
    not counted. Our reading of formulas 13 and 14, and of formula 15, of Wen et al., TASO: Time and
    Space Optimization for Memory-Constrained DNN Inference, SBAC-PAD 2020.
    """

    NETWORK = "network"
    WORKSPACE = "workspace"

    def of_layer(self, candidate: LayerProfile) -> int:
        """Bytes that a layer adds to the memory."""
        if self is Objective.WORKSPACE:
            return candidate.workspace_bytes
        return candidate.workspace_bytes + candidate.parameter_bytes

    def of_change(self, link: Link, change: TransformProfile) -> int:
        """Bytes that a change of layout adds to the memory."""
        if self is Objective.WORKSPACE:
            return change.workspace_bytes
        return change.workspace_bytes + link.map_bytes

    def total(self, parts: Iterable[int]) -> int:
        """Memory of a network whose layers and changes add these bytes."""
        return max(parts, default=0) if self is Objective.WORKSPACE else sum(parts)
