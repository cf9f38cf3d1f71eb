"""The layering of the code, as a test."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("csdf", "cnn2csdf", "planners")

MAY_IMPORT = {  # layer: the other layers it may import; a module belongs to the longest match
    "csdf.errors": set(),
    "csdf.kernels": set(),
    "csdf.notebook": set(),
    "csdf.model": {"csdf.errors", "csdf.notebook"},
    "csdf.analysis": {"csdf.errors", "csdf.model", "csdf.kernels", "csdf.notebook"},
    "csdf.generation": {"csdf.errors", "csdf.model", "csdf.analysis"},
    "csdf.search": {"csdf.errors", "csdf.model", "csdf.analysis", "csdf.kernels", "csdf.notebook"},
    "csdf.io": {"csdf.errors", "csdf.model", "csdf.io.files", "csdf.io.json_value"},
    "csdf.io.files": {"csdf.errors"},
    "csdf.io.json_value": {"csdf.errors"},
    "csdf.draw": {"csdf.errors", "csdf.model", "csdf.analysis", "csdf.search"},
    "cnn2csdf": {"csdf.errors", "csdf.model", "csdf.io.files", "csdf.notebook"},
    "planners": {
        "csdf.errors",
        "csdf.io.files",
        "csdf.io.json_value",
        "csdf.model",
        "csdf.kernels",
        "csdf.notebook",
        "csdf.analysis",
        "csdf.search",
        "cnn2csdf",
        "planners.check",
        "planners.plan",
    },
    "planners.check": {"csdf.errors", "planners.plan"},  # the judge knows nothing else
    "planners.plan": {"csdf.errors", "csdf.notebook"},
}
ONLY_IN = {  # outside module: the places that may know it
    "dask": ("planners.reuse.evolution.dask_cluster",),
    "distributed": ("planners.reuse.evolution.dask_cluster",),
    "yaml": ("planners.reuse.applications.yaml_text",),
    "argparse": ("csdf.cli",),
    "matplotlib": ("csdf.draw",),
    "lxml": ("csdf.io",),
    "networkx": ("csdf.io.networkx_graphs",),
    "numpy": ("cnn2csdf", "planners"),  # maps and weights; no analysis uses it
    "onnx": ("cnn2csdf.onnx_files",),
    "ortools": ("planners.arena.cp_sat",),
    "scipy": ("planners.primitives.selection.integer_program",),
}
MAY_IMPORT_LATE = ("csdf.cli",)  # inside functions


def module_name(path, root):
    return ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")


def is_within(name, place):
    return f"{name}.".startswith(f"{place}.")


def layer_of(name):
    """The layer a dotted name belongs to; None for a package face or a command line."""
    if name.split(".")[1:2] in (["cli"], ["__main__"]):
        return None
    return max((layer for layer in MAY_IMPORT if is_within(name, layer)), key=len, default=None)


def imports(tree):
    """All imports, each with whether it stands inside a function."""
    late = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node, id(node) in late


def imported_modules(node, root):
    """The modules an import names, without the names it takes from them."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [
        full if is_module(full, root) else node.module
        for full in (f"{node.module}.{alias.name}" for alias in node.names)
    ]


def is_module(name, root):
    path = root.joinpath(*name.split("."))
    return path.with_suffix(".py").exists() or (path / "__init__.py").exists()


def is_package(name, root):
    return (root.joinpath(*name.split(".")) / "__init__.py").exists()


def violations(path, root):
    """What the module imports against the rules."""
    module = module_name(path, root)
    found = []
    for node, is_late in imports(ast.parse(path.read_text())):
        where = f"{module}, line {node.lineno}"
        if isinstance(node, ast.ImportFrom) and node.level:
            found.append(f"{where}: a relative import; write the full name")
            continue
        if is_late and not any(is_within(module, place) for place in MAY_IMPORT_LATE):
            if module != "csdf":
                found.append(f"{where}: an import inside a function")
        found += [
            f"{where}: {reason}"
            for name in imported_modules(node, root)
            if (reason := refusal(module, name, root))
        ]
    return found


