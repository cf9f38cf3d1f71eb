"""Scenario graphs from files: JSON, or SDF3's XML of the type fsmsadf.

    {"format": "csdf-scenarios", "version": 2, "name": "g",
     "scenarios": [{"name": "s", "graph": {"format": "csdf-graph", ...}, "reward": "1",
                    "consumed": {"c": ["x", "y"]}, "produced": {"c": ["x"]}, "firings": {"a": 2}}],
     "states": [{"name": "q", "scenario": "s"}],
     "transitions": [["q", "q"]], "initial": "q", "probabilities": ["1"]}

They may omit `probabilities`, `reward`, `consumed`, `produced` and `firings`; see
csdf.scenarios.model.
"""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import PurePath

from csdf.arguments import public
from csdf.errors import UnreadableFile
from csdf.io import files, json_graph
from csdf.io.json_value import JsonForm, JsonValue
from csdf.scenarios.model import ScenarioGraph

FORMS = {ScenarioGraph: JsonForm("csdf-scenarios", 2), **json_graph.FORMS}
XML_READER = "csdf.scenarios.fsmsadf"  # imported when a file is XML: lxml takes long to load


@public
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
        scenario_graph: ScenarioGraph = import_module(XML_READER).parse_fsmsadf(content, name)
        return scenario_graph
    raise UnreadableFile(f"{name}: scenarios are in .json or .xml files")


def scenarios_from_json(text: str, name: str = "<text>") -> ScenarioGraph:
    """Return the scenario graph of a JSON text. Raises UnreadableFile."""
    return JsonValue.parse(text, name).built(ScenarioGraph, FORMS)
