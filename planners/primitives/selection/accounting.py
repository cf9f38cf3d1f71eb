"""Memory as TASO prints it: what its formulas 9 and 15 count, in the candidates of a problem.

Source: Wen, Anderson, Radu, O'Boyle and Gregg, TASO: Time and Space Optimization for
Memory-Constrained DNN Inference, SBAC-PAD 2020, sections 4.3 to 4.5.
"""

from __future__ import annotations

from dataclasses import replace

from cnn2csdf.network import Network
from planners.primitives.library.convolution import ELEMENT_BYTES
from planners.primitives.profile import LAYER, LayerProfile
from planners.primitives.selection.objective import Link, Objective
from planners.primitives.selection.problem import SelectionProblem


def as_published(
    problem: SelectionProblem, network: Network, objective: Objective
) -> SelectionProblem:
    """Return the problem in which only convolutions need memory, as in the published formulas.

    A change of layout takes time and no memory: "the input and output buffers can be used in
    place". Formula 9, for the whole network, counts scratch and weights of each convolution.
    Formula 15, for one workspace, counts its input, output, weights and scratch; the workspace of a
    candidate is then all of these. Times are not touched.
    """
    maps = [0] * len(problem.layers)
    if objective is Objective.WORKSPACE:
        maps = [_map_bytes(network, name) for name in problem.layers]
    return replace(
        problem,
        candidates=tuple(
            tuple(_counted(one, objective, size) for one in candidates)
            for candidates, size in zip(problem.candidates, maps, strict=True)
        ),
        links=tuple(map(_in_place, problem.links)),
    )


def _map_bytes(network: Network, name: str) -> int:
    """Bytes of the input and the output of a layer."""
    layer = network.layer(name)
    elements = sum(shape.elements for shape in network.input_shapes(layer)) + layer.shape.elements
    return elements * ELEMENT_BYTES


def _counted(one: LayerProfile, objective: Objective, map_bytes: int) -> LayerProfile:
    if one.primitive == LAYER:
        return replace(one, workspace_bytes=0, parameter_bytes=0)
    if objective is Objective.NETWORK:
        return one
    return replace(one, workspace_bytes=map_bytes + one.workspace_bytes + one.parameter_bytes)


def _in_place(link: Link) -> Link:
    changes = tuple(replace(one, workspace_bytes=0) for one in link.changes)
    return replace(link, map_bytes=0, changes=changes)
