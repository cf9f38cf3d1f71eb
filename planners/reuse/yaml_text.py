"""YAML as plain values; no other module reads the format."""

from __future__ import annotations

from typing import Any

import yaml

from csdf.errors import UnreadableFile
from csdf.model.exact import MOST_CHARACTERS, value_fault

# Levels of brackets: for simple keys PyYAML reads ahead in time of the square of the levels.
DEEPEST = 20


def parse_yaml(text: str, name: str) -> Any:
    """Return the mappings, lists and scalars of a document.

    Refuses with UnreadableFile, naming the line, what is not YAML, keys that occur twice, and what no
    application needs: aliases, tags, and brackets nested deeper than DEEPEST. Indented collections may
    be nested up to the recursion limit of Python.
    """
    try:
        return yaml.load(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise UnreadableFile(f"{name}:{line}: not YAML: {error.problem}") from None
    except yaml.YAMLError as error:
        reason = str(error).partition("\n")[0]
        raise UnreadableFile(f"{name}: not YAML: {reason}") from None
    except RecursionError:
        raise UnreadableFile(f"{name}: nested too deeply") from None
    except ValueError as error:
        raise UnreadableFile(f"{name}: {value_fault(error)}") from None


class _Loader(yaml.SafeLoader):
    """Plain values only, and each key once."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        event = self.peek_event()  # type: ignore[no-untyped-call]
        if isinstance(event, yaml.AliasEvent):
            raise _refused("aliases are not read; write the value again", event)
        if event.tag is not None:
            raise _refused(f"tags are not read; write the value without {event.tag!r}", event)
        return super().compose_node(parent, index)

    def construct_scalar(self, node: Any) -> Any:
        if node.tag.endswith((":int", ":float")) and len(node.value) > MOST_CHARACTERS:
            raise _refused(f"a number has more than {MOST_CHARACTERS} characters", node)
        return super().construct_scalar(node)

    def fetch_flow_collection_start(self, TokenClass: Any) -> None:  # noqa: N803
        if self.flow_level >= DEEPEST:
            mark = self.get_mark()
            raise yaml.scanner.ScannerError(None, None, "nested too deeply", mark)
        super().fetch_flow_collection_start(TokenClass)

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:  # noqa: FBT001, FBT002
        mapping = super().construct_mapping(node, deep=deep)
        if len(mapping) < len(node.value):
            raise _refused("a key occurs twice in one mapping", node)
        return mapping


def _refused(problem: str, place: Any) -> yaml.MarkedYAMLError:
    return yaml.constructor.ConstructorError(None, None, problem, place.start_mark)
