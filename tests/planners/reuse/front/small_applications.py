"""Applications whose chromosomes can all be tried, and a slow second opinion on their fronts."""

from itertools import accumulate, pairwise, product

from cnn2csdf.builder import NetworkBuilder
from cnn2csdf.operators import Convolution, Elementwise, Window
from planners.reuse.application import (
    Application,
    ApplicationNetwork,
    Partition,
    single_partition,
)

CONVOLUTION = Window(kernel=(3, 3), padding=(1, 1, 1, 1))


def residual(name="residual", filters=(4, 8, 4, 2)):
    """A chain with one addition of what is two layers before it."""
    first, second, third, last = filters
    build = NetworkBuilder(name)
    build.input((3, 12, 12), name="in")
    build.add(Convolution(filters=first, window=CONVOLUTION), "in", name="a")
    build.add(Convolution(filters=second, window=CONVOLUTION), "a", name="b")
    build.add(Convolution(filters=third, window=CONVOLUTION), "b", name="c")
    build.add(Elementwise(function="add"), "a", "c", name="sum")
    build.add(Convolution(filters=last, window=CONVOLUTION), "sum", name="d")
    build.output("d", name="out")
    return build.network()


def plain(name):
    """A chain of two convolutions."""
    build = NetworkBuilder(name)
    build.input((2, 12, 12), name="in")
    build.add(Convolution(filters=7, window=CONVOLUTION), "in", name="a")
    build.add(Convolution(filters=3, window=CONVOLUTION), "a", name="b")
    build.output("b", name="out")
    return build.network()


def branched():
    """Two different branches side by side: layers that are no gates."""
    build = NetworkBuilder("branched")
    build.input((2, 10, 10), name="in")
    build.add(Convolution(filters=6, window=CONVOLUTION), "in", name="stem")
    build.add(Convolution(filters=5, window=CONVOLUTION), "stem", name="left")
    build.add(Convolution(filters=7, window=CONVOLUTION), "stem", name="right")
    build.add(Convolution(filters=5, window=CONVOLUTION), "right", name="more")
    build.add(Elementwise(function="add"), "left", "more", name="sum")
    build.output("sum", name="out")
    return build.network()


def divided(network, sizes, outside=frozenset()):
    """The network as a member in partitions of this many layers, "NAME/1" and so on."""
    layers = single_partition(network, outside).layers
    partitions = tuple(
        Partition(name=f"{network.name}/{number}", layers=layers[begin:end])
        for number, (begin, end) in enumerate(pairwise(accumulate(sizes, initial=0)), start=1)
    )
    return ApplicationNetwork(network=network, partitions=partitions, outside=outside)


def alone(network):
    return Application(name=network.name, members=(single_partition(network),))


def pipelined(network, first):
    member = divided(network, (first, len(network.layers) - first))
    names = frozenset(partition.name for partition in member.partitions)
    return Application(name="pipelined", members=(member,), parallel=(names,))


def together():
    """A pipelined network and one that takes turns with it."""
    one = pipelined(residual("one"), 3).members[0]
    other = single_partition(plain("other"))
    names = frozenset(partition.name for partition in one.partitions)
    return Application(name="together", members=(one, other), parallel=(names,))


def all_genes(application, genes=(None, 1)):
    return product(genes, repeat=len(application.layers))


def front_of(values):
    """The values that no other is at most as large as everywhere; slow and plain."""
    different = sorted(set(values))
    return [
        one
        for one in different
        if not any(
            other != one and all(here <= there for here, there in zip(other, one, strict=True))
            for other in different
        )
    ]
