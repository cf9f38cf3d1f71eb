"""Max-plus matrix of a graph or a scenario, with its eigenvalue, an eigenvector and its projector.

The matrix maps the times of the initial tokens of an iteration to the times of the tokens after it:
x'[i] = max over j of (x[j] + A[i][j]). The largest eigenvalue is the period; the matrix of a strongly
connected graph has only this eigenvalue.

Source: Baccelli, Cohen, Olsder, Quadrat, Synchronization and linearity, Wiley 1992, sections 3.2 and
3.7 (spectral projectors).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import lcm

from csdf.analysis.components import strong_components
from csdf.arguments import public
from csdf.errors import CsdfError, Deadlocked, InvalidArgument
from csdf.model.graph import Graph
from csdf.scenarios.model import Scenario
from csdf.scenarios.throughput import (
    StuckScenario,
    WeightedEdge,
    maximum_cycle_ratio,
    scenario_matrix,
)
from csdf.time_limit import Budget, Stop, stop_of

Vector = Mapping[str, Fraction]


@dataclass(frozen=True, slots=True, kw_only=True)
class MaxPlusMatrix:
    """Max-plus matrix of one iteration, in time units; a missing entry is minus infinity.

    rows: for each token after the iteration, its delays by initial token. `channel[0]` is the first
    token in the queue of a channel, `channel (space)[0]` the first free position of a channel with a
    capacity. `actor (order)` is the start of the latest firing of an actor whose firings may overlap.
    eigenvalue: the largest cycle mean; None if the matrix has no cycle. eigenvector: A x = x +
    eigenvalue; tokens with minus infinity are missing. critical: the tokens of a critical cycle, in
    order.
    """

    rows: Mapping[str, Vector]
    eigenvalue: Fraction | None
    eigenvector: Vector
    critical: tuple[str, ...]

    @property
    def tokens(self) -> tuple[str, ...]:
        """The tokens of the rows, in order."""
        return tuple(self.rows)

    def times(self, vector: Vector) -> Vector:
        """Return the product with a vector: the times of the tokens one iteration later.

        Raises CsdfError for a name that is no token of the matrix.
        """
        unknown = (
            vector.keys() - self.rows.keys() - {old for row in self.rows.values() for old in row}
        )
        if unknown:
            raise CsdfError(f"{min(unknown)!r} is no token of the matrix; see `tokens`")
        product = {}
        for token, row in self.rows.items():
            sums = [vector[old] + time for old, time in row.items() if old in vector]
            if sums:
                product[token] = max(sums)
        return product

    def spectral_projector(self, *, budget: Budget = None) -> Mapping[str, Vector]:
        """Return the rows of the spectral projector Q: A Q = Q A = Q + eigenvalue, and Q Q = Q.

        Each column of Q is an eigenvector, and Q times the times of the tokens now is the periodic
        regime that follows: A^k = Q + k * eigenvalue from some k on, where the matrix is irreducible
        and its critical graph has cyclicity 1. Q is the maximum, over one token of each strongly
        connected component of the critical graph, of the longest path to the token plus the longest
        path from the token, each entry shortened by the eigenvalue. Without a cycle Q is empty.
        Raises GaveUp where the budget, a stop or seconds, ends the computation.
        """
        if self.eigenvalue is None:
            return {}
        stop = stop_of(budget)
        # A common denominator keeps the Bellman-Ford sums in integers.
        scale = lcm(*(time.denominator for row in self.rows.values() for time in row.values()))
        edges = _edges(self.rows, scale)
        mean = self.eigenvalue * scale
        numbers = range(len(self.rows))
        reversed_edges = [edge._replace(source=edge.target, target=edge.source) for edge in edges]
        projector: dict[int, dict[int, Fraction]] = {number: {} for number in numbers}
        # One root of each critical component is enough: within it all columns are multiples (max-
        # plus) of one another.
        for root in _critical_roots(len(self.rows), edges, mean, stop):
            after = _longest_paths([root], edges, mean, stop)
            before = _longest_paths([root], reversed_edges, mean, stop)
            for new, path in after.items():
                row = projector[new]
                for old, earlier in before.items():
                    row[old] = max(path + earlier, row.get(old, path + earlier))
        tokens = self.tokens
        return {
            tokens[new]: {tokens[old]: time / scale for old, time in sorted(row.items())}
            for new, row in projector.items()
        }


@public
def matrix(graph: Graph | Scenario, *, budget: Budget = None) -> MaxPlusMatrix:
    """Return the max-plus matrix of one iteration of a graph, or of a scenario.

    It has a row for each initial token, and for each free position of a channel with a capacity.
    Raises InconsistentGraph; Deadlocked if the iteration deadlocks; GaveUp if the budget, a stop or
    seconds, ends the analysis. Source: Geilen, Stuijk, CODES+ISSS 2010, for the symbolic execution.
    """
    if not isinstance(graph, Graph | Scenario):
        raise InvalidArgument(f"graph: expected a Graph or a Scenario; found {graph!r}")
    scenario = graph if isinstance(graph, Scenario) else Scenario(name=graph.name, graph=graph)
    stop = stop_of(budget)
    scale = scenario.graph.time_unit.denominator
    try:
        stamps = scenario_matrix(scenario, scale, stop).rows
    except StuckScenario as stuck:
        raise Deadlocked(str(stuck)) from None
    rows = {
        new: {old: Fraction(time, scale) for old, time in row.items()}
        for new, row in stamps.items()
    }
    edges = _edges(rows, scale)
    cycle = maximum_cycle_ratio(len(rows), edges, stop)
    if cycle is None:
        return MaxPlusMatrix(rows=rows, eigenvalue=None, eigenvector={}, critical=())
    root, mean = cycle.edges[0].source, cycle.ratio
    paths = _longest_paths([root], edges, mean, stop)
    return MaxPlusMatrix(
        rows=rows,
        eigenvalue=mean / scale,
        eigenvector={
            token: paths[number] / scale for number, token in enumerate(rows) if number in paths
        },
        critical=tuple(list(rows)[edge.source] for edge in cycle.edges),
    )


def _edges(rows: Mapping[str, Vector], scale: int) -> list[WeightedEdge]:
    """Return the entries between tokens of the rows as edges, in units of 1 / scale."""
    numbers = {token: number for number, token in enumerate(rows)}
    return [
        WeightedEdge(numbers[old], numbers[new], int(time * scale), 1)
        for new, row in rows.items()
        for old, time in row.items()
        if old in numbers
    ]


def _longest_paths(
    roots: Iterable[int], edges: Sequence[WeightedEdge], mean: Fraction, stop: Stop
) -> dict[int, Fraction]:
    """Return the longest paths from any of the roots, each edge shortened by the largest cycle mean.

    No cycle is longer than 0 then, so the paths end (Bellman-Ford).
    """
    length = dict.fromkeys(roots, 0)
    is_longer = True
    while is_longer:
        stop.look()
        is_longer = False
        for edge in edges:
            if edge.source in length:
                through = edge.weight * mean.denominator - mean.numerator
                longer = length[edge.source] + through
                if edge.target not in length or longer > length[edge.target]:
                    length[edge.target] = longer
                    is_longer = True
    return {node: Fraction(path, mean.denominator) for node, path in length.items()}


def _critical_roots(
    nodes: int, edges: Sequence[WeightedEdge], mean: Fraction, stop: Stop
) -> Iterator[int]:
    """Yield a node of each strongly connected component of the critical graph.

    By the longest paths from all nodes every edge of a critical cycle is tight: its path is as long
    as the path to its source and the edge. A cycle of tight edges is critical.
    """
    length = _longest_paths(range(nodes), edges, mean, stop)
    # Complementary slackness: critical cycles consist of tight edges only.
    tight = [
        edge for edge in edges if length[edge.source] + edge.weight - mean == length[edge.target]
    ]
    successors: list[list[int]] = [[] for _ in range(nodes)]
    for edge in tight:
        successors[edge.source].append(edge.target)
    component = strong_components(nodes, successors)
    roots = {
        component[edge.source]: edge.source
        for edge in reversed(tight)
        if component[edge.source] == component[edge.target]
    }
    yield from roots.values()
