"""Builder of graphs with parameters: rates, durations and tokens as expressions."""

from __future__ import annotations

import json
from collections.abc import Sequence
from fractions import Fraction
from math import lcm
from typing import Any

from csdf.errors import CsdfError
from csdf.model.exact import Exact
from csdf.model.graph import FORMAT, VERSION
from csdf.names import free_name
from csdf.parameters.graph import ParametricGraph, from_json

Number = Exact  # an integer, a fraction, or a text: number or expression


class ParametricBuilder:
    """Collects actors and channels with expressions; `graph()` returns the graph with parameters.

    As in GraphBuilder, a single time or rate applies to all phases, and a shorter list is repeated.
    """

    def __init__(self, name: str = "graph") -> None:
        self._name = name
        self._actors: dict[str, list[Any]] = {}
        self._channels: list[dict[str, Any]] = []

    def actor(
        self, name: str, times: Number | Sequence[Number], *, overlap: bool = True
    ) -> ParametricBuilder:
        """Add an actor with the duration of each of its phases; see GraphBuilder.actor."""
        if name in self._actors:
            raise CsdfError(f"two actors are named {name!r}")
        self._actors[name] = _listed(times)
        if not overlap:
            self.channel(name, 1, name, 1, initial_tokens=1, name=f"{name} self-loop")
        return self

    def channel(
        self,
        producer: str,
        production: Number | Sequence[Number],
        consumer: str,
        consumption: Number | Sequence[Number],
        *,
        initial_tokens: Number = 0,
        capacity: Number | None = None,
        token_size: Number | None = None,
        name: str | None = None,
    ) -> ParametricBuilder:
        """Add a channel; without a name it is called after its actors."""
        taken = {channel["name"] for channel in self._channels}
        title = name or free_name(f"{producer} to {consumer}", taken)
        self._channels.append(
            {
                "name": title, "producer": producer, "consumer": consumer,
                "production": _listed(production), "consumption": _listed(consumption),
                "initial_tokens": _plain(initial_tokens), "capacity": _plain(capacity),
                "release": None, "token_size": _plain(token_size),
            }
        )  # fmt: skip
        return self

    def graph(self) -> ParametricGraph:
        """Return the graph with parameters. Raises UnreadableFile, naming the fault."""
        phases = {name: len(times) for name, times in self._actors.items()}
        ends = (("producer", "production"), ("consumer", "consumption"))
        for channel in self._channels:
            for end, rates in ends:
                phases[channel[end]] = lcm(phases.get(channel[end], 1), len(channel[rates]))
        channels = [
            channel
            | {
                rates: channel[rates] * (phases[channel[end]] // len(channel[rates]))
                for end, rates in ends
            }
            for channel in self._channels
        ]
        actors = [
            {"name": name, "durations": times * (phases[name] // len(times)), "processors": []}
            for name, times in self._actors.items()
        ]
        document = {
            "format": FORMAT, "version": VERSION, "name": self._name, "time_unit": "1",
            "throughput_constraint": None, "actors": actors, "channels": channels, "origin": None,
        }  # fmt: skip
        return from_json(json.dumps(document), f"graph {self._name!r}")


def _listed(values: Any) -> list[Any]:
    is_list = isinstance(values, Sequence) and not isinstance(values, str)
    numbers = [_plain(value) for value in values] if is_list else [_plain(values)]
    if not numbers:
        raise CsdfError("a list of rates or durations is empty; give at least one")
    return numbers


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        raise CsdfError(f"{value!r} is not exact; write it as text")
    return str(value) if isinstance(value, Fraction) else value
