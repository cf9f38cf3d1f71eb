"""Ctrl-C while the buffers of one block are searched."""

import pytest

import planners
from cnn2csdf.catalogue.networks import from_catalogue
from csdf.time_limit import Stop
from planners.reuse import storage
from planners.reuse.edge_buffers import best_shared
from planners.reuse.evaluation import Costs, Evaluator


def interrupted(_):
    raise KeyboardInterrupt


def test_an_interrupt_in_the_search_of_a_block_is_not_taken_for_its_answer(monkeypatch):
    # The two paths of a residual block are a block whose buffers are searched. The search of storage
    # answers an interrupt with what it has; the planner around it must end all the same.
    search = storage.smallest_storage
    monkeypatch.setattr(
        storage,
        "smallest_storage",
        lambda graph, choice, budget: search(graph, choice, budget=Stop(report=interrupted)),
    )
    application = planners.Application(
        name="one", members=(planners.single_partition(from_catalogue("resnet8")),)
    )
    evaluator = Evaluator(application, Costs(), share=best_shared)
    with pytest.raises(KeyboardInterrupt):
        evaluator.evaluate((2,) * len(application.layers))
