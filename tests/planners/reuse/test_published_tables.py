"""Table 6.6 of Minakova's thesis on the networks of the published tool, in MB = 10^6 bytes.

The expected figures are those that the published model gives on these networks, counted
independently; the paper's own rest on networks with other layers (unfused ones, for the first
column). Where two figures stand for application 6, the published tool's simulation leaves 0.24 MB
more than the smallest buffers of its own rates in ResNet50: it lets shortcuts run ahead.
"""

import pytest

from planners.published.todaes import (
    as_published,
    comparison,
    published_applications,
    read_published_application,
)
from planners.reuse.edge_buffers import best_shared
from planners.reuse.evaluation import Evaluator
from tests.shared_data import SHARED

TABLE = SHARED / "networks" / "applications.json"
pytestmark = pytest.mark.skipif(not TABLE.exists(), reason=f"there is no {TABLE}")
MEGABYTES = {  # weights; none, reuse, reuse that knows the pipeline, parts, all parts and reuse
    "application 1": (13.95, 42.66, 21.13, 21.13, 16.21, 15.50),
    "application 2": (21.07, 69.43, 31.39, 31.39, 43.40, 30.33),
    "application 3": (13.95, 43.26, 21.13, 25.14, 17.39, 16.76),
    # 34.795: printed as 34.80.
    "application 4": (21.07, 70.63, 31.39, 35.33, 44.61, 34.80),
}


def application(name):
    return as_published(read_published_application(TABLE, name))


def megabytes(found):
    columns = (
        found.no_reduction,
        found.reuse_only,
        found.pipelined_reuse,
        found.parts_only,
        found.parts_and_reuse,
    )
    return [found.weights / 1e6, *((found.weights + column) / 1e6 for column in columns)]


@pytest.mark.slow
@pytest.mark.parametrize("name", MEGABYTES)
def test_the_published_model_gives_its_columns(name):
    one = application(name)
    found = megabytes(comparison(one))
    assert comparison(one, known=Evaluator(one, share=best_shared)) == comparison(one)
    assert found == pytest.approx(MEGABYTES[name], abs=0.0051)


def test_application_6_needs_less_than_the_published_simulation_where_shortcuts_wait():
    found = megabytes(comparison(application("application 6")))
    assert found[0] == pytest.approx(150.63, abs=0.005)
    assert found[1] == pytest.approx(365.2, abs=0.05)
    assert found[2] == pytest.approx(180.2, abs=0.05)
    # 173.6 and 162.0 in the simulated model.
    assert 173.6 - 0.3 < found[4] <= 173.6
    assert 162.0 - 0.3 < found[5] <= 162.0


def test_by_the_other_reading_a_strided_window_moves_by_its_stride():
    found = read_published_application(TABLE, "application 6")
    both = [as_published(found, keeps_stride=kept) for kept in (False, True)]
    columns = [megabytes(comparison(one)) for one in both]
    assert columns[1][:4] == columns[0][:4]  # whole tensors do not know how windows move
    assert columns[1][4] == pytest.approx(168.45, abs=0.005)
    assert columns[1][4] < columns[0][4]


def test_the_example_of_the_table_has_cuts_where_the_paper_has_them():
    example = read_published_application(TABLE, "example")
    # CNN1 as shipped adds to 8 maps, not 16, once its sizes are repaired: the naive sum of Table 6.1.
    evaluator = Evaluator(as_published(example))
    plan = evaluator.plan((None,) * len(example.layers))
    assert sum(plan.capacities) == 51_466
    assert plan.elements == 24_586


def test_all_applications_are_there():
    assert [name for name in published_applications(TABLE) if name.startswith("application")] == [
        f"application {number}" for number in range(1, 7)
    ]
