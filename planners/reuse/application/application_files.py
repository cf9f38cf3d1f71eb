"""Applications as text: JSON, or YAML with the same keys.

    {"name": "glasses",
     "networks": [
       {"model": "mobilenet_v1:width=1/4", "name": "eyes", "outside": ["input", "output"],
        "partitions": [{"name": "P1", "last": "conv 6"}, {"name": "P2"}]},
       {"model": "speech.onnx"}],
     "parallel": [["P1", "P2"]]}

A model is a text of the catalogue, or a file beside the application; "repair": true goes on with the
shapes that follow where a JSON network contradicts itself, "simplify": true folds normalisations and
fuses activations. Only "model" is needed: a network has the
name of its model, and one partition of that name. A partition lists its "layers" in the order of its
schedule, or ends with its "last" layer; the last partition need not say where it ends. "outside" are
layers that stand for the world and have no buffers. "parallel" lists the sets of partitions that run
at the same time.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import PurePath
from typing import Any

from cnn2csdf.network import Network
from cnn2csdf.readers.model_files import SUFFIXES, read_model
from cnn2csdf.simplify import simplified
from csdf.errors import CsdfError, InvalidNetwork, UnreadableFile, UnsupportedOperator
from csdf.io.files import read_text
from csdf.io.json_value import JsonValue
from planners.reuse.application.application import Application, Member, Partition, undivided

YAML_SUFFIXES = (".yaml", ".yml")


def read_application(path: str | os.PathLike[str]) -> Application:
    """Return the application of a file. Raises what parse_application raises."""
    return parse_application(read_text(path), os.fspath(path))


def parse_application(text: str, name: str) -> Application:
    """Return the application that a text describes; its networks are read.

    name: of the file; its suffix tells YAML from JSON, its folder is where model files are.
    Raises UnreadableFile or InvalidNetwork with the place, UnsupportedOperator from a model file, and
    CsdfError where a format needs a library that is not installed.
    """
    document = _document(text, name)
    document.require_keys(("networks",), ("name", "parallel"))
    folder = PurePath(name).parent
    members = tuple(_member(one, folder) for one in document["networks"].items())
    groups = _optional(document, "parallel", [])
    try:
        return Application(
            name=_optional(document, "name", PurePath(name).stem).text(),
            members=members,
            parallel=tuple(frozenset(_texts(group)) for group in groups.items()),
        )
    except InvalidNetwork as error:
        raise InvalidNetwork(f"{name}: {error}") from None


def _document(text: str, name: str) -> JsonValue:
    if PurePath(name).suffix.lower() not in YAML_SUFFIXES:
        return JsonValue.parse(text, name)
    return JsonValue(_yaml_parser(name)(text, name), name, "")


def _yaml_parser(name: str) -> Any:
    """YAML is an extra: what knows it is imported when a file asks for it."""
    try:
        return import_module("planners.reuse.application.yaml_text").parse_yaml
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] != "yaml":
            raise
        raise CsdfError(f"{name}: YAML files need PyYAML: pip install 'csdf[yaml]'") from None


def _member(found: JsonValue, folder: PurePath) -> Member:
    found.require_keys(("model",), ("name", "repair", "simplify", "outside", "partitions"))
    network = _network(found, folder)
    try:
        outside = frozenset(_texts(_optional(found, "outside", [])))
        whole = undivided(network, outside)
        if "partitions" not in found.value:
            return whole
        partitions = _partitions(found["partitions"], whole.layers)
        return Member(network=network, partitions=partitions, outside=outside)
    except InvalidNetwork as error:
        raise InvalidNetwork(f"{found.where}: {error}") from None


def _network(found: JsonValue, folder: PurePath) -> Network:
    source = found["model"].text()
    if PurePath(source).suffix.lower() in SUFFIXES:
        source = str(folder / source)
    repair = _optional(found, "repair", default=False).truth()
    try:
        model = read_model(source, repair=repair)
    except (UnreadableFile, UnsupportedOperator, InvalidNetwork) as error:
        raise type(error)(f"{found.where}: {error}") from None
    if _optional(found, "simplify", default=False).truth():
        model = simplified(model)
    return replace(model.network, name=_optional(found, "name", model.network.name).text())


def _partitions(found: JsonValue, layers: Sequence[str]) -> tuple[Partition, ...]:
    partitions: list[Partition] = []
    rest = list(layers)
    for one in found.items():
        one.require_keys(("name",), ("layers", "last"))
        if "layers" in one.value:
            here = _texts(one["layers"])
        elif "last" in one.value:
            last = one["last"].text()
            if last not in rest:
                raise one["last"].refusal("expected a layer behind the partition before")
            here = rest[: rest.index(last) + 1]
        else:
            here = rest
        partitions.append(Partition(name=one["name"].text(), layers=tuple(here)))
        rest = rest[len(here) :]
    return tuple(partitions)


def _texts(found: JsonValue) -> list[str]:
    return [one.text() for one in found.items()]


def _optional(found: JsonValue, key: str, default: Any) -> JsonValue:
    values: Mapping[str, Any] = found.value
    return found[key] if key in values else JsonValue(default, found.file, found.place)
