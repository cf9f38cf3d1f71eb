"""The public names of the three packages are those recorded in `public_names.txt`."""

import importlib
from pathlib import Path

RECORDED = Path(__file__).with_name("public_names.txt")
PACKAGES = ("csdf", "cnn2csdf", "planners")


def public_names() -> list[str]:
    """Return all public names of the packages, each with its package."""
    return [
        f"{package}.{name}"
        for package in PACKAGES
        for name in sorted(importlib.import_module(package).__all__)
    ]


def test_public_names_change_only_with_their_recorded_list():
    recorded = RECORDED.read_text().split()
    advice = (
        "record them, with a line in CHANGELOG.md: python -m tests.packaging.test_recorded_names"
    )
    assert public_names() == recorded, advice


if __name__ == "__main__":
    RECORDED.write_text("\n".join(public_names()) + "\n")
