"""The application of the published worked example: two small networks, one of them pipelined.

Source: Minakova and Stefanov, TODAES 28(1), 2022, sections 3 and 4; Fig. 6.1 and Tables 6.1 to 6.3 of
the thesis.
"""

from __future__ import annotations

from cnn2csdf.builder import NetworkBuilder
from cnn2csdf.network import Network
from cnn2csdf.operators import Convolution, Elementwise, FullyConnected, Window
from planners.reuse.application import Application, ApplicationNetwork, Partition

KERNEL = (5, 5)
MAPS = 8  # feature maps of every convolution
PRINTED_PHASES = {"CNN1": ("l3", "l4", "l5")}  # by rows in Table 6.3; all others work as a whole


def worked_example() -> Application:
    """Return CNN1 in partition P1, and CNN2 in P2 and P3, which are pipelined.

    All layers have a gene, those where frames come in too: the memory of frames is counted.
    """
    first, second = example_cnn1(), example_cnn2()
    return Application(
        name="worked example",
        members=(
            ApplicationNetwork(
                network=first, partitions=(_partition("P1", "l1", "l2", "l3", "l4", "l5"),)
            ),
            ApplicationNetwork(
                network=second,
                partitions=(_partition("P2", "l1", "l2"), _partition("P3", "l3", "l4")),
            ),
        ),
        parallel=(frozenset({"P2", "P3"}),),
    )


def _partition(name: str, *layers: str) -> Partition:
    return Partition(name=name, layers=layers)


def example_cnn1() -> Network:
    """Return a residual connection around a convolution, 32x32."""
    build = NetworkBuilder("CNN1")
    build.input((3, 32, 32), name="l1")
    padded = Window(kernel=KERNEL, padding=(2, 2, 2, 2))
    build.add(Convolution(filters=MAPS, window=padded), "l1", name="l2")
    build.add(Convolution(filters=MAPS, window=padded), "l2", name="l3")
    build.add(Elementwise(function="add"), "l2", "l3", name="l4")
    build.output("l4", name="l5")
    return build.network()


def example_cnn2() -> Network:
    """Return a convolution and a fully connected layer."""
    build = NetworkBuilder("CNN2")
    build.input((3, 32, 32), name="l1")
    build.add(Convolution(filters=MAPS, window=Window(kernel=KERNEL)), "l1", name="l2")
    build.add(FullyConnected(units=10), "l2", name="l3")
    build.output("l3", name="l4")
    return build.network()
