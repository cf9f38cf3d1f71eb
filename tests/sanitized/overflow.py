"""A kernel that is given what it must never be given: a product of 2^62 and 4, or an index outside."""

import sys

from csdf.kernels import compile as compiler
from csdf.kernels import cycles

weights, least = {"fitting": (2, 5), "product": (2**62, 4), "index": (1, 1)}[sys.argv[1]]
backend = compiler.COMPILED
array = backend.array
demands = backend.kernel(cycles.Demands)(
    array([weights]), array([1]), array([least]), array([1]), backend.blank
)
count = 2 if sys.argv[1] == "index" else 1  # there is one demand
print(backend.kernel(cycles.meeting_cost)(demands, array([0]), count))
