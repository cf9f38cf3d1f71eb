"""The graphs beside the checkout, where there are any."""

import pytest

from tests.shared_data import GRAPHS

PATHS = sorted(GRAPHS.rglob("*.xml"))

each_shared_graph = pytest.mark.parametrize(
    "path",
    PATHS or [pytest.param(None, marks=pytest.mark.skip(reason=f"there is no {GRAPHS}"))],
    ids=lambda path: path and str(path.relative_to(GRAPHS)),
)
