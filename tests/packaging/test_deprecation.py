"""Names of an earlier release answer as before, and warn where they are used."""

import ast
import re
import warnings
from pathlib import Path

import pytest

import csdf
import planners
from csdf.deprecation import renamed_parameter, warn_renamed
from tests.planners.fusion.chains import TERMS, plain_chain

ROOT = Path(__file__).parents[2]
DEPRECATING = {warn_renamed.__name__, renamed_parameter.__name__}


def test_a_renamed_parameter_is_taken_with_a_warning_that_names_the_new_one():
    order = csdf.StaticOrder(prefix=("a",), periodic=("b", "c"))
    with pytest.warns(DeprecationWarning, match=r"is now StaticOrder\.actor") as caught:
        assert order.actor(place=2) == order.actor(index=2) == order.actor(2) == "c"
    (warning,) = caught
    assert str(warning.message) == (
        "StaticOrder.actor(place=...) is now StaticOrder.actor(index=...); csdf 1.0 is the last "
        "release with the old name"
    )
    assert warning.filename == __file__
    with pytest.raises(TypeError, match="place"):
        order.actor(index=1, place=2)


def test_the_cost_of_a_fusion_plan_is_still_time_and_macs():
    answer = planners.best_plan(plain_chain((4, 3, 1), (4, 3, 2)), TERMS, "64kB")
    plan = answer.plan
    with pytest.warns(DeprecationWarning, match=r"FusionPlan\.nanoseconds"):
        assert plan.cost == (plan.nanoseconds, plan.plan.multiply_accumulates)
    assert answer.front[-1].cost.nanoseconds == answer.front[-1].nanoseconds


def test_a_line_in_a_loop_warns_once():
    order = csdf.StaticOrder(periodic=("b",))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for place in range(3):
            order.actor(place=place)
        order.actor(place=0)
    assert len(caught) == 2


def last_releases():
    """Yield each place of the packages that keeps an old name, and the last release to have it."""
    for package in ("csdf", "cnn2csdf", "planners"):
        for path in sorted((ROOT / package).rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            calls = ast.walk(ast.parse(text)) if "csdf.deprecation" in text else ()
            for call in calls:
                if isinstance(call, ast.Call) and getattr(call.func, "id", "") in DEPRECATING:
                    last = {word.arg: word.value for word in call.keywords}["last"]
                    if isinstance(last, ast.Constant):
                        yield f"{path.relative_to(ROOT)}:{call.lineno}", last.value


def minor(version):
    return tuple(map(int, re.findall(r"\d+", version)[:2]))


def test_no_old_name_outlives_its_last_release():
    kept = dict(last_releases())
    assert kept  # else this test and the module can go
    assert [place for place, last in kept.items() if minor(csdf.__version__) > minor(last)] == []
