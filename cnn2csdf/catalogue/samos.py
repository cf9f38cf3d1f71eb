"""Worked example of the conversion from CNN to CSDF.

Source: Minakova and Stefanov, Buffer Sizes Reduction for Memory-Efficient CNN Inference on Mobile
and Embedded Devices, SAMOS 2020, figure 1.
"""

from __future__ import annotations

from cnn2csdf import operators as op
from cnn2csdf.catalogue.blocks import CatalogueBuilder, unpadded
from cnn2csdf.network import Network


def samos_example() -> Network:
    """Return the network of figure 1, with the names of its actors."""
    builder = CatalogueBuilder("samos_example")
    image = builder.input((1, 32, 32), name="n1")
    wide = op.Convolution(filters=4, window=unpadded(17))
    features = builder.add(wide, image, name="n2")
    cropping = op.Window(kernel=(5, 5), stride=(3, 3), padding=(-1, -1, -1, -1))
    features = builder.add(op.Convolution(filters=3, window=cropping), features, name="n3")
    scores = builder.add(op.FullyConnected(units=2), features, name="n4")
    builder.output(scores, name="n5")
    return builder.network()
