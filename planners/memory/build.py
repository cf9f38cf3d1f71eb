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

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, islice

from cnn2csdf.network import Network
from planners.memory.line_buffers import Keeping, KeptRows
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
    Span,
    StreamBuffer,
    StreamingPlan,
)
from planners.rewrites.rematerialisation import executed_network

EXTERNAL_ALIGNMENT = 8  # bytes


def bounded_plan(
    layer_order: TopologicalOrder,
    table: StageTable,
    groups: Sequence[JoinedMoves],
    *,
    is_streamed: bool,
    offsets: Mapping[str, int] | None = None,
) -> tuple[StreamingPlan, int]:
    """Return the plan of a chain of groups, and a lower bound on the arena of its buffers, in bytes.

    offsets: offset of each tensor, if the arena holds tensors alone and the offsets are fixed.
        Default: offsets are searched, and a result may overlap dead rows of the input of its group.
    """
    is_joined = offsets is None
    builders, spans = _builders(
        layer_order, table, groups, is_streamed=is_streamed, is_joined=is_joined
    )
    plan, least = min(_improving(builders, offsets=offsets), key=_arena_bytes)
    return replace(plan, rematerialised=spans), least


def smaller_plan(
    layer_order: TopologicalOrder,
    table: StageTable,
    groups: Sequence[JoinedMoves],
    *,
    is_streamed: bool,
    below_bytes: int,
) -> StreamingPlan | None:
    """Return the smallest plan of a chain of groups; None if no lower bound is below `below_bytes`."""
    builders, spans = _builders(layer_order, table, groups, is_streamed=is_streamed, is_joined=True)
    smallest = min(_improving(builders, below_bytes=below_bytes), key=_arena_bytes, default=None)
    return None if smallest is None else replace(smallest[0], rematerialised=spans)


def _improving(
    builders: Iterable[_PlanBuilder],
    *,
    offsets: Mapping[str, int] | None = None,
    below_bytes: int | None = None,
) -> Iterator[tuple[StreamingPlan, int]]:
    """Yield plans with their lower bounds, except where the bound excludes a smaller plan.

    offsets: as in `bounded_plan`. below_bytes: as in `smaller_plan`.
    """
    for builder in builders:
        if below_bytes is None or builder.lower_bound < below_bytes:
            plan = builder.plan(offsets)
            arena = plan.arena_bytes
            below_bytes = arena if below_bytes is None else min(below_bytes, arena)
            yield plan, builder.lower_bound


def _arena_bytes(bounded: tuple[StreamingPlan, int]) -> int:
    return bounded[0].arena_bytes


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
    builder = _PlanBuilder(layer_order, table, groups, {}, blocks=blocks, has_leads=False)
    return builder.plan(None), builder.lower_bound


def _builders(
    layer_order: TopologicalOrder,
    table: StageTable,
    groups: Sequence[JoinedMoves],
    *,
    is_streamed: bool,
    is_joined: bool,
) -> tuple[Iterator[_PlanBuilder], tuple[Span, ...]]:
    """Return the candidate plans of a chain of groups, and the spans of recomputed layers.

    is_joined: whether tensors may be aliases inside host tensors.
    """
    spans = tuple(move.span for moves in groups for move in moves if move.span is not None)
    if spans:
        layer_order = topological_order(executed_network(layer_order.network, spans), carries=True)
        table = table.of(layer_order.network)
    geometries = list(_groups(layer_order, table, groups, is_streamed=is_streamed))
    aliases = table.aliases if is_joined else {}
    return _alias_variants(layer_order, table, geometries, aliases), spans


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


