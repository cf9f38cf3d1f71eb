"""Names in CSV are no formulas of a spreadsheet, and are read back as they were."""

import csv
from fractions import Fraction
from io import StringIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from csdf.io.csv_text import csv_text, unguarded

FORMULAS = ["=1+1", "+cmd|' /C calc'!A0", "-a", "@SUM(A1)", "\t=1", "=", "'=1"]


@pytest.mark.parametrize("name", FORMULAS)
def test_a_name_like_a_formula_is_a_text_in_a_spreadsheet(name):
    assert next(csv.reader(StringIO(csv_text([[name]])))) == [f"'{name}"]


@pytest.mark.parametrize("value", [-3, Fraction(-3, 2), -1.5, 2e-7, "-3", "+4", "-3/2", "-1.5e-7"])
def test_numbers_are_written_unquoted_into_csv(value):
    assert csv_text([[value, "it's", "a=b"]]) == f"{value},it's,a=b\n"


@given(st.lists(st.text("=+-@'1a,\"\t\n ", min_size=1), min_size=1))
def test_names_are_read_back_as_they_were(names):
    row = next(csv.reader(StringIO(csv_text([names]), newline="")))
    assert list(map(unguarded, row)) == names
