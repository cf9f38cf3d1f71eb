"""Problems and plans as JSON.

    {"problems": [{"name": "net", "buffers": [{"id": "x", "size": 64, "start": 0, "end": 2}]}]}

A buffer may also have "alignment", "offset" (fixed), "hint", "bank" and "accesses"; a problem
"conflicts", "may_overlap" and "in_place", lists of pairs of ids, and "banks", a list of {"name",
"capacity"} with the preferred one first, and maybe the "cost" of an access. `planners.arena.problem`
defines them.
"""

from __future__ import annotations

from typing import Any

from csdf.io.json_value import JsonForm, JsonForms, JsonValue
from planners.arena.problem import Buffer, MemoryPlan, Problem

FORMS: JsonForms = {Buffer: JsonForm(names=(("name", "id"),))}


def parse_problems(text: str, name: str) -> list[Problem]:
    """Return the problems of a document. Raises UnreadableFile with the place."""
    document = JsonValue.parse(text, name)
    document.require_keys(("problems",))
    return [problem.built(Problem, FORMS) for problem in document["problems"].items()]


def plan_as_json(plan: MemoryPlan, seconds: float) -> dict[str, Any]:
    """Return a plan under keys that stay, and how long it took."""
    return plan.to_json() | {"seconds": round(seconds, 6)}
