"""Operators of layers: a class for each kind of operator, a module for each family.

A new operator is one class in one of these modules, its name here, and what reads and writes it.
"""

from cnn2csdf.geometry import Pair, Window
from cnn2csdf.operators.activations import ACTIVATIONS, Activation
from cnn2csdf.operators.elementwise import (
    ELEMENTWISE,
    REDUCTIONS,
    Choice,
    Elementwise,
    ExtremePlace,
    Ranking,
    Reduction,
    RunningSum,
)
from cnn2csdf.operators.moves import (
    ChannelShuffle,
    Concatenation,
    ConstantConcatenation,
    Conversion,
    DepthToSpace,
    Gather,
    Identity,
    Input,
    Output,
    Repeat,
    Reshape,
    Slice,
    SpaceToDepth,
    TensorProduct,
    Transpose,
    View,
)
from cnn2csdf.operators.normalizations import (
    BatchNormalization,
    InstanceNormalization,
    LayerNormalization,
    LocalResponseNormalization,
    Softmax,
)
from cnn2csdf.operators.operator import Operator
from cnn2csdf.operators.products import (
    DynamicQuantization,
    DynamicRange,
    FullyConnected,
    IntegerConvolution,
    IntegerProduct,
    MatrixProduct,
    StreamedProduct,
)
from cnn2csdf.operators.recurrences import QuantizedLstm, QuantizedSvdf, Recurrence
from cnn2csdf.operators.resizes import Pad, Resize
from cnn2csdf.operators.states import Next, Previous
from cnn2csdf.operators.windows import Convolution, GlobalPooling, Pooling, TransposedConvolution

POINTWISE = (BatchNormalization, LocalResponseNormalization, Activation, Identity)
"""Operators with one input that need one row of it, of the same shape, for each row they write."""
