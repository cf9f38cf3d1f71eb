"""Every plan of a small network in a fast and a slow memory: the least bytes that move between them.

All topological orders, all runs of layers that work as a group, all partitions of a run into stages
with some rows a firing, and both memories for every tensor, without a search that leaves anything out.
Of the planner it shares the rows that stages keep, and the weights that a stage reads, which the
compiled C confirms (tests/planners/code/test_counted_accesses.py).
"""

from itertools import combinations, product

from cnn2csdf import operators as op
from planners.memory.line_buffers import Keeping, kept_rows
from planners.memory.stages import StageTable
from planners.plan.accumulators import sums_over_rows
from planners.plan.firing import NOTHING, in_step, made_by_rows
from planners.plan.plan import Mode, Stage
from planners.rewrites.column_tiles import in_columns, part_of, stages_of_tile

ONCE = (op.Elementwise, op.Activation, op.Identity, op.Concatenation, op.Slice)


def least_of_any_split(network, fast, weights=None, *, in_tiles=False):
    """The least slow bytes within so many bytes of fast memory; None where nothing fits.

    in_tiles: whether groups may work in tiles of columns, any number of them.
    weights: bytes of the weights of each layer, which lie in flash: a frame reads them there for each
    pixel, or once to copy them for a group, or never, where they stay in fast memory.
    """
    table = StageTable(network, element_bytes=1)
    inputs = [layer.name for layer in network.inputs]
    results = {source for layer in network.outputs for source in layer.inputs}
    works = [one.name for one in network.layers if one.inputs and one not in network.outputs]
    found = []
    for pinned in subsets(weights or {}):
        free = fast - sum(weights[name] for name in pinned)
        moved = {name: size for name, size in (weights or {}).items() if name not in pinned}
        known = {} if in_tiles else None
        found += [
            _least(
                table,
                order,
                set(inputs) - away,
                away,
                results,
                free,
                moved,
                known,
            )
            for order in _orders(network, works, ())
            for away in subsets(inputs)
            if sum(map(table.tensor_bytes, set(inputs) - away)) <= free
        ]
    return min((one for one in found if one is not None), default=None)


def subsets(names):
    return [set(one) for count in range(len(names) + 1) for one in combinations(names, count)]


def _orders(network, left, done):
    if not left:
        yield done
    for name in left:
        if not set(network.layer(name).inputs) & set(left):
            yield from _orders(network, [one for one in left if one != name], (*done, name))


def _least(table, order, here, away, results, fast, weights, known):
    """The least from here on. here, away: tensors that lie in fast and in slow memory.

    known: the tiles of runs, None where there are to be none.
    """
    if not order:
        return 0
    network, best = table.network, None
    for end in range(1, len(order) + 1):
        run, rest = order[:end], order[end:]
        wanted = {one for name in rest for one in network.layer(name).inputs} | results
        leaving = [name for name in run if name in wanted or name == run[-1]]
        for stages in _partitions(table, run):
            if not {stage.result for stage in stages} >= set(leaving):
                continue
            for out in subsets(leaving):
                ways = [_moved(table, run, stages, away, here, leaving, out, fast, weights)]
                if known is not None:
                    ways += _in_tiles(table, run, stages, away, here, leaving, out, fast, known)
                moved = min((one for one in ways if one is not None), default=None)
                if moved is None:
                    continue
                kept = (here | set(leaving) - out) & wanted
                left = _least(
                    table, rest, kept, (away | out) & wanted, results, fast, weights, known
                )
                if left is not None and (best is None or moved + left < best):
                    best = moved + left
    return best


def _partitions(table, run):
    if not run:
        yield ()
    for end in range(1, len(run) + 1):
        layers = run[:end]
        height, stages = table.height(layers[-1]), []
        if table.can_be_stage(layers):
            rows = {one for one in (1, 2, 4, height) if one <= height}
            stages = [Stage(layers=layers, rows=one) for one in sorted(rows)]
        if end == 1 and sums_over_rows(table.network, table.network.layer(layers[0])):
            stages.append(Stage(layers=layers, mode=Mode.ACCUMULATING))
        if table.can_go_by_channels(layers):
            modes = Mode.CHANNELS, Mode.ACCUMULATING
            stages += [Stage(layers=layers, mode=mode) for mode in modes]
        for stage, rest in product(stages, _partitions(table, run[end:])):
            yield (stage, *rest)


