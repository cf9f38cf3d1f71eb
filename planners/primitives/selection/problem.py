"""The problem of selecting primitives: candidates of each layer, their costs, and counted memory.

A map goes from its producer to each consumer on its own: a consumer that wants another layout has
the map changed for itself, as planners.primitives.profile says. So costs belong to layers and to
connections, and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from cnn2csdf.network import Connection, Network
from csdf.arguments import public
from csdf.errors import InvalidPlan
from csdf.model.shown import Shown
from planners.primitives.library.primitive import ELEMENT_BYTES
from planners.primitives.profile import LayerProfile, Profile, TransformProfile
from planners.primitives.selection.objective import Link, Objective

MOST = 2**53  # sums stay below, so that 64 bits and doubles hold them exactly


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectionProblem:
    """Layers with their candidates, and the links between them.

    Layers are numbered such that each comes after those it reads. Every candidate of a producer
    goes with every candidate of its consumers: changes of layout are there where they are needed.
    """

    name: str
    layers: tuple[str, ...]
    candidates: tuple[tuple[LayerProfile, ...], ...]  # of each layer, in the order of the profile
    links: tuple[Link, ...]

    def __post_init__(self) -> None:
        for layer, candidates in zip(self.layers, self.candidates, strict=True):
            if not candidates:
                raise InvalidPlan(
                    f"layer {layer!r} has no entry in the profile; profile the network as it is "
                    "simplified here"
                )
        for link in self.links:
            self._check(link)
        if self._largest() >= MOST:
            raise InvalidPlan(f"{self.name}: times or bytes add up to 2^53 or more")

    def _check(self, link: Link) -> None:
        for source in self.output_layouts(link.producer):
            for target in self.input_layouts(link.consumer):
                if not link.can_change(source, target):
                    raise InvalidPlan(
                        f"input {link.index} of {self.layers[link.consumer]!r}, from "
                        f"{self.layers[link.producer]!r}: no entry for {source} to {target}"
                    )

    def _largest(self) -> int:
        layers = (max(map(_size, found)) for found in self.candidates)
        links = (max(map(_size, link.changes), default=0) + link.map_bytes for link in self.links)
        return sum(layers) + sum(links)

    def input_layouts(self, layer: int) -> tuple[str, ...]:
        """Layouts in which a layer can read."""
        return tuple(dict.fromkeys(one.input_layout for one in self.candidates[layer]))

    def output_layouts(self, layer: int) -> tuple[str, ...]:
        """Layouts in which a layer can write."""
        return tuple(dict.fromkeys(one.output_layout for one in self.candidates[layer]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection(Shown):
    """A candidate for each layer of a problem."""

    problem: SelectionProblem
    chosen: tuple[LayerProfile, ...]

    @property
    def changes(self) -> Iterator[tuple[Link, TransformProfile]]:
        """The changes of layout that it takes."""
        for link in self.problem.links:
            source = self.chosen[link.producer].output_layout
            change = link.change(source, self.chosen[link.consumer].input_layout)
            if change is not None:
                yield link, change

    @property
    def nanoseconds(self) -> int:
        """Time of a frame: of all layers and all changes of layout."""
        return sum(one.nanoseconds for one in self.chosen) + self.changing_nanoseconds

    @property
    def changing_nanoseconds(self) -> int:
        """Time of the changes of layout."""
        return sum(change.nanoseconds for _, change in self.changes)

    @property
    def parameter_bytes(self) -> int:
        """Weights, as the chosen primitives keep them."""
        return sum(one.parameter_bytes for one in self.chosen)

    @property
    def changed_map_bytes(self) -> int:
        """Maps that are there in a second layout, all of them together."""
        return sum(link.map_bytes for link, _ in self.changes)

    @property
    def workspaces(self) -> tuple[int, ...]:
        """Workspace of each layer and of each change of layout."""
        changes = (change.workspace_bytes for _, change in self.changes)
        return (*(one.workspace_bytes for one in self.chosen), *changes)

    def memory(self, objective: Objective) -> int:
        """Bytes of what the objective counts."""
        layers = (objective.of_layer(one) for one in self.chosen)
        changes = (objective.of_change(link, change) for link, change in self.changes)
        return objective.total((*layers, *changes))

    def to_json(self, objective: Objective = Objective.NETWORK) -> dict[str, Any]:
        """Return the choices and what they cost as a JSON value; memory: what the objective counts."""
        return {
            "nanoseconds": self.nanoseconds,
            "memory_bytes": self.memory(objective),
            "workspace_bytes": sum(self.workspaces),
            "largest_workspace_bytes": max(self.workspaces),
            "weight_bytes": self.parameter_bytes,
            "changed_map_bytes": self.changed_map_bytes,
            "layers": self.to_records(),
            "changes": [
                {
                    "producer": change.producer,
                    "consumer": change.consumer,
                    "index": change.index,
                    "source_layout": change.source_layout,
                    "target_layout": change.target_layout,
                    "nanoseconds": change.nanoseconds,
                    "workspace_bytes": change.workspace_bytes,
                    "map_bytes": link.map_bytes,
                }
                for link, change in self.changes
            ],
        }

    def to_records(self) -> list[dict[str, Any]]:
        """Return a row for each layer, as for a data frame."""
        return [
            {
                "layer": one.layer,
                "primitive": one.primitive,
                "input_layout": one.input_layout,
                "output_layout": one.output_layout,
                "nanoseconds": one.nanoseconds,
                "workspace_bytes": one.workspace_bytes,
                "weight_bytes": one.parameter_bytes,
            }
            for one in self.chosen
        ]


@public
def selection_problem(network: Network, profile: Profile) -> SelectionProblem:
    """Return the choices for a network, as they were profiled.

    Raises InvalidPlan where the profile lacks a layer or a change of layout, or knows a layer that
    the network has not.
    """
    numbers = {layer.name: number for number, layer in enumerate(network.layers)}
    found: dict[str, list[LayerProfile]] = {name: [] for name in numbers}
    for one in profile.layers:
        if one.layer not in found:
            raise InvalidPlan(
                f"the profile of {profile.network!r} has a layer {one.layer!r}, which network "
                f"{network.name!r} has not"
            )
        found[one.layer].append(one)
    changes: dict[Connection, list[TransformProfile]] = {}
    for change in profile.transforms:
        ends = Connection(producer=change.producer, consumer=change.consumer, index=change.index)
        changes.setdefault(ends, []).append(change)
    return SelectionProblem(
        name=network.name,
        layers=tuple(numbers),
        candidates=tuple(tuple(candidates) for candidates in found.values()),
        links=tuple(_links(network, numbers, changes)),
    )


def _links(
    network: Network,
    numbers: Mapping[str, int],
    changes: Mapping[Connection, list[TransformProfile]],
) -> Iterator[Link]:
    connections = list(network.connections)
    unknown = set(changes) - set(connections)
    if unknown:
        one = min(unknown, key=lambda ends: (ends.consumer, ends.index, ends.producer))
        raise InvalidPlan(
            f"the profile has a transform from {one.producer!r} to input {one.index} of "
            f"{one.consumer!r}, which network {network.name!r} has not"
        )
    for ends in connections:
        yield Link(
            producer=numbers[ends.producer],
            consumer=numbers[ends.consumer],
            index=ends.index,
            map_bytes=network.layer(ends.producer).shape.elements * ELEMENT_BYTES,
            changes=tuple(changes.get(ends, ())),
        )


def _size(one: LayerProfile | TransformProfile) -> int:
    weights = one.parameter_bytes if isinstance(one, LayerProfile) else 0
    return max(one.nanoseconds, one.workspace_bytes + weights)


def alive_map_bytes(network: Network) -> int:
    """Return the most bytes of feature maps alive at once, layer by layer: what is not counted."""
    last = {layer.name: number for number, layer in enumerate(network.layers)}
    for number, layer in enumerate(network.layers):
        last.update(dict.fromkeys(layer.inputs, number))
    return (
        max(
            sum(
                one.shape.elements
                for one in network.layers[: number + 1]
                if last[one.name] >= number
            )
            for number in range(len(network.layers))
        )
        * ELEMENT_BYTES
    )
