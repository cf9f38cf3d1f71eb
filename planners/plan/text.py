"""Plans of groups, stages and buffers as JSON: what `csdf fit -o` writes, read back.

The document is that of StreamingPlan.to_json, or a list of such documents for several networks. The
network itself is not in it: a plan that was read for a network has to pass planners.plan.checker.

Files of plans, for models that are at hand.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import Enum
from itertools import pairwise
from typing import TypeVar

from cnn2csdf.weights import Model
from csdf.errors import CsdfError, InvalidPlan, UnreadableFile, counted
from csdf.io.files import decoded, read_bytes
from csdf.io.json_value import JsonValue
from planners.plan.checker import require_apart
from planners.plan.plan import (
    VERSION,
    HandOver,
    Inlay,
    Kind,
    Manner,
    NamedPrimitive,
    PlannedGroup,
    PlannedStage,
    Span,
    Stage,
    StreamBuffer,
    StreamingPlan,
    Tiles,
    Turns,
)
from planners.tiling.regions import layer_range

# The keys of each kind of object, with the first version that has them.
PLAN = {
    **dict.fromkeys(("version", "network", "element_bytes", "arena_bytes"), 1),
    **dict.fromkeys(("multiply_accumulates", "again", "groups", "buffers"), 1),
    "inlays": 2,
    "layers": 3,
}
GROUP = {"arriving": 1, "stages": 1, "order": 2, "hand_overs": 3, "at_once": 3}
STAGE = {
    **dict.fromkeys(("layers", "course", "rows", "parts", "summing", "tiles", "strips"), 1),
    "primitive": 3,
}
BUFFER = {
    **dict.fromkeys(("name", "kind", "tensor", "rows", "size", "offset", "groups"), 1),
    "readers": 2,
    "layout": 3,
}
NEARLY_LATER = ("tiles",)  # what not every plan of version 1 had
# What keys that came later mean where they are missing.
LATER_OF_PLAN: dict[str, object] = {"inlays": [], "layers": None}
LATER_OF_GROUP: dict[str, object] = {"order": [], "hand_overs": [], "at_once": None}
LATER_OF_STAGE = {"tiles": None, "primitive": None}
LATER_OF_BUFFER: dict[str, object] = {"readers": [], "layout": None}
LAYOUTS = ("CHW", "HWC")
MOST = 2**31 - 1  # of rows, parts, bytes: what C counts in 32 bits
MOST_WORK = 2**63 - 1

Word = TypeVar("Word", bound=Enum)


def format_plans(plans: Sequence[StreamingPlan]) -> str:
    """Return a document that reads back as the same plans: an object for one, a list for several."""
    found = [plan.to_json() for plan in plans]
    return json.dumps(found[0] if len(found) == 1 else found, indent=2) + "\n"


def parse_plans(text: str, name: str) -> tuple[StreamingPlan, ...]:
    """Return the plans of a document. name: of the file.

    Raises UnreadableFile with the place. Whether a plan can be carried out is the checker's question.
    """
    found = JsonValue.parse(text, name)
    entries = tuple(found.items()) if isinstance(found.value, list) else (found,)
    if not entries:
        raise found.refusal("expected at least one plan")
    return tuple(_plan(one) for one in entries)


def _plan(found: JsonValue) -> StreamingPlan:
    if type(found.value) is dict and {"scratch", "platform"} <= set(found.value):
        raise found.refusal(
            "a plan of csdf plan fusion in its old form, which no checker could carry out; plan again"
        )
    version = _version(found)
    _require_keys_of_version(found, version)
    found = _with_later_keys(found)
    unit = found["element_bytes"]
    if not found["groups"].value:
        raise found["groups"].refusal("expected at least one group")
    return StreamingPlan(
        network=found["network"].text(),
        layers=None if found["layers"].is_null else _pair(found["layers"], "layer"),
        element_bytes=None if unit.is_null else unit.whole(1, MOST),
        again=tuple(_span(one) for one in found["again"].items()),
        inlays=tuple(_inlay(one) for one in found["inlays"].items()),
        groups=tuple(_group(one) for one in found["groups"].items()),
        buffers=tuple(_buffer(one) for one in found["buffers"].items()),
        arena_bytes=found["arena_bytes"].whole(0, MOST),
        multiply_accumulates=found["multiply_accumulates"].whole(0, MOST_WORK),
    )


def _version(found: JsonValue) -> int:
    """Return the version that a document says it has; refuse one without, or with another's keys."""
    found.require_object()
    if "version" not in found.value:
        raise UnreadableFile(
            f"{found.where}: the key 'version' is missing; expected a plan of version 1 to {VERSION}, "
            f"with the keys {', '.join(PLAN)}"
        )
    version = found["version"].value
    if type(version) is not int or not 1 <= version <= VERSION:
        raise found["version"].refusal(f"this program reads versions 1 to {VERSION}")
    keys = set(found.value)
    for other in range(VERSION, 0, -1):
        if keys == set(_keys_of(PLAN, other)) != set(_keys_of(PLAN, version)):
            raise found["version"].refusal(f"expected {other}, whose keys these are")
    return version


