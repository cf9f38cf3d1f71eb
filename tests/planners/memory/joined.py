"""Small random networks of concatenations: nested, of the same tensors again, of slices, of rows."""

from random import Random

from cnn2csdf import operators as op
from cnn2csdf.builder import NetworkBuilder
from cnn2csdf.weights import Model, random_weights


def _window(kernel, stride=1):
    return op.Window(kernel=(kernel, kernel), stride=(stride, stride), padding=(kernel // 2,) * 4)


class Drawing:
    """Blocks drawn from one seed."""

    def __init__(self, seed, *, shape=None):
        self.source = Random(seed)
        self.builder = NetworkBuilder("joined")
        sizes = shape or (self.source.randint(1, 3), *self.source.choices(range(4, 9), k=2))
        self.last = self.builder.input(sizes)
        self.convolve()

    def convolved(self, source, kernel=None, filters=None):
        kernel = kernel or self.source.choice([1, 1, 3])
        groups = 1
        if not filters and self.source.random() < 0.2:
            groups = filters = self.builder.shape(source).channels
        filters = filters or self.source.randint(1, 5)
        operator = op.Convolution(filters=filters, window=_window(kernel), groups=groups)
        epilogue = (op.Activation(function="relu"),) if self.source.random() < 0.4 else ()
        return self.builder.add(operator, source, epilogue=epilogue)

    def convolve(self):
        self.last = self.convolved(self.last)

    def joined(self, *sources, axis=0):
        return self.builder.add(op.Concatenation(axis=axis), *sources)

    def dense(self):
        """Each layer reads all before it: a concatenation of the one before and one new tensor."""
        for _ in range(self.source.randint(1, 3)):
            new = self.convolved(self.convolved(self.last, 1), 3)
            self.last = self.joined(self.last, new)

    def listed(self):
        """The same, with a concatenation of all tensors again each time."""
        parts = [self.last]
        for _ in range(self.source.randint(1, 3)):
            parts.append(self.convolved(parts[-1] if len(parts) == 1 else self.joined(*parts)))
        self.last = self.joined(*parts)

    def inception(self):
        """Branches of one tensor, among which may be the tensor itself, or a branch of a branch."""
        parts = [self.convolved(self.last) for _ in range(self.source.randint(1, 3))]
        parts.append(self.convolved(parts[0]))
        pool = op.Pooling(function="max", window=_window(3))
        parts.append(self.builder.add(pool, self.source.choice([self.last, *parts])))
        if self.source.random() < 0.3:
            parts.append(self.last)
        self.source.shuffle(parts)
        self.last = self.joined(*parts)

    def split(self):
        """Slices of one tensor beside what is computed from one of them."""
        whole = self.convolved(self.last, filters=self.source.choice([2, 4, 6]))
        half = self.builder.shape(whole).channels // 2
        ends = (0, half), (half, self.builder.shape(whole).channels)
        parts = [self.builder.add(op.Slice(axis=0, start=a, stop=b), whole) for a, b in ends]
        inner = self.convolved(parts[-1], filters=self.builder.shape(parts[-1]).channels)
        if self.source.random() < 0.5:
            inner = self.builder.add(op.Elementwise(function="add"), inner, parts[-1])
        self.last = self.joined(*parts, inner)

    def stacked(self):
        """Rows below rows, or columns beside columns."""
        axis = self.source.choice([1, 2])
        filters = self.source.randint(1, 3)
        parts = [self.convolved(self.last, 1, filters) for _ in range(2)]
        channels = {self.builder.shape(part).channels for part in parts}
        if len(channels) == 1 and self.builder.shape(self.last).elements < 400:
            self.last = self.joined(*parts, axis=axis)

    def unet(self):
        """A tensor that waits for one computed from a smaller one."""
        skip, shape = self.last, self.builder.shape(self.last)
        pool = op.Pooling(function="average", window=op.Window(kernel=(2, 2), stride=(2, 2)))
        low = self.convolved(self.builder.add(pool, self.last))
        size = shape.height, shape.width
        up = self.builder.add(op.Resize(size=size, function="nearest"), low)
        self.last = self.joined(*self.source.sample([skip, up], 2))

    def twice(self):
        """A tensor in two concatenations, at different places."""
        first, second = self.convolved(self.last), self.convolved(self.last)
        one = self.convolved(self.joined(first, second))
        self.last = self.joined(one, first, self.convolved(self.joined(second, first)))

    def vectors(self):
        """Vectors one behind the other, at the end."""
        pooled = [
            self.builder.add(op.GlobalPooling(function="average"), self.convolved(self.last))
            for _ in range(2)
        ]
        units = [self.builder.add(op.FullyConnected(units=3), one) for one in pooled]
        joined = self.builder.add(op.Concatenation(axis=0), *units)
        self.last = self.builder.add(op.FullyConnected(units=2), joined)


BLOCKS = ("dense", "listed", "inception", "split", "stacked", "unet", "twice")


def joined_network(seed, *, blocks=None, shape=None):
    """Return some blocks behind one another, and an output."""
    drawing = Drawing(seed, shape=shape)
    for name in blocks or drawing.source.choices(BLOCKS, k=drawing.source.randint(1, 3)):
        getattr(drawing, name)()
    if not blocks and drawing.source.random() < 0.3:
        drawing.vectors()
    elif drawing.source.random() < 0.6:
        drawing.convolve()
    drawing.builder.output(drawing.last)
    if drawing.source.random() < 0.2:
        drawing.builder.output(drawing.source.choice(drawing.builder.network().layers[1:-1]).name)
    return drawing.builder.network()


def joined_model(seed, **options):
    """Return such a network with weights."""
    network = joined_network(seed, **options)
    return Model(network=network, weights=random_weights(network, seed))
