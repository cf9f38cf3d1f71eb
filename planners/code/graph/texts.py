"""What programs for graphs have in common: names, and tables of channels and actors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from csdf.model.graph import Channel, Graph
from planners.code.graph.storage import Ring
from planners.code.names import comment, identifier, unlike, wrapped


class GraphTexts:
    """What programs for a graph have in common: names, and tables of channels and actors."""

    def __init__(self, graph: Graph, rings: Sequence[Ring], name: str) -> None:
        """Take a graph with a buffer for each channel, and what functions are to be named after."""
        self.graph, self.rings = graph, rings
        self.name = identifier(name)
        self.capitals = self.name.upper()
        self.channels = {one.name: place for place, one in enumerate(self.graph.channels)}
        self.actors = {one.name: place for place, one in enumerate(self.graph.actors)}
        self.functions = dict(self.named([one.name for one in self.graph.actors], "fire_"))
        self._arrays: dict[tuple[int, ...], str] = {}
        self.definitions: list[str] = []

    def named(self, names: Sequence[str], prefix: str) -> Iterator[tuple[str, str]]:
        """Yield each name with a symbol of the program that is like no other with that prefix."""
        taken: list[str] = []
        for name in names:
            taken.append(unlike(name, taken))
            yield name, f"{self.name}_{prefix}{taken[-1]}"

    def ends(self, actor: str) -> list[tuple[Channel, bool]]:
        """Return the channels of an actor, inputs before outputs, each with whether it is one."""
        inputs = [(one, False) for one in self.graph.channels if one.consumer == actor]
        return inputs + [(one, True) for one in self.graph.channels if one.producer == actor]

    def signature(self, actor: str) -> str:
        """Return the head of the function of an actor."""
        return (
            f"void {self.functions[actor]}"
            f"(void *context, uint32_t phase, const {self.name}_port *ports)"
        )

    def ring(self, place: int) -> str:
        """Return the initialiser of the buffer of a channel."""
        channel, ring = self.graph.channels[place], self.rings[place]
        is_bounded = channel.capacity is not None and not channel.is_self_loop
        fields = (
            *(ring.offset, ring.capacity, ring.token_bytes, channel.initial_tokens),
            *(self.actors[channel.producer], self.actors[channel.consumer], int(is_bounded)),
        )
        return f"{{{', '.join(map(str, fields))}}}, /* {comment(channel.name)} */"

    def ends_and_actors(self) -> tuple[list[str], list[str]]:
        """Return the initialisers of all ends of channels, and of all actors."""
        ends: list[str] = []
        actors = []
        for actor in self.graph.actors:
            mine = self.ends(actor.name)
            fields = (self.functions[actor.name], actor.phases, len(ends), len(mine))
            actors.append(f"{{{', '.join(map(str, fields))}}},")
            for channel, is_output in mine:
                moved = channel.production if is_output else channel.consumption
                released = (0,) if is_output else channel.release_rates
                ends.append(
                    f"{{{self.channels[channel.name]}, {int(is_output)}, "
                    f"{self._rates(moved)}, {self._rates(released)}}},"
                )
        return ends, actors

    def _rates(self, rates: Sequence[int]) -> str:
        """The initialiser of rates, cut to where they begin to repeat; equal ones share a table."""
        found = shortest_round(tuple(rates))
        if found not in self._arrays:
            symbol = self._arrays[found] = f"rates_{len(self._arrays)}"
            items = wrapped([f"{rate}u" for rate in found])
            self.definitions.append(
                f"static const uint32_t {symbol}[{len(found)}] = {{\n{items}\n}};"
            )
        return f"{{{self._arrays[found]}, {len(found)}}}"


def table(kind: str, name: str, items: Sequence[str]) -> str:
    """Return a const table of a type, with an entry a line."""
    listed = "\n".join(f"    {item}" for item in items)
    return f"static const {kind} {name}[{len(items)}] = {{\n{listed}\n}};"


def shortest_round(rates: tuple[int, ...]) -> tuple[int, ...]:
    """Return rates up to where they begin to repeat."""
    for length in range(1, len(rates)):
        if len(rates) % length == 0 and rates == rates[:length] * (len(rates) // length):
            return rates[:length]
    return rates
