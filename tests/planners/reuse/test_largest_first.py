"""Sharing of whole buffers, the largest edges first."""

from random import Random

from figures.published.reuse_example import worked_example
from planners.published.todaes import as_published
from planners.reuse.command.main import command_parser
from planners.reuse.edge_buffers import best_shared, overlaps, shared_buffers
from planners.reuse.evaluation import Evaluator
from tests.planners.reuse.front.small_applications import all_genes, alone, residual
from tests.planners.reuse.reuse_checkers import clashes


def random_edges(random, count):
    first = [random.randrange(20) for _ in range(count)]
    last = [start + random.randrange(8) for start in first]
    sizes = [random.randint(1, 30) for _ in range(count)]
    return sizes, overlaps(first, last, [1 << edge for edge in range(count)])


def total(buffers):
    return sum(buffer.size for buffer in buffers)


def test_a_small_edge_does_not_open_what_a_large_one_could_use():
    # Edge 0 (1 element) meets edge 1 (10), edge 1 meets edge 2 (9), and edge 2 meets edge 3 (1):
    # in their order 0 and 2 share a buffer of 9 that began with 1, and 1 and 3 one of 10.
    # Edge 4 (10) meets all but edge 1: largest first it joins edge 1, and 2 takes 9, 0 joins 2, and 3
    # meets 2 and 4: 10 + 9 + 1.
    meets = {0: (1, 4), 1: (0, 2), 2: (1, 3, 4), 3: (2, 4), 4: (0, 2, 3)}
    conflicts = [sum(1 << other for other in meets[edge]) for edge in range(5)]
    found = shared_buffers([1, 10, 9, 1, 10], conflicts, largest_first=True)
    assert [(buffer.size, buffer.edges) for buffer in found] == [
        (10, (1, 4)),
        (9, (0, 2)),
        (1, (3,)),
    ]
    # Algorithm 8: (0, 2) 9; (1, 3) 10; 4 meets 0 and 3 and opens a third one of 10.
    assert total(shared_buffers([1, 10, 9, 1, 10], conflicts)) == 29


def test_every_edge_has_a_buffer_as_large_as_its_largest_and_to_itself():
    random = Random(1)
    for _ in range(200):
        sizes, conflicts = random_edges(random, random.randint(1, 15))
        found = shared_buffers(sizes, conflicts, largest_first=True)
        assert sorted(edge for one in found for edge in one.edges) == list(range(len(sizes)))
        for one in found:
            assert one.size == max(sizes[edge] for edge in one.edges)
            for edge in one.edges:
                assert not any(conflicts[edge] >> other & 1 for other in one.edges if other != edge)


def test_the_best_is_never_above_algorithm_8():
    random = Random(2)
    for _ in range(200):
        sizes, conflicts = random_edges(random, random.randint(1, 15))
        assert total(best_shared(sizes, conflicts)) <= total(shared_buffers(sizes, conflicts))


def test_plans_in_the_best_order_have_no_clash_and_cost_what_was_evaluated():
    application = worked_example()
    evaluator = Evaluator(as_published(application), share=best_shared)
    layers = len(application.layers)
    random = Random(3)
    for _ in range(20):
        genes = tuple(random.choices((None, 1, 4), k=layers))
        plan = evaluator.plan(genes)
        assert not clashes(plan, [{1, 2}])
        assert plan.elements * 4 == evaluator.evaluate(genes)[0] - evaluator.weights
        assert plan.elements >= plan.live_load


def test_the_order_of_edges_changes_memory_and_no_period():
    application = alone(residual())
    best, published = (
        Evaluator(application, share=best_shared),
        Evaluator(application),
    )
    for genes in all_genes(application):
        ours, theirs = best.evaluate(genes), published.evaluate(genes)
        assert ours[0] <= theirs[0]
        assert ours[1:] == theirs[1:]


def test_help_says_that_the_two_methods_count_whole_buffers_differently():
    text = " ".join(command_parser().format_help().split())
    assert "the smaller of Algorithm 8's and those shared largest first" in text
    assert "whole buffers are Algorithm 8's" in text
