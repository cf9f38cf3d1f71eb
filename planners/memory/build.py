"""Memory plan of a chain of fused groups: buffer sizes, aliases, in-place overlaps and offsets.

An alias stores a tensor inside a host tensor, such as an input of a concatenation in the result. An
in-place overlap (a lead) lets the result of a group overwrite dead rows of the group's input. The
lower bound on the arena follows from both.

Example of an overlap: a group reads a tensor of 100 bytes and writes a result of 60 bytes. If the
result may begin 20 bytes below the source, the arena is 120 bytes (result at 0, source at 20)
instead of 160.

Inside a group, the inputs of a concatenation may share a ring buffer with its result. With separate
line buffers, the inputs would be retained until the concatenation has copied their rows. In the
shared ring, producers write directly into rows of the result. The ring has as many rows as the
maximum distance from the first row that is still read to the last row that is written. Example:
rows 0 to 4 are written while row 2 is still read: the ring has 3 rows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, islice

from cnn2csdf.network import Network
from planners.memory.line_buffers import Keeping
from planners.memory.moves import JoinedMoves
from planners.memory.order import TopologicalOrder, topological_order
from planners.memory.placement import Leads, stream_offsets
from planners.memory.stages import GroupGeometry, StageTable
from planners.plan.aliases import joint_lives, without_costly_aliases
from planners.plan.firing import RowNeeds, StageFirings, firing_order
from planners.plan.plan import (
    ACCUMULATOR_BYTES,
    Alias,
    Kind,
    StreamBuffer,
    StreamingPlan,
)
from planners.rewrites.rematerialisation import executed_network

EXTERNAL_ALIGNMENT = 8  # bytes

Lifetime = tuple[int, int]
"""Numbers of the first group in which a buffer is live, and of the group after the last."""


def bounded_plan(
    layer_order: TopologicalOrder,
    table: StageTable,
    groups: Sequence[JoinedMoves],
    *,
    is_streamed: bool,
    offsets: Mapping[str, int] | None = None,
) -> tuple[StreamingPlan, int]:
    """Return the plan of a chain of groups, and a lower bound on the arena of its buffers, in bytes.

    is_streamed: whether the input arrives row by row, into the first group.
    offsets: offset of each tensor, if the arena holds tensors alone and the offsets are fixed.
        Default: offsets are searched, tensors may be aliases inside host tensors, and a result may
        overlap dead rows of the input of its group.
    """
    smallest = _smallest(layer_order, table, groups, is_streamed=is_streamed, offsets=offsets)
    assert smallest is not None  # without a limit a plan always exists
    return smallest


def smaller_plan(
    layer_order: TopologicalOrder,
    table: StageTable,
    groups: Sequence[JoinedMoves],
    *,
    is_streamed: bool,
    below_bytes: int,
) -> StreamingPlan | None:
    """Return the smallest plan of a chain of groups; None if no lower bound is below `below_bytes`."""
    smallest = _smallest(
        layer_order, table, groups, is_streamed=is_streamed, below_bytes=below_bytes
    )
    return None if smallest is None else smallest[0]


def _smallest(
    layer_order: TopologicalOrder,
    table: StageTable,
    groups: Sequence[JoinedMoves],
    *,
    is_streamed: bool,
    offsets: Mapping[str, int] | None = None,
    below_bytes: int | None = None,
) -> tuple[StreamingPlan, int] | None:
    """Return the smallest plan over several sets of aliases, as `bounded_plan` and `smaller_plan`.

    Offsets are searched only for buffers whose lower bound is below the arena of all plans so far.
    """
    spans = tuple(move.span for moves in groups for move in moves if move.span is not None)
    if spans:
        layer_order = topological_order(executed_network(layer_order.network, spans), carries=True)
        table = table.of(layer_order.network)
    geometries = list(_geometries(layer_order, table, groups, is_streamed=is_streamed))
    aliases = table.aliases if offsets is None else {}
    smallest: tuple[StreamingPlan, int] | None = None
    for builder in _alias_variants(layer_order, table, geometries, aliases):
        if below_bytes is None or builder.lower_bound < below_bytes:
            plan = replace(builder.plan(offsets), rematerialised=spans)
            if smallest is None or plan.arena_bytes < smallest[0].arena_bytes:
                smallest = plan, builder.lower_bound
            below_bytes = min(plan.arena_bytes, below_bytes or plan.arena_bytes)
    return smallest


def plan_with_blocks(
    layer_order: TopologicalOrder,
    table: StageTable,
    groups: Sequence[GroupGeometry],
    blocks: Mapping[int, Sequence[StreamBuffer]],
) -> tuple[StreamingPlan, int]:
    """Return the plan of groups without in-place overlaps, and a lower bound on its arena, in bytes.

    blocks: tile buffers and scratch of a group, by the number of the group, in addition to line
        buffers, accumulators and staging buffer. They have fixed offsets in a block of memory.
    """
    builder = _PlanBuilder(layer_order, table, groups, {}, blocks=blocks)
    return builder.plan(None), builder.lower_bound


def _alias_variants(
    layer_order: TopologicalOrder,
    table: StageTable,
    groups: Sequence[GroupGeometry],
    aliases: Mapping[str, Alias],
) -> Iterator[_PlanBuilder]:
    """Yield the groups with different sets of aliases; the caller chooses the smallest plan.

    Among equal plans the first is chosen, which has the fewest copies: tensors that a group would
    keep in line buffers may be stored in a whole host instead.
    """
    aliases_before: set[tuple[Alias, ...]] = set()
    for candidates, is_eager in ((aliases, True), (aliases, False), ({}, False)):
        if not candidates and () in aliases_before:
            return
        builder = _PlanBuilder(layer_order, table, groups, candidates, is_eager=is_eager)
        if builder.aliases not in aliases_before:
            aliases_before.add(builder.aliases)
            yield builder


def _geometries(
    layer_order: TopologicalOrder,
    table: StageTable,
    groups: Sequence[JoinedMoves],
    *,
    is_streamed: bool,
) -> Iterator[GroupGeometry]:
    """Yield the groups of the plan: a move with `in_turn` consists of several groups."""
    for number, moves in enumerate(groups):
        stages = [stage for move in moves for stage in move.stages]
        if moves and moves[0].in_turn:
            remaining = iter(stages)
            yield from (table.group(tuple(islice(remaining, count))) for count in moves[0].in_turn)
        else:
            yield table.group(stages, layer_order.at(0) if is_streamed and number == 0 else None)


class _PlanBuilder:
    """Plan builder: sizes the buffers of a chain of groups, then places the buffers in the arena.

    lower_bound: on the arena, in bytes.
    """

    def __init__(
        self,
        layer_order: TopologicalOrder,
        table: StageTable,
        groups: Sequence[GroupGeometry],
        aliases: Mapping[str, Alias],
        *,
        is_eager: bool = False,
        blocks: Mapping[int, Sequence[StreamBuffer]] | None = None,
    ) -> None:
        """Choose the aliases of the groups, size all buffers, and compute the lower bound.

        aliases, is_eager: as in `_chosen_aliases`.
        blocks: additional memory of groups, as in `plan_with_blocks`; results then overlap no inputs.
        """
        self._blocks = blocks or {}
        self._layer_order, self._table, self._groups = layer_order, table, groups
        self._aliases, self._whole = self._chosen_aliases(aliases, is_eager=is_eager)
        self._widest = max(
            table.bytes_of(name) for name in layer_order.layers
        )  # bytes of an element
        ring_aliases = [alias for name, alias in aliases.items() if name not in self._aliases]
        self._kept = [self._kept_in(group, ring_aliases) for group in groups]
        self._buffers = tuple(self._sized())
        self._inner = [buffer for buffer in self._buffers if buffer.kind is not Kind.EXTERNAL]
        self._leads: Leads = {}
        if blocks is None:
            leads = leads_of(layer_order, table, groups, whole=self._whole, aliases=self._aliases)
            self._leads = dict(leads)
        self.lower_bound = arena_lower_bound(groups, self._inner, self._leads)

    def _chosen_aliases(
        self, candidates: Mapping[str, Alias], *, is_eager: bool
    ) -> tuple[dict[str, Alias], dict[str, Lifetime]]:
        """Return the aliases inside whole hosts, and the lifetimes of the tensors stored by themselves.

        A tensor is stored in its host if both would be stored whole; with `is_eager` also if only the
        host would be stored whole, and the tensor in a line buffer. (Tensors in line buffers may
        also share a ring buffer: `_kept_in`.)
        """
        whole = lifetimes(self._layer_order, self._groups)
        lives = dict(whole)
        if is_eager:
            lives |= {
                result: (number, number + 1)
                for number, group in enumerate(self._groups)
                for result in group.row_bytes
                if result in candidates and result not in whole
            }
        inside = {
            name: alias
            for name, alias in candidates.items()
            if name in lives and alias.host in whole
        }
        lives = {name: life for name, life in lives.items() if name in whole or name in inside}
        sizes = {
            name: self._table.arena_bytes(name) if name in whole else self._table.row_bytes(name)
            for name in lives
        }
        aliases = without_costly_aliases(inside, lives, sizes)
        joint = joint_lives(aliases, lives)
        return aliases, {name: life for name, life in joint.items() if name in whole}

    @property
    def aliases(self) -> tuple[Alias, ...]:
        """The tensors that are stored inside host tensors."""
        in_rings = (aliases for *_, rings in self._kept for _, aliases in rings.values())
        return (*self._aliases.values(), *chain.from_iterable(in_rings))

    def plan(self, offsets: Mapping[str, int] | None) -> StreamingPlan:
        """Return the plan. offsets: of each tensor in the arena, if they are fixed."""
        inner = self._inner
        if offsets is None:
            offsets = stream_offsets(inner, self._alignment, self._leads, enough=self.lower_bound)
        # Buffers without a fixed offset have no bytes.
        arena = max((offsets.get(buffer.name, 0) + buffer.size for buffer in inner), default=0)
        offsets = {**offsets, **external_offsets(arena, self._buffers)}
        blocks = {self._block_name(number): block for number, block in self._blocks.items()}
        placed = tuple(
            replace(part, offset=offsets.get(buffer.name, 0) + part.offset)
            for buffer in self._buffers
            for part in blocks.get(buffer.name, (buffer,))
        )
        return StreamingPlan(
            network=self._layer_order.network.name,
            element_bytes=self._table.element_bytes,
            groups=tuple(group.planned() for group in self._groups),
            buffers=placed,
            arena_bytes=arena,
            multiply_accumulates=sum(
                geometry.work for group in self._groups for geometry in group.stages
            ),
            aliases=self.aliases,
        )

    def _sized(self) -> Iterator[StreamBuffer]:
        """The buffers with exact sizes, before placement."""
        outside = self._table.outside
        for name, (begin, end) in self._whole.items():
            yield StreamBuffer(
                name=name,
                kind=Kind.EXTERNAL if name in outside else Kind.WHOLE,
                tensor=name,
                rows=self._table.height(name),
                size=self._table.tensor_bytes(name),
                begin=begin,
                end=end,
            )
        for number, group in enumerate(self._groups):
            yield from self._inside(group, number)

    def _block_name(self, group: int) -> str:
        return f"{self._groups[group].result} block"

    def _alignment(self, buffer: StreamBuffer) -> int:
        """Bytes of which the offset of a buffer is a multiple."""
        if buffer.kind is Kind.SCRATCH:
            return max(map(self._alignment_of_part, self._blocks[buffer.begin]))
        if buffer.kind is Kind.ACCUMULATORS:
            return ACCUMULATOR_BYTES
        if buffer.kind is Kind.STAGING:
            return self._widest
        return self._table.bytes_of(buffer.tensor)

    def _alignment_of_part(self, part: StreamBuffer) -> int:
        """The bytes of an element of a tile, or of the input of a layer with scratch."""
        layer = self._layer_order.network.layer(part.tensor)
        return self._table.bytes_of(layer.inputs[0] if part.kind is Kind.SCRATCH else layer.name)

    def _kept_in(
        self, group: GroupGeometry, aliases: Collection[Alias]
    ) -> tuple[dict[str, int], int, Rings]:
        """Return the rows of each line and ring buffer of a group, its staging bytes, and its rings.

        aliases: candidates for shared ring buffers.
        """
        keeping = {
            firing.result: Keeping.WHOLE
            if firing.result in self._whole or firing.result in self._aliases
            else Keeping.LINE
            for firing in group.firings
        }
        lines, transient = group.kept(keeping)
        rings = rings_of(self._layer_order.network, group.firings, aliases, lines, group.row_bytes)
        if rings:  # rows go directly into a ring, and are never staged
            for host, (_, inside) in rings.items():
                keeping |= dict.fromkeys((host, *(alias.tensor for alias in inside)), Keeping.WHOLE)
            lines, transient = group.kept(keeping)
        rows_of_rings = {host: rows for host, (rows, _) in rings.items()}
        staging = -(-max(transient) // self._widest) * self._widest
        return lines | rows_of_rings, staging, rings

    def _inside(self, group: GroupGeometry, number: int) -> Iterator[StreamBuffer]:
        """Line buffers, accumulators, staging buffer and block of a group."""
        lines, staging, _ = self._kept[number]
        for tensor, rows in lines.items():
            size = rows * self._table.row_bytes(tensor)
            yield StreamBuffer.of_group(Kind.LINE, tensor, number, rows=rows, size=size)
        yield from group.accumulators(number)
        yield StreamBuffer.of_group(Kind.STAGING, group.result, number, size=staging)
        if number in self._blocks:
            size = max(part.offset + part.size for part in self._blocks[number])
            block = StreamBuffer.of_group(Kind.SCRATCH, group.result, number, size=size)
            yield replace(block, name=self._block_name(number))


def external_offsets(arena: int, buffers: Sequence[StreamBuffer]) -> dict[str, int]:
    """Return offsets of the tensors outside the arena, consecutive from its end on."""
    offset, offsets_of = -(-arena // EXTERNAL_ALIGNMENT) * EXTERNAL_ALIGNMENT, {}
    for buffer in buffers:
        if buffer.kind is Kind.EXTERNAL:
            offsets_of[buffer.name] = offset
            offset += -(-buffer.size // EXTERNAL_ALIGNMENT) * EXTERNAL_ALIGNMENT
    return offsets_of


def external_buffers(
    table: StageTable, names: Collection[str], groups: int, begin: int
) -> Iterator[StreamBuffer]:
    """Yield the buffers of tensors in the caller's memory, in all groups, from byte `begin` on."""
    for name in sorted(names):
        begin += -begin % table.bytes_of(name)
        size, rows = table.tensor_bytes(name), table.height(name)
        buffer = StreamBuffer.of_group(Kind.EXTERNAL, name, 0, groups, size=size, rows=rows)
        yield replace(buffer, name=name, offset=begin)
        begin += size


