"""The page of the worked example is what its script makes."""

from pathlib import Path

import pytest

from figures import papers, todaes2022_algorithm_9, todaes2022_fig_6_3, todaes2022_table_6_6
from figures import todaes2022_tables_6_1_to_6_3 as script
from figures.published.todaes import PRECISIONS
from figures.reading import table
from tests.shared_data import SHARED

TABLE = SHARED / "networks" / "applications.json"
RUN = ("application 1", "application 4")  # all of them take minutes


def test_the_page_is_the_one_beside_the_script():
    assert script.page() == Path(script.__file__).with_suffix(".md").read_text()


def test_the_front_in_the_published_accounting_is_the_published_one():
    name, front, _ = next(script.fronts())
    assert name == "rates as printed"
    assert tuple(front) == script.PRINTED_FRONT


@pytest.mark.slow
@pytest.mark.skipif(not TABLE.exists(), reason=f"no table of published applications at {TABLE}")
def test_the_lines_of_the_published_algorithms_are_those_of_a_run():
    kept = Path(todaes2022_algorithm_9.__file__).with_suffix(".md").read_text()
    found = list(todaes2022_algorithm_9.results(str(TABLE), RUN))
    speeds = [speeds for one in found for speeds in todaes2022_algorithm_9.speeds_of(one)]
    for made in (
        todaes2022_algorithm_9.speed_table(speeds),
        todaes2022_algorithm_9.constraint_table(found),
        todaes2022_algorithm_9.methods_table(found),
        todaes2022_algorithm_9.claims_table(found),
    ):
        assert set(made.splitlines()) <= set(kept.splitlines())


@pytest.mark.slow
def test_the_lines_of_figure_6_3_are_those_of_a_run():
    kept = Path(todaes2022_fig_6_3.__file__).with_suffix(".md").read_text().splitlines()
    made = todaes2022_fig_6_3.table(["MobileNet-pipelined"]).splitlines()
    assert len(made) == 2 + len(PRECISIONS)
    assert set(made) <= set(kept)


@pytest.mark.slow
@pytest.mark.skipif(not TABLE.exists(), reason=f"no table of published applications at {TABLE}")
def test_the_lines_of_table_6_6_are_those_of_a_run():
    kept = Path(todaes2022_table_6_6.__file__).with_suffix(".md").read_text().splitlines()
    found = [todaes2022_table_6_6.row_of(str(TABLE), RUN[0])]
    for made in (
        todaes2022_table_6_6.published_table(found),
        todaes2022_table_6_6.own_table(found),
        todaes2022_table_6_6.stride_table(found),
    ):
        assert made.splitlines()[-1] in kept


def test_the_fits_have_the_printed_speeds_of_their_rows_and_keep_what_the_data_sheet_reverses():
    rows = table("todaes2022_algorithm_9", "application", "network")
    assert len(rows) == 10
    for row in rows:
        if f"application {row[0]}" not in todaes2022_algorithm_9.UNPIPELINED:
            assert [float(row[6]), float(row[9])] == pytest.approx(
                [float(row[4]), float(row[7])], rel=1e-3
            )
    losses = [float(cell.strip("-%")) for cell in rows[0][13:16]]
    assert losses[0] == losses[2] < losses[1] / 4


def test_table_6_6_needs_at_most_what_is_printed_with_rates_that_can_run():
    for application in todaes2022_table_6_6.PAPER:
        least = papers.own(int(application[12:]))
        assert float(least[3]) <= todaes2022_table_6_6.PAPER[application][3]


@pytest.mark.slow
def test_the_fitted_speeds_keep_the_conclusion_that_the_data_sheet_reverses():
    kept = Path(todaes2022_fig_6_3.__file__).with_suffix(".md").read_text()
    assert todaes2022_fig_6_3.fitted() in kept
    baseline, half = todaes2022_fig_6_3.fitted_bars()
    assert baseline.whole_speed[0] == pytest.approx(46, abs=0.01)  # one of the two rows of the fit
    assert half.speed[0] > baseline.whole_speed[0]
