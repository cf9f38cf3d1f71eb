"""The request of `planners.fit`: its arguments, validated and parsed, as one value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any
from warnings import warn

from cnn2csdf.network import Network
from cnn2csdf.platforms import (
    PLATFORMS,
    USUAL_PLATFORM,
    BoardMemory,
    Platform,
    PlatformNames,
    memories_of,
    memory_of,
    platform_named,
)
from cnn2csdf.simplify import simplified
from cnn2csdf.weights import Model
from csdf.arguments import Bytes, Positive, byte_count, one_of, public
from csdf.errors import InvalidArgument, Suspicious, counted
from csdf.model.exact import Exact, MalformedText, exact
from planners.memory.answer import (
    INPUTS,
    OUTPUT_MEMORIES,
    RESIDENT,
    ROWS,
    SEARCHED,
    SEARCHED_FIRST,
    FitMethod,
)
from planners.memory.labels import WIDTHS
from planners.memory.layer_orders import ORDERS, SEARCHED_ORDER
from planners.memory.moved_weights import layout_of
from planners.memory.plain_plans import external_tensors
from planners.memory.stages import StageTable
from planners.memory.times import PlanTimes, measured_work
from planners.plan.plan import Memory
from planners.plan.ram import RamBeside


@public
@dataclass(frozen=True, slots=True, kw_only=True)
class FitRequest:
    """A network, its memory limits, and the options of its plan; `fit` describes them.

    ram, flash: bytes. nanoseconds: limit on the time of a frame. memories: empty for one memory.
    Raises InvalidArgument for invalid values, and for values that exclude each other.
    """

    network: Network
    ram: int | None = None
    flash: int | None = None
    nanoseconds: Fraction | None = None
    element_bytes: Positive | None = None
    parameter_bytes: Positive | None = None
    input: str = RESIDENT
    output: str = RESIDENT
    searched: Sequence[str] = SEARCHED_FIRST
    labels: Sequence[Positive] = WIDTHS
    platform: Platform | None = None
    durations: Mapping[str, Sequence[int]] | None = None
    memories: Sequence[Memory | BoardMemory] = ()
    beside: RamBeside | None = None
    order: str = SEARCHED_ORDER

    def __post_init__(self) -> None:
        one_of(self.input, INPUTS, "fit: input")
        one_of(self.output, OUTPUT_MEMORIES, "fit: output")
        one_of(self.order, ORDERS, "fit: order")
        for method in self.searched:
            one_of(method, SEARCHED, "fit: searched")
        if not self.labels:
            raise InvalidArgument("fit: labels is empty; expected a number of labels at least")
        if self.memories and self.ram is not None:
            raise InvalidArgument("fit: memories stand in the place of ram; leave out one of both")
        if self.nanoseconds is not None:
            self._require_times(self.nanoseconds)

    def _require_times(self, limit: Fraction) -> None:
        """Raise InvalidArgument for a time limit without the rates that times follow from."""
        if limit <= 0:
            raise InvalidArgument(f"fit: nanoseconds is {limit}; expected a time above 0")
        if self.platform is None and self.durations is None:
            raise InvalidArgument(
                "fit: nanoseconds needs a platform or durations, which tell the times"
            )
        if self.memories and not layout_of(self.memories).has_rates(self.platform):
            raise InvalidArgument(
                "fit: a time per frame (nanoseconds, --fps) needs the rates of all slow memories and "
                "of flash; give read and write, such as psram=2MB:slow:read=0.5:write=0.5, or a "
                "platform that is a board"
            )

    @property
    def is_streamed(self) -> bool:
        """Whether the input arrives row by row: a single input can, if it is not a result as well."""
        inputs = {layer.name for layer in self.network.inputs}
        return self.input == ROWS and len(inputs) == 1 and not inputs & self.network.results

    @property
    def input_memory(self) -> str:
        """The memory of the inputs; they are resident if they cannot arrive row by row."""
        return RESIDENT if self.input == ROWS and not self.is_streamed else self.input

    def table(self, network: Network) -> StageTable:
        """Return the table of the stages of the network, whose layers may be reordered or copied."""
        external = external_tensors(network, self.input, self.output)
        return StageTable(network, element_bytes=self.element_bytes, outside=external)

    def times(self, table: StageTable) -> PlanTimes | None:
        """Return the times of plans with the stages of a table; None without platform and durations."""
        return plan_times(table, self.platform, self.durations, self.bytes_of_parameter)

    @property
    def bytes_of_parameter(self) -> int | None:
        """Bytes of each parameter: those of an element by default; None for those of the file."""
        return self.parameter_bytes or self.element_bytes

    @property
    def room(self) -> int | None:
        """RAM after stack and reserve in bytes; negative if these are larger than the RAM."""
        return self.ram if self.ram is None or self.beside is None else self.ram - self.beside.bytes

    def has_room_for(self, method: FitMethod) -> bool:
        """Whether arena and state of a method fit into the RAM."""
        return self.ram is None or method.needed_ram <= self.ram

    def is_in_time(self, method: FitMethod) -> bool:
        """Whether a frame takes at most the time limit, if any; False if its time is unknown."""
        limit, time = self.nanoseconds, method.nanoseconds
        return limit is None or (time is not None and time <= limit)


@public
def fit_request(
    network: Network | Model,
    *,
    ram: Bytes | None = None,
    flash: Bytes | None = None,
    nanoseconds: Exact | None = None,
    platform: Platform | str | None = USUAL_PLATFORM,
    memories: Sequence[Memory | BoardMemory | str] = (),
    **options: Any,
) -> FitRequest:
    """Return the request of arguments of `fit`, of which strings are parsed.

    Without `ram` and `memories`, the memories are those of the platform. options: the other fields of
    FitRequest. Raises InvalidArgument as FitRequest does. A Model with layers that can be merged
    causes a Suspicious warning at the caller of `fit`.
    """
    if isinstance(platform, str):
        if platform not in PlatformNames():
            one_of(platform, PlatformNames(), "fit: platform")
        platform = platform_named(platform)
    board = () if platform is None else platform.memories
    chosen_memories = _memories_given(memories, board)
    return FitRequest(
        network=_network_of(network) if isinstance(network, Model) else network,
        ram=None if ram is None else byte_count(ram),
        flash=None if flash is None else byte_count(flash),
        nanoseconds=None if nanoseconds is None else exact(nanoseconds, "nanoseconds"),
        platform=platform,
        memories=chosen_memories or (board if ram is None else ()),
        **options,
    )


def _network_of(model: Model) -> Network:
    """The network of a model; with a warning if it differs from the network that the commands plan."""
    network = model.network
    more = len(network.layers) - len(simplified(Model(network=network)).network.layers)
    if more > 0:
        warn(
            f"fit: {counted(more, 'layer')} of network {network.name!r} can be merged into others, as "
            "csdf fit does; plan cnn2csdf.simplified(model), which may take less memory",
            Suspicious,
            stacklevel=6,
        )
    return network


def plan_times(
    table: StageTable,
    platform: Platform | None,
    durations: Mapping[str, Sequence[int]] | None,
    parameter_bytes: int | None,
) -> PlanTimes | None:
    """Return the times of plans, predicted or measured; None if there is no platform.

    Measured times use the platform only for the start of a phase.
    """
    if durations is None:
        return None if platform is None else PlanTimes(table, platform, parameter_bytes)
    platform = platform or PLATFORMS[USUAL_PLATFORM]
    measured = measured_work(table.network, durations, platform.launch)
    return PlanTimes(table, platform, parameter_bytes, measured)


def _memories_given(
    memories: Sequence[Memory | BoardMemory | str], board: Sequence[BoardMemory]
) -> Sequence[Memory | BoardMemory]:
    """The memories; strings are parsed like options of the commands."""
    texts = [memory for memory in memories if isinstance(memory, str)]
    memory_values = [memory for memory in memories if not isinstance(memory, str)]
    if texts and memory_values:
        raise InvalidArgument("fit: memories are texts and others; expected only one of both")
    try:
        return memories_of([memory_of(text) for text in texts], board) if texts else memory_values
    except (MalformedText, InvalidArgument) as error:
        raise InvalidArgument(f"fit: memories: {error}") from None
