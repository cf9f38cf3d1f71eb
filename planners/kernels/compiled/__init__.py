"""The kernels as machine code: of each module of planners.kernels its twin, from the same text.

Beside this file stand the C types of what the texts name; the modules are built with the package, or
in place by `python setup.py build_ext --inplace`.
"""
