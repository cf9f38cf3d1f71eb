"""Trained numbers for commands that run networks; those without any get random ones."""

from __future__ import annotations

from cnn2csdf.execution.calibration import calibrated_weights
from cnn2csdf.weights import Model
from csdf.cli.frame import output


def with_weights(command: str, model: Model, seed: int, *, remark: str = "") -> Model:
    """Return the model; with random weights, and a line that says so, where it has none."""
    if model.weights is not None:
        return model
    output.remark(command, f"random weights with seed {seed}{remark}")
    return Model(network=model.network, weights=calibrated_weights(model.network, seed))
