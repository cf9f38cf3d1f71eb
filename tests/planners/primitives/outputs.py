"""How far the outputs of two runs are apart."""

from cnn2csdf.execution.compare import differences, worst_of


def largest_difference(outputs, expected):
    """Largest difference of the outputs of a frame, relative to the largest expected element."""
    return worst_of(differences([outputs], [expected])).relative
