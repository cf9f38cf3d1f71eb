"""Plans that are found for random networks under random options: accepted, and right in C."""

import pytest

from tests.planners.code.compiling import needs_compiler
from tests.planners.code.networks_with_options import drawn_case, try_cases

COMPILED = range(4, 9)  # more: python -m tests.planners.code.networks_with_options


@pytest.mark.slow
def test_random_networks_are_the_same_in_each_run():
    assert [drawn_case(number)[1] for number in (2, 3)] == [
        drawn_case(number)[1] for number in (2, 3)
    ]


@pytest.mark.slow
@needs_compiler
def test_no_own_plan_is_refused_and_no_c_is_wrong_under_any_options(tmp_path):
    tally = try_cases(COMPILED, tmp_path)
    assert tally.failures == []
    assert tally.counts["C"] > len(COMPILED) // 2
