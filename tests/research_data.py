"""Oracles for the analyses of what-if questions, beside the checkout: graphs in plain JSON."""

import json

from csdf.model.graph import Actor, Channel, Graph
from tests.shared_data import SHARED

RESEARCH = SHARED / "research"


def listed(name):
    """The entries of an oracle file; none where it is not there."""
    path = RESEARCH / name
    return json.loads(path.read_text()) if path.exists() else []


def parametric_oracles():
    return [
        Named(one, one["graph"]["name"]) for one in listed("parametric/parametric_oracles.json")
    ]


class Named(dict):
    """An entry that tests show by its name."""

    def __init__(self, entry, name):
        super().__init__(entry)
        self.name = name

    def __str__(self):
        return self.name


def graph_of(plain):
    """The graph of an entry; what belongs to initial phases is left out."""
    return Graph(
        name=plain["name"],
        actors=tuple(
            Actor(name=one["name"], durations=tuple(one["durations"])) for one in plain["actors"]
        ),
        channels=tuple(
            Channel(
                name=one["name"],
                producer=one["producer"],
                consumer=one["consumer"],
                production=tuple(one["production"]),
                consumption=tuple(one["consumption"]),
                initial_tokens=one["initial_tokens"],
            )
            for one in plain["channels"]
        ),
    )
