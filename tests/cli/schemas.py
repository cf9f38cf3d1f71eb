"""Output of commands with --json, held against its schemas."""

import json
from functools import cache

from csdf.cli.about.schema import schema, schema_names

try:
    from jsonschema import Draft202012Validator
except ModuleNotFoundError:  # then tests/cli/test_schema.py says so
    Draft202012Validator = None


def closed(part):
    """A schema in which every object has the keys that are described and no others.

    Users' schemas are open, so that a key can be added; tests see that it is described then.
    """
    if isinstance(part, list):
        return [closed(one) for one in part]
    if not isinstance(part, dict):
        return part
    found = {key: closed(value) for key, value in part.items()}
    if isinstance(part.get("properties"), dict):
        found.setdefault("additionalProperties", False)
    return found


def schema_of(words):
    """The name of the schema for what a command prints; None for commands without one."""
    names = _names()
    candidates = ("-".join(words[:2]), words[0] if words else "")
    return next((name for name in candidates if name in names), None)


@cache
def _names():
    return schema_names()


def require_valid(name, found):
    """Fail unless the value is as the schema of that name says."""
    if Draft202012Validator is not None:
        if isinstance(found, dict) and "error" in found:
            name = "error"
        _validator(name).validate(found)


@cache
def _validator(name):
    return Draft202012Validator(closed(schema(name)))


def require_valid_answers(words, output):
    """Fail unless each JSON value that a command printed is as its schema says."""
    name = schema_of(words)
    if "--json" in words and name is not None and output.startswith("{"):
        for found in values(output):
            if {"file", "error"} <= set(found):  # a line about a file that cannot be read
                del found["file"]
            require_valid(name, found)


def values(text):
    """Yield the JSON values of a text, one behind the other."""
    decoder, rest = json.JSONDecoder(parse_int=_integer), text.strip()
    while rest:
        found, end = decoder.raw_decode(rest)
        yield found
        rest = rest[end:].lstrip()


def _integer(text):
    """The number, or another one where Python reads none that is so long."""
    return int(text) if len(text) < 4000 else 10**3999
