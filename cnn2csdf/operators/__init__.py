"""Operators of layers: a class for each kind of operator, a module for each family.

A new operator is one class in one of these modules, its name here, and what reads and writes it.
"""

from cnn2csdf.geometry import Pair, Window
from cnn2csdf.operators.activations import ACTIVATIONS, Activation
from cnn2csdf.operators.choices import Choice, ExtremePlace, Ranking, RunningSum
from cnn2csdf.operators.convolutions import Convolution, TransposedConvolution
from cnn2csdf.operators.dynamic import (
    DynamicQuantization,
    DynamicRange,
    IntegerConvolution,
    IntegerProduct,
)
from cnn2csdf.operators.elementwise import ELEMENTWISE, REDUCTIONS, Elementwise, Reduction
from cnn2csdf.operators.ends import Conversion, Identity, Input, Output
from cnn2csdf.operators.moves import (
    ChannelShuffle,
    Concatenation,
    DepthToSpace,
    Reshape,
    Slice,
    SpaceToDepth,
    Transpose,
)
from cnn2csdf.operators.normalizations import (
    BatchNormalization,
    InstanceNormalization,
    LayerNormalization,
    LocalResponseNormalization,
    Softmax,
)
from cnn2csdf.operators.operator import Operator
from cnn2csdf.operators.poolings import GlobalPooling, Pooling
from cnn2csdf.operators.products import FullyConnected, MatrixProduct
from cnn2csdf.operators.quantized_cells import QuantizedLstm, QuantizedSvdf
from cnn2csdf.operators.recurrences import Recurrence
from cnn2csdf.operators.repetitions import (
    ConstantConcatenation,
    Gather,
    Repeat,
    TensorProduct,
)
from cnn2csdf.operators.resizes import Pad, Resize

POINTWISE = (BatchNormalization, LocalResponseNormalization, Activation, Identity)
"""Operators with one input that need one row of it, of the same shape, for each row they write."""
