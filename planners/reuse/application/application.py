"""An application: several networks, each in partitions, some of which run in parallel.

Source of the model: Minakova and Stefanov, Memory-Throughput Trade-off for CNN-based Applications
at the Edge, ACM TODAES 28(1), 2022, section 3 (chapter 6 of Minakova's thesis).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import gcd

from cnn2csdf.dtypes import Element
from cnn2csdf.network import Network
from csdf.errors import InvalidNetwork

Genes = tuple[int | None, ...]
"""For each layer of an application, in its order: rows of a part, or None for the whole."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """Consecutive layers of a network that one processor carries out.

    layers: in the order of the schedule, in which each comes after those it reads.
    """

    name: str
    layers: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.layers:
            raise InvalidNetwork(f"partition {self.name!r} has no layer")


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A network of an application in its partitions, in the order of execution.

    outside: layers that stand for the world, such as the place where frames come in when the
    application does not own the memory of a frame. They have no actor, no gene and no buffer.
    """

    network: Network
    partitions: tuple[Partition, ...]
    outside: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        for name in sorted(self.outside):
            self.network.layer(name)
        expected = _inside(self.network, self.outside)
        place = 0
        for partition in self.partitions:
            here = expected[place : place + len(partition.layers)]
            place += len(partition.layers)
            self._require_layers(partition, here)
            self._require_order(partition)
        if place < len(expected):
            raise InvalidNetwork(
                f"network {self.name!r}: no partition has layer {expected[place]!r}"
            )

    @property
    def name(self) -> str:
        """Name of the network."""
        return self.network.name

    @property
    def layers(self) -> tuple[str, ...]:
        """Layers that have a gene, in the order of the network."""
        return _inside(self.network, self.outside)

    def _require_layers(self, partition: Partition, expected: Sequence[str]) -> None:
        given = Counter(partition.layers)
        for name in partition.layers:
            self.network.layer(name)
            if given[name] > 1:
                raise InvalidNetwork(f"partition {partition.name!r} has {name!r} twice")
            if name not in expected:
                raise InvalidNetwork(
                    f"partition {partition.name!r} of network {self.name!r} has layer {name!r}; "
                    f"expected consecutive layers, here {', '.join(expected) or 'none'}"
                )

    def _require_order(self, partition: Partition) -> None:
        members, done = set(partition.layers), set()
        for name in partition.layers:
            for source in self.network.layer(name).inputs:
                if source in members and source not in done:
                    raise InvalidNetwork(
                        f"partition {partition.name!r}: layer {name!r} stands before {source!r}, "
                        "which it reads"
                    )
            done.add(name)


def _inside(network: Network, outside: frozenset[str]) -> tuple[str, ...]:
    return tuple(layer.name for layer in network.layers if layer.name not in outside)


@dataclass(frozen=True, slots=True, kw_only=True)
class Application:
    """Networks that share one memory.

    parallel: sets of names of partitions that run at the same time, each on a processor of its own;
    those of one network are pipelined. All other partitions take turns.
    """

    name: str
    members: tuple[Member, ...]
    parallel: tuple[frozenset[str], ...] = ()

    def __post_init__(self) -> None:
        if not self.members:
            raise InvalidNetwork(f"application {self.name!r} has no network")
        _require_unique("network", [member.name for member in self.members])
        names = [partition.name for _, partition in self.partitions]
        _require_unique("partition", names)
        together = [name for group in self.parallel for name in sorted(group)]
        for name in together:
            if name not in names:
                raise InvalidNetwork(
                    f"parallel: there is no partition {name!r}; there are {', '.join(names)}"
                )
        _require_unique("parallel partition", together)

    @property
    def unit(self) -> int:
        """Bytes in which sizes are counted: every element of every tensor has a multiple of it."""
        return gcd(*_element_sizes(self))

    @property
    def has_one_size(self) -> bool:
        """Whether the elements of all tensors have the same bytes."""
        return len(_element_sizes(self)) == 1

    @property
    def partitions(self) -> Iterator[tuple[int, Partition]]:
        """All partitions, each with the number of its member."""
        for number, member in enumerate(self.members):
            for partition in member.partitions:
                yield number, partition

    @property
    def layers(self) -> tuple[tuple[str, str], ...]:
        """Network and name of every layer that has a gene, in the order of the genes."""
        return tuple((member.name, layer) for member in self.members for layer in member.layers)


def _require_unique(what: str, names: Sequence[str]) -> None:
    for name, count in Counter(names).items():
        if count > 1:
            raise InvalidNetwork(f"two {what}s are named {name!r}")


def undivided(network: Network, outside: frozenset[str] = frozenset()) -> Member:
    """Return the network as a member with a single partition of its own name."""
    layers = _inside(network, outside)
    partition = Partition(name=network.name, layers=layers)
    return Member(network=network, partitions=(partition,), outside=outside)


def divided(
    network: Network, sizes: Sequence[int], outside: frozenset[str] = frozenset()
) -> Member:
    """Return the network as a member in partitions of so many layers, "NAME/1" and so on."""
    layers, place = _inside(network, outside), 0
    partitions = []
    for number, size in enumerate(sizes, start=1):
        name = f"{network.name}/{number}"
        partitions.append(Partition(name=name, layers=layers[place : place + size]))
        place += size
    return Member(network=network, partitions=tuple(partitions), outside=outside)


def without_parallelism(application: Application) -> Application:
    """Return the same networks, each in one partition, one after another."""
    members = tuple(undivided(member.network, member.outside) for member in application.members)
    return replace(application, members=members, parallel=())


def _element_sizes(application: Application) -> set[int]:
    layers = (layer for member in application.members for layer in member.network.layers)
    return {layer.element_bytes for layer in layers}


def of_one_size(application: Application) -> Application:
    """Return the application where the elements of all tensors count alike, whatever their types."""
    return replace(
        application,
        members=tuple(
            replace(member, network=with_one_size(member.network)) for member in application.members
        ),
    )


def with_one_size(network: Network) -> Network:
    """Return the network where all tensors have elements of the same bytes."""
    sizes = {layer.element_bytes for layer in network.layers}
    if len(sizes) == 1:
        return network
    layers = tuple(replace(layer, element=Element.FLOAT32) for layer in network.layers)
    return replace(network, layers=layers)
