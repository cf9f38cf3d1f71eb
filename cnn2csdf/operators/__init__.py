"""Operators of layers: a class for each kind of operator, a module for each family.

It takes a class in one of these modules, its name here, and readers and writers to add one.
"""

from cnn2csdf.geometry import Pair as Pair
from cnn2csdf.geometry import Window as Window
from cnn2csdf.operators.activations import ACTIVATIONS as ACTIVATIONS
from cnn2csdf.operators.activations import Activation as Activation
from cnn2csdf.operators.detections import Detections as Detections
from cnn2csdf.operators.einsum import TensorProduct as TensorProduct
from cnn2csdf.operators.elementwise import ELEMENTWISE as ELEMENTWISE
from cnn2csdf.operators.elementwise import REDUCTIONS as REDUCTIONS
from cnn2csdf.operators.elementwise import Choice as Choice
from cnn2csdf.operators.elementwise import Elementwise as Elementwise
from cnn2csdf.operators.elementwise import ExtremePlace as ExtremePlace
from cnn2csdf.operators.elementwise import Ranking as Ranking
from cnn2csdf.operators.elementwise import Reduction as Reduction
from cnn2csdf.operators.elementwise import RunningSum as RunningSum
from cnn2csdf.operators.embedding import Embedding as Embedding
from cnn2csdf.operators.hybrid import HybridProduct as HybridProduct
from cnn2csdf.operators.moves import ChannelShuffle as ChannelShuffle
from cnn2csdf.operators.moves import Concatenation as Concatenation
from cnn2csdf.operators.moves import ConstantConcatenation as ConstantConcatenation
from cnn2csdf.operators.moves import Conversion as Conversion
from cnn2csdf.operators.moves import DepthToSpace as DepthToSpace
from cnn2csdf.operators.moves import Gather as Gather
from cnn2csdf.operators.moves import GatherPoints as GatherPoints
from cnn2csdf.operators.moves import Identity as Identity
from cnn2csdf.operators.moves import Input as Input
from cnn2csdf.operators.moves import Output as Output
from cnn2csdf.operators.moves import PlaceOrder as PlaceOrder
from cnn2csdf.operators.moves import Repeat as Repeat
from cnn2csdf.operators.moves import Reshape as Reshape
from cnn2csdf.operators.moves import Slice as Slice
from cnn2csdf.operators.moves import SpaceToDepth as SpaceToDepth
from cnn2csdf.operators.moves import Transpose as Transpose
from cnn2csdf.operators.moves import View as View
from cnn2csdf.operators.normalizations import BatchNormalization as BatchNormalization
from cnn2csdf.operators.normalizations import InstanceNormalization as InstanceNormalization
from cnn2csdf.operators.normalizations import LayerNormalization as LayerNormalization
from cnn2csdf.operators.normalizations import (
    LocalResponseNormalization as LocalResponseNormalization,
)
from cnn2csdf.operators.normalizations import Softmax as Softmax
from cnn2csdf.operators.normalizations import UnitLength as UnitLength
from cnn2csdf.operators.operator import Operator as Operator
from cnn2csdf.operators.operator import Pointwise as Pointwise
from cnn2csdf.operators.products import AttentionProduct as AttentionProduct
from cnn2csdf.operators.products import DynamicQuantization as DynamicQuantization
from cnn2csdf.operators.products import DynamicRange as DynamicRange
from cnn2csdf.operators.products import FullyConnected as FullyConnected
from cnn2csdf.operators.products import IntegerConvolution as IntegerConvolution
from cnn2csdf.operators.products import IntegerProduct as IntegerProduct
from cnn2csdf.operators.products import MatrixProduct as MatrixProduct
from cnn2csdf.operators.products import StreamedProduct as StreamedProduct
from cnn2csdf.operators.recurrences import QuantizedLstm as QuantizedLstm
from cnn2csdf.operators.recurrences import QuantizedSvdf as QuantizedSvdf
from cnn2csdf.operators.recurrences import Recurrence as Recurrence
from cnn2csdf.operators.resizes import Pad as Pad
from cnn2csdf.operators.resizes import Resize as Resize
from cnn2csdf.operators.resizes import padding_steps as padding_steps
from cnn2csdf.operators.states import Next as Next
from cnn2csdf.operators.states import Previous as Previous
from cnn2csdf.operators.unpooling import PlaceOfMaximum as PlaceOfMaximum
from cnn2csdf.operators.unpooling import Unpooling as Unpooling
from cnn2csdf.operators.windows import Convolution as Convolution
from cnn2csdf.operators.windows import GlobalPooling as GlobalPooling
from cnn2csdf.operators.windows import Pooling as Pooling
from cnn2csdf.operators.windows import TransposedConvolution as TransposedConvolution
