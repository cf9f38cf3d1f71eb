"""Text of the schemas in the packages: a property a line where it has room.

`python -m tests.cli.schema_text` writes all of them so.
"""

import json
import textwrap
from pathlib import Path

ROOT = Path(__file__).parents[2]
SCHEMAS = sorted(ROOT.glob("*/schemas/*.json"))
WIDTH = 140


def formatted(value, depth=0):
    """JSON of a value: on one line if that fits, else with each member on a line; names are filled."""
    line = json.dumps(value, ensure_ascii=False)
    if len(line) + depth <= WIDTH or not isinstance(value, dict | list):
        return line
    if isinstance(value, list) and all(isinstance(entry, str) for entry in value):
        names = line[1:-1]
        body = textwrap.fill(
            names, WIDTH, initial_indent=" " * (depth + 1), subsequent_indent=" " * (depth + 1)
        )
        return f"[\n{body}\n{' ' * depth}]"
    if isinstance(value, list):
        opening, members, closing = "[", [formatted(entry, depth + 1) for entry in value], "]"
    else:
        opening, closing = "{", "}"
        members = [
            f"{json.dumps(key)}: {formatted(entry, depth + 1)}" for key, entry in value.items()
        ]
    indent = "\n" + " " * (depth + 1)
    return f"{opening}{indent}{f',{indent}'.join(members)}\n{' ' * depth}{closing}"


if __name__ == "__main__":
    for path in SCHEMAS:
        path.write_text(formatted(json.loads(path.read_text("utf-8"))) + "\n", "utf-8")
