"""The language of the code: names, summaries and words that a reader of the field would look up.

The limits are counts of the present code. A change that lowers a count lowers its limit as well. A
name, summary or phrase that has to stay goes into EXCEPTIONS as "path: text", with the reason in a
comment.
"""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = ("csdf", "cnn2csdf", "planners")

# A pronoun says nothing about the value of a variable: a noun does.
PRONOUNS = {
    "one",
    "found",
    "some",
    "other",
    "others",
    "every",
    "each",
    "given",
    "known",
    "it",
    "own",
}
MOST_PRONOUNS = 12

# What the project used to say where the field has a term, or where a sentence lacks its noun.
DIALECT = re.compile(
    r"\b(so many|those (?:that|of which|who)|that (?:of|which)|of which|ways?|courses?|at a place|"
    r"places? (?:of|in|at)|as far as|(?:is|are) there|(?:behind|beside) (?:it|them)|nobody|somebody|"
    r"whoever|nought|by then|in turn|on their way|one after (?:the other|another)|lies? whole|worked|"
    r"no other improves|works? (?:twice|as a whole|by parts|by rows)|computed twice|goes along|"
    r"what (?:comes|goes|lies|stays|passes|is (?:read|made|kept))|comes? and goes?|sums? up|"
    r"takes? (?:part|over))\b"
)
MOST_DIALECT = 0.5

EXCEPTIONS = {
    # a change of a kernel compiles it anew
    "planners/kernels/placement.py: B blocks are numbered from 0; times, sizes and offsets are "
    "whole numbers.",
}


@cache
def trees() -> dict[str, ast.Module]:
    """Return the syntax tree of each module of the packages, by its path."""
    paths = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
    return {path.relative_to(ROOT).as_posix(): ast.parse(path.read_text()) for path in paths}


def docstrings(tree: ast.Module) -> Iterator[str]:
    """Yield the docstrings of a module, its classes and its functions."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield ast.get_docstring(node) or ""
        # expressions have no docstrings, and are most of the tree
        waiting += [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.stmt)]


def pronouns(tree: ast.Module) -> list[str]:
    """Return the pronouns that are assigned to, once for each place of assignment."""
    stores = [node for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id in PRONOUNS]
    return [node.id for node in stores if isinstance(node.ctx, ast.Store)]


def second_summaries(docstring: str) -> list[str]:
    """Return one-line paragraphs that read as the summary of another module."""
    paragraphs = re.split(r"\n\s*\n", docstring)[1:]
    short = [text.strip() for text in paragraphs if "\n" not in text.strip() and len(text) < 110]
    goes_on = re.compile(r"(Source|See|Raises|Exact|Used|Here|So|It|This|They)\b")
    return [text for text in short if text.endswith(".") and not goes_on.match(text)]


def test_few_variables_are_called_by_a_pronoun():
    counts = {path: len(pronouns(tree)) for path, tree in trees().items()}
    worst = dict(sorted(counts.items(), key=lambda pair: -pair[1])[:10])
    assert sum(counts.values()) <= MOST_PRONOUNS, worst


def test_each_module_has_one_summary():
    summaries = {
        f"{path}: {summary}"
        for path, tree in trees().items()
        for summary in second_summaries(ast.get_docstring(tree) or "")
    }
    assert summaries <= EXCEPTIONS


def test_docstrings_use_the_terms_of_the_field():
    texts = {path: "\n".join(docstrings(tree)) for path, tree in trees().items()}
    words = sum(len(re.findall(r"[A-Za-z]+", text)) for text in texts.values())
    counts = {path: len(DIALECT.findall(text)) for path, text in texts.items()}
    worst = dict(sorted(counts.items(), key=lambda pair: -pair[1])[:10])
    assert 1000 * sum(counts.values()) / words <= MOST_DIALECT, worst


def test_the_check_sees_pronouns_second_summaries_and_dialect():
    tree = ast.parse('"""Sums.\n\nProducts of so many rows."""\nfor one in rows: found = one')
    assert pronouns(tree) == ["one", "found"]
    assert second_summaries(ast.get_docstring(tree)) == ["Products of so many rows."]
    assert DIALECT.findall(ast.get_docstring(tree)) == ["so many"]
