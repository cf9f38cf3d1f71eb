"""The pages on MAFAT are what the scripts make of what was measured."""

from pathlib import Path

import pytest

from figures import mafat_sweep, mafat_table2_1, mafat_table4_1
from figures.mafat_measure import TERMS
from figures.published.mafat import manual_sweep
from planners.fusion.planning import fusion_plan


def kept(script):
    return Path(script.__file__).with_suffix(".md").read_text()


def test_table_2_1():
    assert mafat_table2_1.page() == kept(mafat_table2_1)


@pytest.mark.slow
def test_table_4_1():
    assert mafat_table4_1.page() == kept(mafat_table4_1)


@pytest.mark.slow
def test_the_page_of_the_sweep_is_up_to_date():
    assert mafat_sweep.page() == kept(mafat_sweep)


@pytest.mark.slow
def test_the_pictures_can_be_drawn_and_are_kept():
    for name, picture in mafat_sweep.pictures().items():
        assert picture.startswith("<?xml")
        assert Path(mafat_sweep.__file__).with_name(f"mafat_sweep_{name}.svg").exists()


def test_what_was_planned_was_touched_to_the_byte():
    chain, rows = mafat_sweep.yolo(), mafat_sweep.measured()
    for name, groups in manual_sweep(chain).items():
        planned = fusion_plan(chain, groups, TERMS).memory
        assert rows[name].arena == rows[name].touched == planned


def test_processes_need_what_is_predicted_within_five_percent():
    chain, rows = mafat_sweep.yolo(), mafat_sweep.measured()
    for name in manual_sweep(chain):
        expected = rows[name].arena + mafat_sweep.bias(rows)
        assert abs(expected - rows[name].process) < 0.05 * rows[name].process
