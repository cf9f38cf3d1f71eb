"""The numbers that TASO states, and its networks, as plans for primitives see them.

Source: Wen, Anderson, Radu, O'Boyle and Gregg, TASO: Time and Space Optimization for
Memory-Constrained DNN Inference, SBAC-PAD 2020 (arXiv 2005.10709).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from cnn2csdf.catalogue.concatenating import googlenet, squeezenet1_0
from cnn2csdf.catalogue.plain_chains import alexnet, vgg16
from cnn2csdf.catalogue.resnet import resnet18, resnet50
from cnn2csdf.network import Network
from cnn2csdf.simplify import simplified
from cnn2csdf.weights import Model

NETWORKS: Mapping[str, Callable[[], Network]] = MappingProxyType(
    {
        "alexnet": alexnet,
        "vgg16": vgg16,
        "googlenet": googlenet,
        "resnet18": resnet18,
        "resnet50": resnet50,
        "squeezenet1_0": squeezenet1_0,
    }
)
SOLVE_SECONDS: Mapping[str, float] = MappingProxyType(
    {"alexnet": 3.37, "vgg16": 5.26, "squeezenet1_0": 8.84, "googlenet": 23.84}
)  # table 1, with 57 primitives


VARIABLES: Mapping[str, tuple[int, float]] = MappingProxyType(
    {
        "alexnet": (456, 3.373),
        "vgg16": (741, 5.259),
        "squeezenet1_0": (1710, 8.835),
        "googlenet": (3990, 23.84),
    }
)  # table 1: conditional variables, seconds on a Core i5


def network_of(name: str) -> Network:
    """Return a network of the paper with batch normalisation folded and activations fused."""
    return simplified(Model(network=NETWORKS[name]())).network
