"""Rules of the checker for the stages of a plan: their layers, modes, firings and arithmetic."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

from cnn2csdf.parameters import multiply_accumulates
from csdf.errors import InvalidPlan, counted
from planners.plan.checked_geometry import CheckedFirings, TiledStage
from planners.plan.checked_plan import CheckedPlan
from planners.plan.checked_rules import (
    adds_up_rows,
    has_wide_accumulators,
    makes_rectangles,
    may_accumulate,
    works_on_blocks,
)
from planners.plan.plan import Mode, Stage


def require_stages(checked: CheckedPlan) -> None:
    """Raise InvalidPlan unless the stages execute each layer once, in a mode that it can have."""
    _require_layers(checked)
    _require_streamed_input(checked)
    for _, stage in checked.stages():
        _require_stage(checked, stage)


def _require_layers(checked: CheckedPlan) -> None:
    """Require each layer once, after the layers that it reads."""
    network, inputs = checked.network, checked.inputs
    of = f"the plan of network {checked.plan.network!r}"
    available = inputs | checked.variables
    executed: set[str] = set()
    for _, stage in checked.stages():
        for name in stage.layers:
            if name in inputs and stage != Stage(layers=(name,), rows=stage.rows):
                raise InvalidPlan(f"{of} works input {name!r} with others, or not by rows")
            if name not in checked.executable:
                raise InvalidPlan(
                    f"{of} works layer {name!r}, which network {network.name!r} has "
                    "not; give the model, and the options of reading, that it was planned with"
                )
            if name in executed:
                raise InvalidPlan(f"{of} works layer {name!r} twice")
            for source in checked.sources(checked.executable[name]):
                if source not in executed | available:
                    raise InvalidPlan(f"{of} works layer {name!r} before {source!r}")
            executed.add(name)
    for name in checked.computed:
        if name not in executed:
            raise InvalidPlan(f"{of} does not work layer {name!r}")


def _require_streamed_input(checked: CheckedPlan) -> None:
    for number, group in enumerate(checked.plan.groups):
        if group.streamed_input is None or checked.plan.is_copied(number):
            continue
        if number or checked.inputs != {group.streamed_input}:
            raise InvalidPlan(
                f"group {number + 1} takes {group.streamed_input!r} row by row; only the one input "
                "of a network can come so, and only to the first group"
            )


def _require_stage(checked: CheckedPlan, stage: Stage) -> None:
    named = f"the stage that makes {stage.result!r}"
    if not 1 <= stage.rows <= checked.height(stage.result):
        raise InvalidPlan(
            f"{named} makes {counted(stage.rows, 'row')} of {checked.height(stage.result)}"
        )
    modes = {
        Mode.ACCUMULATING: _can_go_by_channels(checked, stage.layers)
        or (
            len(stage.layers) == 1
            and may_accumulate(checked.network, checked.network.layer(stage.result))
        ),
        Mode.CHANNELS: _can_go_by_channels(checked, stage.layers),
        Mode.ROWS: _can_be_stage(checked, stage.layers),
        Mode.TILES: _can_be_stage(checked, stage.layers) and _are_tiled(checked, stage.layers),
    }
    if not modes[stage.mode]:
        raise InvalidPlan(f"{named} cannot work by {stage.mode.value}")
    if (stage.mode is Mode.TILES) != (stage.tiles is not None):
        raise InvalidPlan(f"{named} works by {stage.mode.value}, and tiles are another way")
    if stage.tiles is not None:
        shape = checked.network.layer(stage.result).shape
        ends = stage.tiles.row_ends[-1], stage.tiles.column_ends[-1]
        if ends != (shape.height, shape.width) or stage.rows != shape.rows:
            raise InvalidPlan(f"{named} has tiles that end at {ends}; the result is {shape}")
    _require_channel_blocks(checked, stage, named)
    _require_strips(checked, stage, named)


def _require_strips(checked: CheckedPlan, stage: Stage, named: str) -> None:
    """Require a strip of each layer before the last where a firing goes over the columns."""
    inside = stage.layers[:-1] if stage.mode is Mode.ROWS else ()
    if tuple(name for name, _, _ in stage.strips) != inside:
        raise InvalidPlan(f"{named} has strips of other layers than those before its last")
    for name, rows, columns in stage.strips:
        shape = checked.network.layer(name).shape
        if not (rows <= shape.rows and 1 <= columns <= shape.width):
            raise InvalidPlan(
                f"{named} has a strip of {counted(rows, 'row')} and "
                f"{counted(columns, 'column')} of {name!r}, "
                f"which has {shape.rows} and {shape.width}"
            )


def _can_be_stage(checked: CheckedPlan, layers: tuple[str, ...]) -> bool:
    """Whether the layers, if several, make one tensor, each rectangle of it from rectangles."""
    if len(layers) == 1:
        return True
    first, *_, last = (checked.network.layer(name).shape for name in layers)
    if first.rows == first.width == 1 and not last.rows == last.width == 1:
        return False  # each firing would compute its only element again
    consumers = checked.network.consumers
    is_inside = all(
        consumers[layer_name] and set(consumers[layer_name]) <= set(layers)
        for layer_name in layers[:-1]
    )
    return is_inside and _are_tiled(checked, layers)


def _are_tiled(checked: CheckedPlan, layers: tuple[str, ...]) -> bool:
    return all(makes_rectangles(checked.network, checked.network.layer(name)) for name in layers)


def _can_go_by_channels(checked: CheckedPlan, layers: tuple[str, ...]) -> bool:
    """Whether these are a convolution and a layer that adds up each of its feature maps."""
    if len(layers) != 2:
        return False
    first, last = (checked.network.layer(name) for name in layers)
    return (
        checked.network.consumers[first.name] == (last.name,)
        and first.operator.filter_bank is not None
        and not any(step.normalizes_responses for step in first.epilogue)
        and adds_up_rows(checked.network, last)
        and last.operator.dense_units is None
    )


def _require_channel_blocks(checked: CheckedPlan, stage: Stage, named: str) -> None:
    if stage.accumulating_layer is None:
        if stage.channel_blocks != 1:
            raise InvalidPlan(
                f"{named} has {counted(stage.channel_blocks, 'channel block')}, which no layer sums"
            )
        return
    if stage.mode is not Mode.ROWS or not _may_sum_blocks(
        checked, stage.layers, stage.accumulating_layer
    ):
        raise InvalidPlan(f"{named} cannot sum channel blocks in {stage.accumulating_layer!r}")
    channels = checked.network.layer(stage.layers[0]).shape.channels
    if not 2 <= stage.channel_blocks <= channels:
        raise InvalidPlan(
            f"{named} has {counted(stage.channel_blocks, 'block')} of "
            f"{counted(channels, 'channel')}"
        )


def _may_sum_blocks(checked: CheckedPlan, layers: tuple[str, ...], accumulating_layer: str) -> bool:
    """Whether a layer may sum over channel blocks of the layers before it in the stage.

    These layers form a chain, and no layer outside the chain reads them. A block of each layer is
    computed from the same block of the preceding layer; the first layer may read all channels.
    """
    if accumulating_layer not in layers[1:]:
        return False
    end = layers.index(accumulating_layer) + 1
    chain = [checked.network.layer(name) for name in layers[:end]]
    for before, layer in pairwise(chain):
        is_only_reader = checked.network.consumers[before.name] == (layer.name,)
        if layer.inputs != (before.name,) or not is_only_reader:
            return False
    bank = chain[-1].operator.filter_bank
    return (
        bank is not None
        and bank.groups == 1
        and not has_wide_accumulators(checked.network, chain[-1])
        and works_on_blocks(chain[0], is_first=True)
        and all(works_on_blocks(layer, is_first=False) for layer in chain[1:-1])
    )


def require_orders(checked: CheckedPlan) -> None:
    """Raise InvalidPlan unless an explicit order of a group has each firing of each stage once."""
    for number, group in enumerate(checked.plan.groups):
        if not group.order:
            continue
        turns: Counter[str] = Counter()
        for turn in group.order:
            for name, count in Counter(turn.results).items():
                turns[name] += turn.times * count
        firings = {
            stage.result: len(CheckedFirings(stage, checked.needs).targets)
            for stage in group.stages
        }
        if group.streamed_input is not None:
            firings[group.streamed_input] = checked.height(group.streamed_input)
        for name in sorted({*turns, *firings}):
            if turns[name] != firings.get(name, 0):
                raise InvalidPlan(
                    f"group {number + 1}: {name!r} has {counted(turns[name], 'turn')}; "
                    f"it is made in {counted(firings.get(name, 0), 'firing')}"
                )


def require_work(checked: CheckedPlan) -> None:
    """Raise InvalidPlan unless the plan counts the multiply-accumulates of its stages."""
    work = sum(_work(checked, stage) for _, stage in checked.stages())
    if checked.plan.multiply_accumulates != work:
        raise InvalidPlan(
            f"the plan counts {checked.plan.multiply_accumulates} multiply-accumulates; of this "
            f"network it takes {work}"
        )


def _work(checked: CheckedPlan, stage: Stage) -> int:
    """Multiply-accumulates of a stage, rows and tiles that are computed again included."""
    if stage.mode is Mode.TILES:
        return TiledStage(stage, checked.needs).multiply_accumulates
    ranges = CheckedFirings(stage, checked.needs).ranges
    work = 0
    for layer in map(checked.network.layer, stage.layers):
        macs = multiply_accumulates(layer, checked.network.input_shapes(layer))
        is_accumulated = stage.mode is Mode.ACCUMULATING and layer.name == stage.result
        if stage.mode in (Mode.ROWS, Mode.ACCUMULATING) and not (layer.is_input or is_accumulated):
            computed = [rows[layer.name] for rows in ranges]
            macs = macs // layer.shape.rows * sum(end - first for first, end in computed)
        work += macs
    return work
