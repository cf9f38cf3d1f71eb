"""How results may lie over what their groups read, and the bytes that this leaves at least."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from planners.memory.offsets.groups import WorkingGroup
from planners.memory.offsets.pieces import Lead
from planners.memory.overlap import least_lead, pace_of
from planners.streaming.course import Course
from planners.streaming.plan import StreamBuffer
from planners.streaming.stages import StageTable


def leads_of(
    course: Course,
    table: StageTable,
    groups: Sequence[WorkingGroup],
    *,
    whole: Mapping[str, tuple[int, int]],
    barred: Collection[str],
) -> Iterator[Lead]:
    """Yield how the result of each group may lie over what it reads, and nothing reads any more.

    whole: the first group, and one past the last, of tensors that lie whole. barred: tensors in other
    memory, or in one place with others, which nothing may lie over.
    """
    for number, group in enumerate(groups):
        firings = [one.firings for one in group.geometry]
        read = {reading.tensor for one in firings for reading in one.readings}
        for name, (_, end) in whole.items() if group.result not in barred else ():
            is_dead = end == number + 1 and name not in course.results
            if name in read and is_dead and name not in barred:
                rows = table.row_bytes(name), table.row_bytes(group.result)
                yield Lead(group.result, name, least_lead([pace_of(firings, name)], *rows))


def least_arena(
    groups: Sequence[WorkingGroup], buffers: Sequence[StreamBuffer], leads: Sequence[Lead]
) -> int:
    """Return bytes that no offsets go below: the neediest group, its result over what it reads."""
    size = {one.name: one.size for one in buffers}
    most = 0
    for number, group in enumerate(groups):
        alive = sum(one.size for one in buffers if one.begin <= number < one.end)
        saved = 0
        for lead in leads:
            if lead.below == group.result:
                both = max(size[lead.below], lead.bytes + size[lead.above])
                saved += max(0, size[lead.below] + size[lead.above] - both)
        most = max(most, alive - min(saved, size.get(group.result, 0)))
    return most
