"""Random weights that keep elements at their size."""

import numpy as np
import pytest

from cnn2csdf.catalogue.resnet import resnet18
from cnn2csdf.catalogue.yolo import tiny_yolo_v2
from cnn2csdf.execution.calibration import calibrated_weights
from cnn2csdf.execution.compare import random_frames
from cnn2csdf.execution.layer_by_layer import run_layers
from cnn2csdf.weights import Model


@pytest.mark.slow
@pytest.mark.parametrize("build", [resnet18, tiny_yolo_v2])
def test_the_last_layer_neither_vanishes_nor_saturates(build):
    network = build(resolution=64)
    model = Model(network=network, weights=calibrated_weights(network, 7))
    (frame,) = random_frames(network, 1, 8)  # another frame than the one measured
    maps = run_layers(model, frame)
    products = [one.name for one in network.layers if "kernel" in model.weights[one.name]]
    assert len(products) > 8
    for name in products:
        assert 0.2 < np.std(maps[name]) < 5


@pytest.mark.slow
def test_one_seed_gives_one_model():
    network = resnet18(resolution=64)
    one, two = (calibrated_weights(network, 3) for _ in range(2))
    assert all(
        np.array_equal(array, two[name][role])
        for name, roles in one.items()
        for role, array in roles.items()
    )
