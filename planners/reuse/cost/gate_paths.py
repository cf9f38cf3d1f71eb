"""A bound over all choices by the gates that work as a whole: each choice is a path from gate to gate.

A gate is a layer that all other layers come before, or wait for. The gates that work as a whole cut a
choice into stretches; gates within a stretch work by parts. A stretch has a bound for all choices that
have it, from what is in use between its ends. A choice needs as much as the neediest of its stretches,
so the path whose largest bound is the least gives a bound for all choices. It is raised where that path
has its largest bound, until all of the path is known.
"""

from __future__ import annotations

from collections.abc import Iterable

from planners.reuse.cost.choice_tree import Tree
from planners.reuse.cost.choices_left import Choices, ChoicesLeft


class _Stretch:
    """The choices in which both ends are whole gates, and no gate between them is.

    begin: -1 before the first layer. end: the number of layers behind the last one. bound: elements
    that are in use together at least.
    """

    def __init__(self, begin: int, end: int, bound: int) -> None:
        self.begin = begin
        self.end = end
        self.bound = bound
        self.tree: Tree | None = None

    @property
    def is_known(self) -> bool:
        """Whether the bound cannot rise."""
        return self.tree is not None and self.tree.is_done

    def note(self, bound: int) -> None:
        """Take over a bound that holds for all of its choices."""
        self.bound = max(self.bound, bound)


class GatePaths:
    """The bound of a partition by its stretches, higher with every step."""

    def __init__(self, left: ChoicesLeft) -> None:
        self._left = left
        self._heights = [layer.shape.rows for layer in left.model.table.layers]
        self._layers = len(self._heights)
        gates = [gate for gate in left.model.gates if gate and self._can_be_whole(gate)]
        self._gates_left = set(gates)
        self._places = [-1, *gates, self._layers]
        least = max(left.loads(left.all_open))
        self._ending: dict[int, list[_Stretch]] = {place: [] for place in self._places}
        for number, begin in enumerate(self._places):
            for end in self._places[number + 1 :]:
                self._ending[end].append(_Stretch(begin, end, least))
                if end < self._layers and len(left.all_open[end]) == 1:
                    break  # this gate works as a whole in all choices
        self._path = self._least_path()

    @property
    def bound(self) -> int:
        """No choice has less in use together."""
        return max(one.bound for one in self._path)

    @property
    def is_done(self) -> bool:
        """Whether the bound cannot rise."""
        return all(one.is_known for one in self._path)

    @property
    def choices(self) -> Choices:
        """The choices of the path, of which no stretch needs more than the bound if it is done."""
        choices = list(self._left.all_open)
        for one in self._path:
            if one.tree is not None:
                first, behind = max(one.begin, 0), one.end + 1
                choices[first:behind] = one.tree.choices[first:behind]
        return tuple(choices)

    def step(self) -> None:
        """Raise the largest bound of the path, of stretches that are not known; there is one."""
        unknown = [one for one in self._path if not one.is_known]
        self._look_at(max(unknown, key=lambda one: one.bound))
        self._path = self._least_path()

    def _can_be_whole(self, layer: int) -> bool:
        return self._heights[layer] in self._left.all_open[layer]

    def _choices(self, stretch: _Stretch, *, opened: int | None = None) -> Choices:
        """The choices of a stretch; with those where the end that is opened is no whole gate."""
        choices = list(self._left.all_open)
        for gate in self._places[1:-1]:
            if gate in (stretch.begin, stretch.end) and gate != opened:
                choices[gate] = (self._heights[gate],)
            elif stretch.begin < gate < stretch.end:
                choices[gate] = tuple(one for one in choices[gate] if one != self._heights[gate])
        return tuple(choices)

    def _look_at(self, stretch: _Stretch) -> None:
        """Raise its bound: by each end alone, then by both ends, then by the layers between them."""
        for end in (stretch.begin, stretch.end):
            if end in self._gates_left:
                self._gates_left.remove(end)
                self._note(self._whole(end), self._with_end(end))
                return
        if stretch.tree is None:
            stretch.tree = self._tree(stretch)
            self._note(self._choices(stretch, opened=stretch.end), self._longer(stretch))
            self._note(self._choices(stretch, opened=stretch.begin), self._earlier(stretch))
        else:
            stretch.tree.split()
        stretch.note(stretch.tree.bound)

    def _note(self, choices: Choices, stretches: Iterable[_Stretch]) -> None:
        """Note what these choices need for stretches whose choices are among them."""
        least = max(self._left.loads(choices))
        for one in stretches:
            one.note(least)

    def _whole(self, gate: int) -> Choices:
        choices = list(self._left.all_open)
        choices[gate] = (self._heights[gate],)
        return tuple(choices)

    def _with_end(self, gate: int) -> Iterable[_Stretch]:
        yield from self._ending[gate]
        yield from (one for some in self._ending.values() for one in some if one.begin == gate)

    def _longer(self, stretch: _Stretch) -> Iterable[_Stretch]:
        """Stretches with the same beginning that end no earlier."""
        return (
            one
            for end in self._places
            if end >= stretch.end
            for one in self._ending[end]
            if one.begin == stretch.begin
        )

    def _earlier(self, stretch: _Stretch) -> Iterable[_Stretch]:
        """Stretches with the same end that begin no later."""
        return (one for one in self._ending[stretch.end] if one.begin <= stretch.begin)

    def _tree(self, stretch: _Stretch) -> Tree:
        """The choices of a stretch, to be split by its layers and those of blocks that it cuts."""
        begin, end = stretch.begin, stretch.end
        layers = set(range(begin + 1, end))
        for block in self._left.model.blocks:
            if sum(begin <= layer <= end for layer in block.layers) > 1:
                layers.update(block.layers)
        moments = range(max(begin, 0), min(end + 1, self._layers))
        return Tree(self._left, self._choices(stretch), layers=sorted(layers), moments=moments)

    def _least_path(self) -> list[_Stretch]:
        """The stretches of the path whose largest bound is the least; of equal ones the longest."""
        best = {-1: 0}
        come: dict[int, _Stretch] = {}
        for place in self._places[1:]:
            reached = [one for one in self._ending[place] if one.begin in best]
            if reached:
                come[place] = min(
                    reached, key=lambda one: (max(best[one.begin], one.bound), one.begin)
                )
                best[place] = max(best[come[place].begin], come[place].bound)
        path = [come[self._layers]]
        while path[-1].begin >= 0:
            path.append(come[path[-1].begin])
        return path[::-1]
