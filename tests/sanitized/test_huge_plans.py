"""Huge arenas, convolutions, nests and FIFO designs on sanitized kernels: no sum leaves 64 bits."""

import pytest

from tests.sanitized import build, plans

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("kind", plans.KINDS)
def test_no_sum_of_a_plan_leaves_64_bits_and_answers_are_those_of_plain_kernels(sanitized, kind):
    ended = build.run(sanitized, "tests.sanitized.plans", kind, 0, 12)
    assert (ended.returncode, ended.stdout) == (0, f"{kind}: 12 cases, different: []\n")