def refusal(module, name, root):
    top = name.split(".")[0]
    places = ONLY_IN.get(top)
    if places and not any(is_within(module, place) for place in places):
        return f"{top} is known to {', '.join(places)} only"
    own = layer_of(module)
    if top not in PACKAGES or own is None:
        return None
    if is_package(name, root):
        return f"{name} is a package face; import the module"
    layer = layer_of(name)
    if layer != own and layer not in MAY_IMPORT[own]:
        return f"{own} may not import {name}"
    return None


def modules(root):
    return [path for package in PACKAGES for path in sorted((root / package).rglob("*.py"))]


@pytest.mark.parametrize("path", modules(ROOT), ids=lambda path: module_name(path, ROOT))
def test_a_module_imports_only_what_its_layer_may(path):
    assert violations(path, ROOT) == []


def test_there_are_modules_to_look_at():
    assert ROOT / "csdf" / "model" / "graph.py" in modules(ROOT)


def test_folders_hold_at_most_a_dozen_modules_or_so():
    # "About a dozen": what has 20 wants to be two.
    for folder in {path.parent for path in modules(ROOT)}:
        assert len(list(folder.glob("*.py"))) < 20, folder


CLEAN = {
    "csdf/__init__.py": "def __getattr__(name):\n    from csdf.model.graph import Graph\n",
    "csdf/errors.py": "class CsdfError(Exception): ...\n",
    "csdf/kernels/__init__.py": "",
    "csdf/kernels/compile.py": "from array import array\n",
    "csdf/model/__init__.py": "",
    "csdf/model/graph.py": "from csdf.errors import CsdfError\n",
    "csdf/analysis/__init__.py": "",
    "csdf/analysis/liveness.py": "from csdf.kernels import compile\nimport csdf.model.graph\n",
    "csdf/io/__init__.py": "",
    "csdf/io/sdf3.py": "from lxml import etree\nfrom csdf.model.graph import Graph\n",
    "csdf/cli/__init__.py": "",
    "csdf/cli/main.py": "import argparse\ndef main():\n    import csdf.io.sdf3\n",
}


def planted(root, files):
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return [line for path in modules(root) for line in violations(path, root)]


def test_a_clean_tree_passes(tmp_path):
    assert planted(tmp_path, CLEAN) == []


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        ("csdf/model/graph.py", "import csdf.analysis.liveness", "may not import"),
        ("csdf/model/graph.py", "from csdf.analysis import liveness", "may not import"),
        ("csdf/model/graph.py", "from csdf.cli.main import main", "may not import"),
        ("csdf/kernels/loop.py", "from csdf.errors import CsdfError", "may not import"),
        ("csdf/io/sdf3.py", "from csdf.analysis.liveness import deadlock", "may not import"),
        ("csdf/generation/random.py", "from csdf.io.sdf3 import read", "may not import"),
        ("planners/arena.py", "import csdf.io.sdf3", "may not import"),
        ("planners/check.py", "import planners.arena", "may not import"),
        ("csdf/analysis/liveness.py", "from csdf import Graph", "package face"),
        ("csdf/analysis/liveness.py", "from csdf.model import Graph", "package face"),
        ("csdf/analysis/liveness.py", "import csdf", "package face"),
        ("csdf/analysis/liveness.py", "from .other import x", "relative import"),
        ("csdf/analysis/liveness.py", "import numpy as np", "numpy is known to"),
        ("csdf/model/graph.py", "from lxml import etree", "lxml is known to"),
        ("csdf/search/front.py", "import argparse", "argparse is known to"),
        ("cnn2csdf/lowering.py", "import onnx", "onnx is known to"),
        ("csdf/model/graph.py", "def f():\n    import csdf.errors", "inside a function"),
        ("csdf/kernels/loop.py", "def f():\n    import math", "inside a function"),
        (
            "csdf/model/graph.py",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import csdf.analysis.liveness",
            "may not import",
        ),
    ],
)
def test_a_planted_violation_is_found(tmp_path, name, text, complaint):
    found = planted(tmp_path, CLEAN | {name: text})
    assert len(found) == 1
    assert complaint in found[0]
