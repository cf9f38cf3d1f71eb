"""Plans of fusion as JSON.

    {"network": "resnet8", "element_bytes": 4, "scratch": "im2col",
     "platform": {"operations_per_second": "35000000000", "bytes_per_second": "...", "launch": "..."},
     "status": "optimal", "reason": "...", "lower_bound": 146176,
     "arena_bytes": 146176, "weight_bytes": 310824, "nanoseconds": 356100,
     "multiply_accumulates": 13146752, "redundant_multiply_accumulates": 645120,
     "groups": [
       {"layers": ["conv1", "conv2"], "way": "keep", "row_ends": [16, 32], "column_ends": [32]},
       {"layers": ["pool"], "way": "whole", "row_ends": null, "column_ends": null}],
     "buffers": [{"name": "conv1 tile", "offset": 0, "size": 8448}]}

`element_bytes` is null where each tensor has the elements of the file. Status, reason and lower bound
are those of the arena. Where tiles end is told in rows and columns of
the last layer of a group. The network itself is not in the document; who reads it has it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any

from cnn2csdf.durations import Platform
from csdf.errors import InvalidNetwork, InvalidPlan, UnreadableFile
from csdf.io.json_value import JsonValue
from csdf.model.exact import MalformedText, rational
from csdf.outcome import Status, told
from planners.check import check_plan
from planners.fusion.chains import Chain
from planners.fusion.choices import Terms
from planners.fusion.configurations import Group, Way, single
from planners.fusion.memory import Scratch
from planners.fusion.planning import fusion_plan
from planners.fusion.plans import FusionPlan
from planners.fusion.tiles import Grid
from planners.plan import MemoryPlan

PLATFORM = ("operations_per_second", "bytes_per_second", "launch")
TERMS = ("network", "element_bytes", "scratch", "platform")
ARENA = ("status", "reason", "lower_bound")
FIGURES = (
    "arena_bytes",
    "weight_bytes",
    "nanoseconds",
    "multiply_accumulates",
    "redundant_multiply_accumulates",
)
LISTS = ("groups", "buffers")


def format_fusion_plan(plan: FusionPlan) -> str:
    """Return a document that reads back as the same groups, cost and offsets."""
    terms, arena = plan.terms, plan.arena.to_json()
    found: dict[str, Any] = {
        "network": plan.chain.network.name,
        "element_bytes": terms.element_bytes,
        "scratch": terms.scratch.value,
        "platform": {key: str(getattr(terms.platform, key)) for key in PLATFORM},
        **{key: arena[key] for key in ARENA},
        **plan.to_json(),
    }
    lines = [f"{json.dumps(key)}: {json.dumps(found[key])}" for key in (*TERMS, *ARENA, *FIGURES)]
    for key in LISTS:
        entries = ",\n  ".join(json.dumps(value) for value in found[key])
        lines.append(f"{json.dumps(key)}: [\n  {entries}]")
    return "{" + ",\n ".join(lines) + "}\n"


def parse_fusion_plan(text: str, name: str, chain: Chain) -> FusionPlan:
    """Return the plan of a document for a network that is at hand.

    name: of the file. Raises UnreadableFile with the place, also where groups, costs or buffers are
    not those of this network, and where offsets do not pass the judge.
    """
    found = JsonValue.parse(text, name)
    found.require_keys((*TERMS, *ARENA, *FIGURES, *LISTS))
    try:
        plan = fusion_plan(chain, tuple(_groups(found["groups"], chain)), _terms(found))
        plan = replace(plan, arena=_arena(found, plan.arena))
    except (InvalidPlan, InvalidNetwork) as error:
        raise UnreadableFile(f"{name}: {error}") from None
    for key in FIGURES:
        expected = plan.to_json()[key]
        if found[key].natural() != expected:
            raise found[key].refusal(f"with this network it is {expected}")
    return plan


def _terms(found: JsonValue) -> Terms:
    scratch = found["scratch"]
    if scratch.text() not in {one.value for one in Scratch}:
        raise scratch.refusal(f"expected one of {', '.join(one.value for one in Scratch)}")
    size = found["element_bytes"]
    if not size.is_null and not size.natural():
        raise size.refusal("expected at least 1")
    found["platform"].require_keys(PLATFORM)
    values = {key: _fraction(found["platform"][key]) for key in PLATFORM}
    return Terms(
        platform=Platform(**values),
        scratch=Scratch(scratch.text()),
        element_bytes=None if size.is_null else size.natural(),
    )


def _fraction(found: JsonValue) -> Fraction:
    try:
        return rational(found.text())
    except MalformedText:
        raise found.refusal("expected a number as a text, such as 3/2") from None


def _groups(found: JsonValue, chain: Chain) -> Iterator[Group]:
    """The groups in their order, each with as many sections as its layers fill."""
    first = 0
    for one in found.items():
        one.require_keys(("layers", "way", "row_ends", "column_ends"))
        names = [layer.text() for layer in one["layers"].items()]
        upto = first
        while upto < len(chain.sections) and len(chain.layers(first, upto)) < len(names):
            upto += 1
        if not names or [layer.name for layer in chain.layers(first, upto)] != names:
            raise one["layers"].refusal("expected the layers of the next sections of the network")
        yield _group(one, chain, first, upto)
        first = upto


def _group(found: JsonValue, chain: Chain, first: int, upto: int) -> Group:
    known = {way.value: way for way in Way}
    if found["way"].text() not in known:
        raise found["way"].refusal(f"expected one of {', '.join(known)}")
    group = single(chain, first, upto, known[found["way"].text()])
    if not group.is_tiled:
        return group
    grid = Grid(rows=found["row_ends"].naturals(), columns=found["column_ends"].naturals())
    return replace(group, grid=grid)


def _arena(found: JsonValue, made: MemoryPlan) -> MemoryPlan:
    """The buffers of the plan at the offsets of the document."""
    if found["status"].text() not in (Status.OPTIMAL, Status.FEASIBLE):
        raise found["status"].refusal(f"expected {Status.OPTIMAL} or {Status.FEASIBLE}")
    offsets: dict[str, int] = {}
    sizes = {buffer.name: buffer.size for buffer in made.problem.buffers}
    for one in found["buffers"].items():
        one.require_keys(("name", "offset", "size"))
        name = one["name"].text()
        if sizes.pop(name, None) != one["size"].natural():
            raise one.refusal("the plan has no such buffer of this size")
        offsets[name] = one["offset"].natural()
    if sizes:
        raise found["buffers"].refusal(f"expected buffer {min(sizes)!r} too")
    arena = replace(
        made,
        offsets=offsets,
        status=Status(found["status"].text()),
        reason=told(found["reason"].text()),
        lower_bound=found["lower_bound"].natural(),
    )
    check_plan(arena)
    return arena
