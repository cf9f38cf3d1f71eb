"""Measured times of configurations: a platform fitted to them, and the fastest that fits."""

from dataclasses import replace
from fractions import Fraction

import pytest

from cnn2csdf.catalogue.networks import from_catalogue
from cnn2csdf.platforms import PLATFORMS, Platform
from cnn2csdf.simplify import simplified
from cnn2csdf.weights import Model
from csdf.errors import InvalidPlan, UnreadableFile
from csdf.status import Status
from planners.fusion.groups import Terms
from planners.fusion.measured import fitted_platform, or_measured, read_measured
from planners.fusion.planning import best_plan, fusion_plan
from planners.memory.order import chain_of
from planners.published.mafat import named_configuration

CHAIN = chain_of(
    simplified(Model(network=from_catalogue("yolo_v2_beginning:resolution=64,layers=8"))).network
)
TERMS = Terms(platform=PLATFORMS["cortex-m7"])
NAMES = ("1x1/NoCut", "2x2/NoCut", "4x4/NoCut", "3x3/4/1x1", "2x2/4/4x4")
DEVICE = Platform(  # bytes cost nothing, and a phase starts in 30 microseconds
    operations_per_second=Fraction(10**9),
    bytes_per_second=Fraction(10**30),
    launch=Fraction(3, 10**5),
)


def times_on(platform):
    terms = replace(TERMS, platform=platform)
    plans = (fusion_plan(CHAIN, named_configuration(CHAIN, name), terms) for name in NAMES)
    return [plan.nanoseconds for plan in plans]


def table(tmp_path, times):
    path = tmp_path / "times.csv"
    rows = (f"{name},7,{time / 10**6}\n" for name, time in zip(NAMES, times, strict=True))
    path.write_text("configuration,arena,milliseconds\n" + "".join(rows))
    return read_measured(path, CHAIN, TERMS)


def test_times_of_a_platform_give_the_platform_back(tmp_path):
    platform, error = fitted_platform(CHAIN, TERMS, table(tmp_path, times_on(DEVICE)))
    assert float(platform.launch) == pytest.approx(3e-5, rel=1e-3)
    assert float(platform.operations_per_second) == pytest.approx(1e9, rel=1e-3)
    assert error < 1e-4


def test_a_start_is_never_below_zero_and_the_worst_error_is_told(tmp_path):
    # Twice as long for the least work: a line through the times would start below zero or run down.
    times = times_on(replace(DEVICE, launch=Fraction(0)))
    measured = table(tmp_path, [2 * times[0], *times[1:]])
    platform, error = fitted_platform(CHAIN, TERMS, measured)
    assert platform.launch >= 0
    predicted = times_on(platform)
    worst = max(
        plan.nanoseconds / time for (_, plan), time in zip(measured, predicted, strict=True)
    )
    assert 1 + float(error) == pytest.approx(worst, rel=1e-3)


def test_the_fastest_measured_plan_that_fits_is_taken_where_nothing_faster_is_predicted(tmp_path):
    times = times_on(DEVICE)
    measured = table(tmp_path, [*times[:3], times[3] // 3, times[4]])  # the fit is far off
    _, fastest = measured[3]
    platform, error = fitted_platform(CHAIN, TERMS, measured)
    answer = best_plan(CHAIN, replace(TERMS, platform=platform), fastest.memory)
    found = or_measured(answer, measured, error, fastest.memory)
    assert found.plan.groups == fastest.groups
    assert found.plan.nanoseconds == fastest.nanoseconds
    assert found.status == Status.FEASIBLE
    assert "3x3/4/1x1 was measured" in str(found.reason)
    least = min(plan.memory for _, plan in measured)
    assert or_measured(answer, measured, error, least - 1) == answer
    slow = [(name, replace(plan, nanoseconds=100 * plan.nanoseconds)) for name, plan in measured]
    assert or_measured(answer, slow, error, None) == answer


@pytest.mark.parametrize(
    ("text", "error", "complaint"),
    [
        ("configuration,seconds\n1x1/NoCut,3\n", UnreadableFile, "no column 'milliseconds'"),
        ("configuration,milliseconds\n1x1/NoCut,0\n", UnreadableFile, "line 2: '0'; expected"),
        ("configuration,milliseconds\n1x1/NoCut,x\n", UnreadableFile, "line 2: 'x'; expected"),
        ("configuration,milliseconds\n1x1/NoCut\n", UnreadableFile, "line 2: 1 cells; expected 2"),
        ("configuration,milliseconds\n1x1/NoCut,\n", UnreadableFile, "line 2: ''; expected"),
        (f"configuration,milliseconds\n{'1' * 2**18},3\n", UnreadableFile, "line 2: field larger"),
        (
            "configuration,milliseconds\n1x1/NoCut,3\n1x99/NoCut,3\n",
            UnreadableFile,
            "line 3: 99 tiles",
        ),
        (
            "configuration,milliseconds\n1x1/NoCut,1e999999999\n",
            UnreadableFile,
            "line 2: .1e9{9}.;",
        ),
        ("configuration,milliseconds\nrows,3\n", UnreadableFile, "line 2: configuration 'rows'"),
        ("configuration,milliseconds\n1x1/NoCut,3\n", InvalidPlan, "needs at least two"),
    ],
)
def test_a_table_that_says_nothing_is_refused(tmp_path, text, error, complaint):
    path = tmp_path / "times.csv"
    path.write_text(text)
    with pytest.raises(error, match=complaint):
        fitted_platform(CHAIN, TERMS, read_measured(path, CHAIN, TERMS))
