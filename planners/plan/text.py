"""Memory plans as JSON: what `csdf fit -o` writes, read back.

The keys of an object are the fields of its type in planners.plan.plan. A document is one plan, or a
list of plans for several networks. The network itself is not in it: a plan that was read for a network
has to pass planners.plan.checker.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from enum import Enum
from functools import cache
from os import PathLike, fspath
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

from cnn2csdf.weights import Model
from csdf.arguments import public
from csdf.errors import CsdfError, InvalidPlan, UnreadableFile, counted
from csdf.io.files import decoded, read_bytes, write_text
from csdf.io.json_value import JsonValue
from planners.plan.checker import require_apart
from planners.plan.plan import StreamingPlan
from planners.plan.regions import layer_range

VERSION = 7  # of the keys
MOST = 2**31 - 1  # of rows, channel blocks, bytes: what C counts in 32 bits
RANGES = {  # of numbers that may not be 0, or may be larger
    **dict.fromkeys(("multiply_accumulates", "read", "written"), (0, 2**63 - 1)),
    **dict.fromkeys(("element_bytes", "times", "channel_blocks"), (1, MOST)),
}


def plan_as_json(plan: StreamingPlan) -> dict[str, Any]:
    """Return a plan as a JSON value."""
    return {"version": VERSION, **_as_json(plan)}


def _as_json(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.value
    if type(value) is tuple:
        return [_as_json(part) for part in value]
    if value is None or isinstance(value, str | int):
        return value
    return {name: _as_json(getattr(value, name)) for name in _hints(value.__class__)}


def format_plans(plans: Sequence[StreamingPlan]) -> str:
    """Return a document that reads back as the same plans: an object for one, a list for several."""
    documents = [plan_as_json(plan) for plan in plans]
    return json.dumps(documents[0] if len(documents) == 1 else documents, indent=2) + "\n"


def parse_plans(text: str, name: str) -> tuple[StreamingPlan, ...]:
    """Return the plans of a document. name: of the file.

    Raises UnreadableFile with the place. Whether a plan can be carried out is the checker's question.
    """
    document = JsonValue.parse(text, name)
    entries = tuple(document.items()) if isinstance(document.value, list) else (document,)
    if not entries:
        raise document.refusal("expected at least one plan")
    return tuple(_plan(plan_entry) for plan_entry in entries)


@cache
def _hints(kind: Any) -> dict[str, Any]:
    """The types of the fields of a class, which are found once."""
    return get_type_hints(kind)


def _plan(found: JsonValue) -> StreamingPlan:
    found.require_object()
    version = found.value.get("version")
    if type(version) is not int or version != VERSION:
        raise UnreadableFile(
            f"{found.where}: found version {version!r} of a plan; this program reads version "
            f"{VERSION}, so plan again"
        )
    rest = {key: value for key, value in found.value.items() if key != "version"}
    plan: StreamingPlan = _parsed(replace(found, value=rest), StreamingPlan, "")
    return plan


def _object(found: JsonValue, kind: Any) -> Any:
    """An object of a type."""
    values = {name: _parsed(found[name], hint, name) for name, hint in _hints(kind).items()}
    try:
        return kind(**values)
    except InvalidPlan as error:
        raise found.refusal(str(error)) from None


def _parsed(found: JsonValue, kind: Any, key: str) -> Any:
    """A value of a type, which stands under a key."""
    if isinstance(kind, UnionType):  # with None
        return None if found.is_null else _parsed(found, get_args(kind)[0], key)
    if get_origin(kind) is tuple:
        inner, *rest = get_args(kind)
        entries = tuple(_parsed(part, inner, key) for part in found.items())
        if rest != [...] and len(entries) != 1 + len(rest):
            raise found.refusal(f"expected {counted(1 + len(rest), 'entry')}")
        return entries
    if kind is str:
        return found.text()
    if kind is bool:
        return found.truth()
    if kind is int:
        return found.whole(*RANGES.get(key, (0, MOST)))
    if issubclass(kind, Enum):
        kinds = {member.value: member for member in kind}
        if found.text() not in kinds:
            raise found.refusal(f"expected one of {', '.join(kinds)}")
        return kinds[found.text()]
    found.require_keys(tuple(_hints(kind)), form=f"version {VERSION}")
    return _object(found, kind)


@public
def read_plans(path: str | PathLike[str]) -> tuple[StreamingPlan, ...]:
    """Return the plans of a file that `csdf fit -o` or `write_plan` wrote: one for each network.

    Raises UnreadableFile with the place. Whether a plan is for a network, `require_carried_out` says.
    """
    name = fspath(path)
    return parse_plans(decoded(read_bytes(name), name), name)


@public
def read_plan(path: str | PathLike[str]) -> StreamingPlan:
    """Return the plan of a file that holds one; see read_plans."""
    plans = read_plans(path)
    if len(plans) != 1:
        raise UnreadableFile(f"{path}: found {len(plans)} plans; read_plans reads several")
    return plans[0]


@public
def write_plan(path: str | PathLike[str], plan: StreamingPlan | Sequence[StreamingPlan]) -> None:
    """Write a plan, or those of several networks, for `csdf fit --plan` and `csdf deploy --plan`."""
    write_text(path, format_plans([plan] if isinstance(plan, StreamingPlan) else plan))


def worked_part(model: Model, plan: StreamingPlan) -> Model:
    """Return the layers of a model that a plan works; all, where it does not say which."""
    return model if plan.layers is None else layer_range(model, *plan.layers)


def plans_for(path: str, models: int) -> tuple[StreamingPlan, ...]:
    """Return the plans of a file, one for each of this many models, all in one arena.

    Raises InvalidPlan where networks that may work at the same time have bytes in common.
    """
    plans = read_plans(path)
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