def leads_of(
    layer_order: TopologicalOrder,
    table: StageTable,
    groups: Sequence[GroupGeometry],
    *,
    whole: Mapping[str, Lifetime],
    aliases: Mapping[str, Alias],
) -> Iterator[tuple[tuple[str, str], int]]:
    """Yield the permitted overlaps of group results with tensors that are dead after these groups.

    Each is a pair of names (result, source) with its lead: minimum of source offset minus result
    offset, in bytes. If several groups write rows of a result, or read rows of a source, all groups
    from the first writer to the last reader count as a single group.

    whole: lifetime of each whole tensor.
    aliases: tensors that are stored in whole tensors.
    """
    hosts = {name: alias.host for name, alias in aliases.items()}
    inside = {name for name in whole if name not in table.outside}
    for name in sorted(inside - layer_order.results, key=list(whole).index):
        end = whole[name][1]
        last_group = groups[end - 1]
        read = {
            hosts.get(reading.tensor, reading.tensor)
            for firing in last_group.firings
            for reading in firing.readings
        }
        result = hosts.get(last_group.result, last_group.result)
        if name in read and result in inside and result != name:
            span = range(whole[result][0], end)
            lead = _lead_over(layer_order.network, table, groups, span, (result, name), aliases)
            if lead is not None:
                yield (result, name), lead


