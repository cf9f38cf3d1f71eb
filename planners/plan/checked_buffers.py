"""Rules of the checker for each buffer of a plan: its size, its offset and its memory.

A result in slow memory has a write buffer: fast memory for the pixels that its layer computes at a
time. The rules of weights are in planners.plan.checked_weights.
"""

from __future__ import annotations

from csdf.errors import InvalidPlan, counted
from planners.plan.checked_plan import CheckedPlan
from planners.plan.checked_rules import bytes_kept, can_lie_apart, makes_rectangles
from planners.plan.plan import ACCUMULATOR_BYTES, Alias, Kind, Mode, Stage, StreamBuffer

WITH_OTHERS = 2**27  # bytes of an arena that any network may have: larger ones may share it


def require_buffers(checked: CheckedPlan) -> None:
    """Raise InvalidPlan unless each buffer has the size of its content, and aliases fit hosts."""
    for buffer in checked.plan.buffers:
        _require_buffer(checked, buffer)
    for alias in checked.plan.aliases:
        _require_alias(checked, alias)


def _require_buffer(checked: CheckedPlan, buffer: StreamBuffer) -> None:
    """Require the size of its rows, and an offset in the arena unless the buffer is external."""
    network, named = checked.network, f"buffer {buffer.name!r}"
    if buffer.tensor not in checked.executable.keys() | checked.variables:
        raise InvalidPlan(f"{named} holds tensor {buffer.tensor!r}, which the network has not")
    if buffer.end > len(checked.plan.groups):
        raise InvalidPlan(f"{named} lives to group {buffer.end} of {len(checked.plan.groups)}")
    layer, unit = network.layer(buffer.tensor), checked.element_bytes(buffer.tensor)
    shape = layer.shape
    size = buffer.size  # of other kinds, which other rules check
    if buffer.has_rows:
        size = unit * (shape.elements if buffer.has_all_rows else buffer.rows * shape.row_elements)
    elif buffer.kind is Kind.ACCUMULATORS:
        size = shape.elements * ACCUMULATOR_BYTES
    elif buffer.kind in (Kind.STATE, Kind.STATE_COPY):
        size = bytes_kept(network, layer)
    for name in buffer.readers if buffer.kind not in (Kind.SCRATCH, Kind.STATE) else ():
        if name not in network.consumers[buffer.tensor]:
            raise InvalidPlan(f"{named}: layer {name!r} does not read {buffer.tensor!r}")
    if buffer.size != size:
        raise InvalidPlan(f"{named} has {counted(buffer.size, 'byte')}; its rows take {size}")
    if buffer.kind is Kind.RING and not 1 <= buffer.rows <= shape.rows:
        raise InvalidPlan(
            f"{named} has {counted(buffer.rows, 'row')} of {buffer.tensor!r}, which has "
            f"{shape.rows}"
        )
    if buffer.has_all_rows and buffer.rows != checked.height(buffer.tensor):
        raise InvalidPlan(f"{named} has {counted(buffer.rows, 'row')} of {buffer.tensor!r}")
    if buffer.kind is Kind.EXTERNAL:
        _require_external(checked, buffer)
    elif buffer.size and buffer.offset % (grid := unit if buffer.has_rows else checked.unit):
        counted_in = "an element" if buffer.has_rows else "the arena's smallest element"
        raise InvalidPlan(
            f"{named} begins at byte {buffer.offset}; expected a multiple of {grid}, the bytes of "
            f"{counted_in}"
        )
    elif buffer.end_byte > checked.plan.arena_bytes:
        raise InvalidPlan(f"{named} leaves the arena of {checked.plan.arena_bytes} bytes")


def _require_external(checked: CheckedPlan, buffer: StreamBuffer) -> None:
    tensor = buffer.tensor
    readers = buffer.readers or checked.network.consumers[tensor]
    is_read = bool(set(readers) & set(checked.computed))
    ends = checked.inputs | set(checked.outputs)
    if tensor not in ends and (tensor not in checked.network.results or is_read):
        raise InvalidPlan(
            f"tensor {tensor!r} lies outside the arena; only inputs may, and results that no "
            "layer reads"
        )


def _require_arena(checked: CheckedPlan) -> None:
    """Limit the arena to 128 MiB, or to twice all tensors and accumulators if that is more."""
    most = sum(
        layer.shape.elements * (checked.element_bytes(layer.name) + 2 * ACCUMULATOR_BYTES)
        for layer in checked.network.layers
    )
    if checked.plan.all_bytes > max(2 * most, WITH_OTHERS):
        raise InvalidPlan(
            f"the plan takes {checked.plan.all_bytes} bytes; all tensors of the network and their "
            f"sums together take {most}"
        )


def require_memories(checked: CheckedPlan) -> None:
    """Raise InvalidPlan unless the arena has a plausible size, and each buffer is in one memory.

    A slow memory has only whole tensors, states and resident weights.
    """
    _require_arena(checked)
    plan = checked.plan
    if not plan.memories:
        return
    names = [memory.name for memory in plan.memories]
    if len(set(names)) < len(names):
        raise InvalidPlan(f"memories {', '.join(map(repr, names))}; expected different names")
    if sum(memory.size for memory in plan.memories) != plan.arena_bytes:
        raise InvalidPlan(f"the memories do not add up to the {plan.arena_bytes} of the arena")
    for buffer in plan.buffers:
        if not buffer.size or buffer.kind is Kind.EXTERNAL:
            continue
        memory = plan.memory_of(buffer)
        if memory is None:
            raise InvalidPlan(f"buffer {buffer.name!r} lies in more than one memory")
        is_stored = buffer.kind in (Kind.WHOLE, Kind.RESIDENT) or buffer.persists
        if memory.is_slow and not is_stored:
            raise InvalidPlan(
                f"buffer {buffer.name!r} lies in {memory.name!r}; a slow memory has whole "
                f"tensors, states and weights only, and this is a {buffer.kind.value}"
            )


