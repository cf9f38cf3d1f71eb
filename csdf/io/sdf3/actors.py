"""The actors of an SDF3 file: their ports, their phases and their times."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from sys import intern
from typing import NamedTuple

from csdf.errors import UnreadableFile, counted
from csdf.io import sequences
from csdf.io.sdf3.document import Element, Sdf3Document
from csdf.model.exact import MalformedText, shown
from csdf.model.graph import Actor, Processor

MOST_RATES = 5 * 10**7  # in one graph, for memory
LARGEST_TIME_SCALE = 10**100
DEFAULTS = {"true": True, "1": True, "false": False, "0": False}  # words of the attribute


class ActorPort(NamedTuple):
    """The end of a channel at an actor."""

    name: str
    direction: str  # in or out
    initial: str  # rates of the initial phases, or empty
    sequence: str  # of rates, in the cycle

    @property
    def label(self) -> str:
        """Return the name of the port in messages."""
        return f"port {self.name!r}"


class ProcessorTimes(NamedTuple):
    """The facts that the file states about an actor on one processor type."""

    name: str
    is_default: bool
    initial: str  # times of the initial phases, or empty
    sequence: str  # of times, in the cycle
    element: Element

    @property
    def label(self) -> str:
        """Return the name of the processor in messages."""
        return f"processor {self.name!r}"


class ActorText(NamedTuple):
    """An actor as stored in the file."""

    name: str
    element: Element
    ports: dict[str, ActorPort]
    processors: tuple[ProcessorTimes, ...]
    phases: int


def chosen_processor(defaults: Sequence[bool]) -> int | None:
    """Return the processor that counts: the last default processor, as in SDF3, or the last one."""
    marked = [number for number, is_default in enumerate(defaults) if is_default]
    return max(marked, default=len(defaults) - 1 if defaults else None)


def read_actor_texts(document: Sdf3Document, *, assume_zero_times: bool) -> dict[str, ActorText]:
    """Return the actors of the file by name, each with its number of phases."""
    elements = document.keyed(document.structure, "actor", "name")
    properties = document.keyed(document.properties, "actorProperties", "actor")
    for name, element in properties.items():
        if name not in elements:
            raise document.refusal(element, f"<actorProperties>: there is no actor {name!r}")
    texts: dict[str, ActorText] = {}
    rates = 0
    for name, element in elements.items():
        processors = _processors(
            document, name, properties.get(name), assume_zero_times=assume_zero_times
        )
        if not processors and not assume_zero_times:
            raise document.refusal(
                properties.get(name, element), f"actor {name!r} has no execution time"
            )
        texts[name] = _actor_text(document, name, element, processors)
        rates += texts[name].phases * (len(texts[name].ports) + len(processors))
        if rates > MOST_RATES:
            raise document.refusal(
                element, f"more than {MOST_RATES} rates in the actors up to {name!r}"
            )
    return texts


def _actor_text(
    document: Sdf3Document, name: str, element: Element, processors: tuple[ProcessorTimes, ...]
) -> ActorText:
    ports = _ports(document, element, name)
    parts: tuple[ActorPort | ProcessorTimes, ...] = (*ports.values(), *processors)
    for part in parts:
        if part.initial or not part.sequence.isdigit():
            break
    else:
        return ActorText(name, element, ports, processors, 1)
    if any(part.initial for part in parts):
        _require_equal_starts(document, name, element, parts)
    phases = 1
    for part in parts:
        if part.sequence.isdigit():  # its length is 1
            continue
        try:
            phases = math.lcm(phases, sequences.sequence_length(part.sequence))
        except MalformedText as error:
            text = f"actor {name!r}, {part.label}: {error}"
            raise document.refusal(_element_of(element, part), text) from None
    if phases > sequences.LARGEST_PHASE_COUNT:
        raise document.refusal(
            element,
            f"actor {name!r} has {phases} phases, the least common multiple of its sequences; "
            f"the limit is {sequences.LARGEST_PHASE_COUNT}",
        )
    if phases > 1 and document.kind == "sdf":
        raise document.refusal(
            element, f"actor {name!r} has {phases} phases, but the file has the type sdf"
        )
    return ActorText(name, element, ports, processors, phases)


def initial_phases(part: ActorPort | ProcessorTimes) -> int:
    """Return the number of initial phases of a list. Raises MalformedText, also for its numbers."""
    if not part.initial:
        return 0
    count = sequences.sequence_length(part.initial)
    return len(sequences.parse_times(part.initial, count))


def _require_equal_starts(
    document: Sdf3Document,
    actor: str,
    element: Element,
    parts: Sequence[ActorPort | ProcessorTimes],
) -> None:
    """Refuse lists of one actor with initial phases of different numbers."""
    for part in parts:
        try:
            count, first = initial_phases(part), initial_phases(parts[0])
        except MalformedText as error:
            where = f"actor {actor!r}, {part.label}: initial phases"
            raise document.refusal(_element_of(element, part), f"{where} {error}") from None
        if count != first:
            raise document.refusal(
                _element_of(element, part),
                f"actor {actor!r}: {part.label} has {counted(count, 'initial phase')} (before ';'), "
                f"but {parts[0].label} has {first}; all lists of an actor need as many",
            )


def _element_of(actor: Element, part: ActorPort | ProcessorTimes) -> Element:
    return port_elements(actor)[part.name] if isinstance(part, ActorPort) else part.element


def port_elements(actor: Element) -> dict[str, Element]:
    """Return the ports of an actor by name, if their names are known to be distinct."""
    return {child.get("name", ""): child for child in actor if child.tag == "port"}


def _ports(document: Sdf3Document, element: Element, actor: str) -> dict[str, ActorPort]:
    ports: dict[str, ActorPort] = {}
    for child in element:
        if child.tag != "port":
            continue
        get = child.get
        name, direction, rates = get("name"), get("type"), get("rate")
        if name is None or rates is None or name in ports or direction not in ("in", "out"):
            raise _wrong_port(document, element, actor)
        initial, cycle = sequences.split_initial(rates) if ";" in rates else ("", rates)
        # Equal texts are kept once: a large file has millions.
        ports[name] = ActorPort(name, intern(direction), initial, intern(cycle))
    return ports


def _wrong_port(document: Sdf3Document, element: Element, actor: str) -> UnreadableFile:
    """Return the error for the first port with a missing or repeated attribute."""
    for name, child in document.keyed(element, "port", "name").items():
        owner = f"actor {actor!r}, port {name!r}"
        direction = document.attribute(child, "type", owner)
        if direction not in ("in", "out"):
            return document.refusal(
                child, f"{owner} has the type {shown(direction)}; expected in or out"
            )
        document.attribute(child, "rate", owner)
    raise AssertionError("a port that was refused is in order")


def _processors(
    document: Sdf3Document, actor: str, properties: Element | None, *, assume_zero_times: bool
) -> tuple[ProcessorTimes, ...]:
    if properties is None:
        return ()
    times = []
    for name, element in document.keyed(properties, "processor", "type").items():
        owner = f"actor {actor!r}, processor {name!r}"
        time = document.only_child(element, "executionTime")
        if time is None and not assume_zero_times:
            raise document.refusal(element, f"{owner} has no execution time")
        text = "0" if time is None else document.attribute(time, "time", owner)
        initial, cycle = sequences.split_initial(text) if ";" in text else ("", text)
        default = element.get("default", "false")
        if default not in DEFAULTS:
            problem = f"{owner}: default is {shown(default)}; expected true or false"
            raise document.refusal(element, problem)
        stated = element if time is None else time
        is_default = DEFAULTS[default]
        times.append(ProcessorTimes(intern(name), is_default, initial, intern(cycle), stated))
    return tuple(times)


Time = int | Fraction
Times = dict[str, list[tuple[Time, ...]]]  # of an actor on each of its processors


def read_times(document: Sdf3Document, texts: dict[str, ActorText]) -> Times:
    """Return the times of each actor on each processor, in units of the user."""
    times: Times = {}
    for name, text in texts.items():
        listed = times[name] = []
        for processor in text.processors:
            try:
                listed.append(sequences.parse_times(processor.sequence, text.phases))
            except MalformedText as error:
                where = f"actor {name!r}, {processor.label}"
                raise document.refusal(
                    processor.element, f"{where}: execution time {error}"
                ) from None
    return times


def time_scale(document: Sdf3Document, times: Times) -> int:
    """Return the smallest factor that makes every time of the graph an integer."""
    scale = 1
    for name, lists in times.items():
        for values in lists:
            for time in values:
                if type(time) is not int:
                    scale = math.lcm(scale, time.denominator)
        if scale > LARGEST_TIME_SCALE:
            raise document.refusal(
                document.structure,
                f"the denominators of the times up to actor {name!r} have no common "
                f"multiple below 10**100",
            )
    return scale


def scaled(times: tuple[Time, ...], scale: int) -> tuple[int, ...]:
    """Return times in units of 1 / `scale` of the user's unit."""
    return tuple([int(time * scale) for time in times])


def actor_of(text: ActorText, lists: list[tuple[Time, ...]], scale: int) -> Actor:
    """Return the actor with integer times; with processors only if the file has several types."""
    if len(lists) == 1:
        return Actor(name=text.name, durations=scaled(lists[0], scale))
    durations = [scaled(values, scale) for values in lists]
    chosen = chosen_processor([processor.is_default for processor in text.processors])
    if chosen is None:
        return Actor(name=text.name, durations=(0,) * text.phases)
    processors = tuple(
        Processor(name=processor.name, durations=durations[number], is_default=number == chosen)
        for number, processor in enumerate(text.processors)
    )
    return Actor(name=text.name, durations=durations[chosen], processors=processors)
