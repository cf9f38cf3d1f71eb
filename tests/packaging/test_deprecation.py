"""Names of an earlier release answer as before, and warn where they are used."""

import ast
import re
import warnings
from pathlib import Path

import pytest

import csdf
from csdf.deprecation import renamed_parameter, warn_renamed

ROOT = Path(__file__).parents[2]
PACKAGES = tuple(ROOT / package for package in ("csdf", "cnn2csdf", "planners"))
DEPRECATING = {warn_renamed.__name__, renamed_parameter.__name__}


class Example:
    """A class as a release keeps it that has renamed a parameter and an attribute."""

    capacity = 7

    @renamed_parameter("place", "index", last="1.1")
    def actor(self, index):
        return "abc"[index]

    @property
    def size(self):
        warn_renamed("Example.size", "Example.capacity", last="1.1")
        return self.capacity


def test_a_renamed_parameter_is_taken_with_a_warning_that_names_the_new_one():
    with pytest.warns(DeprecationWarning, match=r"is now Example\.actor") as caught:
        assert Example().actor(place=2) == Example().actor(index=2) == Example().actor(2) == "c"
    (warning,) = caught
    assert str(warning.message) == (
        "Example.actor(place=...) is now Example.actor(index=...); csdf 1.1 is the last release "
        "with the old name"
    )
    assert warning.filename == __file__
    with pytest.raises(TypeError, match="place"):
        Example().actor(index=1, place=2)


def test_a_renamed_attribute_has_the_same_value_and_warns_at_its_use():
    with pytest.warns(DeprecationWarning, match=r"is now Example\.capacity") as caught:
        assert Example().size == Example.capacity
    assert [warning.filename for warning in caught] == [__file__]


def test_a_line_in_a_loop_warns_once():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for place in range(3):
            Example().actor(place=place)
        Example().actor(place=0)
    assert len(caught) == 2


def last_releases(folders):
    """Yield each place below folders that keeps an old name, and the last release to have it."""
    for folder in folders:
        for path in sorted(folder.rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            calls = ast.walk(ast.parse(text)) if "csdf.deprecation" in text else ()
            for call in calls:
                if isinstance(call, ast.Call) and getattr(call.func, "id", "") in DEPRECATING:
                    last = {word.arg: word.value for word in call.keywords}["last"]
                    if isinstance(last, ast.Constant):
                        yield f"{path.name}:{call.lineno}", last.value


def minor(version):
    return tuple(map(int, re.findall(r"\d+", version)[:2]))


def outlived(folders, version):
    return [place for place, last in last_releases(folders) if minor(version) > minor(last)]


def test_no_old_name_outlives_its_last_release():
    assert outlived(PACKAGES, csdf.__version__) == []


def test_an_old_name_may_stay_through_its_last_release_only():
    here = (Path(__file__).parent,)
    places = [place for place, _ in last_releases(here)]
    assert len(places) == 2
    assert outlived(here, "1.1.3") == []
    assert outlived(here, "1.2.0") == outlived(here, "2.0.0") == places
