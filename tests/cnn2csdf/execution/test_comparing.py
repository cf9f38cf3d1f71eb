import numpy as np
import pytest
from hand_written import CLASSIFYING, classifying_graph, frames, squared_and_classified

from cnn2csdf.execution.compare import difference, random_frames, verify
from cnn2csdf.execution.layer_by_layer import run_layer_by_layer, run_layers
from csdf.errors import ExecutionError


def array(*values):
    return np.array(values, np.float32)


def test_the_difference_is_relative_to_the_largest_element():
    found = difference(array(1, -3, 4), array(1, -5, 4))
    assert found.largest == 2
    assert found.magnitude == 5
    assert found.relative == 2 / 5


def test_a_difference_from_zeros_is_absolute():
    assert difference(array(0, 3), array(0, 0)).relative == 3


def test_equal_infinities_do_not_differ():
    found = difference(array(np.inf, 1), array(np.inf, 2))
    assert (found.largest, found.magnitude) == (1, 2)


def test_a_number_that_is_none_is_no_small_difference():
    assert not difference(array(np.nan, 1), array(1, 1)).relative < 1


def test_a_nan_in_both_does_not_differ():
    found = difference(array(np.nan, 1), array(np.nan, 2))
    assert (found.largest, found.magnitude) == (1, 2)


def test_tensors_of_different_shapes_are_not_compared():
    with pytest.raises(ExecutionError, match=r"shape \(1,\), expected \(2,\)"):
        difference(array(1), array(1, 1))


def test_a_verification_has_each_output_of_each_frame():
    model = squared_and_classified()
    found = verify(model, classifying_graph(), CLASSIFYING, frames(model, 2))
    assert [list(one) for one in found.differences] == [["out"], ["out"]]
    assert found.worst in [one["out"] for one in found.differences]


def test_the_whole_run_squares_averages_and_multiplies():
    model = squared_and_classified()
    [frame] = frames(model, 1)
    weights = model.weights["classes"]
    means = (frame["in"] ** 2).mean(axis=(1, 2))
    expected = weights["matrix"] @ means + weights["bias"]
    np.testing.assert_allclose(run_layer_by_layer(model, frame)["out"], expected, rtol=1e-5)
    assert list(run_layers(model, frame)) == ["in", "square", "pool", "classes", "out"]


def test_random_frames_have_the_shapes_of_the_inputs_and_follow_the_seed():
    network = squared_and_classified().network
    one, other = random_frames(network, 2, seed=1)
    assert one["in"].shape == (2, 3, 4)
    assert (one["in"] != other["in"]).any()
    assert (random_frames(network, 1, seed=1)[0]["in"] == one["in"]).all()
