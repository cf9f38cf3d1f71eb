"""Surroundings of each actor, as data for the page: its channels, and its work."""

from __future__ import annotations

from typing import Any

from csdf.draw.report.drawing.graph_drawing import actor_in_words, rates
from csdf.draw.report.findings import GraphFindings


def neighbourhood_data(findings: GraphFindings, noun: str, most: int) -> dict[str, Any]:
    """Return names and facts of all actors, and at most so many channels, for the scripts."""
    graph = findings.graph
    return {
        "noun": noun,
        "names": [actor.name for actor in graph.actors],
        "facts": [
            actor_in_words(graph, actor, findings.repetitions[actor.name]) for actor in graph.actors
        ],
        "channels": [
            [
                *(one.name, one.producer, one.consumer, rates(one.production)),
                *(rates(one.consumption), one.initial_tokens, one.capacity),
            ]
            for one in graph.channels[:most]
        ],
    }
