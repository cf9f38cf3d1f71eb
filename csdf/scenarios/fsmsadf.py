"""SDF3 XML of the type fsmsadf: scenario graphs, their times, and the automaton over them."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from fractions import Fraction

from lxml import etree

from csdf.errors import InvalidGraph, UnreadableFile, counted
from csdf.io import files
from csdf.io.sdf3 import actors as sdf3_actors
from csdf.io.sdf3 import document as sdf3_document
from csdf.io.sdf3 import reader as sdf3_reader
from csdf.io.sdf3 import source as sdf3_source
from csdf.io.sdf3.document import Sdf3Document
from csdf.io.sdf3.reader import ChannelText
from csdf.model.exact import MalformedText, natural, rational
from csdf.model.graph import Actor, Channel, Graph
from csdf.scenarios.model import Scenario, ScenarioGraph, State

NOBODY = " (nobody)"  # what the name of an actor that never fires adds to that of its channel


def parse_fsmsadf(text: bytes, name: str = "<text>") -> ScenarioGraph:
    """Return the scenario graph of an SDF3 text of the type fsmsadf.

    A token is named by `persistentTokenNames` before and by `persistentFinalTokenNames` after the
    scenario; a token without a name does not persist. `repetitions` says how often an actor fires.
    Raises UnreadableFile, whose message names file, line and object.
    """
    files.require_size(text, name, files.LARGEST_FILE_BYTES)
    root = sdf3_source.parse_root(text, name)
    for element in root.iter(etree.Element):
        element.tag = etree.QName(element).localname  # without its namespace
    if root.tag != "sdf3" or root.get("type") != "fsmsadf":
        raise UnreadableFile(
            f"{name}:{root.sourceline}: expected <sdf3 type='fsmsadf'>; "
            "`csdf analyze` reads the types sdf and csdf"
        )
    application = sdf3_document.only_of(root, ("applicationGraph",), name)
    graphs = sdf3_document.only_of(application, ("fsmsadf",), name)
    properties = sdf3_document.only_of(application, ("fsmsadfProperties",), name)
    document = Sdf3Document(
        name=name,
        text="",
        kind="csdf",
        tree=root.getroottree(),
        application=application,
        structure=graphs,
        properties=properties,
    )
    try:
        return _scenario_graph(document, application, properties)
    except InvalidGraph as error:
        raise document.refusal(application, str(error)) from None


def _scenario_graph(
    document: Sdf3Document, application: etree._Element, properties: etree._Element
) -> ScenarioGraph:
    graphs = document.keyed(document.structure, "scenariograph", "name")
    listed = sdf3_document.only_of(properties, ("scenarios",), document.name)
    scenarios = tuple(
        _scenario(document, element, graphs)
        for element in document.keyed(listed, "scenario", "name").values()
    )
    automaton = sdf3_document.only_of(application, ("fsm",), document.name)
    states = document.keyed(automaton, "state", "name")
    return ScenarioGraph(
        name=document.attribute(application, "name", "the application graph"),
        scenarios=scenarios,
        states=tuple(
            State(name=name, scenario=document.attribute(element, "scenario", f"state {name!r}"))
            for name, element in states.items()
        ),
        transitions=tuple(
            (name, document.attribute(transition, "destination", f"state {name!r}"))
            for name, element in states.items()
            for transition in element.iterchildren("transition")
        ),
        initial=document.attribute(automaton, "initialstate", "the automaton"),
    )


def _scenario(
    document: Sdf3Document, element: etree._Element, graphs: Mapping[str, etree._Element]
) -> Scenario:
    name = document.attribute(element, "name", "a scenario")
    wanted = document.attribute(element, "graph", f"scenario {name!r}")
    if wanted not in graphs:
        raise document.refusal(element, f"scenario {name!r}: there is no graph {wanted!r}")
    scenario_graph = replace(
        document,
        structure=graphs[wanted],
        properties=_merged_properties(document, element, graphs[wanted]),
    )
    parts = _GraphParts(scenario_graph)
    try:
        reward = rational(element.get("reward", "1"))
        return Scenario(
            name=name,
            graph=parts.graph(wanted),
            consumed=parts.consumed,
            produced=parts.produced,
            firings=parts.firings,
            reward=reward,
        )
    except (InvalidGraph, MalformedText) as error:
        raise document.refusal(element, f"scenario {name!r}: {error}") from None


def _merged_properties(
    document: Sdf3Document, scenario: etree._Element, structure: etree._Element
) -> etree._Element:
    """Return the properties of the scenario, completed by the default properties."""
    merged = deepcopy(scenario)
    defaults = document.only_child(document.properties, "defaultProperties")
    for tag, key in (("actorProperties", "actor"), ("channelProperties", "channel")):
        names = {element.get("name") for element in structure.iterchildren(key)}
        scenario_elements = document.keyed(scenario, tag, key)
        for name, element in document.keyed(defaults, tag, key).items():
            if name in names and name not in scenario_elements:
                merged.append(deepcopy(element))
    return merged


@dataclass
class _GraphParts:
    """The graph of a scenario while it is being read."""

    document: Sdf3Document
    consumed: dict[str, tuple[str, ...]] = field(default_factory=dict)
    produced: dict[str, tuple[str, ...]] = field(default_factory=dict)
    firings: dict[str, int] = field(default_factory=dict)
    idle: list[Actor] = field(default_factory=list)

    def graph(self, name: str) -> Graph:
        document = self.document
        texts = sdf3_actors.read_actor_texts(document, assume_zero_times=False)
        times = sdf3_actors.read_times(document, texts)
        scale = sdf3_actors.time_scale(document, times)
        for actor, text in texts.items():
            count = text.element.get("repetitions")
            if count is not None:
                self.firings[actor] = self._natural(text.element, count, f"actor {actor!r}")
        channels = tuple(
            self._channel(text) for text in sdf3_reader.read_channel_texts(document, texts).values()
        )
        actors = [sdf3_actors.actor_of(text, times[actor], scale) for actor, text in texts.items()]
        return Graph(
            name=name,
            actors=(*actors, *self.idle),
            channels=channels,
            time_unit=Fraction(1, scale),
        )

    def _natural(self, element: etree._Element, text: str, what: str) -> int:
        try:
            return natural(text)
        except MalformedText as error:
            raise self.document.refusal(element, f"{what}: {error}") from None

    def _channel(self, text: ChannelText) -> Channel:
        where = f"channel {text.name!r}"
        production = sdf3_reader.rates(self.document, text.producer, text.source)
        consumption = sdf3_reader.rates(self.document, text.consumer, text.destination)
        tokens = self._natural(text.element, text.element.get("initialTokens", "0"), where)
        self.consumed[text.name] = self._names(text, "persistentTokenNames", tokens)
        left = text.element.get("finalTokens")
        final = tokens if left is None else self._natural(text.element, left, where)
        self.produced[text.name] = self._names(text, "persistentFinalTokenNames", final)
        return Channel(
            name=text.name,
            producer=text.producer.name if any(production) else self._nobody(text.name),
            consumer=text.consumer.name if any(consumption) else self._nobody(text.name),
            production=production if any(production) else (1,),
            consumption=consumption if any(consumption) else (1,),
            initial_tokens=tokens,
        )

    def _nobody(self, channel: str) -> str:
        """Return an actor that never fires: the end of a channel where no token passes."""
        name = f"{channel}{NOBODY}"
        if name not in self.firings:
            self.idle.append(Actor(name=name, durations=(0,)))
            self.firings[name] = 0
        return name

    def _names(self, text: ChannelText, key: str, tokens: int) -> tuple[str, ...]:
        listed = text.element.get(key)
        if listed is None or not listed.strip():
            return ("",) * tokens
        names = tuple(name.strip() for name in listed.split(","))
        if len(names) != tokens:
            raise self.document.refusal(
                text.element,
                f"channel {text.name!r}: {key} has {counted(len(names), 'name')} "
                f"for {counted(tokens, 'token')}",
            )
        return names
