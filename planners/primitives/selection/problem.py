"""Selection of primitives as a problem: candidates of layers, layout transformations, counted memory.

Each consumer of a map with another layout has its own transformation of the map, as in
planners.primitives.profile. So all costs are costs of layers or of connections.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

from cnn2csdf.network import Connection, Network
from csdf.arguments import public
from csdf.errors import InvalidPlan
from csdf.model.shown import Shown
from planners.arena.problem import loads
from planners.primitives.library.primitive import ELEMENT_BYTES
from planners.primitives.profile import LayerProfile, Profile, TransformProfile, Variant

MOST = 2**53  # sums of times and of bytes are below it, so they are exact in int64 and in doubles


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerLink:
    """An input of a layer; producer, consumer: numbers of layers.

    map_bytes: of the map on this link. changes: the transformations of its layout. There are two
    layouts, so that the source layout of a change determines its target.
    """

    producer: int
    consumer: int
    index: int
    map_bytes: int
    changes: tuple[TransformProfile, ...]

    def change(self, source: str, target: str) -> TransformProfile | None:
        """Return the cost of a layout transformation; None where both are the same."""
        if source == target:
            return None
        return next(change for change in self.changes if change.source_layout == source)


class Objective(Enum):
    """Accounting of the memory of a selection.

    NETWORK: the memory is the sum over all layers of workspace, weights and transformed inputs, each in
    a buffer of its own (our reading of formulas 13 and 14 of the source). WORKSPACE: all layers share
    one workspace; the memory is the largest workspace of a layer or transformation (formula 15).
    Feature maps in the layout of their producer are the same for every selection: neither counts them.
    Source: Wen et al., TASO: Time and Space Optimization for Memory-Constrained DNN Inference, SBAC-PAD
    2020.
    """

    NETWORK = "network"
    WORKSPACE = "workspace"

    def of_layer(self, candidate: LayerProfile) -> int:
        """Bytes that a layer adds to the memory."""
        weights = candidate.parameter_bytes if self is Objective.NETWORK else 0
        return candidate.workspace_bytes + weights

    def of_change(self, link: LayerLink, change: TransformProfile) -> int:
        """Bytes that a layout transformation adds to the memory."""
        return change.workspace_bytes + (link.map_bytes if self is Objective.NETWORK else 0)

    def total(self, parts: Iterable[int]) -> int:
        """Memory of a network whose layers and changes add these bytes."""
        return max(parts, default=0) if self is Objective.WORKSPACE else sum(parts)


class Pair(NamedTuple):
    """Time and memory of a selection."""

    nanoseconds: int
    memory: int

    def to_json(self) -> dict[str, int]:
        """Return the pair as a JSON value."""
        return {"memory_bytes": self.memory, "nanoseconds": self.nanoseconds}


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectionProblem:
    """Layers in topological order with their candidates, and the links between layers.

    Every candidate of a producer can be combined with every candidate of its consumers: where their
    layouts differ, a layout transformation is inserted.
    """

    name: str
    layers: tuple[str, ...]
    candidates: tuple[tuple[LayerProfile, ...], ...]  # of each layer, in the order of the profile
    links: tuple[LayerLink, ...]

    def __post_init__(self) -> None:
        for layer, candidates in zip(self.layers, self.candidates, strict=True):
            if not candidates:
                raise InvalidPlan(
                    f"layer {layer!r} has no entry in the profile; profile the network as it is "
                    "simplified here"
                )
        largest = sum(
            max(
                max(candidate.nanoseconds, Objective.NETWORK.of_layer(candidate))
                for candidate in candidates
            )
            for candidates in self.candidates
        )
        for link in self.links:
            # With two layouts a change from `source` leads to the only other target.
            layouts = {change.source_layout for change in link.changes}
            for source in self.output_layouts(link.producer):
                for target in self.input_layouts(link.consumer):
                    if source not in {target, *layouts}:
                        raise InvalidPlan(
                            f"input {link.index} of {self.layers[link.consumer]!r}, from "
                            f"{self.layers[link.producer]!r}: no entry for {source} to {target}"
                        )
            sizes = (max(change.nanoseconds, change.workspace_bytes) for change in link.changes)
            largest += max(sizes, default=0) + link.map_bytes
        if largest >= MOST:
            raise InvalidPlan(f"{self.name}: times or bytes add up to 2^53 or more")

    def input_layouts(self, layer: int) -> tuple[str, ...]:
        """Layouts in which a layer can read."""
        return tuple(dict.fromkeys(candidate.input_layout for candidate in self.candidates[layer]))

    def output_layouts(self, layer: int) -> tuple[str, ...]:
        """Layouts in which a layer can write."""
        return tuple(dict.fromkeys(candidate.output_layout for candidate in self.candidates[layer]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection(Shown):
    """A candidate for each layer of a problem."""

    problem: SelectionProblem
    chosen: tuple[LayerProfile, ...]

    @property
    def variants(self) -> dict[str, Variant]:
        """The variant of each layer."""
        return {choice.layer: choice.variant for choice in self.chosen}

    @property
    def changes(self) -> Iterator[tuple[LayerLink, TransformProfile]]:
        """The layout transformations between chosen candidates, each with its link."""
        for link in self.problem.links:
            source = self.chosen[link.producer].output_layout
            change = link.change(source, self.chosen[link.consumer].input_layout)
            if change is not None:
                yield link, change

    @property
    def nanoseconds(self) -> int:
        """Time of a frame: of all layers and all layout transformations."""
        return sum(choice.nanoseconds for choice in self.chosen) + self.changing_nanoseconds

    @property
    def changing_nanoseconds(self) -> int:
        """Time of the layout transformations."""
        return sum(change.nanoseconds for _, change in self.changes)

    @property
    def parameter_bytes(self) -> int:
        """Bytes of the weights, in the forms of the chosen primitives."""
        return sum(choice.parameter_bytes for choice in self.chosen)

    @property
    def transformed_tensor_bytes(self) -> int:
        """Bytes of all maps that are stored in a second layout."""
        return sum(link.map_bytes for link, _ in self.changes)

    @property
    def workspaces(self) -> tuple[int, ...]:
        """Bytes of the workspace of each layer and of each layout transformation."""
        changes = (change.workspace_bytes for _, change in self.changes)
        return (*(choice.workspace_bytes for choice in self.chosen), *changes)

    def memory(self, objective: Objective) -> int:
        """Bytes that the objective counts."""
        layers = (objective.of_layer(choice) for choice in self.chosen)
        changes = (objective.of_change(link, change) for link, change in self.changes)
        return objective.total((*layers, *changes))

    def pair(self, objective: Objective) -> Pair:
        """Time, and the bytes that the objective counts."""
        return Pair(self.nanoseconds, self.memory(objective))

    def to_json(self, objective: Objective = Objective.NETWORK) -> dict[str, Any]:
        """Return the choices and their costs as a JSON value; memory: the bytes of the objective."""
        changes = [
            change.to_json() | {"map_bytes": link.map_bytes} for link, change in self.changes
        ]
        return {
            "nanoseconds": self.nanoseconds,
            "memory_bytes": self.memory(objective),
            "workspace_bytes": sum(self.workspaces),
            "largest_workspace_bytes": max(self.workspaces),
            "weight_bytes": self.parameter_bytes,
            "transformed_tensor_bytes": self.transformed_tensor_bytes,
            "layers": self.to_records(),
            "transformations": changes,
        }

    def to_records(self) -> list[dict[str, Any]]:
        """Return a row for each layer, as for a data frame."""
        return [choice.to_json() for choice in self.chosen]


@public
def selection_problem(network: Network, profile: Profile) -> SelectionProblem:
    """Return the problem of a network with the candidates of its profile.

    Raises InvalidPlan if a layer or a layout transformation of one is missing in the other.
    """
    if not profile.is_whole:
        raise InvalidPlan(
            f"the profile of {profile.network!r} is unfinished; csdf plan primitives --save-profile "
            "with its file goes on"
        )
    numbers = {layer.name: number for number, layer in enumerate(network.layers)}
    profiles_of: dict[str, list[LayerProfile]] = {name: [] for name in numbers}
    for layer in profile.layers:
        if layer.layer not in profiles_of:
            raise InvalidPlan(
                f"the profile of {profile.network!r} has a layer {layer.layer!r}, which network "
                f"{network.name!r} has not"
            )
        profiles_of[layer.layer].append(layer)
    changes: dict[Connection, list[TransformProfile]] = {
        connection: [] for connection in network.connections
    }
    for change in sorted(
        profile.transforms, key=lambda transform: (transform.consumer, transform.index)
    ):
        ends = Connection(producer=change.producer, consumer=change.consumer, index=change.index)
        if ends not in changes:
            raise InvalidPlan(
                f"the profile has a transform from {ends.producer!r} to input {ends.index} of "
                f"{ends.consumer!r}, which network {network.name!r} has not"
            )
        changes[ends].append(change)
    return SelectionProblem(
        name=network.name,
        layers=tuple(numbers),
        candidates=tuple(tuple(candidates) for candidates in profiles_of.values()),
        links=tuple(
            LayerLink(
                producer=numbers[ends.producer],
                consumer=numbers[ends.consumer],
                index=ends.index,
                map_bytes=network.layer(ends.producer).shape.elements * ELEMENT_BYTES,
                changes=tuple(changes_there),
            )
            for ends, changes_there in changes.items()
        ),
    )


def alive_map_bytes(network: Network) -> int:
    """Return the peak bytes of live feature maps, layer by layer; no Objective counts them."""
    last = {layer.name: number for number, layer in enumerate(network.layers)}
    for number, layer in enumerate(network.layers):
        last.update(dict.fromkeys(layer.inputs, number))
    lives = (
        (number, last[layer.name] + 1, layer.shape.elements * ELEMENT_BYTES)
        for number, layer in enumerate(network.layers)
    )
    return max(loads(lives).values())
