"""Figures of MAFAT: Farley and Gerstlauer, 2021."""

import pytest

from figures.published.mafat import (
    BIAS,
    LIMITS_MB,
    MB,
    layer_table,
    memory_to_beat,
    paper_configuration,
    paper_name,
    paper_search,
    predicted,
    predicted_options,
    work,
)
from planners.fusion.planning import best_plan
from planners.fusion.search import best_under, front
from tests.planners.fusion.chains import TERMS, yolo_chain

SQUARES = [(side, side) for side in range(1, 6)]


def test_table_2_1_layer_two():
    row = layer_table(yolo_chain())[2]
    shown = [f"{size / MB:.2f}" for size in (row.input, row.output, row.scratch, row.total)]
    assert shown == ["11.28", "22.56", "101.53", "135.45"]


@pytest.mark.parametrize(
    ("cut", "megabytes"),
    [
        (None, [177.7, 82.5, 71.8, 60.5, 54.0]),
        (12, [177.7, 73.8, 57.1, 48.3, 43.4]),
        (8, [177.7, 69.7, 49.6, 42.8, 42.8]),
        (4, [177.7, 67.7, 56.2, 56.2, 56.2]),
    ],
)
def test_the_predictor_read_literally(cut, megabytes):
    # Algorithms 1 and 2 for 1x1 to 5x5 tiles above the cut, 2x2 below.
    chain = yolo_chain()
    found = [predicted(chain, paper_configuration(chain, top, cut)) for top in range(1, 6)]
    assert [round(size / MB, 1) for size in found] == megabytes


def test_configurations_are_written_as_in_the_paper():
    chain = yolo_chain()
    assert paper_name(paper_configuration(chain, 5, 8)) == "5x5/8/2x2"
    assert paper_name(paper_configuration(chain, 2, None)) == "2x2/NoCut"


def test_one_tile_computes_nothing_twice():
    chain = yolo_chain()
    plain = work(chain, paper_configuration(chain, 1, None))
    assert work(chain, paper_configuration(chain, 1, 8, 1)) == plain
    assert work(chain, paper_configuration(chain, 2, None)) > plain


def test_the_greedy_search_takes_what_fits_or_the_smallest():
    chain = yolo_chain()
    names = {limit: paper_name(paper_search(chain, limit * MB)) for limit in LIMITS_MB}
    for limit, name in names.items():
        groups = paper_search(chain, limit * MB)
        assert predicted(chain, groups) <= limit * MB or name == "5x5/8/2x2"
    assert names[256] == "1x1/NoCut"


@pytest.mark.slow
@pytest.mark.parametrize("limit", [256, 128, 80, 64, 48])
def test_our_plan_needs_no_more_memory_and_no_more_work_than_the_published_one(limit):
    # With the bias of the paper, but in our accounting, in which the maps between groups count.
    chain = yolo_chain()
    theirs = paper_search(chain, limit * MB)
    plan = best_plan(chain, TERMS, memory_to_beat(chain, limit * MB) - BIAS).plan
    assert plan.memory + BIAS <= predicted(chain, theirs)
    assert plan.cost.multiply_accumulates <= work(chain, theirs)


def test_ours_fits_where_the_published_search_finds_nothing():
    chain = yolo_chain()
    memory = predicted(chain, paper_search(chain, 32 * MB)) - MB
    assert predicted(chain, paper_search(chain, memory)) > memory
    assert best_plan(chain, TERMS, memory - BIAS).plan is not None


def test_our_search_is_the_optimum_of_the_papers_space():
    # All configurations of at most two groups with square grids, against the search over those of
    # any number; on the space of two groups both agree.
    chain = yolo_chain()
    found = list(predicted_options(chain, SQUARES))
    brute = [
        (predicted(chain, groups), work(chain, groups))
        for cut in (None, 4, 8, 12)
        for top in range(1, 6)
        for bottom in (range(1, 6) if cut else (2,))
        for groups in (paper_configuration(chain, top, cut, bottom),)
    ]
    allowed = {(0, 16), *((0, cut) for cut in (4, 8, 12)), *((cut, 16) for cut in (4, 8, 12))}
    ours = front([one for one in found if (one.group.first, one.group.upto) in allowed], 16)
    anything = front(found, 16)
    for limit in LIMITS_MB:
        fitting = [spent for memory, spent in brute if memory <= limit * MB]
        point = best_under(ours, limit * MB)
        least = None if point is None else point.cost.multiply_accumulates
        assert least == min(fitting, default=None)
        if point is not None:
            assert best_under(anything, limit * MB).cost <= point.cost
    assert min(point.memory for point in anything) > BIAS
