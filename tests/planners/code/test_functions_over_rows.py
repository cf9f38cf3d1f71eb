"""Functions over all rows whose results are wanted row by row: only those rows are written."""

import pytest

from cnn2csdf import operators as op
from cnn2csdf.builder import NetworkBuilder
from cnn2csdf.dtypes import Element
from cnn2csdf.weights import Model, random_weights
from planners.memory.fit import fit
from planners.plan.plan import Kind
from tests.planners.code.compiling import libraries, needs_compiler, run_all
from tests.planners.code.test_quantised_libraries import quantised
from tests.planners.code.test_single_precision_libraries import quantised as in_single

pytestmark = pytest.mark.slow

IN_INTEGERS = (op.Softmax(axis=1), op.Softmax(axis=0, last=2))
OVER_ROWS = (
    *IN_INTEGERS,
    op.Softmax(axis=1, is_logarithm=True),
    op.InstanceNormalization(),
    op.LayerNormalization(axis=0),
    op.RunningSum(axis=1),
    op.Ranking(axis=1, count=9, takes_largest=True, gives_places=False),
)


def between(operator):
    """The operator before a resize, which reads some rows of its result at a time."""
    builder = NetworkBuilder("between")
    last = builder.add(operator, builder.input((4, 9, 6)))
    last = builder.add(op.Resize(size=(5, 9), function="nearest"), last)
    builder.output(last)
    return builder.network()


def by_rows(model, element_bytes):
    """A plan in which the tensor before the resize has a line of fewer rows than there are."""
    name = model.network.layers[1].name
    for way in fit(model.network, element_bytes=element_bytes).methods:
        lines = [one for one in way.plan.buffers if one.tensor == name and one.kind is Kind.LINE]
        if lines and lines[0].rows < model.network.layers[1].shape.rows:
            return model, way.plan
    raise AssertionError("no plan with a line")


@needs_compiler
def test_a_function_over_all_rows_writes_the_rows_of_its_line(tmp_path):
    # once it wrote all rows at each firing: over other buffers, and beyond the arena
    real = [between(operator) for operator in OVER_ROWS]
    cases = [by_rows(Model(network=one, weights=random_weights(one, 0)), 4) for one in real]
    for operator in IN_INTEGERS:
        network = between(operator)
        cases.append(by_rows(quantised(network, 0), None))
        cases.append(by_rows(in_single(network, 0, Element.INT8), None))
    assert run_all(libraries(cases), tmp_path) == []