def _moved(table, run, stages, away, here, leaving, out, fast, weights):
    """Slow bytes of a group; None where it does not fit, or reads what it may not."""
    network, needs = table.network, {}
    for stage in stages:
        for name in stage.layers:
            layer = network.layer(name)
            for index, source in enumerate(layer.inputs):
                if source in out:
                    return None  # it is read while it is made, and lies in slow memory
                if source in away:
                    rows = [end - first for first, end in table.row_needs(layer, index)]
                    is_summed = stage.mode is Mode.ACCUMULATING and len(stage.layers) == 1
                    is_once = is_summed or (
                        isinstance(layer.operator, ONCE)
                        and len(stage.layers) == 1
                        and sum(rows) == table.height(source)
                    )
                    spans = table.row_needs(layer, index)
                    read = spans[-1][1] - spans[0][0] if is_summed else table.height(source)
                    row = table.row_bytes(source)
                    if is_summed and isinstance(layer.operator, op.Pooling):
                        width = network.layer(source).shape.width
                        row = row // width * layer.operator.window.kernel[1]
                    needs.setdefault(source, []).append((is_once, read * row))
    best = None
    for copied in (None, *needs):
        if any(not all(one for one, _ in reads) for name, reads in needs.items() if name != copied):
            continue
        taken = _bytes(table, stages, copied, leaving)
        taken += sum(table.tensor_bytes(name) for name in (here | set(leaving)) - out)
        taken += sum(_block(table, one) for one in stages if one.result in out)
        if taken > fast:
            continue
        moved = sum(table.tensor_bytes(name) for name in out)
        moved += _of_weights(table, stages, weights, fast - taken)
        for name, reads in needs.items():
            read = sum(size for _, size in reads)
            moved += table.tensor_bytes(name) if name == copied else read
        best = moved if best is None else min(best, moved)
    return best


def _in_tiles(table, run, stages, away, here, leaving, out, fast, known):
    """Slow bytes of a group in each number of tiles of columns that fits."""
    whole = sum(table.tensor_bytes(name) for name in (here | set(leaving)) - out)
    for count in range(1, min(table.network.layer(name).shape.width for name in leaving) + 1):
        if (run, count) not in known:
            found = in_columns(part_of(table.network, run), run, count)
            known[run, count] = found, found and table.of(found.network)
        found, worked = known[run, count]
        if found is None:
            return
        moved = sum(table.tensor_bytes(name) for name in out)
        for tile in found.parts:
            some = stages_of_tile(found.network, tile, run, stages)
            if some is None:
                break
            stored = {to for name, to in zip(leaving, tile.results, strict=True) if name in out}
            taken = sum(_block(worked, one) for one in some if one.result in stored)
            if _bytes(worked, some, None, tile.results) + whole + taken > fast:
                break
            read = [(found.network.layer(name).inputs[0], name) for name in tile.slices]
            moved += sum(worked.tensor_bytes(name) for source, name in read if source in away)
        else:
            yield moved


def _of_weights(table, stages, weights, room):
    """The least bytes that a group reads of weights, with copies of some in so much room."""
    reads = {
        name: read
        for stage in stages
        for name, read in table.weight_reads(table.geometry(stage)).items()
        if name in weights
    }
    return min(
        sum(weights[name] if name in copied else read for name, read in reads.items())
        for copied in subsets(reads)
        if sum(weights[name] for name in copied) <= room
    )


def _block(table, stage):
    """Bytes in which a stage makes a result before it is stored: a pixel, or all sums."""
    shape = table.network.layer(stage.result).shape
    return shape.channels if stage.mode is Mode.ROWS else table.tensor_bytes(stage.result)


def _bytes(table, stages, copied, leaving):
    geometry = [table.geometry(stage) for stage in stages]
    firings = [one.firings for one in geometry]
    strips = [one.strip_bytes for one in geometry]
    if copied is not None:
        firings.insert(0, made_by_rows(copied, table.height(copied), 1))
        strips.insert(0, 0)
    keeping = {one.result: Keeping.RING for one in firings} | dict.fromkeys(leaving, Keeping.WHOLE)
    sizes = {one.result: table.row_bytes(one.result) for one in firings}
    together = in_step(firings)
    if len(together) > len(firings):
        strips.append(0)
        sizes[NOTHING], keeping[NOTHING] = 0, Keeping.WHOLE
    lines, passing = kept_rows(together, sizes, strips, keeping)
    rings = sum(rows * sizes[name] for name, rows in lines.items())
    return rings + sum(one.accumulator for one in geometry) + -(-max(passing) // 4) * 4
