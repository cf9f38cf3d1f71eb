from dataclasses import replace
from fractions import Fraction
from itertools import accumulate

import numpy as np
import pytest
from hand_written import (
    CLASSIFYING,
    FLOWING,
    HEIGHT,
    ONE_BY_ONE,
    OVERTAKING,
    WIDTH,
    actor,
    blurred,
    blurring_graph,
    channel,
    classifying_graph,
    firings,
    frames,
    rows,
    squared_and_classified,
    with_weights,
)

from cnn2csdf.builder import NetworkBuilder
from cnn2csdf.execution.compare import verify
from cnn2csdf.execution.streaming_executor import run_row_by_row
from cnn2csdf.operators import Activation, Elementwise
from cnn2csdf.weights import Model, random_weights
from csdf.errors import ExecutionError
from csdf.model.graph import Graph


def test_a_window_over_two_frames_gives_the_whole_convolution():
    model = blurred()
    found = verify(model, blurring_graph(), FLOWING, frames(model, 2))
    assert found.worst.relative < 1e-6
    assert len(found.differences) == 2


def test_peaks_are_the_most_rows_held_or_claimed():
    model = blurred()
    run = run_row_by_row(model, blurring_graph(), FLOWING, frames(model, 2))
    # When the convolution starts on row 1 it has rows 0 to 2, and row 3 is on its way: 4 rows. A
    # row for the output is claimed while the one before is read: 2 rows.
    assert run.peaks == {"in-conv": 4 * 8, "conv-out": 2 * 12}
    assert run.capacities == {"in-conv": 4 * 8, "conv-out": 2 * 12}
    assert run.largest_size == 4 * 8 + 2 * 12
    assert run.firings == 30


def test_the_order_in_which_the_schedule_lists_firings_does_not_matter():
    model = blurred()
    found = verify(model, blurring_graph(), reversed(FLOWING), frames(model, 2))
    assert found.worst.relative < 1e-6


def test_firings_without_duration_run_sequentially_at_one_time():
    model = blurred()
    at_once = [replace(firing, start=Fraction(0), end=Fraction(0)) for firing in FLOWING]
    run = run_row_by_row(model, blurring_graph(capacity=3 * 8), at_once, frames(model, 2))
    assert run.peaks["in-conv"] == 3 * 8


def test_firings_that_overlap_write_in_the_order_of_their_starts():
    model = blurred()
    found = verify(model, blurring_graph(capacity=5 * 8), OVERTAKING, frames(model, 1))
    assert found.worst.relative < 1e-6


def test_a_phase_may_write_several_rows():
    # Two rows, two rows, one row; rows 0-1 need rows 0-2, rows 2-3 need 1-4.
    model = blurred()
    graph = Graph(
        name="two rows",
        actors=(actor("in", 1), actor("conv", 3), actor("out", 1)),
        channels=(
            channel("in", "conv", 5 * 8, (8,), rows(8, 3, 2, 0), rows(8, 1, 2, 2)),
            channel("conv", "out", 4 * 12, rows(12, 2, 2, 1), (12,)),
        ),
    )
    schedule = [
        *firings("in", [0, 1, 2, 3, 4, 10, 11, 12, 13, 14], phases=1),
        *firings("conv", [5, 6, 7, 15, 16, 17], phases=3),
        *firings("out", [6, 7, 8, 9, 10, 16, 17, 18, 19, 20], phases=1),
    ]
    assert verify(model, graph, schedule, frames(model, 2)).worst.relative < 1e-6


def test_a_layer_that_needs_all_rows_waits_for_them():
    model = squared_and_classified()
    found = verify(model, classifying_graph(), CLASSIFYING, frames(model, 2))
    assert found.worst.relative < 1e-6
    assert found.run.peaks["square-pool"] == 24


def test_fused_operators_work_on_the_rows_of_their_layer():
    model = blurred()
    network = model.network
    convolution = replace(
        network.layer("conv"),
        epilogue=(Elementwise(function="add", constant=(3, 5, 4)), Activation(function="prelu")),
    )
    fused = replace(network, layers=(network.layers[0], convolution, network.layers[2]))
    fused_model = Model(network=fused, weights=random_weights(fused, 3))
    found = verify(fused_model, blurring_graph(), FLOWING, frames(model, 2))
    assert found.worst.relative < 1e-6
    constant, slopes = (fused_model.weights["conv"][role] for role in ("0.constant", "1.slope"))
    plain = Model(network=network, weights=fused_model.weights)
    bare = verify(plain, blurring_graph(), FLOWING, frames(model, 2)).run.outputs[1]["out"]
    summed = bare + constant
    expected = np.where(summed < 0, summed * slopes[:, None, None], summed)
    np.testing.assert_allclose(found.run.outputs[1]["out"], expected, rtol=1e-5, atol=1e-6)


def test_a_layer_that_nothing_reads_takes_its_rows_and_computes_nothing():
    builder = NetworkBuilder()
    source = builder.input((2, HEIGHT, WIDTH), name="in")
    builder.output(source, "out")
    builder.add(Activation(function="relu"), source, name="unread")
    model = with_weights(builder)
    moved = rows(8, *ONE_BY_ONE)
    graph = Graph(
        name="unread",
        actors=(actor("in", 5), actor("out", 5), actor("unread", 5)),
        channels=(
            channel("in", "out", 16, moved, moved),
            channel("in", "unread", 16, moved, moved),
        ),
    )
    schedule = [
        *firings("in", range(5), phases=5),
        *firings("out", range(1, 6), phases=5),
        *firings("unread", range(1, 6), phases=5),
    ]
    assert verify(model, graph, schedule, frames(model, 1)).worst.largest == 0


def test_buffers_may_lie_in_one_arena():
    # Both buffers side by side give what buffers of their own give; one upon the other does not.
    model, graph = blurred(), blurring_graph()
    sizes = {one.name: one.capacity for one in graph.channels if not one.is_self_loop}
    arena = np.zeros(sum(sizes.values()), np.float32)
    begins = dict(zip(sizes, (0, *accumulate(sizes.values())), strict=False))
    apart = {name: arena[begins[name] : begins[name] + size] for name, size in sizes.items()}
    upon = {name: arena[:size] for name, size in sizes.items()}
    given = frames(model, 2)
    expected = run_row_by_row(model, graph, FLOWING, given).outputs[0]["out"]
    found = run_row_by_row(model, graph, FLOWING, given, storage=apart).outputs[0]["out"]
    assert np.array_equal(found, expected)
    found = run_row_by_row(model, graph, FLOWING, given, storage=upon).outputs[0]["out"]
    assert not np.array_equal(found, expected)


def test_storage_of_another_size_is_refused():
    model, graph = blurred(), blurring_graph()
    name = next(one.name for one in graph.channels if not one.is_self_loop)
    with pytest.raises(ExecutionError, match=rf"channel '{name}': storage of shape \(3,\)"):
        run_row_by_row(model, graph, [], frames(model, 1), storage={name: np.zeros(3, np.float32)})
