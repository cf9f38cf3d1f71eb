"""Problems and plans as JSON.

    {"problems": [{"name": "net", "buffers": [{"id": "x", "size": 64, "start": 0, "end": 2}]}]}

A buffer may also have "alignment", "offset" (fixed), "hint", "bank" and "accesses"; a problem
"conflicts", "may_overlap" and "in_place", lists of pairs of ids, and "banks", a list of {"name",
"capacity"} with the preferred one first, and maybe the "cost" of an access. `planners.arena.problem`
says what they mean.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from csdf.errors import InvalidPlan, UnreadableFile
from csdf.io.json_value import JsonValue
from planners.arena.problem import PAIRS, Bank, Buffer, MemoryPlan, Pair, Problem

NEEDED = ("id", "size", "start", "end")


def parse_problems(text: str, name: str) -> list[Problem]:
    """Return the problems of a document. Raises UnreadableFile with the place."""
    document = JsonValue.parse(text, name)
    document.require_keys(("problems",))
    return [_problem(one) for one in document["problems"].items()]


def format_problems(problems: Sequence[Problem]) -> str:
    """Return a document that reads back as the same problems."""
    return json.dumps({"problems": [_as_json(problem) for problem in problems]}, indent=2) + "\n"


def plan_as_json(plan: MemoryPlan, seconds: float) -> dict[str, Any]:
    """Return a plan under keys that stay, and how long it took."""
    return plan.to_json() | {"seconds": round(seconds, 6)}


def _problem(found: JsonValue) -> Problem:
    found.require_keys(("name", "buffers"), (*PAIRS, "banks"))
    try:
        return Problem(
            name=found["name"].text(),
            buffers=tuple(_buffer(one) for one in found["buffers"].items()),
            banks=_banks(found["banks"]) if "banks" in found.value else (),
            **{key: _pairs(found[key]) for key in PAIRS if key in found.value},
        )
    except InvalidPlan as error:
        raise UnreadableFile(f"{found.where}: {error}") from None


def _buffer(found: JsonValue) -> Buffer:
    found.require_keys(NEEDED, ("alignment", "offset", "hint", "bank", "accesses"))
    numbers = {
        key: found[key].natural()
        for key in ("size", "start", "end", "alignment", "offset", "hint", "accesses")
        if key in found.value and not (key in ("offset", "hint") and found[key].is_null)
    }
    bank = found["bank"].text() if found.value.get("bank") is not None else None
    try:
        return Buffer(name=found["id"].text(), bank=bank, **numbers)
    except InvalidPlan as error:
        raise UnreadableFile(f"{found.where}: {error}") from None


def _banks(found: JsonValue) -> tuple[Bank, ...]:
    banks = []
    for one in found.items():
        one.require_keys(("name", "capacity"), ("cost",))
        numbers = {key: one[key].natural() for key in ("capacity", "cost") if key in one.value}
        banks.append(Bank(name=one["name"].text(), **numbers))
    return tuple(banks)


def _pairs(found: JsonValue) -> tuple[Pair, ...]:
    pairs = []
    for one in found.items():
        names = [name.text() for name in one.items()]
        if len(names) != 2:
            raise one.refusal("expected two ids")
        pairs.append((names[0], names[1]))
    return tuple(pairs)


def _as_json(problem: Problem) -> dict[str, Any]:
    lists: dict[str, Any] = {key: [list(pair) for pair in getattr(problem, key)] for key in PAIRS}
    lists["banks"] = [
        {"name": bank.name, "capacity": bank.capacity} | ({"cost": bank.cost} if bank.cost else {})
        for bank in problem.banks
    ]
    return {
        "name": problem.name,
        "buffers": [_buffer_as_json(buffer) for buffer in problem.buffers],
        **{key: value for key, value in lists.items() if value},
    }


def _buffer_as_json(buffer: Buffer) -> dict[str, Any]:
    optional = {"offset": buffer.offset, "hint": buffer.hint, "bank": buffer.bank}
    return {
        "id": buffer.name,
        "size": buffer.size,
        "start": buffer.start,
        "end": buffer.end,
        **({"alignment": buffer.alignment} if buffer.alignment != 1 else {}),
        **({"accesses": buffer.accesses} if buffer.accesses else {}),
        **{key: value for key, value in optional.items() if value is not None},
    }
