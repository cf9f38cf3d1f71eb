"""The `.scenario` file of a PREESM project: times by type of processor, sizes of types, parameters."""

from __future__ import annotations

from dataclasses import dataclass, field

from lxml import etree

from csdf.errors import UnreadableFile
from csdf.io import files
from csdf.io.preesm.document import scenario_root
from csdf.io.sdf3.document import line_of
from csdf.model.exact import MalformedText, natural

BITS = 8  # of a byte
NOT_TIMES = ("INITIATION_INTERVAL",)  # how soon the next firing may begin, which the model lacks


@dataclass(frozen=True, slots=True, kw_only=True)
class PiScenario:
    """The facts of a scenario about a graph.

    times: of each actor, by its path below the whole graph, expressions by type of processor, with
    the line. token_bytes: by type of tokens. parameters: by graph and parameter.
    """

    file: str = ""
    algorithm: str = ""
    times: dict[str, dict[str, tuple[str, int]]] = field(default_factory=dict)
    token_bytes: dict[str, int] = field(default_factory=dict)
    parameters: dict[tuple[str, str], tuple[str, int]] = field(default_factory=dict)


def parse_scenario_document(
    content: bytes, name: str, maximum: int = files.LARGEST_FILE_BYTES
) -> PiScenario:
    """Return what a scenario says. Raises UnreadableFile, naming the line."""
    root = scenario_root(content, name, maximum)
    algorithm = root.find("files/algorithm")
    url = None if algorithm is None else algorithm.get("url")
    if not url:
        raise UnreadableFile(
            f"{name}:{root.sourceline}: <files> names no <algorithm url='...'>, the .pi file"
        )
    return PiScenario(
        file=name,
        algorithm=url,
        times=_times(root, name),
        token_bytes=_token_bytes(root, name),
        parameters=_parameters(root, name),
    )


def _times(root: etree._Element, name: str) -> dict[str, dict[str, tuple[str, int]]]:
    times: dict[str, dict[str, tuple[str, int]]] = {}
    for timing in root.iterfind("timings/timing"):
        if timing.get("timingtype") in NOT_TIMES:
            continue
        actor, processor, time = (
            _attribute(timing, key, name) for key in ("vertexname", "opname", "time")
        )
        times.setdefault(actor.partition("/")[2], {})[processor] = (time, line_of(timing))
    return times


def _token_bytes(root: etree._Element, name: str) -> dict[str, int]:
    """Sizes are bits where a flag says so, else bytes."""
    unit = BITS if root.find("flags/sizesAreInBit") is not None else 1
    sizes = {}
    for data_type in root.iterfind("simuParams/dataTypes/dataType"):
        text = _attribute(data_type, "size", name)
        try:
            sizes[_attribute(data_type, "name", name)] = -(-natural(text) // unit)
        except MalformedText as error:
            raise UnreadableFile(f"{name}:{data_type.sourceline}: size {error}") from None
    return sizes


def _parameters(root: etree._Element, name: str) -> dict[tuple[str, str], tuple[str, int]]:
    parameters = {}
    for parameter_value in root.iterfind("parameterValues/parameter"):
        graph, parameter, value = (
            _attribute(parameter_value, key, name) for key in ("parent", "name", "value")
        )
        parameters[graph, parameter] = (value.strip().strip("[]"), line_of(parameter_value))
    return parameters


def _attribute(element: etree._Element, key: str, name: str) -> str:
    value = element.get(key)
    if value is None:
        raise UnreadableFile(
            f"{name}:{element.sourceline}: <{element.tag}> has no attribute {key!r}"
        )
    return value
