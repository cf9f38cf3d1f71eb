"""Contributed measurements of boards: both files are checked, and the page has all times."""

import json
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from csdf.errors import CsdfError
from figures import board_times
from figures.board_times import FOLDER, compared, page, read_board
from planners.memory.fit import fit

EXAMPLE = FOLDER / "mps2-an386-qemu.json"


def written(folder, times=None, **changes):
    """Files of a measurement like the example."""
    value = json.loads(EXAMPLE.read_text()) | changes
    path = folder / "board.json"
    path.write_text(json.dumps({key: field for key, field in value.items() if field is not None}))
    path.with_suffix(".csv").write_text(times or EXAMPLE.with_suffix(".csv").read_text())
    return path


def test_the_page_is_that_of_the_files():
    comparisons = [compared(*read_board(path)) for path in sorted(FOLDER.glob("*.json"))]
    assert comparisons
    text = Path(board_times.__file__).with_suffix(".md").read_text()
    assert text == "\n".join(page(comparisons)) + "\n"


def test_instructions_of_the_emulator_are_within_ten_percent_of_the_prediction():
    comparison = compared(*read_board(EXAMPLE))
    assert 0.9 < comparison.measured / comparison.maximum < 1.1
    assert comparison.minimum == comparison.maximum  # an instruction is a cycle


def test_the_time_of_a_board_is_between_minimum_and_maximum_at_its_clock(tmp_path):
    slow = compared(*read_board(written(tmp_path, is_emulated=None)))
    fast = compared(*read_board(written(tmp_path, is_emulated=None, hertz=2 * 10**8)))
    assert slow.minimum * 2 == pytest.approx(slow.maximum, rel=1e-6)
    assert fast.maximum * 2 == pytest.approx(slow.maximum, rel=1e-6)
    (row,) = [line for line in page([slow]) if "keyword_spotting" in line]
    assert re.search(r"\| \d+\.\d{3} to \d+\.\d{3} \| \d+\.\d{3} \|", row)


def test_plans_of_one_name_are_told_apart_by_their_arenas(tmp_path, monkeypatch):
    by_rows = compared(*read_board(EXAMPLE))

    def renamed(network, *, platform):
        methods = fit(network, platform=platform).methods
        return SimpleNamespace(methods=[replace(m, name="row by row") for m in methods])

    monkeypatch.setattr(board_times, "fit", renamed)
    assert compared(*read_board(EXAMPLE)) == by_rows
    path = written(tmp_path, arena=64000)
    assert compared(*read_board(path)).maximum != by_rows.maximum


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"core": "cortex-a53"}, "'cortex-a53'; expected one of cortex-m0plus"),
        ({"hertz": 0}, "hertz is 0"),
        ({"hertz": "fast"}, "found 'fast'; expected an integer"),
        ({"compiler": " "}, "compiler is empty"),
        ({"caches": "code | data"}, r"caches is 'code \| data'; expected one line without '\|'"),
        ({"board": "left\nright"}, r"board is 'left\\nright'; expected one line"),
        ({"flash_wait_states": None}, "'flash_wait_states' is missing"),
        ({"voltage": 3}, "'voltage' is unknown"),
        ({"plan": "diagonal"}, "0 methods are 'diagonal' of 15016 bytes; expected one of"),
        ({"arena": 13480}, "0 methods are 'row by row' of 13480 bytes; .*row by row of 15016"),
        ({"arena": None}, "'arena' is missing"),
        ({"network": "resnet9"}, "resnet9"),
    ],
)
def test_a_file_that_is_no_measurement_is_refused(tmp_path, changes, message):
    with pytest.raises(CsdfError, match=message):
        compared(*read_board(written(tmp_path, **changes)))


def test_a_clock_below_nothing_is_named_as_it_is():
    with pytest.raises(CsdfError, match="hertz is -5; expected the clock"):
        replace(read_board(EXAMPLE)[0], hertz=-5)


@pytest.mark.parametrize(
    ("times", "message"),
    [
        ("layer,phase,nanoseconds\nconv9,0,5\n", "'conv9' was measured, which keyword_spotting"),
        ("layer,phase,nanoseconds\n", "no layer was measured"),
        ("layer,phase,nanoseconds\nconv1,0,-5\n", "line 2: '-5' is not a whole number"),
        ("conv1 5\n", "line 1: expected layer,phase,nanoseconds"),
    ],
)
def test_a_table_that_bench_did_not_print_is_refused(tmp_path, times, message):
    with pytest.raises(CsdfError, match=message):
        compared(*read_board(written(tmp_path, times)))
