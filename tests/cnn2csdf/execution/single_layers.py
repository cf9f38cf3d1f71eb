"""Single operators on given tensors: whole, in pieces, and as ONNX sees them."""

import numpy as np

from cnn2csdf.builder import NetworkBuilder
from cnn2csdf.execution.layer_by_layer import computation
from cnn2csdf.network import Shape
from cnn2csdf.part import HeldRows
from cnn2csdf.weights import Model, random_weights

GENERATOR_SEED = 5


def drawn(*dims, seed=GENERATOR_SEED):
    return np.random.default_rng(seed).standard_normal(dims, np.float32)


class SingleLayer:
    """An operator with random weights, reading random tensors."""

    def __init__(self, operator, *dims, seed=GENERATOR_SEED):
        builder = NetworkBuilder()
        sources = [builder.input(one, name=f"input {i}") for i, one in enumerate(dims)]
        layer = builder.add(operator, *sources, name="layer")
        builder.output(layer)
        network = builder.network()
        self.model = Model(network=network, weights=random_weights(network, seed))
        self.layer = network.layer("layer")
        self.weights = self.model.weights["layer"]
        self.tensors = [drawn(*one, seed=seed + i) for i, one in enumerate(dims)]

    def rows(self, begin, end):
        readers = [
            HeldRows(shape=Shape(dims=tensor.shape), array=tensor) for tensor in self.tensors
        ]
        return computation(self.model, self.layer).rows(readers, begin, end)

    def whole(self):
        found = self.rows(0, self.layer.shape.rows)
        assert found.dtype == np.float32
        assert found.shape == self.layer.shape.dims
        return found

    def in_pieces(self, ends):
        pieces, begin = [], 0
        for end in (*ends, self.layer.shape.rows):
            if end > begin:
                pieces.append(self.rows(begin, end))
                begin = end
        return np.concatenate(pieces, axis=1)


def row_by_row(single):
    return single.in_pieces(range(1, single.layer.shape.rows))


def assert_near(found, expected, tolerance=1e-5):
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)