def _lead_over(
    network: Network,
    table: StageTable,
    groups: Sequence[GroupGeometry],
    span: range,
    ends: tuple[str, str],
    aliases: Mapping[str, Alias],
) -> int | None:
    """Return the minimum of source offset minus result offset, in bytes, for an in-place result.

    The result is written while the groups read the source. When a firing has written the result up to
    byte w, and the first live byte of the source is d, both counted from the begin of their tensor,
    the result may not reach that byte: the lead is at least w - d, for all firings. None if the rows
    do not tell this: a tensor inside one of the two covers a part of each row, or a stage other than
    the last of its group writes to one of the two.

    span: numbers of the groups.
    ends: names of result and source.
    """
    result, source = ends
    # Of the two, and of each tensor inside that covers whole rows: the first row of its host.
    first_row = {result: 0, source: 0}
    hosts = {name: alias.host for name, alias in aliases.items()}
    for name, alias in aliases.items():
        inner, outer = (network.layer(tensor).shape for tensor in (name, alias.host))
        is_of_rows = inner.row_elements == outer.row_elements and inner.is_map == outer.is_map
        if alias.host in ends and is_of_rows:
            first_row[name] = alias.row
    row_bytes, source_row_bytes = table.row_bytes(result), table.row_bytes(source)
    lead, first_read_later = (
        0,
        table.height(source),
    )  # first row of the source that later groups read
    for number in reversed(span):
        firings = [geometry.firings for geometry in groups[number].stages]
        last = firings[-1]
        for firing in firings:
            host = hosts.get(firing.result, firing.result)
            if host == source and not _needs_no_copy(network, firing.result, hosts):
                return None
            if host == result and not (firing is last and firing.result in first_row):
                return None
        readings = [
            reading
            for firing in firings
            for reading in firing.readings
            if hosts.get(reading.tensor, reading.tensor) == source
        ]
        if any(reading.tensor not in first_row for reading in readings):
            return None
        if hosts.get(last.result, last.result) == result:
            dead_rows = groups[number].dead
            names = {reading.tensor for reading in readings}
            for firing_number, made in enumerate(last.made[1:]):
                live = [first_row[name] + dead_rows[name][firing_number] for name in names]
                written = (first_row[last.result] + made) * row_bytes
                live_byte = min([first_read_later, *live]) * source_row_bytes
                lead = max(lead, written - live_byte)
        read_first = (first_row[reading.tensor] + reading.first[0] for reading in readings)
        first_read_later = min([first_read_later, *read_first])
    return lead


