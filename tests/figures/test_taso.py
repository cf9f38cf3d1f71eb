"""The pages on TASO are what the scripts make of the tables, and our fronts are the best in them."""

from pathlib import Path

import pytest

from cnn2csdf.parameters import layer_parameters
from figures import taso_fronts, taso_measured, taso_pictures, taso_published
from figures.published.taso import NETWORKS, network_of
from planners.primitives.profile import write_profile
from planners.primitives.selection.problem import Objective
from tests.planners.primitives.selection.synthetic import profile_of

needs_tables = pytest.mark.skipif(
    not taso_fronts.names(), reason="no tables; figures/taso_profiles.py measures them"
)


@pytest.fixture(scope="module")
def made_up(tmp_path_factory):
    """Tables of two networks that no machine made."""
    folder = tmp_path_factory.mktemp("profiles")
    for name in ("alexnet", "squeezenet1_0"):
        write_profile(folder / f"{name}.csv", profile_of(network_of(name)))
    return folder


def require_best(folder):
    for name in taso_fronts.names(folder):
        for objective in Objective:
            one = taso_fronts.case(name, objective, folder)
            assert one.greedy
            assert min(slower for _, slower in one.slower) >= 1
            for other in one.singles.values():
                assert taso_fronts.over_ours(one, objective, other) >= 1


def test_alexnet_has_the_parameters_of_caffes():
    # Caffe's reference network. Convolutions with halved inputs where they are grouped: 34,944;
    # 307,456; 885,120; 663,936; 442,624. Fully connected: 37,752,832; 16,781,312; 4,097,000.
    assert sum(layer_parameters(network_of("alexnet")).values()) == 60_965_224


@pytest.mark.slow
def test_page_and_pictures_can_be_made_of_any_tables(made_up):
    page = taso_fronts.page(made_up)
    assert "of 2 networks" in page
    assert page.count("| alexnet |") == 8
    for objective in Objective:
        assert taso_fronts.picture(objective, made_up).startswith("<?xml")


@pytest.mark.slow
def test_nothing_is_better_than_a_made_up_front(made_up):
    require_best(made_up)


@pytest.mark.slow
@needs_tables
def test_nothing_is_better_than_a_measured_front():
    assert set(taso_fronts.names()) == set(NETWORKS)
    require_best(taso_fronts.PROFILES)


@pytest.mark.slow
@needs_tables
def test_the_page_and_the_pictures_are_what_the_tables_give():
    assert taso_fronts.page() == Path(taso_fronts.__file__).with_suffix(".md").read_text()
    for objective in Objective:
        kept = Path(taso_fronts.__file__).with_name(f"taso_fronts_{objective.value}.svg")
        assert kept.read_text().startswith("<?xml")


@pytest.mark.slow
@needs_tables
def test_the_page_with_memory_as_printed_is_what_the_tables_give():
    assert taso_published.page() == Path(taso_published.__file__).with_suffix(".md").read_text()


@pytest.mark.slow
@needs_tables
def test_the_pictures_of_figures_1_2_5_and_6_are_drawn_and_kept():
    for name, picture in taso_pictures.pictures().items():
        assert picture.startswith("<?xml")
        assert Path(taso_pictures.__file__).with_name(f"taso_pictures_{name}.svg").exists()


@pytest.mark.slow
@needs_tables
def test_the_points_of_figure_6_are_on_the_front_or_above_it():
    fronts = {
        Objective.NETWORK: taso_pictures.network_points(),
        Objective.WORKSPACE: taso_pictures.workspace_points(),
    }
    assert [list(points) for points in fronts.values()] == [["A", "B"], ["A", "B", "C", "D"]]
    for objective, points in fronts.items():
        pairs = taso_published.front_of("googlenet", "published", objective).pairs
        places = {(pair.memory, pair.nanoseconds) for pair in pairs}
        for name, point in points.items():
            is_least = (point.memory, point.nanoseconds) in places
            assert is_least or name == "A"  # the workspace of a selection for another objective
    ends = fronts[Objective.NETWORK]
    assert ends["B"].nanoseconds <= 1.15 * ends["A"].nanoseconds
    assert ends["A"].memory / ends["B"].memory > 2  # the paper: 2.2


@needs_tables
@pytest.mark.parametrize("name", NETWORKS)
def test_table_1_is_of_these_networks(name):
    assert f"| {name} |" in Path(taso_fronts.__file__).with_name("taso_table1.md").read_text()


@pytest.mark.slow
def test_measured_times_are_within_15_percent_of_the_prediction():
    rows = [
        [cell.strip() for cell in line.split("|")[1:-1]]
        for line in Path(taso_measured.__file__).with_suffix(".md").read_text().splitlines()
        if line.split(" ")[1:2] and line.split(" ")[1] in NETWORKS
    ]
    assert [row[0] for row in rows] == [name for name in NETWORKS for _ in range(3)]
    for name, memory, predicted, measured, deviation, difference in rows:
        front = taso_fronts.case(name, Objective.NETWORK).front
        assert any(
            f"{pair.nanoseconds / 1e6:.4g}" == predicted and f"{pair.memory / 1e6:.4g}" == memory
            for pair in front.pairs
        )
        assert f"{float(measured) / float(predicted) - 1:+.1%}"[:2] == deviation[:2]
        assert abs(float(measured) / float(predicted) - 1) < 0.15
        assert float(difference) < 1e-5
