"""The C types beside the kernels: a name that is left out would be a Python object, and slow."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
KERNELS = ROOT / "csdf" / "kernels", ROOT / "planners" / "kernels"
NO_KERNELS = ("__init__", "compile", "ranges")
TEXTS = [
    path
    for folder in KERNELS
    for path in sorted(folder.glob("*.py"))
    if path.stem not in NO_KERNELS
]
DECLARED = re.compile(
    r"^(?:@cython\.locals\((?P<locals>[^()]*?),?\s*\)\n)?"
    r"c(?:p)?def (?:inline )?(?:[\w ]+ )?(?P<name>\w+)\((?P<parameters>.*?),?\s*\)",
    re.DOTALL | re.MULTILINE,
)


def functions(text):
    """The functions of a kernel by name: their parameters, and the other names they assign."""
    found = {}
    for node in ast.parse(text.read_text()).body:
        if isinstance(node, ast.FunctionDef):
            parameters = [argument.arg for argument in node.args.args]
            assigned = {
                name.id
                for name in ast.walk(node)
                if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)
            }
            found[node.name] = parameters, assigned.difference(parameters)
    return found


def declared(text):
    """The types beside a kernel, in the same form."""
    types = (text.parent / "compiled" / f"{text.stem}.pxd").read_text()
    return {
        one["name"]: (
            [
                entry.split()[-1]
                for entry in re.sub(r"\[.*?\]", "", one["parameters"], flags=re.DOTALL).split(",")
            ],
            {
                entry.partition("=")[0].strip()
                for entry in (one["locals"] or "").split(",")
                if entry.strip()
            },
        )
        for one in DECLARED.finditer(types)
    }


@pytest.mark.parametrize("text", TEXTS, ids=lambda text: text.stem)
def test_every_name_in_a_kernel_has_a_type(text):
    assert declared(text) == functions(text)


def test_every_type_file_has_its_kernel():
    types = {path for folder in KERNELS for path in (folder / "compiled").glob("*.pxd")}
    assert types == {text.parent / "compiled" / f"{text.stem}.pxd" for text in TEXTS}
