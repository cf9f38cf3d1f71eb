"""Orders of layers against all topological orders."""

from dataclasses import replace
from itertools import permutations

from cnn2csdf.builder import NetworkBuilder
from cnn2csdf.operators import Convolution, Elementwise, Window
from csdf.errors import InvalidNetwork
from planners.reuse.application import Application
from planners.reuse.evaluation import Evaluator
from tests.planners.reuse.front.small_applications import alone, branched, pipelined, residual
from tests.reference import operator_order
from tests.reference.operator_order import in_best_order

POINT = Window(kernel=(1, 1))


def wide_branch():
    """A narrow branch of one layer, and one that is wide in its middle, stated after it."""
    build = NetworkBuilder("wide branch")
    build.input((1, 4, 4), name="in")
    build.add(Convolution(filters=8, window=POINT), "in", name="stem")
    build.add(Convolution(filters=6, window=POINT), "stem", name="large")
    build.add(Convolution(filters=1, window=POINT), "stem", name="narrow")
    build.add(Convolution(filters=20, window=POINT), "narrow", name="wide")
    build.add(Convolution(filters=6, window=POINT), "wide", name="back")
    build.add(Elementwise(function="add"), "large", "back", name="sum")
    build.output("sum", name="out")
    return build.network()


def whole_load(application):
    return Evaluator(application).plan((None,) * len(application.layers)).live_load


def orders(application):
    """Applications with every order of the layers of their first partition that is one."""
    member, *others = application.members
    first, *rest = member.partitions
    for layers in permutations(first.layers):
        try:
            changed = replace(member, partitions=(replace(first, layers=layers), *rest))
        except InvalidNetwork:
            continue
        yield replace(application, members=(changed, *others))


def test_an_order_as_good_as_any_stays():
    application = alone(wide_branch())
    # When `back` fires, 20 maps of 16 come in, 6 go out, and the 6 of `large` wait. If `large` fired
    # later, the 8 maps that it reads would wait.
    assert whole_load(application) == (20 + 6 + 6) * 16
    assert in_best_order(application) == application


def test_no_topological_order_needs_less():
    for application in (alone(branched()), alone(wide_branch()), alone(residual())):
        least = min(whole_load(other) for other in orders(application))
        for one in orders(application):
            assert whole_load(in_best_order(one)) == least


def test_cut_edges_count_where_they_wait():
    application = pipelined(branched(), 5)
    least = min(whole_load(other) for other in orders(application))
    assert whole_load(in_best_order(application)) == least


def test_a_beam_gives_an_order_of_the_same_layers(monkeypatch):
    monkeypatch.setattr(operator_order, "MOST_SETS", 1)
    application = alone(wide_branch())
    found = in_best_order(application)
    assert isinstance(found, Application)
    assert sorted(found.members[0].partitions[0].layers) == sorted(
        application.members[0].partitions[0].layers
    )
