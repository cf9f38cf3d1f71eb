"""Scenario graphs from files: JSON, or SDF3's XML of the type fsmsadf.

    {"format": "csdf-scenarios", "version": 1, "name": "g",
     "scenarios": [{"name": "s", "graph": {"format": "csdf-graph", ...}, "reward": "1",
                    "taken": {"c": ["x", "y"]}, "left": {"c": ["x"]}, "firings": {"a": 2}}],
     "states": [{"name": "q", "scenario": "s"}],
     "transitions": [["q", "q"]], "initial": "q"}

`reward`, `taken`, `left` and `firings` may be left out; see csdf.scenarios.model.Scenario.
"""

from __future__ import annotations

import os
from fractions import Fraction
from importlib import import_module
from pathlib import PurePath

from csdf.errors import InvalidGraph, UnreadableFile
from csdf.io import files
from csdf.io.json_graph import graph_of
from csdf.io.json_value import JsonValue
from csdf.model.exact import MalformedText, rational
from csdf.scenarios.model import Scenario, ScenarioGraph, State

FORMAT = "csdf-scenarios"
VERSION = 1
XML_READER = "csdf.scenarios.fsmsadf"  # imported when a file is XML: lxml takes long to load
KEYS = ("format", "version", "name", "scenarios", "states", "transitions", "initial")


def read_scenarios(path: str | os.PathLike[str]) -> ScenarioGraph:
    """Return the scenario graph of a .json file, or of an .xml file of the type fsmsadf.

    Raises UnreadableFile, whose message names the file and the line or place.
    """
    content = files.read_bytes(path)
    name = os.fspath(path)
    suffix = PurePath(name).suffix.lower()
    if suffix == ".json":
        return scenarios_from_json(files.decoded(content, name), name)
    if suffix == ".xml":
        found: ScenarioGraph = import_module(XML_READER).parse_fsmsadf(content, name)
        return found
    raise UnreadableFile(f"{name}: scenarios are in .json or .xml files")


def scenarios_from_json(text: str, name: str = "<text>") -> ScenarioGraph:
    """Return the scenario graph of a JSON text. Raises UnreadableFile."""
    root = JsonValue.parse(text, name)
    root.require_keys(KEYS)
    if root["format"].text() != FORMAT:
        raise root["format"].refusal(f"expected {FORMAT!r}")
    if root["version"].natural() != VERSION:
        raise root["version"].refusal(f"expected {VERSION}")
    states, transitions = [], []
    try:
        scenarios = tuple(_scenario(one) for one in root["scenarios"].items())
        for one in root["states"].items():
            one.require_keys(("name", "scenario"))
            states.append(State(name=one["name"].text(), scenario=one["scenario"].text()))
        for one in root["transitions"].items():
            ends = [end.text() for end in one.items()]
            if len(ends) != 2:
                raise one.refusal("expected a state and a state that may follow it")
            transitions.append((ends[0], ends[1]))
        return ScenarioGraph(
            name=root["name"].text(),
            scenarios=scenarios,
            states=tuple(states),
            transitions=tuple(transitions),
            initial=root["initial"].text(),
        )
    except InvalidGraph as error:
        raise UnreadableFile(f"{name}: {error}") from None


def _scenario(value: JsonValue) -> Scenario:
    value.require_keys(("name", "graph"), ("reward", "taken", "left", "firings"))

    def members(key: str) -> list[tuple[str, JsonValue]]:
        if key not in value.value:
            return []
        value[key].require_object()
        return [(name, value[key][name]) for name in value.value[key]]

    def names(key: str) -> dict[str, tuple[str, ...]]:
        return {
            channel: tuple(one.text() for one in each.items()) for channel, each in members(key)
        }

    try:
        reward = rational(value["reward"].text()) if "reward" in value.value else Fraction(1)
    except MalformedText:
        raise value["reward"].refusal("expected a number as text, such as '1' or '1/2'") from None
    try:
        return Scenario(
            name=value["name"].text(),
            graph=graph_of(value["graph"]),
            taken=names("taken"),
            left=names("left"),
            firings={actor: one.natural() for actor, one in members("firings")},
            reward=reward,
        )
    except InvalidGraph as error:
        raise UnreadableFile(f"{value.where}: {error}") from None
