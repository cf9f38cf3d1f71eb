"""Rules of other planners, on graphs whose bytes are counted by hand."""

from planners.arena.problem import Buffer
from planners.order.problem import OrderProblem, Step, peak_of
from tests.benchmarks.bench_orders import arena_by_size, pytorch_orders


def buffer(name, size, start, end):
    return Buffer(name=name, size=size, start=start, end=end)


def test_largest_first_takes_the_first_gap_or_the_smallest():
    # At time 0 the first five are stacked: a [0, 10), b [10, 19), c [19, 27), d [27, 34), e [34, 40).
    # At time 2 b and d are dead, which leaves gaps of 9 and 7 bytes. First gap: 5 + 4 in 9, 4 + 3 in 7.
    # Smallest gap: 5 in 7, 4 + 4 in 9; then 3 is above all.
    stacked = [buffer("a", 10, 0, 4), buffer("b", 9, 0, 1), buffer("c", 8, 0, 4)]
    stacked += [buffer("d", 7, 0, 1), buffer("e", 6, 0, 4)]
    late = [buffer(f"late{k}", size, 2, 3) for k, size in enumerate((5, 4, 4, 3))]
    assert arena_by_size([*stacked, *late], is_best_fit=False) == 40
    assert arena_by_size([*stacked, *late], is_best_fit=True) == 43


def test_orders_are_topological_and_depth_first_saves_bytes():
    sizes = {"x": 1, "wide0": 10, "wide1": 10, "small0": 1, "small1": 1, "sum": 1}
    steps = [Step(name=f"widen{k}", reads=("x",), writes=(f"wide{k}",)) for k in range(2)]
    steps += [Step(name=f"shrink{k}", reads=(f"wide{k}",), writes=(f"small{k}",)) for k in range(2)]
    steps.append(Step(name="add", reads=("small0", "small1"), writes=("sum",)))
    graph = OrderProblem(name="branches", sizes=sizes, steps=tuple(steps), outputs=("sum",))
    peaks = [peak_of(graph, order) for order in pytorch_orders(graph, [s.name for s in steps])]
    # Both wide maps together: 21 while the second is written, 21 when the first is shrunk. One branch
    # after the other: x, small0 and wide1, and small1 where x is dead: 12.
    assert peaks == [12, 21, 12]
