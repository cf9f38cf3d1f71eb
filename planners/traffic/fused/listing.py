"""A fused schedule in words: in a few, and as the loops that run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from planners.traffic.fused.accounting import CutTables, axes_of
from planners.traffic.fused.axis_cuts import weights_of
from planners.traffic.fused.group import FusedGroup
from planners.traffic.fused.schedule import Borders, FusedSchedule, Hold


def in_short(schedule: FusedSchedule) -> str:
    """Return the cut, what becomes of borders, and how much of the weights stays."""
    if schedule.count == 1:
        return f"in one part{_hold(schedule)}"
    kept, weights = sum(schedule.kept_weights), sum(weights_of(schedule.group))
    share = "all" if kept == weights else f"{kept / weights:.0%} of the" if kept else "no"
    return (
        f"{schedule.parts[0]}x{schedule.parts[1]} parts, borders {_borders(schedule.borders)}, "
        f"of the input {_borders(schedule.input_borders, 'read again')}, {share} weights stay"
        f"{_hold(schedule)}"
    )


def _hold(schedule: FusedSchedule) -> str:
    return ", map by map" if schedule.hold is Hold.ONE_MAP else ""


def _borders(borders: Borders, again: str = "recomputed") -> str:
    words = [again if not one.is_made_once else one.value for one in borders]
    return words[0] if words[0] == words[1] else " and ".join(words)


def listing(schedule: FusedSchedule, names: Sequence[str]) -> str:
    """Return the loops of a schedule, a line a layer; sizes are those of the largest part."""
    group, tables = schedule.group, CutTables(schedule.group)
    rows, columns = schedule.parts
    lines = [
        f"{kept} of {weights // layer.weight_bytes} weights of {name} stay"
        for kept, weights, layer, name in zip(
            schedule.kept_elements, tables.weights, group.layers, names, strict=False
        )
        if kept
    ]
    order = "next to each other first" if schedule.columns_first else "below each other first"
    is_cut = schedule.count > 1
    lines.append(
        f"for each of {rows}x{columns} parts of the output, {order}" if is_cut else "in one part"
    )
    sizes, outputs = list(_sizes(schedule, tables)), group.outputs
    if schedule.hold is Hold.ONE_MAP:
        lines += [f"  load the input {sizes[0]}", f"  for each map of {names[0]}"]
        lines += [
            f"    {name}: one map of {size}" for name, size in zip(names, sizes[1:-1], strict=False)
        ]
        lines += [f"    {names[-1]}: add it to all of {sizes[-1]}", "  write them"]
        return "\n".join(lines)
    lines += [
        f"  {name}: {_reads(group, number, names)}"
        f"{'makes and writes' if number in outputs else 'makes'} {size}"
        for number, (name, size) in enumerate(zip(names, sizes[1:], strict=True), 1)
    ]
    return "\n".join(lines)


def _reads(group: FusedGroup, number: int, names: Sequence[str]) -> str:
    """Return where a layer finds what it reads; nothing where the layer before it makes that."""
    read = group.read_by(number)
    if number == 1:
        waits = group.input_waits
        return "from the input, which waits, " if waits else "from each map of the input in turn, "
    if read == (number - 1,):
        return ""
    return f"from {' and '.join(names[one - 1] if one else 'the input' for one in read)}, "


def _sizes(schedule: FusedSchedule, tables: CutTables) -> Iterator[str]:
    """Maps x rows x columns of what the largest part makes of each map."""
    axes = axes_of(schedule)
    cuts = {key[0]: tables.cut(*key) for key in axes}
    for number in range(tables.group.length + 1):
        rows, columns = (
            max(one.bit_count() for one in cuts[axis].made[number]) for axis in sorted(cuts)
        )
        yield f"{tables.group.dims(number)[0]}x{rows}x{columns}"
