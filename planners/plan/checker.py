"""Checker of memory plans from any source: whether a plan executes its network correctly.

planners.plan.plan lists the rules of a valid plan. First the statements of a plan are compared with the
network: layers, their order and modes, the sizes of buffers, the buffer that each layer reads, and
when that buffer is written. Then planners.plan.executor executes the plan without computing values, in
an arena with shadow memory that tags each byte with the element it holds.

Every check is derived from the plan and the network, with the geometry of
planners.plan.checked_geometry and the rules of planners.plan.checked_rules, which neither planners nor
the C generator use.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations, pairwise, permutations, product

from cnn2csdf.network import Layer, Network
from cnn2csdf.parameters import multiply_accumulates
from cnn2csdf.rings import rings_of
from csdf.errors import ExecutionError, InvalidPlan, counted
from planners.plan.checked_geometry import CheckedFirings, InputNeeds, TiledStage
from planners.plan.checked_rules import (
    adds_up_rows,
    bytes_kept,
    bytes_of_weight,
    bytes_of_weights,
    can_lie_apart,
    has_wide_accumulators,
    makes_rectangles,
    may_accumulate,
    pixel_elements,
    works_on_blocks,
)
from planners.plan.checked_states import require_states
from planners.plan.checked_traffic import require_write_buffers
from planners.plan.executor import PlanMachine
from planners.plan.plan import (
    ACCUMULATOR_BYTES,
    Alias,
    Kind,
    Mode,
    Stage,
    StreamBuffer,
    StreamingPlan,
)
from planners.rewrites.copied_layers import require_same

WITH_OTHERS = 2**27  # bytes of an arena that any network may have: larger ones may share it


def require_plan(network: Network, worked: Network, plan: StreamingPlan) -> None:
    """Raise InvalidPlan, naming the layer or buffer, unless the plan executes this network.

    worked: the network with the copies of layers that the plan names, from an untrusted source; it is
    compared with the network first.
    """
    require_same(network, worked)
    _Checked(worked, plan).require()
    require_apart([plan])
    try:
        machine = PlanMachine(worked, plan)
        machine.run()
        _require_counts(plan, machine)
        for layer in network.outputs:
            machine.output(layer.inputs[0])
        if network.keeps_state:  # rings of rows begin elsewhere then
            machine.next_frame()
    except ExecutionError as error:
        raise InvalidPlan(f"the plan cannot be carried out: {error}") from None


def _require_counts(plan: StreamingPlan, machine: PlanMachine) -> None:
    """Require that the traffic of a frame with each slow memory is the traffic stated in the plan."""
    names = [memory.name for memory in plan.memories if memory.is_slow]
    names += [] if plan.flash is None else [plan.flash]
    if [count.memory for count in plan.traffic] != names:
        raise InvalidPlan(
            "the plan counts bytes of "
            f"{', '.join(count.memory for count in plan.traffic) or 'no memory'}"
            f"; its slow memories are {', '.join(names) or 'none'}"
        )
    for count in plan.traffic:
        counted_bytes = machine.arena.reads[count.memory], machine.arena.writes[count.memory]
        if counted_bytes != (count.read, count.written):
            raise InvalidPlan(
                f"the plan counts {count.read} bytes from {count.memory!r} and "
                f"{count.written} to it; a "
                f"frame moves {counted_bytes[0]} and {counted_bytes[1]}"
            )


class _Checked:
    """The static checks of a plan against its network."""

    def __init__(self, network: Network, plan: StreamingPlan) -> None:
        self._network, self._plan = network, plan
        self._needs = InputNeeds(network)
        self._windows = rings_of(network)
        self._works = {
            layer.name: layer
            for layer in network.layers
            if not layer.is_end and layer.name not in self._windows
        }
        self._variables = {previous.name for previous, _ in network.variables}
        self._inputs = {layer.name for layer in network.inputs}
        self._outputs = {layer.name: layer for layer in network.outputs}
        self._results = network.results
        # a stage may bring an input, one of several, and an output whose rows go out one by one
        ends = {layer.name: layer for layer in network.inputs} | self._outputs
        self._worked = self._works | ends
        self._group_of: dict[str, int] = {}
        # C counts an arena in its smallest elements.
        self._unit = min(self._element_bytes(layer.name) for layer in network.layers)

    def _sources(self, layer: Layer) -> list[str]:
        """The stored tensors that a layer reads: for a ring window, its variable and its new rows."""
        names_stored: list[str] = []
        for name in layer.inputs:
            window = self._windows.get(name)
            names_stored += [name] if window is None else [window.previous, window.new]
        return names_stored

    def _height(self, tensor: str) -> int:
        return self._network.layer(tensor).shape.rows

    def _element_bytes(self, tensor: str) -> int:
        return self._plan.element_bytes or self._network.layer(tensor).element_bytes

    def require(self) -> None:
        """Raise InvalidPlan for the violations that are visible without executing the plan."""
        self._require_layers()
        self._require_streamed_input()
        for _, stage in self._stages():
            self._require_stage(stage)
        for buffer in self._plan.buffers:
            self._require_buffer(buffer)
        for alias in self._plan.aliases:
            self._require_alias(alias)
        require_states(self._network, self._plan, self._group_of)
        self._require_arena()
        self._require_memories()
        require_write_buffers(self._needs, self._plan)
        self._require_weights()
        self._require_whole()
        self._require_one_each()
        self._require_filled()
        self._require_read()
        self._require_orders()
        self._require_work()
        require_layouts(self._network, self._plan)

    def _stages(self) -> Iterator[tuple[int, Stage]]:
        for number, group in enumerate(self._plan.groups):
            for stage in group.stages:
                yield number, stage

    def _require_layers(self) -> None:
        """Require each layer once, after the layers that it reads."""
        of = f"the plan of network {self._plan.network!r}"
        layers_executed = self._worked
        for number, stage in self._stages():
            for name in stage.layers:
                if name in self._inputs and stage != Stage(layers=(name,), rows=stage.rows):
                    raise InvalidPlan(f"{of} works input {name!r} with others, or not by rows")
                if name not in layers_executed:
                    raise InvalidPlan(
                        f"{of} works layer {name!r}, which network {self._network.name!r} has "
                        "not; give the model, and the options of reading, that it was planned with"
                    )
                if name in self._group_of:
                    raise InvalidPlan(f"{of} works layer {name!r} twice")
                for source in self._sources(layers_executed[name]):
                    is_given = source in self._inputs or source in self._variables
                    if source not in self._group_of and not is_given:
                        raise InvalidPlan(f"{of} works layer {name!r} before {source!r}")
                self._group_of[name] = number
        for name in self._works:
            if name not in self._group_of:
                raise InvalidPlan(f"{of} does not work layer {name!r}")

    def _require_streamed_input(self) -> None:
        for number, group in enumerate(self._plan.groups):
            if group.streamed_input is None or self._plan.is_copied(number):
                continue
            if number or self._inputs != {group.streamed_input}:
                raise InvalidPlan(
                    f"group {number + 1} takes {group.streamed_input!r} row by row; only the one input "
                    "of a network can come so, and only to the first group"
                )

    def _whole(self) -> set[str]:
        """Tensors that are stored whole."""
        whole = {buffer.tensor for buffer in self._plan.buffers if buffer.has_all_rows}
        return whole | {alias.tensor for alias in self._plan.aliases if alias.host in whole}

    def _require_stage(self, stage: Stage) -> None:
        named = f"the stage that makes {stage.result!r}"
        if not 1 <= stage.rows <= self._height(stage.result):
            raise InvalidPlan(
                f"{named} makes {counted(stage.rows, 'row')} of {self._height(stage.result)}"
            )
        modes = {
            Mode.ACCUMULATING: len(stage.layers) == 1
            and may_accumulate(self._network, self._network.layer(stage.result)),
            Mode.CHANNELS: self._can_go_by_channels(stage.layers),
            Mode.ROWS: self._can_be_stage(stage.layers),
            Mode.TILES: self._can_be_stage(stage.layers) and self._are_tiled(stage.layers),
        }
        if not modes[stage.mode]:
            raise InvalidPlan(f"{named} cannot work by {stage.mode.value}")
        if (stage.mode is Mode.TILES) != (stage.tiles is not None):
            raise InvalidPlan(f"{named} works by {stage.mode.value}, and tiles are another way")
        if stage.tiles is not None:
            shape = self._network.layer(stage.result).shape
            ends = stage.tiles.row_ends[-1], stage.tiles.column_ends[-1]
            if ends != (shape.height, shape.width) or stage.rows != shape.rows:
                raise InvalidPlan(f"{named} has tiles that end at {ends}; the result is {shape}")
        self._require_parts(stage, named)
        is_swept = stage.mode is Mode.ROWS
        inside = stage.layers[:-1] if is_swept else ()
        if tuple(name for name, _, _ in stage.strips) != inside:
            raise InvalidPlan(f"{named} has strips of other layers than those before its last")
        for name, rows, columns in stage.strips:
            shape = self._network.layer(name).shape
            if not (rows <= shape.rows and 1 <= columns <= shape.width):
                raise InvalidPlan(
                    f"{named} has a strip of {counted(rows, 'row')} and "
                    f"{counted(columns, 'column')} of {name!r}, "
                    f"which has {shape.rows} and {shape.width}"
                )

    def _can_be_stage(self, layers: tuple[str, ...]) -> bool:
        """Whether the layers, if several, make one tensor, each rectangle of it from rectangles."""
        if len(layers) == 1:
            return True
        first, *_, last = (self._network.layer(name).shape for name in layers)
        if first.rows == first.width == 1 and not last.rows == last.width == 1:
            return False  # its result would be made again and again
        consumers = self._network.consumers
        is_inside = all(
            consumers[layer_name] and set(consumers[layer_name]) <= set(layers)
            for layer_name in layers[:-1]
        )
        return is_inside and self._are_tiled(layers)

    def _are_tiled(self, layers: tuple[str, ...]) -> bool:
        return all(makes_rectangles(self._network, self._network.layer(name)) for name in layers)

    def _can_go_by_channels(self, layers: tuple[str, ...]) -> bool:
        """Whether these are a convolution and a layer that adds up each of its feature maps."""
        if len(layers) != 2 or self._network.consumers[layers[0]] != (layers[1],):
            return False
        first, last = (self._network.layer(name) for name in layers)
        return (
            first.operator.filter_bank is not None
            and adds_up_rows(self._network, last)
            and last.operator.dense_units is None
        )

    def _may_sum_parts(self, layers: tuple[str, ...], accumulating_layer: str) -> bool:
        """Whether a layer may sum over parts of the channels that the layers before it make.

        Each of these works channel by channel on the one before it alone; the first, which reads
        outside the stage, may need all channels. No other layer reads theirs.
        """
        if accumulating_layer not in layers[1:]:
            return False
        place = layers.index(accumulating_layer)
        chain = [self._network.layer(name) for name in layers[: place + 1]]
        for before, layer in pairwise(chain):
            is_next = self._network.consumers[before.name] == (layer.name,)
            if layer.inputs != (before.name,) or not is_next:
                return False
        bank = chain[-1].operator.filter_bank
        return (
            bank is not None
            and bank.groups == 1
            and not has_wide_accumulators(self._network, chain[-1])
            and works_on_blocks(chain[0], is_first=True)
            and all(works_on_blocks(layer, is_first=False) for layer in chain[1:-1])
        )

    def _require_parts(self, stage: Stage, named: str) -> None:
        if stage.accumulating_layer is None:
            if stage.channel_blocks != 1:
                raise InvalidPlan(
                    f"{named} has {counted(stage.channel_blocks, 'channel block')}, which no layer sums"
                )
            return
        if stage.mode is not Mode.ROWS or not self._may_sum_parts(
            stage.layers, stage.accumulating_layer
        ):
            raise InvalidPlan(f"{named} cannot sum channel blocks in {stage.accumulating_layer!r}")
        channels = self._network.layer(stage.layers[0]).shape.channels
        if not 2 <= stage.channel_blocks <= channels:
            raise InvalidPlan(
                f"{named} has {counted(stage.channel_blocks, 'block')} of "
                f"{counted(channels, 'channel')}"
            )

    def _require_buffer(self, buffer: StreamBuffer) -> None:
        """Require the size of its rows, and an offset in the arena unless the buffer is external."""
        named = f"buffer {buffer.name!r}"
        names_allowed = {*self._works, *self._inputs, *self._outputs, *self._variables}
        if buffer.tensor not in names_allowed:
            raise InvalidPlan(f"{named} holds tensor {buffer.tensor!r}, which the network has not")
        if buffer.end > len(self._plan.groups):
            raise InvalidPlan(f"{named} lives to group {buffer.end} of {len(self._plan.groups)}")
        shape = self._network.layer(buffer.tensor).shape
        unit = self._element_bytes(buffer.tensor)
        sizes = {
            Kind.WHOLE: shape.elements * unit,
            Kind.EXTERNAL: shape.elements * unit,
            Kind.LINE: buffer.rows * shape.row_elements * unit,
            Kind.RING: buffer.rows * shape.row_elements * unit,
            Kind.ACCUMULATORS: shape.elements * ACCUMULATOR_BYTES,
            Kind.KEPT: shape.elements * unit,
            Kind.STATE: bytes_kept(self._network, self._network.layer(buffer.tensor)),
            Kind.STATE_COPY: bytes_kept(self._network, self._network.layer(buffer.tensor)),
        }
        for name in buffer.readers if buffer.kind not in (Kind.SCRATCH, Kind.STATE) else ():
            if name not in self._network.consumers[buffer.tensor]:
                raise InvalidPlan(f"{named}: layer {name!r} does not read {buffer.tensor!r}")
        if buffer.size != sizes.get(buffer.kind, buffer.size):
            raise InvalidPlan(
                f"{named} has {counted(buffer.size, 'byte')}; its rows take {sizes[buffer.kind]}"
            )
        if buffer.kind is Kind.RING and not 1 <= buffer.rows <= shape.rows:
            raise InvalidPlan(
                f"{named} has {counted(buffer.rows, 'row')} of {buffer.tensor!r}, which has "
                f"{shape.rows}"
            )
        if buffer.has_all_rows and buffer.rows != self._height(buffer.tensor):
            raise InvalidPlan(f"{named} has {counted(buffer.rows, 'row')} of {buffer.tensor!r}")
        if buffer.kind is Kind.EXTERNAL:
            self._require_external(buffer)
        elif buffer.size and buffer.offset % (grid := unit if buffer.has_rows else self._unit):
            counted_in = "an element" if buffer.has_rows else "the arena's smallest element"
            raise InvalidPlan(
                f"{named} begins at byte {buffer.offset}; expected a multiple of {grid}, the bytes of "
                f"{counted_in}"
            )
        elif buffer.offset + buffer.size > self._plan.arena_bytes:
            raise InvalidPlan(f"{named} leaves the arena of {self._plan.arena_bytes} bytes")

    def _require_external(self, buffer: StreamBuffer) -> None:
        tensor = buffer.tensor
        readers = buffer.readers or self._network.consumers[tensor]
        is_read = bool(set(readers) & set(self._works))
        ends = self._inputs | set(self._outputs)
        if tensor not in ends and (tensor not in self._results or is_read):
            raise InvalidPlan(
                f"tensor {tensor!r} lies outside the arena; only inputs may, and results that no "
                "layer reads"
            )

    def _require_alias(self, alias: Alias) -> None:
        """Require a place within a host that has the buffer, which maker and readers reach."""
        named = f"tensor {alias.tensor!r} lies in {alias.host!r}"
        for name in alias[:2]:
            if name not in self._works:
                raise InvalidPlan(f"{named}, but no layer makes {name!r}")
        besides = (Kind.STAGING, Kind.WRITE_BUFFER, Kind.WEIGHTS, Kind.RESIDENT)  # no rows of it
        tensors_stored = {b.tensor for b in self._plan.buffers if b.kind not in besides}
        twice = [
            clash for clash in self._plan.aliases if clash.tensor in (alias.tensor, alias.host)
        ]
        if alias.tensor in tensors_stored or alias.tensor == alias.host or len(twice) > 1:
            raise InvalidPlan(f"{named}, but also elsewhere, or that one in another")
        layer, host = self._works[alias.tensor], self._works[alias.host]
        ends = (
            alias.row + layer.shape.height - host.shape.height,
            alias.column + layer.shape.width - host.shape.width,
            alias.channel + pixel_elements(layer.shape) - pixel_elements(host.shape),
        )
        sizes = {self._element_bytes(name) for name in alias[:2]}
        if max(ends) > 0 or len(sizes) > 1:
            raise InvalidPlan(f"{named}, but does not fit into it")
        in_one_piece = not any((*ends[1:], alias.column, alias.channel))
        is_read = in_one_piece or can_lie_apart(self._network, layer)
        if layer.name in self._results or not is_read:
            raise InvalidPlan(f"{named}; who reads it needs its rows in one piece")

    def _require_arena(self) -> None:
        """Limit the arena to 128 MiB, or to twice all tensors and accumulators if that is more."""
        most = sum(
            layer.shape.elements * (self._element_bytes(layer.name) + 2 * ACCUMULATOR_BYTES)
            for layer in self._network.layers
        )
        if self._plan.all_bytes > max(2 * most, WITH_OTHERS):
            raise InvalidPlan(
                f"the plan takes {self._plan.all_bytes} bytes; all tensors of the network and their "
                f"sums together take {most}"
            )

    def _require_memories(self) -> None:
        """Require each buffer in one memory, and only tensors, states and weights in a slow one."""
        plan = self._plan
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

    def _require_weights(self) -> None:
        """Require buffers of weights to fit a layer with weights, and to be live in its group."""
        for buffer in self._plan.buffers:
            if buffer.kind not in (Kind.WEIGHTS, Kind.RESIDENT):
                continue
            element_bytes = self._plan.element_bytes
            layer = self._works.get(buffer.tensor)
            size = 0 if layer is None else bytes_of_weights(self._network, layer, element_bytes)
            if layer is None or not size or buffer.size != size or buffer.rows:
                raise InvalidPlan(
                    f"buffer {buffer.name!r} has {counted(buffer.size, 'byte')}; the weights of "
                    f"{buffer.tensor!r} that can be moved take {size}"
                )
            if buffer.offset % (weight := bytes_of_weight(layer, element_bytes)):
                raise InvalidPlan(
                    f"buffer {buffer.name!r} begins at byte {buffer.offset}; expected a multiple of "
                    f"{weight}, the bytes of a weight"
                )
            groups = len(self._plan.groups)
            if buffer.kind is Kind.RESIDENT and (buffer.begin, buffer.end) != (0, groups):
                raise InvalidPlan(
                    f"buffer {buffer.name!r} is resident, but some groups do not have it"
                )
            if self._plan.flash is None or not self._plan.memories:
                raise InvalidPlan(
                    f"buffer {buffer.name!r} has weights, but the plan names no flash"
                )
            if not buffer.begin <= self._group_of[buffer.tensor] < buffer.end:
                raise InvalidPlan(
                    f"buffer {buffer.name!r} is not there when {buffer.tensor!r} works"
                )
        names = [memory.name for memory in self._plan.memories]
        if self._plan.flash in names:
            raise InvalidPlan(
                f"flash {self._plan.flash!r} is one of the memories of the arena, too"
            )
        if self._plan.flash is not None and not names:
            raise InvalidPlan(f"flash {self._plan.flash!r}, but the plan names no memories")

    def _require_whole(self) -> None:
        """Require that tensors which another group reads, and results, are stored whole."""
        whole = self._whole()
        streamed_input = {
            group.streamed_input
            for number, group in enumerate(self._plan.groups)
            if not self._plan.is_copied(number)
        }
        going = {name: layer for name, layer in self._outputs.items() if name in self._group_of}
        kept = {output.inputs[0] for name, output in self._outputs.items() if name not in going}
        wanted = kept | set(going) | (self._inputs - streamed_input - set(self._group_of))
        for name, number in self._group_of.items():
            for source in self._sources(self._worked[name]):
                if self._group_of.get(source, number) != number or (
                    source in streamed_input and number > 0
                ):
                    wanted.add(source)
        for name in sorted(wanted):
            if name not in whole:
                raise InvalidPlan(f"tensor {name!r} outlives its group, but does not lie whole")

    def _require_one_each(self) -> None:
        """Require that no two buffers of a group have the same purpose.

        Two buffers with rows of a tensor name different readers, or one of them serves the readers that
        no other buffer names. A ring in addition to a whole tensor, neither with named readers, would
        never be read. A line buffer is the only buffer of its tensor: rows are staged for one line
        buffer only. An external tensor is one block of the caller's memory for the whole frame. A host
        has one buffer, and ring buffers into which its rows are copied.
        """
        hosts = {alias.host for alias in self._plan.aliases}
        for first, second in combinations(self._plan.buffers, 2):
            if first.tensor != second.tensor or Kind.SCRATCH in (first.kind, second.kind):
                continue
            both = f"buffers {first.name!r} and {second.name!r} both hold {first.tensor!r}"
            if first.has_rows and second.has_rows:
                kinds = {first.kind, second.kind}
                is_copy = any(
                    buffer.kind is Kind.RING and self._is_copied_into(buffer)
                    for buffer in (first, second)
                )
                if first.tensor in hosts and not is_copy:
                    raise InvalidPlan(f"{both}, in which another tensor lies; expected one buffer")
                if first.kind is second.kind is Kind.EXTERNAL:
                    raise InvalidPlan(f"{both} outside the arena; expected one buffer")
                if first.begin >= second.end or second.begin >= first.end:
                    continue
                if Kind.LINE in kinds:
                    raise InvalidPlan(f"{both}, of which one is a line; expected one buffer")
                spare = first if first.kind is Kind.RING else second
                is_unread = kinds == {Kind.WHOLE, Kind.RING} and not self._is_copied_into(spare)
                both_read = set(first.readers) & set(second.readers)
                if both_read or not (first.readers or second.readers or is_unread):
                    raise InvalidPlan(f"{both} for the same readers; expected different readers")
                if Kind.EXTERNAL in kinds and not (first.readers and second.readers):
                    raise InvalidPlan(f"{both}, one of them outside; expected the readers of each")
            elif (
                first.kind is second.kind and first.begin < second.end and second.begin < first.end
            ):
                raise InvalidPlan(f"{both}, as {first.kind.value}; expected one buffer in a group")

    def _is_copied_into(self, ring: StreamBuffer) -> bool:
        """Whether rows of a tensor that is stored whole are copied into the ring for its consumers."""
        return any(
            self._plan.groups[number].streamed_input == ring.tensor
            for number in range(ring.begin, min(ring.end, len(self._plan.groups)))
        )

    def _require_filled(self) -> None:
        """Require that each buffer with rows is written before it is read.

        A ring or line buffer is written in each of its groups. A whole tensor is written as it is
        computed or arrives, or copied by the first group that has the buffer.
        """
        plan = self._plan
        copied = {
            (group.streamed_input, number)
            for number, group in enumerate(plan.groups)
            if plan.is_copied(number)
        }
        made = dict.fromkeys([*self._inputs, *self._variables], 0)
        made |= {stage.result: number for number, stage in self._stages()}
        self._require_transfers(made)
        for buffer in plan.buffers:
            if not buffer.has_rows:
                continue
            named = f"buffer {buffer.name!r} of {buffer.tensor!r}"
            if buffer.tensor not in made:
                raise InvalidPlan(f"{named}: its rows lie in the strips of a stage only")
            at = made[buffer.tensor]
            if buffer.has_all_rows:
                taken = {copy.target for copy in plan.groups[buffer.begin].transfers}
                is_copy = buffer.tensor in self._variables and buffer.kind is not Kind.KEPT
                if (at < buffer.begin or is_copy) and buffer.name not in taken:
                    raise InvalidPlan(
                        f"buffer {buffer.name!r} begins with group {buffer.begin + 1}, behind the "
                        f"making of {buffer.tensor!r}, but does not take it over"
                    )
                if at >= buffer.end:
                    raise InvalidPlan(f"{named} ends before its tensor is made")
            elif any(
                number != at and (buffer.tensor, number) not in copied
                for number in range(buffer.begin, buffer.end)
            ):
                raise InvalidPlan(f"{named} is there in a group that writes no rows to it")
        self._require_ends()

    def _require_ends(self) -> None:
        """Require one buffer for each input stored before the first group, not for streamed inputs."""
        plan = self._plan
        brought = {name for name in self._group_of if name in self._inputs}
        if not plan.is_copied(0) and plan.groups[0].streamed_input is not None:
            brought.add(plan.groups[0].streamed_input)
        for name in sorted(self._inputs):
            here = [b for b in plan.buffers if b.tensor == name and b.has_all_rows]
            taken = {copy.target for copy in plan.groups[0].transfers}
            first = [buffer for buffer in here if buffer.begin == 0 and buffer.name not in taken]
            if name not in brought and len(first) != 1:
                raise InvalidPlan(
                    f"input {name!r} lies in {counted(len(first), 'buffer')} before the first group; "
                    "expected one"
                )
            if name in brought and any(buffer.kind is Kind.EXTERNAL for buffer in here):
                raise InvalidPlan(
                    f"input {name!r} comes row by row, but lies outside the arena, where the plan "
                    "writes no input"
                )

    def _require_transfers(self, made: Mapping[str, int]) -> None:
        """Require that each copy is from one buffer of a whole tensor to another one in the arena."""
        for number, group in enumerate(self._plan.groups):
            for copy in group.transfers:
                named = f"group {number + 1} takes over {copy.source!r} in {copy.target!r}"
                source, target = (
                    self._whole_buffer(name, named) for name in (copy.source, copy.target)
                )
                if source.tensor != target.tensor or source is target:
                    raise InvalidPlan(f"{named}; expected two buffers of one tensor")
                if not target.begin <= number < target.end:
                    raise InvalidPlan(
                        f"{named}, which lives from group {target.begin + 1} on, or ended"
                    )
                if target.kind is Kind.EXTERNAL:
                    raise InvalidPlan(f"{named}, which is outside the arena")
                inputs = self._inputs - set(self._group_of)
                is_there = target.tensor in inputs | self._variables
                if made.get(target.tensor, number) >= number and not is_there:
                    raise InvalidPlan(f"{named}, before {target.tensor!r} is made")

    def _whole_buffer(self, name: str, named: str) -> StreamBuffer:
        same = [b for b in self._plan.buffers if b.name == name and b.has_all_rows]
        if len(same) != 1:
            raise InvalidPlan(f"{named}: {len(same)} buffers with all rows have the name {name!r}")
        return same[0]

    def _require_read(self) -> None:
        """Require that each layer that reads a tensor outside its stage finds one buffer of it.

        Where none names the layer, that is the one without readers, in which the tensor was made.
        """
        readers = [
            (self._worked[name], number, stage.layers)
            for number, stage in self._stages()
            for name in stage.layers
        ]
        last = len(self._plan.groups) - 1
        readers += [
            (layer, last, ()) for name, layer in self._outputs.items() if name not in self._group_of
        ]
        hosts = {alias.tensor: alias.host for alias in self._plan.aliases}
        for layer, group, inside in readers:
            for source in self._sources(layer):
                if source in inside:
                    continue
                host = hosts.get(source, source)
                candidates = [
                    buffer
                    for buffer in self._plan.buffers
                    if buffer.tensor == host and buffer.has_rows
                ]
                for_it = [
                    buffer
                    for buffer in candidates
                    if layer.name in buffer.readers or not buffer.readers
                ]
                if any(buffer.begin <= group < buffer.end for buffer in for_it):
                    continue
                where = "".join(
                    f" in buffer {buffer.name!r}, which groups {buffer.begin + 1} to {buffer.end} have"
                    for buffer in for_it[:1]
                )
                raise InvalidPlan(
                    f"group {group + 1}: layer {layer.name!r} reads {source!r}"
                    + (where or ", and no buffer of it is for that layer")
                )

    def _require_orders(self) -> None:
        """Each stage of a group with an order has as many turns as it fires."""
        for number, group in enumerate(self._plan.groups):
            if not group.order:
                continue
            turns: Counter[str] = Counter()
            for turn in group.order:
                for name, count in Counter(turn.results).items():
                    turns[name] += turn.times * count
            firings = {s.result: len(CheckedFirings(s, self._needs).targets) for s in group.stages}
            if group.streamed_input is not None:
                firings[group.streamed_input] = self._height(group.streamed_input)
            for name in sorted({*turns, *firings}):
                if turns[name] != firings.get(name, 0):
                    raise InvalidPlan(
                        f"group {number + 1}: {name!r} has {counted(turns[name], 'turn')}; "
                        f"it is made in {counted(firings.get(name, 0), 'firing')}"
                    )

    def _require_work(self) -> None:
        work = sum(self._work(stage) for _, stage in self._stages())
        if self._plan.multiply_accumulates != work:
            raise InvalidPlan(
                f"the plan counts {self._plan.multiply_accumulates} multiply-accumulates; of this "
                f"network it takes {work}"
            )

    def _work(self, stage: Stage) -> int:
        """Multiply-accumulates of a stage, rows and tiles that are computed again included."""
        if stage.mode is Mode.TILES:
            return TiledStage(stage, self._needs).multiply_accumulates
        layers = [self._network.layer(name) for name in stage.layers]
        costs = [multiply_accumulates(n, self._network.input_shapes(n)) for n in layers]
        if stage.mode is not Mode.ROWS or layers[0].is_input:
            return sum(costs)
        ranges = CheckedFirings(stage, self._needs).ranges
        return sum(
            macs
            // layer.shape.rows
            * sum(end - first for first, end in (r[layer.name] for r in ranges))
            for layer, macs in zip(layers, costs, strict=True)
        )


PLACES = "HWC"  # the channels of a pixel side by side, as all planners but one lay them


def require_layouts(network: Network, plan: StreamingPlan) -> None:
    """Raise InvalidPlan unless tensors have the layouts of the primitives that read and write them.

    Stages without a primitive use HWC. A primitive computes a whole layer on whole tensors.
    """
    for buffer in plan.buffers:
        if buffer.layout is not None and buffer.kind is not Kind.WHOLE:
            raise InvalidPlan(f"buffer {buffer.name!r} has a layout, but is no whole tensor")

    def require(buffers: Sequence[StreamBuffer], layout: str, named: str) -> None:
        for buffer in buffers:
            is_map = network.layer(buffer.tensor).shape.is_map
            if is_map and (buffer.layout or PLACES) != layout:
                raise InvalidPlan(
                    f"{named} in {layout}, but buffer {buffer.name!r} has it in "
                    f"{buffer.layout or PLACES}"
                )

    for number, group in enumerate(plan.groups):
        whole = [b for b in plan.buffers if b.kind is Kind.WHOLE and b.begin <= number < b.end]
        for stage in group.stages:
            primitive, result = stage.primitive, stage.result
            reads = writes = PLACES
            if primitive is not None:
                reads, writes = primitive.reads, primitive.writes
                if replace(stage, primitive=None) != Stage(
                    layers=(result,), rows=network.layer(result).shape.rows
                ):
                    raise InvalidPlan(
                        f"primitive {primitive.name!r} makes {result!r}, which does not work whole"
                    )
            made = [buffer for buffer in whole if buffer.tensor == result]
            require(made, writes, f"{result!r} is written")
            for name in stage.layers:
                for source in network.layer(name).inputs:
                    candidates = [buffer for buffer in whole if buffer.tensor == source]
                    own_buffers = [buffer for buffer in candidates if name in buffer.readers]
                    read = own_buffers or [buffer for buffer in candidates if not buffer.readers]
                    require(read, reads, f"{name!r} reads {source!r}")


def require_apart(plans: Sequence[StreamingPlan]) -> None:
    """Raise InvalidPlan where groups that may work at the same time have a byte in common.

    plans: of networks in one arena, with offsets from its first byte. Compares all pairs.
    """
    for plan, another in permutations(plans, 2):
        for kept, taken in product(plan.buffers, another.buffers):
            is_kept = kept.persists or kept.kind is Kind.RESIDENT
            if is_kept and taken.size and taken.kind is not Kind.EXTERNAL:
                begin = max(kept.offset, taken.offset)
                if begin < min(kept.offset + kept.size, taken.offset + taken.size):
                    raise InvalidPlan(
                        f"buffer {kept.name!r} of network {plan.network!r} stays between frames, but "
                        f"{taken.name!r} of network {another.network!r} takes byte {begin}, too"
                    )
    places = [(plan, number) for plan in plans for number in range(len(plan.groups))]
    for pair in combinations(places, 2):
        words = {plan.groups[number].concurrent for plan, number in pair}
        if None in words or len(words) > 1:
            continue
        buffers = [
            [buffer for buffer in plan.buffers if plan.is_live(buffer, number)]
            for plan, number in pair
        ]
        for first, second in product(*buffers):
            begin = max(first.offset, second.offset)
            if begin < min(first.offset + first.size, second.offset + second.size):
                groups = " and ".join(
                    f"group {number + 1} of network {plan.network!r}" for plan, number in pair
                )
                raise InvalidPlan(
                    f"{groups} may work at the same time, but buffers {first.name!r} and "
                    f"{second.name!r} have byte {begin} in common"
                )