def _needs_no_copy(network: Network, name: str, hosts: Mapping[str, str]) -> bool:
    """Whether a tensor is a slice of the tensor in which it is stored, and needs no copy."""
    layer = network.layer(name)
    return layer.operator.sliced_range is not None and hosts.get(name) in {
        hosts.get(source, source) for source in layer.inputs
    }


def arena_lower_bound(
    groups: Sequence[GroupGeometry], buffers: Sequence[StreamBuffer], leads: Leads
) -> int:
    """Return a lower bound on the arena in bytes: maximum over groups of live bytes with overlaps.

    An overlap saves the bytes by which the two buffers exceed their union. A buffer below several
    others saves the sum, but at most its own size.
    """
    size = {buffer.name: buffer.size for buffer in buffers}
    most = 0
    for number in range(len(groups)):
        alive = {buffer.name for buffer in buffers if buffer.begin <= number < buffer.end}
        saved: dict[str, int] = {}
        for (below, above), lead in leads.items():
            if {below, above} <= alive:
                union = max(size[below], lead + size[above])
                overlap = max(0, size[below] + size[above] - union)
                saved[below] = min(saved.get(below, 0) + overlap, size[below])
        most = max(most, sum(size[name] for name in alive) - sum(saved.values()))
    return most


Rings = dict[str, tuple[int, tuple[Alias, ...]]]
"""Shared ring buffers: by the host, the rows of the ring and the other tensors in the ring."""


