"""Operators of layers: a class for each kind of operator, a module for each family."""

from cnn2csdf.geometry import Pair as Pair
from cnn2csdf.geometry import Window as Window
from cnn2csdf.operators.activations import *
from cnn2csdf.operators.detections import *
from cnn2csdf.operators.elementwise import *
from cnn2csdf.operators.embedding import *
from cnn2csdf.operators.hybrid import *
from cnn2csdf.operators.moves import *
from cnn2csdf.operators.normalizations import *
from cnn2csdf.operators.operator import *
from cnn2csdf.operators.products import *
from cnn2csdf.operators.recurrences import *
from cnn2csdf.operators.resizes import *
from cnn2csdf.operators.windows import *
