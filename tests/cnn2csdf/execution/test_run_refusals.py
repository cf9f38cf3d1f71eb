from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hand_written import (
    CLASSIFYING,
    FLOWING,
    ONE_BY_ONE,
    OVERTAKING,
    RELEASED,
    actor,
    blurred,
    blurring_graph,
    classifying_graph,
    firings,
    frames,
    rows,
    squared_and_classified,
)

from cnn2csdf.execution.streaming_executor import run_row_by_row
from cnn2csdf.weights import Model
from csdf.errors import ExecutionError
from csdf.model.graph import Channel


def refusal(graph, schedule, *, count=2):
    model = blurred()
    with pytest.raises(ExecutionError) as caught:
        run_row_by_row(model, graph, schedule, frames(model, count))
    return str(caught.value)


def test_a_capacity_one_row_too_small_is_found():
    message = refusal(blurring_graph(capacity=3 * 8), FLOWING)
    assert message == (
        "actor 'in', firing 3 (phase 3) starts at 3, but channel 'in-conv' has space for "
        "0 tokens (0 rows), 8 tokens (1 row) are needed"
    )


def test_a_capacity_that_is_no_whole_rows_gives_whole_rows():
    assert "space for 0 tokens" in refusal(blurring_graph(capacity=4 * 8 - 1), FLOWING)


def test_a_start_before_the_tokens_are_there_is_found():
    early = [
        replace(firing, start=Fraction(1), end=Fraction(2))
        if (firing.actor, firing.index) == ("conv", 0)
        else firing
        for firing in FLOWING
    ]
    assert refusal(blurring_graph(), early) == (
        "actor 'conv', firing 0 (phase 0) starts at 1, but channel 'in-conv' holds "
        "8 tokens (1 row), 16 tokens (2 rows) are needed"
    )


def test_a_release_too_early_is_found():
    # Without a window each row is released by the phase that consumes it: row 1 then misses row 0.
    message = refusal(blurring_graph(released=None), FLOWING)
    assert message == (
        "actor 'conv', firing 1 (phase 1): channel 'in-conv': rows 0 to 3 read, "
        "but it holds rows 2 to 4"
    )


def test_a_consumption_too_late_is_found():
    # Row 0 needs rows 0 and 1, and takes one.
    late = rows(8, 1, 1, 1, 1, 1)
    message = refusal(blurring_graph(consumed=late, released=RELEASED), FLOWING)
    assert message == (
        "actor 'conv', firing 0 (phase 0): channel 'in-conv': rows 0 to 2 read, "
        "but only those up to 1 are consumed"
    )


def test_a_row_waits_for_the_rows_before_it():
    # Row 1 has ended at 2, row 0 has not.
    early = [
        one if one.actor == "in" else replace(one, start=one.start - 1, end=one.end - 1)
        for one in OVERTAKING
    ]
    message = refusal(blurring_graph(capacity=5 * 8), early, count=1)
    assert "starts at 2, but channel 'in-conv' holds 0 tokens" in message


def test_a_schedule_that_ends_too_soon_is_found():
    assert refusal(blurring_graph(), FLOWING[:-1]) == (
        "the schedule ends with 9 rows of output 'out' written; 2 frames have 10"
    )


def test_a_schedule_of_more_frames_than_there_are_is_found():
    assert "works on frame 1, counted from 0, but there are 1" in refusal(
        blurring_graph(), FLOWING, count=1
    )


def test_a_firing_out_of_its_order_is_found():
    assert refusal(blurring_graph(), FLOWING[1:]) == (
        "actor 'in', firing 1 (phase 1) starts at 1, but firing 0 (phase 0) is next"
    )


def test_a_firing_that_starts_twice_is_found():
    again = replace(FLOWING[0], start=Fraction(1), end=Fraction(2))
    assert "firing 0 (phase 0) starts at 1, but firing 2" in refusal(
        blurring_graph(), [again, *FLOWING]
    )


def test_a_firing_of_something_that_is_no_layer_is_found():
    stranger = replace(FLOWING[0], actor="stranger")
    assert "'stranger', which is no layer" in refusal(blurring_graph(), [stranger, *FLOWING])


def test_a_state_forbids_firings_to_overlap():
    graph = blurring_graph()
    state = Channel(
        name="state", producer="in", consumer="in", production=ONE_BY_ONE, consumption=ONE_BY_ONE,
        initial_tokens=1,
    )  # fmt: skip
    graph = replace(graph, channels=(*graph.channels, state))
    slow = [
        replace(firing, end=firing.start + Fraction(3, 2)) if firing.actor == "in" else firing
        for firing in FLOWING
    ]
    assert "starts at 1, but channel 'state' holds 0 tokens, 1 are needed" in refusal(graph, slow)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (
            lambda graph: replace(graph, channels=graph.channels[1:]),
            "1 channel from 'in' to 'square', but 2 connections",
        ),
        (
            lambda graph: replace(graph, actors=(*graph.actors, actor("more", 1))),
            "actor 'more' has no layer of its name",
        ),
        (
            lambda graph: changed(graph, capacity=None),
            "channel 'in-square' has no capacity",
        ),
        (
            lambda graph: changed(graph, capacity=7),
            "channel 'in-square': capacity 7 is less than one row",
        ),
        (
            lambda graph: changed(graph, production=(7, 8, 9)),
            "channel 'in-square', phase 0: a rate of 7 tokens, but a row of 2x3x4 has 8 elements",
        ),
        (
            lambda graph: changed(graph, production=(16, 8, 0)),
            r"layer 'in' writes \(2, 1, 0\) rows to channel 'in-square', but \(1, 1, 1\) to 'again'",
        ),
        (
            lambda graph: changed(graph, initial_tokens=8),
            "channel 'in-square' has 8 initial tokens",
        ),
    ],
)
def test_a_graph_that_does_not_match_its_network_is_refused(change, complaint):
    model = squared_and_classified()
    with pytest.raises(ExecutionError, match=complaint):
        run_row_by_row(model, change(classifying_graph()), CLASSIFYING, frames(model, 2))


def changed(graph, **changes):
    first, *others = graph.channels
    return replace(graph, channels=(replace(first, **changes), *others))


def test_phases_that_write_beyond_a_frame_are_found():
    model, graph = blurred(), blurring_graph()
    too_many = replace(graph.channels[0], production=rows(8, 2, 2, 2, 2, 2), capacity=80)
    graph = replace(graph, channels=(too_many, graph.channels[1]))
    with pytest.raises(ExecutionError, match="rows 4 to 6 written, but a frame has 5"):
        run_row_by_row(model, graph, firings("in", range(5), phases=5), frames(model, 1))


def test_a_model_without_weights_cannot_run():
    model = Model(network=blurred().network)
    with pytest.raises(ExecutionError, match="has no weights"):
        run_row_by_row(model, blurring_graph(), FLOWING, frames(model, 2))


@pytest.mark.parametrize(
    ("frame", "complaint"),
    [
        ({}, "the frame has no input 'in', only nothing"),
        ({"x": np.zeros((2, 5, 4))}, "has no input 'in', only 'x'"),
        ({"in": np.zeros((2, 4, 5))}, r"input 'in' of shape \(2, 4, 5\), expected \(2, 5, 4\)"),
    ],
)
def test_a_frame_that_does_not_fit_is_refused(frame, complaint):
    with pytest.raises(ExecutionError, match=complaint):
        run_row_by_row(blurred(), blurring_graph(), FLOWING, [frame])
