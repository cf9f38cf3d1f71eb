"""The graphs beside the checkout, where there are any."""

from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2].parent / "shared" / "graphs"
PATHS = sorted(FOLDER.rglob("*.xml"))

each_shared_graph = pytest.mark.parametrize(
    "path",
    PATHS or [pytest.param(None, marks=pytest.mark.skip(reason=f"there is no {FOLDER}"))],
    ids=lambda path: path and str(path.relative_to(FOLDER)),
)
