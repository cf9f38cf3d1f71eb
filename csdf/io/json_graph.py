"""A graph as JSON, and back.

    {"format": "csdf-graph", "version": 1, "name": "g",
     "time_unit": "1/2", "throughput_constraint": null,
     "actors": [{"name": "a", "durations": [1, 2], "processors": []}],
     "channels": [{"name": "c", "producer": "a", "consumer": "a",
                   "production": [1, 1], "consumption": [1, 1], "initial_tokens": 1,
                   "capacity": null, "release": null, "token_size": null}],
     "origin": null}

All keys are always there, and no others. Numbers are integers; the two fractions are texts. An
entry of `processors` has the keys `name`, `durations` and `is_default`.
"""

from __future__ import annotations

import json

from csdf.io.json_value import JsonForm, JsonValue
from csdf.model.graph import FORMAT, VERSION, Actor, Channel, Graph, Processor

COMPLETE = JsonForm(is_complete=True)
FORMS = {
    Graph: JsonForm(FORMAT, VERSION, is_complete=True),
    Actor: COMPLETE,
    Channel: COMPLETE,
    Processor: COMPLETE,
}


def graph_to_json(graph: Graph) -> str:
    """Return the graph as JSON text, with its origin."""
    return f"{json.dumps(graph.to_json())}\n"


def graph_from_json(text: str, name: str = "<text>") -> Graph:
    """Return the graph that graph_to_json wrote.

    Raises UnreadableFile with the position in the document, such as `channels[3].production[1]`.
    """
    return JsonValue.parse(text, name).built(Graph, FORMS)
