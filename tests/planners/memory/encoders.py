"""Transformers as files write them: matrices of tokens, cut into heads and turned."""

from dataclasses import dataclass

from cnn2csdf import operators as op
from cnn2csdf.builder import NetworkBuilder
from cnn2csdf.simplify import simplified
from cnn2csdf.weights import Model, random_weights


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """Tokens, their width, heads and the width of the hidden layer."""

    tokens: int
    width: int
    heads: int
    hidden: int

    @property
    def keys_and_values_kept(self):
        """Elements of a block: tokens, keys, values, and the largest need of one token."""
        row = max(2 * self.width + self.tokens, self.width + self.hidden)
        return 3 * self.tokens * self.width + row

    @property
    def head_by_head(self):
        """Elements of a block: tokens, results, keys and values of a head, and of a token its row."""
        head = self.width // self.heads
        row = self.width + head + self.tokens
        return 2 * self.tokens * (self.width + head) + row


def attention(build, normal, dims, heads, *, is_fused=False):
    """The heads of attention over the tokens of a tensor, side by side again."""
    *batch, tokens, width = dims
    rank = len(batch)
    split = (*dims[:-1], heads, width // heads)
    turned = (*range(rank), rank + 1, rank, rank + 2)

    def projected(tensor):
        return build.add(
            op.Elementwise(function="add", constant=(width,)),
            build.add(op.MatrixProduct(units=width), tensor),
        )

    def by_heads(tensor):
        cut = build.add(op.Reshape(dims=split), tensor)
        return build.add(op.Transpose(permutation=turned), cut)

    if is_fused:  # the matrices of queries, keys and values are one, as in timm
        product = build.add(op.MatrixProduct(units=3 * width), normal)
        every = build.add(op.Elementwise(function="add", constant=(3 * width,)), product)
        every = build.add(op.Conversion(), every)  # in place of those around moves of integers
        cut = build.add(op.Reshape(dims=(tokens, 3, *split[1:])), every)
        every = build.add(op.Transpose(permutation=(1, 2, 0, 3)), cut)
        parts = (build.add(op.Slice(axis=0, start=one, stop=one + 1), every) for one in range(3))
        dims_of_heads = (heads, tokens, width // heads)
        query, key, value = (build.add(op.Reshape(dims=dims_of_heads), one) for one in parts)
    else:
        query, key, value = (by_heads(projected(normal)) for _ in range(3))
    last = (*range(rank + 1), rank + 2, rank + 1)
    scores = build.add(op.MatrixProduct(), query, build.add(op.Transpose(permutation=last), key))
    scaled = build.add(op.Elementwise(function="multiply", constant=()), scores)
    shares = build.add(op.Softmax(axis=rank + 2), scaled)
    mixed = build.add(op.MatrixProduct(), shares, value)
    joined = build.add(
        op.Reshape(dims=tuple(dims)), build.add(op.Transpose(permutation=turned), mixed)
    )
    return projected(joined)


def block(build, source, dims, sizes, **options):
    """A block of an encoder that normalises first."""
    last = len(dims) - 1
    normal = build.add(op.LayerNormalization(axis=last), source)
    mixed = attention(build, normal, dims, sizes.heads, **options)
    between = build.add(op.Elementwise(function="add"), source, mixed)
    normal = build.add(op.LayerNormalization(axis=last), between)
    hidden = build.add(op.MatrixProduct(units=sizes.hidden), normal)
    hidden = build.add(op.Activation(function="gelu"), hidden)
    result = build.add(op.MatrixProduct(units=sizes.width), hidden)
    return build.add(op.Elementwise(function="add"), between, result)


def encoder(sizes, blocks=1, **options):
    """The model of an encoder as a file has it."""
    build = NetworkBuilder("encoder")
    dims = (sizes.tokens, sizes.width)
    source = build.input(dims)
    for _ in range(blocks):
        source = block(build, source, dims, sizes, **options)
    build.output(source)
    return with_weights(build)


def vision(sizes, *, size, patch, blocks=1, classes=10):
    """The model of a vision transformer: patches, a token of the class, positions, a classifier."""
    build = NetworkBuilder("vision")
    image = build.input((3, size, size))
    window = op.Window(kernel=(patch, patch), stride=(patch, patch))
    maps = build.add(op.Convolution(filters=sizes.width, window=window), image)
    places = (size // patch) ** 2
    flat = build.add(op.Reshape(dims=(sizes.width, places)), maps)
    tokens = build.add(op.Transpose(permutation=(1, 0)), flat)
    first = ((0, (1, sizes.width)),)
    tokens = build.add(op.ConstantConcatenation(constants=first, axis=0), tokens)
    dims = (places + 1, sizes.width)
    tokens = build.add(op.Elementwise(function="add", constant=dims), tokens)
    for _ in range(blocks):
        tokens = block(build, tokens, dims, sizes, is_fused=True)
    normal = build.add(op.LayerNormalization(axis=1), tokens)
    of_class = build.add(op.Gather(axis=0, places=(0,)), normal)
    build.output(build.add(op.FullyConnected(units=classes), of_class))
    return with_weights(build)


def mixture(sizes, *, size, channels):
    """The model of a block of MobileViT: convolutions, attention among places apart, a skip."""
    build = NetworkBuilder("mixture")
    image = build.input((channels, size, size))
    near = op.Window(kernel=(3, 3), padding=(1, 1, 1, 1))
    maps = build.add(op.Convolution(filters=channels, window=near), image)
    maps = build.add(op.Convolution(filters=sizes.width, window=op.Window(kernel=(1, 1))), maps)
    half = size // 2
    cut = build.add(op.Reshape(dims=(sizes.width, half, 2, half, 2)), maps)
    turned = build.add(op.Transpose(permutation=(2, 4, 1, 3, 0)), cut)
    dims = (4, half * half, sizes.width)
    tokens = block(build, build.add(op.Reshape(dims=dims), turned), dims, sizes)
    cut = build.add(op.Reshape(dims=(2, 2, half, half, sizes.width)), tokens)
    turned = build.add(op.Transpose(permutation=(4, 2, 0, 3, 1)), cut)
    maps = build.add(op.Reshape(dims=(sizes.width, size, size)), turned)
    maps = build.add(op.Convolution(filters=channels, window=op.Window(kernel=(1, 1))), maps)
    both = build.add(op.Concatenation(axis=0), image, maps)
    build.output(build.add(op.Convolution(filters=channels, window=near), both))
    return with_weights(build)


def with_weights(build):
    """The network of a builder with random weights."""
    network = build.network()
    return Model(network=network, weights=random_weights(network, 3))


def by_rows(model):
    """The model with its tokens as rows."""
    return simplified(model)
