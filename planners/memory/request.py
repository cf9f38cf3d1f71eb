"""The request of `planners.fit`: its arguments, validated and parsed, as one value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

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
from csdf.arguments import Bytes, Positive, byte_count, one_of, public
from csdf.errors import InvalidArgument
from csdf.model.exact import Exact, MalformedText, exact
from planners.memory.answer import (
    INPUTS,
    OUTPUT_MEMORIES,
    RESIDENT,
    SEARCHED,
    SEARCHED_FIRST,
    FitMethod,
)
from planners.memory.labels import WIDTHS
from planners.memory.layer_orders import ORDERS, SEARCHED_ORDER
from planners.memory.moved_weights import layout_of
from planners.memory.stages import StageTable
from planners.memory.times import PlanTimes, measured_work
from planners.plan.plan import Memory
from planners.plan.ram import RamBeside


@dataclass(frozen=True, slots=True, kw_only=True)
class FitRequest:
    """A network, its memory limits, and the options of its plan; `fit` describes them.

    ram, flash: bytes. nanoseconds: limit on the time of a frame. memories: empty for one memory.
    """

    network: Network
    ram: int | None
    flash: int | None
    nanoseconds: Fraction | None
    element_bytes: int | None
    parameter_bytes: int | None
    input: str
    output: str
    searched: Sequence[str]
    labels: Sequence[int]
    platform: Platform | None
    durations: Mapping[str, Sequence[int]] | None
    memories: Sequence[Memory | BoardMemory]
    beside: RamBeside | None
    order: str

    @property
    def room(self) -> int | None:
        """RAM after stack and reserve in bytes; negative if these are larger than the RAM."""
        return self.ram if self.ram is None or self.beside is None else self.ram - self.beside.bytes

    def needed_ram(self, method: FitMethod) -> int:
        """Bytes of arena and execution state of a method, and of stack and reserve if they count."""
        return method.with_state + (0 if self.beside is None else self.beside.bytes)

    def has_room_for(self, method: FitMethod) -> bool:
        """Whether arena and state of a method fit into the RAM."""
        return self.ram is None or self.needed_ram(method) <= self.ram

    def is_in_time(self, method: FitMethod) -> bool:
        """Whether a frame takes at most the time limit, if any; False if its time is unknown."""
        limit, time = self.nanoseconds, method.nanoseconds
        return limit is None or (time is not None and time <= limit)


@public
def fit_request(
    network: Network,
    *,
    ram: Bytes | None = None,
    flash: Bytes | None = None,
    nanoseconds: Exact | None = None,
    element_bytes: Positive | None = None,
    parameter_bytes: Positive | None = None,
    input: str = RESIDENT,  # noqa: A002 - the word of the command
    output: str = RESIDENT,
    searched: Sequence[str] = SEARCHED_FIRST,
    labels: Sequence[Positive] = WIDTHS,
    platform: Platform | str | None = USUAL_PLATFORM,
    durations: Mapping[str, Sequence[int]] | None = None,
    memories: Sequence[Memory | BoardMemory | str] = (),
    beside: RamBeside | None = None,
    order: str = SEARCHED_ORDER,
) -> FitRequest:
    """Return the request of these arguments of `fit`, which describes them.

    Raises InvalidArgument for invalid values, and for arguments that exclude each other.
    """
    ram_bytes = None if ram is None else byte_count(ram)
    flash_bytes = None if flash is None else byte_count(flash)
    longest = None if nanoseconds is None else exact(nanoseconds, "nanoseconds")
    if longest is not None and longest <= 0:
        raise InvalidArgument(f"fit: nanoseconds is {longest}; expected a time above 0")
    if longest is not None and platform is None and durations is None:
        raise InvalidArgument(
            "fit: nanoseconds needs a platform or durations, which tell the times"
        )
    if not labels:
        raise InvalidArgument("fit: labels is empty; expected a number of labels at least")
    one_of(input, INPUTS, "fit: input")
    one_of(output, OUTPUT_MEMORIES, "fit: output")
    one_of(order, ORDERS, "fit: order")
    for method in searched:
        one_of(method, SEARCHED, "fit: searched")
    if isinstance(platform, str):
        if platform not in PlatformNames():
            one_of(platform, PlatformNames(), "fit: platform")
        platform = platform_named(platform)
    board = () if platform is None else platform.memories
    chosen = _memories_given(memories, board)
    if ram is None:
        chosen = chosen or board
    if chosen and ram is not None:
        raise InvalidArgument("fit: memories stand in the place of ram; leave out one of both")
    if chosen and longest is not None and not layout_of(chosen).has_rates(platform):
        raise InvalidArgument(
            "fit: a time per frame (nanoseconds, --fps) needs the rates of all slow memories and of "
            "flash; give read and write, such as psram=2MB:slow:read=0.5:write=0.5, or a platform "
            "that is a board"
        )
    return FitRequest(
        network=network,
        ram=ram_bytes,
        flash=flash_bytes,
        nanoseconds=longest,
        element_bytes=element_bytes,
        parameter_bytes=parameter_bytes or element_bytes,
        input=input,
        output=output,
        searched=searched,
        labels=labels,
        platform=platform,
        durations=durations,
        memories=chosen,
        beside=beside,
        order=order,
    )


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
