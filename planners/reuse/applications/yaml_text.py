"""The one place that knows YAML: a document as plain values."""

from __future__ import annotations

from typing import Any

import yaml

from csdf.errors import UnreadableFile


def parse_yaml(text: str, name: str) -> Any:
    """Return the mappings, lists and scalars of a document.

    Refuses with UnreadableFile, naming the line, what is not YAML, keys that occur twice, and aliases,
    which no application needs.
    """
    try:
        return yaml.load(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise UnreadableFile(f"{name}:{line}: not YAML: {error.problem}") from None
    except yaml.YAMLError as error:
        raise UnreadableFile(f"{name}: not YAML: {error}") from None
    except RecursionError:
        raise UnreadableFile(f"{name}: nested too deeply") from None
    except ValueError as error:
        raise UnreadableFile(f"{name}: {error}") from None


class _Loader(yaml.SafeLoader):
    """Plain values only, and each key once."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise _refused("aliases are not read; write the value again", self.peek_event())  # type: ignore[no-untyped-call]
        return super().compose_node(parent, index)

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:  # noqa: FBT001, FBT002
        mapping = super().construct_mapping(node, deep=deep)
        if len(mapping) < len(node.value):
            raise _refused("a key occurs twice in one mapping", node)
        return mapping


def _refused(problem: str, place: Any) -> yaml.MarkedYAMLError:
    return yaml.constructor.ConstructorError(None, None, problem, place.start_mark)