def _groups(
    layer_order: TopologicalOrder,
    table: StageTable,
    groups: Sequence[JoinedMoves],
    *,
    is_streamed: bool,
) -> Iterator[GroupGeometry]:
    for number, moves in enumerate(groups):
        stages = [stage for move in moves for stage in move.stages]
        if moves and moves[0].in_turn:
            left = iter(stages)
            yield from (table.group(tuple(islice(left, count))) for count in moves[0].in_turn)
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
        has_leads: bool = True,
    ) -> None:
        """Choose the aliases of the groups, size all buffers, and compute the lower bound.

        A tensor is stored in its host in three cases: both would be stored whole; with `is_eager`,
        only the host is stored whole and a stage produces the tensor; or both share a ring buffer.

        aliases: candidates, by tensor.
        is_eager: whether a tensor that would be kept in line buffers may be stored in a whole host.
        blocks: additional memory of groups.
        has_leads: whether results may overlap dead rows.
        """
        self._blocks = blocks or {}
        self._layer_order = layer_order
        self._table = table
        self._groups = groups
        lives = lifetimes(layer_order, groups)
        hosts = set(lives)
        sizes = {name: table.arena_bytes(name) for name in lives}
        if is_eager:
            lives |= lives_of_lines(groups, {alias.tensor for alias in aliases.values()} - hosts)
        inside = {
            name: alias for name, alias in aliases.items() if name in lives and alias.host in hosts
        }
        lives = {name: life for name, life in lives.items() if name in hosts or name in inside}
        sizes |= {name: table.row_bytes(name) for name in inside if name not in hosts}
        self._aliases = without_costly_aliases(inside, lives, sizes)
        self._whole = {
            name: life for name, life in joint_lives(self._aliases, lives).items() if name in hosts
        }
        self._widest = max(table.bytes_of(name) for name in layer_order.layers)
        left = [alias for name, alias in aliases.items() if name not in self._aliases]
        self._kept = [self._kept_in(group, left) for group in groups]
        self._buffers = tuple(self._sized())
        self._inner = [buffer for buffer in self._buffers if buffer.kind is not Kind.EXTERNAL]
        leads = leads_of(layer_order, table, groups, whole=self._whole, aliases=self._aliases)
        self._leads = dict(leads) if has_leads else {}
        self.lower_bound = arena_lower_bound(groups, self._inner, self._leads)

    @property
    def aliases(self) -> tuple[Alias, ...]:
        """The tensors that are stored inside host tensors."""
        in_rings = (aliases for _, rings in self._kept for _, aliases in rings.values())
        return (*self._aliases.values(), *chain.from_iterable(in_rings))

    def plan(self, known: Mapping[str, int] | None) -> StreamingPlan:
        """Return the plan, with the offsets of the argument, or else with searched offsets."""
        buffers, inside = self._buffers, self._inner
        offsets = known
        if offsets is None:
            least = self.lower_bound
            offsets = stream_offsets(inside, self._alignment, self._leads, enough=least)
        arena = max((offsets.get(buffer.name, 0) + buffer.size for buffer in inside), default=0)
        offsets = {**offsets, **external_offsets(arena, buffers)}
        blocks = {self._block_name(number): block for number, block in self._blocks.items()}
        done = tuple(
            replace(part, offset=offsets.get(buffer.name, 0) + part.offset)
            for buffer in buffers
            for part in blocks.get(buffer.name, (buffer,))
        )
        return StreamingPlan(
            network=self._layer_order.network.name,
            element_bytes=self._table.element_bytes,
            groups=tuple(group.planned() for group in self._groups),
            buffers=done,
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

    def _kept_in(self, group: GroupGeometry, aliases: Collection[Alias]) -> tuple[KeptRows, Rings]:
        """Return the retained rows of a group, including rows of rings, and the shared ring buffers."""
        keeping = {
            firing.result: Keeping.WHOLE
            if firing.result in self._whole or firing.result in self._aliases
            else Keeping.LINE
            for firing in group.firings
        }
        lines, passing = group.kept(keeping)
        rings = rings_of(self._layer_order.network, group.firings, aliases, lines, group.row_bytes)
        for host, (_, inside) in rings.items():
            keeping |= dict.fromkeys((host, *(alias.tensor for alias in inside)), Keeping.WHOLE)
        if rings:
            lines, passing = group.kept(keeping)
        return (lines | {host: rows for host, (rows, _) in rings.items()}, passing), rings

    def _inside(self, group: GroupGeometry, number: int) -> Iterator[StreamBuffer]:
        """Line buffers, accumulators and staging buffer of a group."""
        (lines, passing), _ = self._kept[number]
        for tensor, rows in lines.items():
            size = rows * self._table.row_bytes(tensor)
            yield StreamBuffer.of_group(Kind.LINE, tensor, number, rows=rows, size=size)
        yield from group.accumulators(number)
        size = -(-max(passing) // self._widest) * self._widest
        yield StreamBuffer.of_group(Kind.STAGING, group.result, number, size=size)
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
    whole: Mapping[str, tuple[int, int]],
    aliases: Mapping[str, Alias],
) -> Iterator[tuple[tuple[str, str], int]]:
    """Yield the permitted overlaps of group results with tensors that are dead after these groups.

    If several groups write or read rows of a tensor, the span of these groups counts as a single
    producer or consumer.

    whole: for each whole tensor its first group and one past its last group.
    aliases: tensors that are stored in whole tensors.
    """
    hosts = {name: alias.host for name, alias in aliases.items()}
    inside = {name for name in whole if name not in table.outside}
    for name in sorted(inside - layer_order.results, key=list(whole).index):
        end = whole[name][1]
        last = groups[end - 1]
        read = {
            hosts.get(reading.tensor, reading.tensor)
            for firing in last.firings
            for reading in firing.readings
        }
        result = hosts.get(last.result, last.result)
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
    the result may not reach that byte: the lead is at least w - d, for all firings. None if tensors
    other than results of groups are written to the source or the result.

    span: numbers of the groups.
    ends: names of result and source.
    """
    result, source = ends
    first_row = {result: 0, source: 0}  # in its host, of each tensor of whole rows in either
    hosts = {name: alias.host for name, alias in aliases.items()}
    for name, alias in aliases.items():
        inner, outer = (network.layer(tensor).shape for tensor in (name, alias.host))
        is_of_rows = inner.row_elements == outer.row_elements and inner.is_map == outer.is_map
        if alias.host in ends and is_of_rows:
            first_row[name] = alias.row
    row, source_row = table.row_bytes(result), table.row_bytes(source)
    lead, first_read_later = 0, table.height(source)  # rows of the source that later groups read
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
                written = (first_row[last.result] + made) * row
                lead = max(lead, written - min([first_read_later, *live]) * source_row)
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
    """Return a lower bound on the arena in bytes: maximum over groups of live bytes with overlaps."""
    size = {buffer.name: buffer.size for buffer in buffers}
    most = 0
    for number in range(len(groups)):
        alive = {buffer.name for buffer in buffers if buffer.begin <= number < buffer.end}
        saved: dict[str, int] = {}
        for (below, above), lead in leads.items():
            if {below, above} <= alive:
                both = max(size[below], lead + size[above])
                less = max(0, size[below] + size[above] - both)
                saved[below] = min(saved.get(below, 0) + less, size[below])
        most = max(most, sum(size[name] for name in alive) - sum(saved.values()))
    return most


Rings = dict[str, tuple[int, tuple[Alias, ...]]]
"""Of the host of each shared ring buffer: its rows, and the other tensors in the ring."""


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
    fired, most = [0] * len(firings), 0
    for place in order:
        stage = firings[place]
        if stage.result in readers:
            made = stage.made[fired[place] + 1]
            first = min(
                (reading.first[fired[who]] for who, reading in readers[stage.result]), default=made
            )
            most = max(most, made - first)
        fired[place] += 1
    return most


def _readers(
    network: Network, firings: Sequence[StageFirings], aliases: Sequence[Alias]
) -> dict[str, list[tuple[int, RowNeeds]]]:
    """Return the consumers of each tensor of a ring, including consumers of the same bytes by alias."""
    readings: dict[str, list[tuple[int, RowNeeds]]] = {alias.tensor: [] for alias in aliases}
    for place, stage in enumerate(firings):
        for reading in stage.readings:
            if reading.tensor in readings:
                readings[reading.tensor].append((place, reading))
    return {
        written.tensor: [
            reading
            for alias in aliases
            if _overlap(network, written, alias)
            for reading in readings[alias.tensor]
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
) -> dict[str, tuple[int, int]]:
    """Return the lifetime of each whole tensor: its first group and one past its last group.

    Example: a tensor that group 0 produces and group 1 consumes has the lifetime (0, 2). A result
    of the network is live until after the last group.
    """
    begin: dict[str, int] = {}
    first = groups[0]
    # the input, if it is never stored whole
    passing = first.streamed_input if first.stages else None
    made = {
        geometry.firings.result: number
        for number, group in enumerate(groups)
        for geometry in group.stages
    }
    for name in (layer_order.at(0), *layer_order.others):
        if name not in made and name != passing:  # else a stage of its own brings it
            begin[name] = 0
    end: dict[str, int] = {}
    for number, group in enumerate(groups):
        for geometry in group.stages:
            for reading in geometry.firings.readings:
                if made.get(reading.tensor, -1) != number:
                    end[reading.tensor] = number + 1
    for name, number in made.items():
        is_last = name == groups[number].result
        if name in end or name in layer_order.results or is_last:
            begin[name] = number
    last = len(groups)
    return {
        name: (number, last if name in layer_order.results else end.get(name, number + 1))
        for name, number in begin.items()
        if name != passing
    }


def lives_of_lines(
    groups: Sequence[GroupGeometry], names: Collection[str]
) -> dict[str, tuple[int, int]]:
    """Return the lifetimes of the tensors in `names` that a group both produces and consumes."""
    return {
        geometry.firings.result: (number, number + 1)
        for number, group in enumerate(groups)
        for geometry in group.stages
        if geometry.firings.result in names
    }
