"""The settings of all tests: how tests with random values choose them.

`ci`, the default, takes the same values every time. `HYPOTHESIS_PROFILE=explore` takes new ones, ten
times as many where a test names no number, and keeps those that fail in .hypothesis.
"""

import gc
import os

from hypothesis import settings

settings.register_profile(
    "ci", max_examples=40, derandomize=True, database=None, deadline=None, print_blob=True
)
settings.register_profile("explore", max_examples=1000, deadline=None, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


def pytest_collection_finish():
    """Keep the garbage collector from going through all modules and all tests again and again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)