def _keys_of(keys: Mapping[str, int], version: int, but: Sequence[str] = ()) -> tuple[str, ...]:
    return tuple(key for key, since in keys.items() if since <= version and key not in but)


def _require_keys_of_version(found: JsonValue, version: int) -> None:
    """Refuse keys that are not those of a version, in a plan and in all objects within."""
    _require(found, PLAN, version)
    for group in found["groups"].items():
        _require(group, GROUP, version)
        for stage in group["stages"].items():
            _require(stage, STAGE, version)
    for buffer in found["buffers"].items():
        _require(buffer, BUFFER, version)


def _require(found: JsonValue, keys: Mapping[str, int], version: int) -> None:
    optional = tuple(key for key in NEARLY_LATER if key in keys and version == 1)
    needed = _keys_of(keys, version, optional)
    found.require_keys(needed, optional, form=f"version {version}")


def _with_later_keys(found: JsonValue) -> JsonValue:
    """Return a document of an earlier version with the keys that came later."""
    plan = LATER_OF_PLAN | found.value
    plan["groups"] = [
        {**LATER_OF_GROUP, **group, "stages": [LATER_OF_STAGE | one for one in group["stages"]]}
        for group in plan["groups"]
    ]
    plan["buffers"] = [LATER_OF_BUFFER | one for one in plan["buffers"]]
    return replace(found, value=plan)


def _span(found: JsonValue) -> Span:
    found.require_keys(("from", "to"))
    return Span(found["from"].text(), found["to"].text())


def _inlay(found: JsonValue) -> Inlay:
    found.require_keys(Inlay._fields)
    places = (found[key].whole(0, MOST) for key in ("row", "column", "channel"))
    return Inlay(found["tensor"].text(), found["host"].text(), *places)


def _group(found: JsonValue) -> PlannedGroup:
    stages = tuple(_stage(one) for one in found["stages"].items())
    arriving = _text_or_none(found["arriving"])
    if not stages and arriving is None:
        raise found["stages"].refusal("expected at least one stage, or an input that arrives")
    return PlannedGroup(
        stages=stages,
        arriving=arriving,
        order=tuple(_turns(one) for one in found["order"].items()),
        hand_overs=tuple(_hand_over(one) for one in found["hand_overs"].items()),
        at_once=_text_or_none(found["at_once"]),
    )


def _hand_over(found: JsonValue) -> HandOver:
    found.require_keys(("from", "to"))
    return HandOver(source=found["from"].text(), target=found["to"].text())


def _turns(found: JsonValue) -> Turns:
    found.require_keys(("times", "results"))
    results = _texts(found["results"])
    if not results:
        raise found["results"].refusal("expected the result of at least one stage")
    return Turns(times=found["times"].whole(1, MOST), results=results)


