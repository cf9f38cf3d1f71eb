"""Runs of stages that can be one group, and the group that they are."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from planners.traffic.fused.bounds import makes_what_it_writes
from planners.traffic.fused.group import FusedGroup, FusedLayer, Skip
from planners.traffic.fused.stages import Stage, operands_of


def groups_of(stages: Sequence[Stage], first: int, end: int) -> Iterator[FusedGroup]:
    """Return the ways in which stages [first, end) can be one group; none where they cannot be.

    They differ in whether an input that is added later waits for that or is read twice.
    """
    chosen = stages[first:end]
    if len(chosen) < 2:
        return
    place = {stage.name: number for number, stage in enumerate(chosen, 1)}
    sources = tuple(_sources_in(place, stage, chosen[0]) for stage in chosen)
    if not all(sources) or any(name in place for stage in chosen for name in stage.in_views):
        return
    skips = tuple(_skips(chosen, place))
    read = {one for numbers in sources for one in numbers} | {one for one, _ in skips}
    if not _are_cut_alike(stage for number, stage in enumerate(chosen, 1) if number not in read):
        return
    written = frozenset(
        number
        for number, stage in enumerate(chosen, 1)
        if number in read and _is_read_beyond(stage, first, end)
    )
    if any(stage.window is None for stage in chosen):
        return
    added = tuple(_skips(chosen, {chosen[0].source: 0}))
    for waiting in ((), added) if added else ((),):
        inside = {*place, chosen[0].source} if waiting else place.keys()
        operands = operands_of(chosen, inside)
        group = FusedGroup(
            layers=tuple(_layers(chosen, inside)),
            sources=sources,
            skips=(*skips, *waiting),
            written=written,
            operands=operands if any(operands) else (),
            maps_apart=chosen[0].maps_apart if _repeats_maps(chosen[0]) else None,
            input_bytes=chosen[0].source_bytes,
        )
        if makes_what_it_writes(group):
            yield group


def _repeats_maps(stage: Stage) -> bool:
    """Whether some maps that a window slides over are others of them once more."""
    return stage.window is not None and stage.maps_apart < stage.window.channels


def _sources_in(place: Mapping[str, int], stage: Stage, start: Stage) -> tuple[int, ...]:
    """The maps of a group that the window of a stage slides over; none where others are needed."""
    left, found = stage.sources, []
    while left:
        if left[0] in place:
            found.append(place[left[0]])
            left = left[1:]
        elif left[: len(start.sources)] == start.sources:
            found.append(0)
            left = left[len(start.sources) :]
        else:
            return ()
    return tuple(found)


def _skips(chosen: Sequence[Stage], place: Mapping[str, int]) -> Iterator[Skip]:
    """The tensors with a place that stages read element by element."""
    for number, stage in enumerate(chosen, 1):
        yield from ((place[name], number) for name in stage.beside if name in place)


def _are_cut_alike(ends: Iterable[Stage]) -> bool:
    """Whether all of these make equally many rows and columns."""
    windows = [stage.window for stage in ends]
    return len({one and (one.rows.outputs, one.columns.outputs) for one in windows}) == 1


def _is_read_beyond(stage: Stage, first: int, end: int) -> bool:
    """Whether someone outside stages [first, end) reads what a stage leaves."""
    return stage.leaves or any(not first <= reader < end for reader in stage.readers)


def _layers(chosen: Sequence[Stage], inside: Collection[str]) -> Iterator[FusedLayer]:
    """The layers with their operands from DRAM; inside: tensors that are in the buffer."""
    for stage in chosen:
        if stage.window is not None:
            outside = [place for place, name in enumerate(stage.beside) if name not in inside]
            sizes = tuple(stage.window.beside_bytes[place] for place in outside)
            yield replace(stage.window, beside=len(sizes), operand_bytes=sizes)
