"""Problems of offsets as JSON.

    {"problems": [{"name": "net", "buffers": [{"id": "x", "size": 64, "start": 0, "end": 2}]}]}

A buffer may also have "alignment", "offset" (fixed), "hint", "bank" and "accesses"; a problem
"conflicts", "may_overlap" and "in_place", lists of pairs of ids, and "banks", a list of {"name",
"capacity"} with the preferred one first, and maybe the "cost" of an access. `planners.arena.problem`
defines them.
"""

from __future__ import annotations

from csdf.io.json_value import JsonForm, JsonForms, JsonValue
from planners.arena.problem import Buffer, Problem

FORMS: JsonForms = {Buffer: JsonForm(names=(("name", "id"),))}


def parse_problems(text: str, name: str) -> list[Problem]:
    """Return the problems of a document. Raises UnreadableFile with the place."""
    document = JsonValue.parse(text, name)
    document.require_keys(("problems",))
    return [problem.built(Problem, FORMS) for problem in document["problems"].items()]
