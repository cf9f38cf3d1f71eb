"""Public names of `import csdf`, `import cnn2csdf` and `import planners`."""

import importlib
import inspect
import json
import subprocess
import sys
from importlib.resources import files

import pytest

PACKAGES = ("csdf", "cnn2csdf", "planners")
NAMES = [
    pytest.param(package, name, id=f"{package}.{name}")
    for package in PACKAGES
    for name in importlib.import_module(package).__all__
]


@pytest.mark.parametrize(("package", "name"), NAMES)
def test_a_public_name_exists_and_says_what_it_is(package, name):
    found = getattr(importlib.import_module(package), name)
    if inspect.isclass(found) or inspect.isroutine(found):
        assert inspect.getdoc(found)
        assert not (found.__doc__ or "").startswith(f"{name}(")  # dataclasses write one themselves
    else:  # a constant: its module says what it holds
        assert name.isupper()


@pytest.mark.parametrize(("package", "name"), NAMES)
def test_public_methods_say_what_they_do(package, name):
    found = getattr(importlib.import_module(package), name)
    if not inspect.isclass(found):
        return
    own = {
        key: value
        for key, value in vars(found).items()
        if not key.startswith("_") and (inspect.isfunction(value) or isinstance(value, property))
    }
    assert [key for key, value in own.items() if not inspect.getdoc(value)] == []


@pytest.mark.parametrize("package", PACKAGES)
def test_dir_lists_all_public_names(package):
    module = importlib.import_module(package)
    assert set(dir(module)) >= set(module.__all__)
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = module.no_such_name


@pytest.mark.parametrize("package", PACKAGES)
def test_types_are_for_others_too(package):
    assert files(package).joinpath("py.typed").is_file()


@pytest.mark.parametrize("package", PACKAGES)
def test_importing_a_package_loads_none_of_the_heavy_libraries(package):
    # The import is quick because of what it does not load; no clock is needed to see that.
    code = f"import {package}, sys, json; print(json.dumps(sorted(sys.modules)))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    heavy = {"numpy", "numba", "scipy", "lxml", "matplotlib", "onnx", "networkx", "argparse"}
    assert heavy.isdisjoint(json.loads(ran.stdout))


def test_the_package_runs_as_a_module():
    ran = subprocess.run(
        [sys.executable, "-m", "csdf", "--version"], capture_output=True, text=True, check=True
    )
    assert ran.stdout.startswith(f"csdf {importlib.import_module('csdf').__version__}, ")
