"""An application: several networks, each in partitions, which may run in parallel; its files.

Source of the model: Minakova and Stefanov, Memory-Throughput Trade-off for CNN-based Applications
at the Edge, ACM TODAES 28(1), 2022, section 3 (chapter 6 of Minakova's thesis).

A file is JSON, or YAML with the same keys:

    {"name": "glasses",
     "networks": [
       {"model": "mobilenet_v1:width=1/4", "name": "eyes", "outside": ["input", "output"],
        "partitions": [{"name": "P1", "last": "conv 6"}, {"name": "P2"}]},
       {"model": "speech.onnx"}],
     "parallel": [["P1", "P2"]]}

A model is a name of the catalogue, or a file in the folder of the application; "repair": true
recomputes inconsistent shapes of a JSON network, "simplify": true folds normalisations and fuses
activations. Only "model" is required: by default a network has the name of its model, and one partition
of that name. A partition lists its "layers" in the order of its schedule, or ends with its "last"
layer; without both it has all remaining layers. "outside" are layers that represent the environment and
have no buffers. "parallel" lists the sets of partitions that run at the same time.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from math import gcd
from pathlib import PurePath
from typing import Any

from cnn2csdf.dtypes import Element
from cnn2csdf.network import Network
from cnn2csdf.readers.model_files import SUFFIXES, read_model
from cnn2csdf.simplify import simplified
from csdf.arguments import public
from csdf.errors import CsdfError, InvalidNetwork, UnreadableFile, UnsupportedOperator
from csdf.io.files import read_text
from csdf.io.json_value import JsonValue

YAML_SUFFIXES = (".yaml", ".yml")

WHOLE = 0  # the gene of a layer that is executed whole

Chromosome = tuple[int, ...]
"""For each layer of an application, in its order, its gene: the rows of a part, or WHOLE."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """Consecutive layers of a network that one processor executes.

    layers: in the order of the schedule, each after the layers that it reads.
    """

    name: str
    layers: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.layers:
            raise InvalidNetwork(f"partition {self.name!r} has no layer")


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplicationNetwork:
    """A network of an application in its partitions, in the order of execution.

    outside: layers that represent the environment, such as the input of frames if the application does
    not own the memory of a frame. They have no actor, no gene and no buffer.
    """

    network: Network
    partitions: tuple[Partition, ...]
    outside: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        for name in sorted(self.outside):
            self.network.layer(name)
        expected = self.layers
        count = 0
        for partition in self.partitions:
            # A partition has the next layers of the network, in any order in which each layer follows
            # its sources.
            consecutive = expected[count : count + len(partition.layers)]
            count += len(partition.layers)
            done: set[str] = set()
            for name in partition.layers:
                layer = self.network.layer(name)
                if name in done:
                    raise InvalidNetwork(f"partition {partition.name!r} has {name!r} twice")
                if name not in consecutive:
                    raise InvalidNetwork(
                        f"partition {partition.name!r} of network {self.name!r} has layer {name!r}; "
                        f"expected consecutive layers, here {', '.join(consecutive) or 'none'}"
                    )
                for source in layer.inputs:
                    if source in partition.layers and source not in done:
                        raise InvalidNetwork(
                            f"partition {partition.name!r}: layer {name!r} stands before "
                            f"{source!r}, which it reads"
                        )
                done.add(name)
        if count < len(expected):
            raise InvalidNetwork(
                f"network {self.name!r}: no partition has layer {expected[count]!r}"
            )

    @property
    def name(self) -> str:
        """Name of the network."""
        return self.network.name

    @property
    def layers(self) -> tuple[str, ...]:
        """Layers that have a gene, in the order of the network."""
        return _inside(self.network, self.outside)


def _inside(network: Network, outside: frozenset[str]) -> tuple[str, ...]:
    return tuple(layer.name for layer in network.layers if layer.name not in outside)


@dataclass(frozen=True, slots=True, kw_only=True)
class Application:
    """Networks that share one memory.

    parallel: sets of names of partitions that run at the same time, each on a processor of its own;
    those of one network are pipelined. All other partitions are executed sequentially.
    """

    name: str
    members: tuple[ApplicationNetwork, ...]
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
        """Bytes in which sizes are counted: the greatest common divisor of all element sizes."""
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


@public
def single_partition(network: Network, outside: frozenset[str] = frozenset()) -> ApplicationNetwork:
    """Return the network as a member with a single partition of its own name."""
    partition = Partition(name=network.name, layers=_inside(network, outside))
    return ApplicationNetwork(network=network, partitions=(partition,), outside=outside)


def without_parallelism(application: Application) -> Application:
    """Return the same networks, each in one partition, in sequence."""
    members = tuple(
        single_partition(member.network, member.outside) for member in application.members
    )
    return replace(application, members=members, parallel=())


def _element_sizes(application: Application) -> set[int]:
    layers = (layer for member in application.members for layer in member.network.layers)
    return {layer.element_bytes for layer in layers}


def of_one_size(application: Application) -> Application:
    """Return the application where the elements of all tensors count alike, whatever their types."""
    if application.has_one_size:
        return application
    members = []
    for member in application.members:
        layers = (replace(layer, element=Element.FLOAT32) for layer in member.network.layers)
        members.append(replace(member, network=replace(member.network, layers=tuple(layers))))
    return replace(application, members=tuple(members))


@public
def read_application(path: str | os.PathLike[str]) -> Application:
    """Return the application of a file. Raises what parse_application raises."""
    return parse_application(read_text(path), os.fspath(path))


def parse_application(text: str, name: str) -> Application:
    """Return the application that a text describes; its networks are read.

    name: of the file; its suffix tells YAML from JSON, its folder is where model files are.
    Raises UnreadableFile or InvalidNetwork with the place, UnsupportedOperator from a model file, and
    CsdfError where a format needs a library that is not installed.
    """
    if PurePath(name).suffix.lower() in YAML_SUFFIXES:
        document = JsonValue(_yaml_parser(name)(text, name), name, "")
    else:
        document = JsonValue.parse(text, name)
    document.require_keys(("networks",), ("name", "parallel"))
    members = tuple(
        _member(network, PurePath(name).parent) for network in document["networks"].items()
    )
    groups = _optional(document, "parallel", [])
    try:
        return Application(
            name=_optional(document, "name", PurePath(name).stem).text(),
            members=members,
            parallel=tuple(frozenset(_texts(group)) for group in groups.items()),
        )
    except InvalidNetwork as error:
        raise InvalidNetwork(f"{name}: {error}") from None


def _yaml_parser(name: str) -> Any:
    """The parser of YAML; YAML is an extra, so its module is imported for a YAML file only."""
    try:
        return import_module("planners.reuse.yaml_text").parse_yaml
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] != "yaml":
            raise
        raise CsdfError(f"{name}: YAML files need PyYAML: pip install pyyaml") from None


def _member(document: JsonValue, folder: PurePath) -> ApplicationNetwork:
    document.require_keys(("model",), ("name", "repair", "simplify", "outside", "partitions"))
    source = document["model"].text()
    if PurePath(source).suffix.lower() in SUFFIXES:
        source = str(folder / source)
    repair = _optional(document, "repair", default=False).truth()
    try:
        model = read_model(source, with_weights=False, repair=repair)
    except (UnreadableFile, UnsupportedOperator, InvalidNetwork) as error:
        raise type(error)(f"{document.where}: {error}") from None
    if model.network.keeps_state:
        raise UnsupportedOperator(f"{document.where}: {source} keeps a state from frame to frame")
    if _optional(document, "simplify", default=False).truth():
        model = simplified(model)
    name = _optional(document, "name", model.network.name).text()
    network = replace(model.network, name=name)
    try:
        outside = frozenset(_texts(_optional(document, "outside", [])))
        whole = single_partition(network, outside)
        if "partitions" not in document.value:
            return whole
        partitions = _partitions(document["partitions"], whole.layers)
        return ApplicationNetwork(network=network, partitions=partitions, outside=outside)
    except InvalidNetwork as error:
        raise InvalidNetwork(f"{document.where}: {error}") from None


def _partitions(document: JsonValue, layers: Sequence[str]) -> tuple[Partition, ...]:
    partitions: list[Partition] = []
    rest = list(layers)
    for partition in document.items():
        partition.require_keys(("name",), ("layers", "last"))
        own_layers = rest
        if "layers" in partition.value:
            own_layers = _texts(partition["layers"])
        elif "last" in partition.value:
            last = partition["last"].text()
            if last not in rest:
                raise partition["last"].refusal("expected a layer after the previous partition")
            own_layers = rest[: rest.index(last) + 1]
        partitions.append(Partition(name=partition["name"].text(), layers=tuple(own_layers)))
        rest = rest[len(own_layers) :]
    return tuple(partitions)


def _texts(value: JsonValue) -> list[str]:
    return [text.text() for text in value.items()]


def _optional(value: JsonValue, key: str, default: Any) -> JsonValue:
    return value[key] if key in value.value else JsonValue(default, value.file, value.path)
