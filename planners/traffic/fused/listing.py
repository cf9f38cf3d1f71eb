"""A fused schedule in words: in a few, and as the loops that run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from planners.traffic.fused.accounting import CutTables, axes_of
from planners.traffic.fused.axis_cuts import weights_of
from planners.traffic.fused.group import FusedGroup
from planners.traffic.fused.schedule import FusedSchedule, Halos, Hold


def in_short(schedule: FusedSchedule) -> str:
    """Return the cut, what becomes of halo, and how much of the weights stays."""
    if schedule.count == 1:
        return f"in one tile{_hold(schedule)}"
    kept, weights = sum(schedule.kept_weights), sum(weights_of(schedule.group))
    share = "all" if kept == weights else f"{kept / weights:.0%} of the" if kept else "no"
    return (
        f"{schedule.tiles[0]}x{schedule.tiles[1]} tiles, halo {_halo(schedule.halo)}, "
        f"input halo {_halo(schedule.input_halo)}, {share} weights stationary{_hold(schedule)}"
    )


def _hold(schedule: FusedSchedule) -> str:
    return ", map by map" if schedule.hold is Hold.ONE_MAP else ""


def _halo(halo: Halos) -> str:
    return " and ".join(dict.fromkeys(one.value for one in halo))


def listing(schedule: FusedSchedule, names: Sequence[str]) -> str:
    """Return the loops of a schedule, a line a layer; sizes are those of the largest tile."""
    group, tables = schedule.group, CutTables(schedule.group)
    rows, columns = schedule.tiles
    lines = [
        f"{kept} of {weights // layer.weight_bytes} weights of {name} stationary"
        for kept, weights, layer, name in zip(
            schedule.kept_elements, tables.weights, group.layers, names, strict=False
        )
        if kept
    ]
    order = "next to each other first" if schedule.columns_first else "below each other first"
    is_cut = schedule.count > 1
    lines.append(
        f"for each of {rows}x{columns} tiles of the output, {order}" if is_cut else "in one tile"
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
    """Maps x rows x columns of what the largest tile makes of each map."""
    axes = axes_of(schedule)
    cuts = {key[0]: tables.cut(*key) for key in axes}
    for number in range(tables.group.length + 1):
        rows, columns = (
            max(one.bit_count() for one in cuts[axis].made[number]) for axis in sorted(cuts)
        )
        yield f"{tables.group.dims(number)[0]}x{rows}x{columns}"
