"""The page of the worked example is what its script makes."""

from pathlib import Path

from figures import todaes2022_tables_6_1_to_6_3 as script


def test_the_page_is_the_one_beside_the_script():
    assert script.page() == Path(script.__file__).with_suffix(".md").read_text()


def test_the_front_in_the_published_accounting_is_the_published_one():
    name, front, _ = next(script.fronts())
    assert name == "rates as printed"
    assert tuple(front) == script.PRINTED_FRONT
