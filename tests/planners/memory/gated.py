"""Small random networks of blocks with a gate: squeeze-and-excitation, as in EfficientNet."""

from random import Random

from cnn2csdf.builder import NetworkBuilder
from cnn2csdf.operators import Activation, Convolution, Elementwise, GlobalPooling, Window


def _convolution(filters, size=1, stride=1, groups=1):
    window = Window(kernel=(size, size), stride=(stride, stride), padding=(size // 2,) * 4)
    return Convolution(filters=filters, window=window, groups=groups)


def _gate(builder, source: Random, last, channels):
    """A map times what was computed from all of it."""
    gate = builder.add(GlobalPooling(function="average"), last)
    if source.random() < 0.7:
        gate = builder.add(_convolution(source.randint(1, 3)), gate)
        gate = builder.add(_convolution(channels), gate)
    gate = builder.add(Activation(function="sigmoid"), gate)
    return builder.add(Elementwise(function="multiply"), *source.sample([last, gate], 2))


def gated_network(seed, *, blocks=None):
    """Return up to three blocks: an expansion, one filter for each map, a gate, a projection, a sum."""
    source = Random(seed)
    builder = NetworkBuilder("gated")
    channels = source.randint(1, 3)
    last = builder.input((channels, source.randint(5, 9), source.randint(5, 8)))
    for _ in range(blocks or source.randint(1, 3)):
        begin, wide = last, channels * source.randint(2, 4)
        stride = source.choice([1, 1, 2])
        if source.random() < 0.8:
            last = builder.add(_convolution(wide), last)
            last = builder.add(_convolution(wide, 3, stride, wide), last)
        else:
            last = builder.add(_convolution(wide, 3, stride), last)
        last = _gate(builder, source, last, wide)
        if stride == 1 and source.random() < 0.6:
            last = builder.add(_convolution(channels), last)
            last = builder.add(Elementwise(function="add"), last, begin)
        else:
            channels = source.randint(1, 3)
            last = builder.add(_convolution(channels), last)
    if source.random() < 0.3:
        last = builder.add(GlobalPooling(function="average"), last)
    builder.output(last)
    return builder.network()


def gated_block(thin, wide, size):
    """Return a block between thin tensors: expansion, a filter for each map, gate, projection."""
    builder = NetworkBuilder("gated block")
    last = builder.input((thin, size, size))
    last = builder.add(_convolution(wide), last)
    last = builder.add(_convolution(wide, 3, 1, wide), last)
    last = _gate(builder, Random(0), last, wide)
    builder.output(builder.add(_convolution(thin), last))
    return builder.network()