def _stage(found: JsonValue) -> PlannedStage:
    layers = _texts(found["layers"])
    if not layers:
        raise found["layers"].refusal("expected at least one layer")
    stage = Stage(
        layers=layers,
        rows=found["rows"].whole(1, MOST),
        manner=_word(found["course"], Manner),
        parts=found["parts"].whole(1, MOST),
        summing=_text_or_none(found["summing"]),
        tiles=None if found["tiles"].is_null else _tiles(found["tiles"]),
    )
    return PlannedStage(
        stage=stage,
        strips=tuple(_strip(one) for one in found["strips"].items()),
        primitive=None if found["primitive"].is_null else _primitive(found["primitive"]),
    )


def _primitive(found: JsonValue) -> NamedPrimitive:
    found.require_keys(("name", "reads", "writes"))
    return NamedPrimitive(
        name=found["name"].text(),
        reads=_layout(found["reads"]),
        writes=_layout(found["writes"]),
    )


def _layout(found: JsonValue) -> str:
    if found.text() not in LAYOUTS:
        raise found.refusal(f"expected one of {', '.join(LAYOUTS)}")
    return found.text()


def _tiles(found: JsonValue) -> Tiles:
    found.require_keys(("row_ends", "column_ends", "keeps"))
    return Tiles(
        rows=_ends(found["row_ends"]),
        columns=_ends(found["column_ends"]),
        keeps=found["keeps"].truth(),
    )


def _ends(found: JsonValue) -> tuple[int, ...]:
    ends = found.naturals()
    if not ends or any(end <= before for before, end in pairwise((0, *ends))):
        raise found.refusal("expected growing numbers above 0")
    return ends


def _strip(found: JsonValue) -> tuple[str, int, int]:
    found.require_keys(("layer", "rows", "columns"))
    return found["layer"].text(), found["rows"].whole(0, MOST), found["columns"].whole(0, MOST)


def _buffer(found: JsonValue) -> StreamBuffer:
    begin, end = _pair(found["groups"], "group")
    return StreamBuffer(
        name=found["name"].text(),
        kind=_word(found["kind"], Kind),
        tensor=found["tensor"].text(),
        rows=found["rows"].whole(0, MOST),
        size=found["size"].whole(0, MOST),
        offset=found["offset"].whole(0, MOST),
        begin=begin,
        end=end,
        readers=_texts(found["readers"]),
        layout=None if found["layout"].is_null else _layout(found["layout"]),
    )


def _pair(found: JsonValue, what: str) -> tuple[int, int]:
    numbers = found.naturals()
    if len(numbers) != 2 or numbers[0] >= numbers[1]:
        raise found.refusal(f"expected a first {what} and one past the last")
    return numbers[0], numbers[1]


def _texts(found: JsonValue) -> tuple[str, ...]:
    return tuple(one.text() for one in found.items())


def _text_or_none(found: JsonValue) -> str | None:
    return None if found.is_null else found.text()


def _word(found: JsonValue, words: type[Word]) -> Word:
    known = {one.value: one for one in words}
    if found.text() not in known:
        raise found.refusal(f"expected one of {', '.join(known)}")
    return known[found.text()]


def worked_part(model: Model, plan: StreamingPlan) -> Model:
    """Return the layers of a model that a plan works; all, where it does not say which."""
    return model if plan.layers is None else layer_range(model, *plan.layers)


def plans_for(path: str, models: int) -> tuple[StreamingPlan, ...]:
    """Return the plans of a file, one for each of so many models, all in one arena.

    Raises InvalidPlan where networks that may work at the same time have bytes in common.
    """
    plans = parse_plans(decoded(read_bytes(path), path), path)
    if len(plans) != models:
        raise CsdfError(
            f"{path}: found {counted(len(plans), 'plan')} for {counted(models, 'model')}; give the "
            "models that it was planned for, in the same order"
        )
    try:
        require_apart(plans)
    except InvalidPlan as error:
        raise InvalidPlan(f"{path}: {error}") from None
    return plans
