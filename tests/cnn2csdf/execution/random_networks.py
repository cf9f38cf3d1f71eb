"""Random small networks with branches, for runs by parts."""

from hypothesis import strategies as st

from cnn2csdf.builder import NetworkBuilder
from cnn2csdf.operators import (
    Activation,
    BatchNormalization,
    Concatenation,
    Convolution,
    DepthToSpace,
    Elementwise,
    FullyConnected,
    GlobalPooling,
    Pad,
    Pooling,
    Resize,
    Slice,
    Softmax,
    SpaceToDepth,
    TransposedConvolution,
    Window,
)
from cnn2csdf.weights import Model, random_weights
from csdf.errors import InvalidNetwork


@st.composite
def windows(draw):
    pads = st.integers(-1, 3)
    return Window(
        kernel=(draw(st.integers(1, 5)), draw(st.integers(1, 3))),
        stride=(draw(st.integers(1, 3)), draw(st.integers(1, 3))),
        dilation=(draw(st.integers(1, 2)), 1),
        padding=draw(st.tuples(pads, pads, pads, pads)),
    )


@st.composite
def filled_windows(draw):
    """Windows that each cover something: the largest element of nothing is no number."""
    kernel = (draw(st.integers(1, 5)), draw(st.integers(1, 3)))
    pads = (st.integers(0, size - 1) for size in (*kernel, *kernel))
    return Window(
        kernel=kernel,
        stride=(draw(st.integers(1, 3)), draw(st.integers(1, 3))),
        padding=draw(st.tuples(*pads)),
    )


@st.composite
def operators(draw):
    """Draw an operator of one input."""
    return draw(
        st.one_of(
            st.builds(Convolution, filters=st.integers(1, 4), window=windows()),
            st.builds(
                Pooling,
                function=st.sampled_from(["max", "average"]),
                window=filled_windows(),
                counts_padding=st.booleans(),
            ),
            st.builds(
                TransposedConvolution,
                filters=st.integers(1, 3),
                window=st.builds(Window, kernel=st.just((3, 3)), stride=st.just((2, 2))),
            ),
            st.sampled_from([
                Activation(function="relu"),
                BatchNormalization(),
                Resize(size=(9, 6), function="linear", coordinates="half pixel"),
                Resize(size=(12, 5), function="nearest"),
                Pad(padding=(2, 1, 0, 1), mode="edge"),
                Pad(padding=(-1, 0, 2, 1)),
                Slice(axis=1, start=1, stop=90, step=2),
                SpaceToDepth(block=2),
                DepthToSpace(block=2),
                Softmax(axis=0),
            ]),
        )
    )  # fmt: skip


@st.composite
def models(draw, *, layers=6):
    """Layers that read any earlier tensor; pairs that fit are added or concatenated."""
    builder = NetworkBuilder("random")
    names = [builder.input((draw(st.integers(1, 4)), draw(st.integers(4, 12)), 8))]
    for _ in range(draw(st.integers(1, layers))):
        names += _added(builder, draw(operators()), draw(st.sampled_from(names[-3:])))
        pair = draw(st.tuples(st.sampled_from(names), st.sampled_from(names)))
        if draw(st.booleans()):
            names += _added(builder, Elementwise(function="add"), *pair)
        elif draw(st.booleans()):
            names += _added(builder, Concatenation(axis=draw(st.integers(0, 2))), *pair)
    if draw(st.booleans()):
        names += _added(builder, GlobalPooling(function="average"), names[-1])
        names += _added(builder, FullyConnected(units=3), names[-1])
    return finished(builder, draw(st.integers(0, 99)))


def _added(builder, operator, *sources):
    """The layer's name, or nothing where the operator does not fit or gives a large tensor."""
    trial = NetworkBuilder()
    copies = [
        trial.input(builder.shape(source).dims, name=str(i)) for i, source in enumerate(sources)
    ]
    try:
        trial_name = trial.add(operator, *copies)
    except InvalidNetwork:
        return []
    if trial.shape(trial_name).elements > 3_000:
        return []
    return [builder.add(operator, *sources)]


def finished(builder, seed):
    """The model, with an output for every tensor that nothing reads."""
    network = builder.network()
    for name, consumers in network.consumers.items():
        if not consumers:
            builder.output(name)
    network = builder.network()
    return Model(network=network, weights=random_weights(network, seed))
