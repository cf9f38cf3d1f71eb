"""The sanitized kernels do what they are for."""

import pytest

from tests.sanitized import build

pytestmark = pytest.mark.slow


def test_a_product_within_64_bits_is_an_answer(sanitized):
    # One token is demanded of what costs 2, five times.
    ended = build.run(sanitized, "tests.sanitized.overflow", "fitting")
    assert (ended.returncode, ended.stdout) == (0, "10\n")


@pytest.mark.parametrize("fault", ["product", "index"])
def test_an_overflow_or_an_index_outside_ends_the_process(sanitized, fault):
    ended = build.run(sanitized, "tests.sanitized.overflow", fault)
    assert ended.returncode < 0  # by a signal
    assert not ended.stdout