def rings_of(
    network: Network,
    firings: Sequence[StageFirings],
    aliases: Collection[Alias],
    lines: Mapping[str, int],
    row_bytes: Mapping[str, int],
) -> Rings:
    """Return the shared ring buffers of a group that need no more bytes than separate line buffers.

    lines: rows of each line buffer of the group.
    row_bytes: bytes of a row of each result.

    Example: two inputs of 4 rows of 8 bytes and a result of 1 row of 16 bytes need 80 bytes in
    separate line buffers. A ring of 5 rows of 16 bytes needs 80 bytes as well, and is used, because
    the ring saves the copies.
    """
    members: dict[str, list[Alias]] = {}
    for alias in aliases:
        if alias.tensor in lines and alias.host in lines and alias.row == 0:
            members.setdefault(alias.host, []).append(alias)
    rings = {}
    order = firing_order(firings) if members else ()
    for host, tensors in members.items():
        tensors = [
            alias for alias in tensors if _height(network, alias.tensor) == _height(network, host)
        ]
        rows = min(_ring_rows(network, firings, order, host, tensors), _height(network, host))
        separate_bytes = sum(
            lines[name] * row_bytes[name] for name in (host, *(alias.tensor for alias in tensors))
        )
        if tensors and is_smaller_ring(rows * row_bytes[host], separate_bytes):
            rings[host] = rows, tuple(tensors)
    return rings


