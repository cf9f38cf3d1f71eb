import shutil

import pytest

from tests.sanitized import build


@pytest.fixture(scope="session")
def sanitized(tmp_path_factory):
    """The folder of sanitized kernels."""
    pytest.importorskip("setuptools", minversion="77")
    pytest.importorskip("Cython")
    if shutil.which("cc") is None:
        pytest.skip("needs cc")
    folder = tmp_path_factory.mktemp("sanitized")
    build.build(folder)
    return folder
