"""PREESM's graphs (PiSDF, `.pi`) with constant parameters, and the scenarios that give them times.

A graph within an actor is flattened where one firing of the actor is one iteration of that graph: its
actors get the name of the actor and a slash before theirs, and FIFOs through its interfaces become
one channel. Around a delay that starts anew in each iteration, or that actors set and get, the firings
of an iteration become phases. A parameter that an actor sets while the graph runs has the value that a
scenario gives it; without one it is refused by name.

Times come from a `.scenario` file, which names the .pi file of the project that it lies in; read that
one for them. Broadcasts, forks, joins and round buffers take no time unless the scenario says so. An
actor with times for several types of processors has the first one in the file by default.

Source: Desnos et al., PiMM, SAMOS 2013; Piat, Bhattacharyya, Raulet, Interface-based hierarchy for
synchronous data-flow graphs, SiPS 2009.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from fractions import Fraction
from math import lcm

from csdf.errors import InvalidGraph, UnreadableFile
from csdf.io import files
from csdf.io.preesm.document import INTERFACES, PiGraph, found_file, parse_document
from csdf.io.preesm.flattening import Flattening, Flow, Path
from csdf.io.preesm.scenario import PiScenario, parse_scenario_document
from csdf.model.exact import shown
from csdf.model.graph import Actor, Channel, Graph, Processor
from csdf.names import free_name

Times = Mapping[str, Fraction]  # by type of processor; under no name where nothing says them


def parse_pi(
    content: bytes,
    name: str,
    *,
    assume_zero_times: bool = False,
    buffer_sizes: bool | None = None,  # noqa: ARG001 - of another format
    most: int = files.LARGEST_FILE_BYTES,
) -> Graph:
    """Return the graph of a .pi file, whose actors take no time: a scenario has their times.

    assume_zero_times: must be given, unless all actors are special. Raises UnreadableFile with a line.
    """
    with _named(name):
        document = parse_document(content, name, most)
        return _graph(document, PiScenario(), most, assume_zero_times=assume_zero_times)


def parse_scenario(
    content: bytes,
    name: str,
    *,
    assume_zero_times: bool = False,
    buffer_sizes: bool | None = None,  # noqa: ARG001 - of another format
    most: int = files.LARGEST_FILE_BYTES,
) -> Graph:
    """Return the graph that a .scenario file names, with the times that it has.

    assume_zero_times: an actor without a time takes none. Raises UnreadableFile, naming file and line.
    """
    scenario = parse_scenario_document(content, name, most)
    path = found_file(scenario.algorithm, name)
    if path is None:
        raise UnreadableFile(
            f"{name}: the graph {shown(scenario.algorithm)} is in none of the folders around it"
        )
    with _named(name):
        document = parse_document(files.read_bytes(path, most), path, most)
        return _graph(document, scenario, most, assume_zero_times=assume_zero_times)


@contextmanager
def _named(name: str) -> Iterator[None]:
    """Begin errors of files that belong to a file with the name of that one."""
    try:
        yield
    except UnreadableFile as error:
        text = str(error)
        raise UnreadableFile(text if text.startswith(name) else f"{name}: {text}") from None


def _graph(
    document: PiGraph, scenario: PiScenario, maximum: int, *, assume_zero_times: bool
) -> Graph:
    for node in document.nodes.values():
        if node.kind in INTERFACES:
            raise document.refusal(
                node.line,
                f"{shown(node.name)} is an interface: this graph stands for an actor of another "
                "graph; read that one",
            )
    flat = Flattening(document, scenario, maximum, assume_zero_times=assume_zero_times)
    scale = lcm(*(time.denominator for times in flat.times.values() for time in times.values()))
    try:
        return Graph(
            name=document.name,
            actors=tuple(
                _actor(name, times, scale, flat.phases.get(name, 1))
                for name, times in flat.times.items()
            ),
            channels=tuple(_channels(flat, scenario)),
            time_unit=Fraction(1, scale),
        )
    except InvalidGraph as error:
        raise document.refusal(document.line, str(error)) from None


def _actor(name: str, times: Times, scale: int, phases: int) -> Actor:
    """The actor with this many equal phases, and its processors where times are known by type."""
    first = next(iter(times))
    durations = {processor: (int(time * scale),) * phases for processor, time in times.items()}
    processors = tuple(
        Processor(name=processor, durations=durations_on, is_default=processor == first)
        for processor, durations_on in durations.items()
        if processor
    )
    return Actor(name=name, durations=durations[first], processors=processors)


def _channels(flat: Flattening, scenario: PiScenario) -> Iterator[Channel]:
    used_names: set[str] = set()
    for path in flat.paths():
        production, consumption = flat.rates[path.source], flat.rates[path.target]
        if not production and not consumption:
            continue  # nothing ever passes
        if not production or not consumption:
            side = "source" if consumption else "target"
            raise path.refusal(
                f"the {side} of this fifo moves no token, the other end "
                f"{production or consumption}: it can never fire in balance"
            )
        (producer, _), (consumer, _) = path.source, path.target
        yield Channel(
            name=_name(path, used_names),
            producer=producer,
            consumer=consumer,
            production=(production,) * flat.phases.get(producer, 1),
            consumption=(consumption,) * flat.phases.get(consumer, 1),
            initial_tokens=path.tokens,
            token_size=scenario.token_bytes.get(path.type),
        )
    for flow in flat.flows:
        yield Channel(
            name=_name(flow, used_names),
            producer=flow.source[0],
            consumer=flow.target[0],
            production=flow.production,
            consumption=flow.consumption,
            token_size=scenario.token_bytes.get(flow.type),
        )


def _name(link: Path | Flow, used_names: set[str]) -> str:
    """The name of a channel after its ends, which no other channel has; it is taken from now on."""
    (producer, port), (consumer, _) = link.source, link.target
    name = free_name(f"{producer}.{port} to {consumer}", used_names)
    used_names.add(name)
    return name