def is_smaller_ring(ring_bytes: int, separate_bytes: int) -> bool:
    """Return whether a shared ring buffer needs at most the bytes of separate line buffers."""
    return ring_bytes <= separate_bytes


def _height(network: Network, tensor: str) -> int:
    return network.layer(tensor).shape.rows


def _ring_rows(
    network: Network,
    firings: Sequence[StageFirings],
    order: Sequence[int],
    host: str,
    aliases: Sequence[Alias],
) -> int:
    """Return the ring size in rows: maximum distance from first live row to last written row."""
    readers = _readers(network, firings, [Alias(host, host), *aliases])
    fired, most = [0] * len(firings), 0  # firings of each stage so far; rows
    for stage in order:
        result = firings[stage].result
        if result in readers:
            written = firings[stage].made[fired[stage] + 1]
            first_live = min(
                (needs.first[fired[reader]] for reader, needs in readers[result]), default=written
            )
            most = max(most, written - first_live)
        fired[stage] += 1
    return most


def _readers(
    network: Network, firings: Sequence[StageFirings], aliases: Sequence[Alias]
) -> dict[str, list[tuple[int, RowNeeds]]]:
    """Return the readers of the bytes of each tensor of a ring: number of the stage, and row needs."""
    needs_of: dict[str, list[tuple[int, RowNeeds]]] = {alias.tensor: [] for alias in aliases}
    for number, stage in enumerate(firings):
        for needs in stage.readings:
            if needs.tensor in needs_of:
                needs_of[needs.tensor].append((number, needs))
    return {
        written.tensor: [
            reader
            for alias in aliases
            if _overlap(network, written, alias)
            for reader in needs_of[alias.tensor]
        ]
        for written in aliases
    }


def _overlap(network: Network, one: Alias, other: Alias) -> bool:
    """Return whether two tensors of a host have columns and channels of the host in common."""
    shapes = [network.layer(alias.tensor).shape for alias in (one, other)]
    sizes = [(shape.width, shape.pixel_elements) for shape in shapes]
    begins = [(alias.column, alias.channel) for alias in (one, other)]
    return all(
        begins[0][axis] < begins[1][axis] + sizes[1][axis]
        and begins[1][axis] < begins[0][axis] + sizes[0][axis]
        for axis in (0, 1)
    )


def lifetimes(
    layer_order: TopologicalOrder, groups: Sequence[GroupGeometry]
) -> dict[str, Lifetime]:
    """Return the lifetime of each whole tensor: its first group and one past its last group.

    Example: a tensor that group 0 produces and group 1 consumes has the lifetime (0, 2). A result
    of the network is live until after the last group.
    """
    writers = {
        geometry.firings.result: number
        for number, group in enumerate(groups)
        for geometry in group.stages
    }
    ends = {
        reading.tensor: number + 1
        for number, group in enumerate(groups)
        for geometry in group.stages
        for reading in geometry.firings.readings
        if writers.get(reading.tensor) != number
    }
    # An input whose rows a group reads as they arrive is never stored whole.
    passing = groups[0].streamed_input if groups[0].stages else None
    begins = {
        name: 0
        for name in (layer_order.at(0), *layer_order.others)
        if name not in writers and name != passing
    }
    for name, number in writers.items():
        if name in ends or name in layer_order.results or name == groups[number].result:
            begins[name] = number
    return {
        name: (
            begin,
            len(groups) if name in layer_order.results else ends.get(name, begin + 1),
        )
        for name, begin in begins.items()
    }