def _require_alias(checked: CheckedPlan, alias: Alias) -> None:
    """Require a position within a host that has the buffer, which the layer and its readers address."""
    named = f"tensor {alias.tensor!r} lies in {alias.host!r}"
    for name in alias[:2]:
        if name not in checked.computed:
            raise InvalidPlan(f"{named}, but no layer makes {name!r}")
    without_rows = (Kind.STAGING, Kind.WRITE_BUFFER, Kind.WEIGHTS, Kind.RESIDENT)
    stored = {b.tensor for b in checked.plan.buffers if b.kind not in without_rows}
    # The alias itself; a second alias would be of the same tensor, or a host inside another host.
    aliases = [
        known for known in checked.plan.aliases if known.tensor in (alias.tensor, alias.host)
    ]
    if alias.tensor in stored or alias.tensor == alias.host or len(aliases) > 1:
        raise InvalidPlan(f"{named}, but also elsewhere, or that one in another")
    layer, host = checked.computed[alias.tensor], checked.computed[alias.host]
    beyond = (  # rows, columns and channels past the end of the host, if positive
        alias.row + layer.shape.height - host.shape.height,
        alias.column + layer.shape.width - host.shape.width,
        alias.channel + layer.shape.pixel_elements - host.shape.pixel_elements,
    )
    sizes = {checked.element_bytes(name) for name in alias[:2]}
    if max(beyond) > 0 or len(sizes) > 1:
        raise InvalidPlan(f"{named}, but does not fit into it")
    is_contiguous = not any((*beyond[1:], alias.column, alias.channel))
    is_addressable = is_contiguous or can_lie_apart(checked.network, layer)
    if layer.name in checked.network.results or not is_addressable:
        raise InvalidPlan(f"{named}; who reads it needs its rows in one piece")


def require_write_buffers(checked: CheckedPlan) -> None:
    """Raise InvalidPlan unless each result in slow memory has a write buffer of its own bytes."""
    stored = _stored_stages(checked)
    for buffer in checked.plan.buffers:
        if buffer.kind is not Kind.WRITE_BUFFER:
            continue
        stage = stored.pop((buffer.tensor, buffer.begin), None)
        if stage is None or buffer.end != buffer.begin + 1:
            raise InvalidPlan(
                f"buffer {buffer.name!r} is a write buffer, but group {buffer.begin + 1} leaves no "
                f"{buffer.tensor!r} in slow memory"
            )
        _require_columns(checked, buffer, stage)
        for neighbour in checked.plan.buffers:
            is_live = neighbour is not buffer and neighbour.is_live(buffer.begin)
            if is_live and buffer.common_byte(neighbour) is not None:
                raise InvalidPlan(
                    f"buffers {buffer.name!r} and {neighbour.name!r} have bytes in common"
                )
    for name, group in stored:
        raise InvalidPlan(
            f"group {group + 1} leaves {name!r} in slow memory, but has no write buffer for it; "
            "plan the network again"
        )


def _stored_stages(checked: CheckedPlan) -> dict[tuple[str, int], Stage]:
    """The stages whose result is stored in slow memory, by result and group.

    A concatenation of tensors that are stored in it already stores nothing.
    """
    whole, host_of = checked.plan.by_tensor(Kind.WHOLE), checked.host_of
    stored = {}
    for number, stage in checked.stages():
        result = stage.result
        buffer = whole.get(host_of.get(result, result))
        inputs = checked.network.layer(result).inputs
        is_joined = all(host_of.get(name) == result for name in inputs)
        if buffer is not None and checked.plan.is_in_slow_memory(buffer) and not is_joined:
            stored[result, number] = stage
    return stored


def _require_columns(checked: CheckedPlan, buffer: StreamBuffer, stage: Stage) -> None:
    """Require whole columns of the rows that the layer writes in one call, in the required number."""
    shape = checked.network.layer(buffer.tensor).shape
    rows, fewest = _made_at_a_time(checked, stage)
    column = rows * shape.pixel_elements * checked.element_bytes(buffer.tensor)
    columns, rest = divmod(buffer.size, column)
    if rest or not fewest <= columns <= shape.width or buffer.rows:
        raise InvalidPlan(
            f"buffer {buffer.name!r} has {counted(buffer.size, 'byte')}; expected {fewest} to "
            f"{shape.width} columns of {counted(column, 'byte')}"
        )


def _made_at_a_time(checked: CheckedPlan, stage: Stage) -> tuple[int, int]:
    """The rows of a result that are computed together, and the fewest columns."""
    layer = checked.network.layer(stage.result)
    rows, width = min(stage.rows, layer.shape.rows), layer.shape.width
    if stage.mode is not Mode.ROWS:
        return layer.shape.rows, width
    if stage.accumulating_layer == layer.name:
        return rows, 1
    if makes_rectangles(checked.network, layer):
        return 1, 1
    shapes = checked.network.input_shapes(layer)
    needed = [layer.operator.rows_needed(i, shapes, layer.shape) for i in range(len(shapes))]
    is_by_rows = layer.shape.is_map and None not in needed
    return 1 if is_by_rows else rows, width
