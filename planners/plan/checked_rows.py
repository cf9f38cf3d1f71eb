"""Rules of the checker for the rows of tensors: where they are stored, written, copied and read."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations

from csdf.errors import InvalidPlan, counted
from planners.plan.checked_plan import CheckedPlan
from planners.plan.plan import Kind, StreamBuffer


def require_rows(checked: CheckedPlan) -> None:
    """Raise InvalidPlan unless rows are written to buffers that their readers find.

    A group that reads rows of a tensor of an earlier group needs the tensor whole. Each buffer with
    rows is filled, and each reader has a buffer.
    """
    _require_whole(checked)
    _require_one_purpose_each(checked)
    _require_filled(checked)
    _require_read(checked)


def _require_whole(checked: CheckedPlan) -> None:
    """Require that tensors which another group reads, and results, are stored whole."""
    plan, group_of = checked.plan, checked.group_of
    whole = {buffer.tensor for buffer in plan.buffers if buffer.has_all_rows}
    whole |= {alias.tensor for alias in plan.aliases if alias.host in whole}
    streamed = {
        group.streamed_input
        for number, group in enumerate(plan.groups)
        if not plan.is_copied(number)
    }
    # An output that is a stage of its own is stored; any other output is its source.
    required = {
        name if name in group_of else output.inputs[0] for name, output in checked.outputs.items()
    }
    required |= checked.inputs - streamed - group_of.keys()
    for name, number in group_of.items():
        for source in checked.sources(checked.executable[name]):
            is_streamed_later = source in streamed and number > 0
            if group_of.get(source, number) != number or is_streamed_later:
                required.add(source)
    for name in sorted(required - whole):
        raise InvalidPlan(f"tensor {name!r} outlives its group, but does not lie whole")


def _require_one_purpose_each(checked: CheckedPlan) -> None:
    """Require that no two buffers of a group have the same purpose."""
    hosts = set(checked.host_of.values())
    for first, second in combinations(checked.plan.buffers, 2):
        if first.tensor != second.tensor or Kind.SCRATCH in (first.kind, second.kind):
            continue
        both = f"buffers {first.name!r} and {second.name!r} both hold {first.tensor!r}"
        if first.has_rows and second.has_rows:
            _require_different_readers(checked, first, second, both, is_host=first.tensor in hosts)
        elif first.kind is second.kind and _share_groups(first, second):
            raise InvalidPlan(f"{both}, as {first.kind.value}; expected one buffer in a group")


def _require_different_readers(
    checked: CheckedPlan, first: StreamBuffer, second: StreamBuffer, both: str, *, is_host: bool
) -> None:
    """Require that two buffers with rows of a tensor are for different readers.

    A buffer without readers serves the readers that no other buffer names. A whole tensor and a ring to
    which its stage writes may both be without readers: no layer then reads the ring. A line buffer is
    the only buffer of its tensor: rows are staged for a single line buffer. An external tensor is one
    block of the caller's memory for the whole frame. A host has one buffer, and the rings into which
    its rows are copied.
    """
    kinds = {first.kind, second.kind}
    has_copies = checked.is_copied_into(first) or checked.is_copied_into(second)
    if is_host and not has_copies:
        raise InvalidPlan(f"{both}, in which another tensor lies; expected one buffer")
    if kinds == {Kind.EXTERNAL}:
        raise InvalidPlan(f"{both} outside the arena; expected one buffer")
    if not _share_groups(first, second):
        return
    if Kind.LINE in kinds:
        raise InvalidPlan(f"{both}, of which one is a line; expected one buffer")
    is_ring_unread = kinds == {Kind.WHOLE, Kind.RING} and not has_copies
    have_readers = bool(first.readers or second.readers)
    if set(first.readers) & set(second.readers) or not (have_readers or is_ring_unread):
        raise InvalidPlan(f"{both} for the same readers; expected different readers")
    if Kind.EXTERNAL in kinds and not (first.readers and second.readers):
        raise InvalidPlan(f"{both}, one of them outside; expected the readers of each")


def _share_groups(first: StreamBuffer, second: StreamBuffer) -> bool:
    return first.begin < second.end and second.begin < first.end


def _require_filled(checked: CheckedPlan) -> None:
    """Require that each buffer with rows is written before it is read.

    A ring or line buffer is written in each of its groups. A whole tensor is written as it is
    computed or arrives, or copied by the first group that has the buffer.
    """
    plan = checked.plan
    copied = {
        (group.streamed_input, number)
        for number, group in enumerate(plan.groups)
        if plan.is_copied(number)
    }
    written_in = dict.fromkeys([*checked.inputs, *checked.variables], 0)
    written_in |= {stage.result: number for number, stage in checked.stages()}
    _require_transfers(checked, written_in)
    for buffer in plan.buffers:
        if not buffer.has_rows:
            continue
        named = f"buffer {buffer.name!r} of {buffer.tensor!r}"
        if buffer.tensor not in written_in:
            raise InvalidPlan(f"{named}: its rows lie in the strips of a stage only")
        group = written_in[buffer.tensor]
        if buffer.has_all_rows:
            targets = {transfer.target for transfer in plan.groups[buffer.begin].transfers}
            # The rows of a variable from the last frame are in its own buffer only.
            is_of_variable = buffer.tensor in checked.variables and buffer.kind is not Kind.KEPT
            if (group < buffer.begin or is_of_variable) and buffer.name not in targets:
                raise InvalidPlan(
                    f"buffer {buffer.name!r} begins with group {buffer.begin + 1}, behind the "
                    f"making of {buffer.tensor!r}, but does not take it over"
                )
            if group >= buffer.end:
                raise InvalidPlan(f"{named} ends before its tensor is made")
        elif any(
            number != group and (buffer.tensor, number) not in copied
            for number in range(buffer.begin, buffer.end)
        ):
            raise InvalidPlan(f"{named} is there in a group that writes no rows to it")
    _require_inputs(checked)


def _require_transfers(checked: CheckedPlan, written_in: Mapping[str, int]) -> None:
    """Require that a transfer copies a whole tensor, once written, to another buffer in the arena."""
    for number, group in enumerate(checked.plan.groups):
        for copy in group.transfers:
            named = f"group {number + 1} takes over {copy.source!r} in {copy.target!r}"
            source, target = (
                _whole_buffer(checked, name, named) for name in (copy.source, copy.target)
            )
            if source.tensor != target.tensor or source is target:
                raise InvalidPlan(f"{named}; expected two buffers of one tensor")
            if not target.is_live(number):
                raise InvalidPlan(
                    f"{named}, which lives from group {target.begin + 1} on, or ended"
                )
            if target.kind is Kind.EXTERNAL:
                raise InvalidPlan(f"{named}, which is outside the arena")
            whole_inputs = checked.inputs - checked.group_of.keys()
            is_available = target.tensor in whole_inputs | checked.variables
            if written_in.get(target.tensor, number) >= number and not is_available:
                raise InvalidPlan(f"{named}, before {target.tensor!r} is made")


def _whole_buffer(checked: CheckedPlan, name: str, named: str) -> StreamBuffer:
    same = [b for b in checked.plan.buffers if b.name == name and b.has_all_rows]
    if len(same) != 1:
        raise InvalidPlan(f"{named}: {len(same)} buffers with all rows have the name {name!r}")
    return same[0]


def _require_inputs(checked: CheckedPlan) -> None:
    """Require one buffer for an input that is stored before the first group.

    An input whose rows arrive has none outside the arena.
    """
    plan = checked.plan
    arriving = checked.inputs & checked.group_of.keys()
    if not plan.is_copied(0) and plan.groups[0].streamed_input is not None:
        arriving.add(plan.groups[0].streamed_input)
    targets = {transfer.target for transfer in plan.groups[0].transfers}
    for name in sorted(checked.inputs):
        whole = [b for b in plan.buffers if b.tensor == name and b.has_all_rows]
        stored = [b for b in whole if b.begin == 0 and b.name not in targets]
        if name not in arriving and len(stored) != 1:
            raise InvalidPlan(
                f"input {name!r} lies in {counted(len(stored), 'buffer')} before the first group; "
                "expected one"
            )
        if name in arriving and any(buffer.kind is Kind.EXTERNAL for buffer in whole):
            raise InvalidPlan(
                f"input {name!r} comes row by row, but lies outside the arena, where the plan "
                "writes no input"
            )


def _require_read(checked: CheckedPlan) -> None:
    """Require a buffer for each layer that reads a tensor outside its stage.

    The buffer names the layer, or has no readers: the tensor is written to the buffer without readers.
    """
    readers = [
        (checked.executable[name], number, stage.layers)
        for number, stage in checked.stages()
        for name in stage.layers
    ]
    last = len(checked.plan.groups) - 1
    readers += [
        (layer, last, ()) for name, layer in checked.outputs.items() if name not in checked.group_of
    ]
    for layer, group, stage_layers in readers:
        for source in checked.sources(layer):
            if source in stage_layers:
                continue
            host = checked.host_of.get(source, source)
            readable = [
                buffer
                for buffer in checked.plan.buffers
                if buffer.tensor == host
                and buffer.has_rows
                and (layer.name in buffer.readers or not buffer.readers)
            ]
            if any(buffer.is_live(group) for buffer in readable):
                continue
            where = ", and no buffer of it is for that layer"
            if readable:
                buffer = readable[0]
                groups = f"{buffer.begin + 1} to {buffer.end}"
                where = f" in buffer {buffer.name!r}, which groups {groups} have"
            raise InvalidPlan(f"group {group + 1}: layer {layer.name!r} reads {source!r}{where}")
