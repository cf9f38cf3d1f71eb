"""The graphs of the growth table: live, and with periods that two methods agree on."""

import pytest

from csdf.analysis.throughput import throughput
from tests.benchmarks.growth_families import FAMILIES


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
def test_the_period_of_a_family_is_the_one_of_its_execution(family):
    graph = family(36)
    found = throughput(graph, method="periodic")
    assert found.period is not None
    assert found.period == throughput(graph, method="execution").period
