"""Devices that durations are predicted for: a roofline, or a core and what emitted C runs on it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from importlib.resources import files
from math import ceil
from typing import Any, NamedTuple

from csdf.arguments import bytes_of
from csdf.errors import InvalidArgument, InvalidNetwork
from csdf.io.files import read_bytes
from csdf.io.json_value import JsonValue
from csdf.model.exact import MalformedText, rational, shown

NANOSECONDS = 10**9


Table = Mapping[str, Mapping[str, Fraction]]  # instructions of a turn, by kernel and loop

# Of emitted C, by core; the file has hundredths: least squares of the relative errors over random
# layers, as QEMU counts them, by `python -m tests.benchmarks.fit_instructions`.
INSTRUCTIONS: dict[str, Table] = {
    core: {
        kernel: {loop: Fraction(hundredths, 100) for loop, hundredths in loops.items()}
        for kernel, loops in kernels.items()
    }
    for core, kernels in json.loads(
        files("cnn2csdf").joinpath("instruction_table.json").read_text(encoding="utf-8")
    ).items()
}
CORE_NAMES = {
    "m4": "cortex-m4",
    "m55": "cortex-m55",
    "m0plus": "cortex-m0plus",
    "riscv32": "rv32",
}  # as targets of C, by the kernels whose INSTRUCTIONS are known
FREE = Fraction(10**18)  # bytes a second that take no time: instructions are all that counts


@dataclass(frozen=True, slots=True, kw_only=True)
class Core:
    """A core that runs C of `csdf deploy`, without wait states.

    kernels: whose INSTRUCTIONS are known. least, most: cycles an instruction.
    """

    kernels: str
    hertz: int
    least: Fraction
    most: Fraction

    def __post_init__(self) -> None:
        if self.kernels not in INSTRUCTIONS:
            raise InvalidNetwork(
                f"no instructions were counted for {self.kernels!r}; expected one of "
                f"{', '.join(INSTRUCTIONS)}"
            )
        if self.hertz < 1 or not 0 < self.least <= self.most:
            raise InvalidNetwork(
                f"a core of {self.hertz} Hz and {self.least} to {self.most} cycles an instruction"
            )

    @property
    def name(self) -> str:
        """The name of the core as a target of C."""
        return CORE_NAMES[self.kernels]

    @property
    def table(self) -> Table:
        """Instructions of a turn of each loop of each kernel."""
        return INSTRUCTIONS[self.kernels]

    def at_best(self, nanoseconds: int) -> int:
        """Return the minimum of a predicted time whose maximum is given."""
        return int(nanoseconds * self.least / self.most)

    def in_words(self) -> str:
        """Return the clock and the range of cycles."""
        clock = f"{float(Fraction(self.hertz, 10**6)):.4g} MHz"
        return f"{float(self.least):.4g} to {float(self.most):.4g} cycles an instruction at {clock}"

    def to_json(self) -> dict[str, Any]:
        """Return the core as a JSON value."""
        cycles = [str(self.least), str(self.most)]
        return {"kernels": self.kernels, "hertz": self.hertz, "cycles_per_instruction": cycles}


TENSORS, WEIGHTS, SCRATCH, STACK = "tensors", "weights", "scratch", "stack"
HOLDS = (TENSORS, WEIGHTS, SCRATCH, STACK)  # what a memory may hold


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardMemory:
    """A memory of a board, with its transfer rates and permitted contents.

    is_slow: whether layers cannot compute in this memory. read, write: bytes per cycle of the core;
    None if unknown. holds: of HOLDS. SCRATCH stands for all temporary buffers of layers. STACK stands
    for the stack of the C library, its execution state and the reserve of the application. A memory
    that holds only weights is flash: it contains the weights from the start. has_dma: whether a DMA
    controller copies from it while the core computes.
    """

    name: str
    size: int
    is_slow: bool = False
    read: Fraction | None = None
    write: Fraction | None = None
    holds: tuple[str, ...] = (TENSORS, WEIGHTS, SCRATCH)
    has_dma: bool = False

    def __post_init__(self) -> None:
        if not self.holds or not set(self.holds) <= set(HOLDS):
            raise InvalidArgument(
                f"memory {self.name!r} holds {'+'.join(self.holds)!r}; expected some of "
                f"{', '.join(HOLDS)}"
            )
        if any(rate is not None and rate <= 0 for rate in (self.read, self.write)):
            raise InvalidArgument(f"memory {self.name!r}: expected bytes a cycle above 0")

    @property
    def is_flash(self) -> bool:
        """Whether the memory holds only weights, from the start."""
        return self.holds == (WEIGHTS,)


class GivenMemory(NamedTuple):
    """A memory as a text gives it: fields of BoardMemory."""

    name: str
    fields: Mapping[str, Any]


AFTER_SIZE = f"slow, read=N, write=N, dma, or holds= of {'+'.join(HOLDS)}"
MEMORY = (
    f"a name and a size, and after colons {AFTER_SIZE}, such as sram=64kB or "
    "psram=2MB:slow:read=0.5:write=0.5"
)


def memory_of(text: str) -> GivenMemory:
    """Return the memory that a text such as psram=2MB:slow:read=0.5 gives. Raises MalformedText."""
    name, is_given, size = text.partition("=")
    size, *words = size.split(":")
    refusal = MalformedText(f"{shown(text)} is not {MEMORY}")
    if not (name.strip() and is_given):
        raise refusal
    fields: dict[str, Any] = {"size": bytes_of(size)}
    for word in words:
        key, has_value, value = word.partition("=")
        if word in ("slow", "dma"):
            fields[{"slow": "is_slow", "dma": "has_dma"}[word]] = True
        elif key in ("read", "write") and has_value:
            fields[key] = rational(value)
        elif key == "holds" and has_value and set(value.split("+")) <= set(HOLDS):
            fields["holds"] = tuple(kind for kind in HOLDS if kind in value.split("+"))
        else:
            raise MalformedText(f"{shown(text)}: found {shown(word)}; expected {AFTER_SIZE}")
    return GivenMemory(name.strip(), fields)


def memories_of(
    given: Sequence[GivenMemory], board: Sequence[BoardMemory]
) -> tuple[BoardMemory, ...]:
    """Return the memories of a board with changes to those of these names; without a board all given.

    Raises InvalidArgument for a name that stands twice, or that the board does not have.
    """
    changes = {memory.name: memory.fields for memory in given}
    if len(changes) < len(given):
        raise InvalidArgument("memories of one name; give each a name of its own")
    if not board:
        return tuple(BoardMemory(name=name, **fields) for name, fields in changes.items())
    names = [memory.name for memory in board]
    if unknown := changes.keys() - set(names):
        raise InvalidArgument(
            f"the platform has no {min(unknown)!r}; it has {', '.join(names)}. Leave out the platform "
            "to give all memories"
        )
    return tuple(replace(memory, **changes.get(memory.name, {})) for memory in board)


@dataclass(frozen=True, slots=True, kw_only=True)
class Platform:
    """The cost of a phase on a device: it starts, then computes and moves bytes at the same time.

    A phase takes launch + max(operations / operations_per_second, bytes / bytes_per_second) seconds
    (the roofline of Williams, Waterman and Patterson, CACM 52(4), 2009, with a cost to start), where
    the bytes are the rows it consumes, those it writes, and all parameters of its layer. hertz: cycles
    a second, where they are known. memories: of a board, the nearest first. On a core the operations
    are instructions of the emitted C, at the maximum of their cycles.
    """

    operations_per_second: Fraction
    bytes_per_second: Fraction
    launch: Fraction  # seconds
    core: Core | None = None
    hertz: int | None = None
    memories: tuple[BoardMemory, ...] = ()

    def __post_init__(self) -> None:
        if self.operations_per_second <= 0 or self.bytes_per_second <= 0 or self.launch < 0:
            raise InvalidNetwork(
                f"a platform with {self.operations_per_second} operations and "
                f"{self.bytes_per_second} bytes per second, {self.launch} s to start a phase"
            )

    @property
    def core_name(self) -> str | None:
        """The name of the core, a key of tables of instructions and of stacks; None without one."""
        return None if self.core is None else self.core.name

    def nanoseconds(self, work: Fraction, moved: Fraction) -> int:
        """Time of this many operations and bytes, rounded up, at least one nanosecond."""
        busy = max(work / self.operations_per_second, moved / self.bytes_per_second)
        return max(1, ceil((self.launch + busy) * NANOSECONDS))


def core_platform(core: Core) -> Platform:
    """Return the platform that a core is, at the maximum of its cycles."""
    speed = core.hertz / core.most
    loops = (
        *(("firing", "firings"), ("firing", "calls")),
        *(("frame", "firings"), ("frame", "ranges")),
    )
    call = sum(core.table.get(kernel, {}).get(loop, Fraction(0)) for kernel, loop in loops)
    return Platform(
        operations_per_second=speed,
        bytes_per_second=FREE,
        launch=call / speed,
        hertz=core.hertz,
        core=core,
    )


def _microcontroller(kernels: str, megahertz: int, least: Fraction | int) -> Platform:
    """A core that takes two cycles for an instruction at most, in the mean of a loop."""
    core = Core(kernels=kernels, hertz=megahertz * 10**6, least=Fraction(least), most=Fraction(2))
    return core_platform(core)


def _sram(name: str, size: int, rate: Fraction | int) -> BoardMemory:
    """A memory on the chip. rate: bytes a cycle of the core, read and written."""
    return BoardMemory(name=name, size=size, read=Fraction(rate), write=Fraction(rate))


def _sdram(name: str, mebibytes: int, rate: Fraction) -> BoardMemory:
    """A memory beside the chip, which holds tensors and weights."""
    sram = _sram(name, mebibytes * 2**20, rate)
    return replace(sram, is_slow=True, holds=(TENSORS, WEIGHTS), has_dma=True)


def _flash(mebibytes: int, rate: Fraction, *, has_dma: bool = True) -> BoardMemory:
    """A memory of weights."""
    size = mebibytes * 2**20
    return BoardMemory(
        name="flash", size=size, is_slow=True, read=rate, holds=(WEIGHTS,), has_dma=has_dma
    )


def _board(megahertz: int, macs: int, *memories: BoardMemory) -> Platform:
    """A board whose core does `macs` multiply-accumulates a cycle, and moves 4 bytes a cycle."""
    hertz = megahertz * 10**6
    return Platform(
        operations_per_second=Fraction(2 * macs * hertz),
        bytes_per_second=Fraction(4 * hertz),
        launch=Fraction(1, 10**6),
        hertz=hertz,
        memories=memories,
    )


PLATFORMS: Mapping[str, Platform] = {
    # 256 cores at 1.30 GHz, two operations each; LPDDR4 of 59.7 GB/s: NVIDIA's data sheet of the
    # Jetson TX2. A phase more costs 2.1 to 2.9 microseconds in all rows of Table III of SAMOS 2020
    # (figures/samos2020_table3.md).
    "jetson-tx2": Platform(
        operations_per_second=Fraction(665_600_000_000),
        bytes_per_second=Fraction(59_700_000_000),
        launch=Fraction(5, 2 * 10**6),
    ),
    # A fit, not a data sheet: operations and phases of the fourteen rows of Table III of SAMOS 2020,
    # least squares of the relative error of a frame's time; -15 to +17% of the printed times. Bytes
    # cost nothing. It fits those networks: depthwise ones run 6 times slower in Table 6.6 of TODAES.
    "jetson-tx2-fitted": Platform(
        operations_per_second=Fraction(182_500_000_000),
        bytes_per_second=Fraction(10**18),
        launch=Fraction(205, 10**8),
    ),
    # Arm's Technical Reference Manuals, memory without wait states. Data processing takes one cycle,
    # loads and taken branches two or more (Cortex-M0+ and Cortex-M4: the tables of instructions with
    # their cycles in section 3.3; 32-cycle multipliers of a Cortex-M0+ are not meant). Cortex-M7, M33
    # and M55 may issue two instructions at once (sections on the processor's features), and an
    # instruction of Helium goes through in two beats. The maximum is the same for all: no manual
    # says what a mean loop takes. Clocks are those of common boards.
    "cortex-m0plus": _microcontroller("m0plus", 48, 1),
    "cortex-m4": _microcontroller("m4", 168, 1),
    "cortex-m7": _microcontroller("m4", 216, Fraction(1, 2)),
    "cortex-m33": _microcontroller("m4", 160, Fraction(1, 2)),
    "cortex-m55": _microcontroller("m55", 160, Fraction(1, 2)),
    # RV32IMAC of a Raspberry Pi RP2350 at 150 MHz: one cycle an instruction, two for jumps, branches
    # that are not foreseen, and loads whose value is used at once (Hazard3's documentation,
    # "Instruction Cycle Counts"). Plain C, without its instructions for bits.
    "hazard3": _microcontroller("riscv32", 150, 1),
    # Rates of memories are those of their bus, width times clock, which no access exceeds. Operations
    # and the start of a phase are assumptions: two multiply-accumulates a cycle of a Cortex-M7, one of
    # an LX7 without its vector instructions.
    #
    # ESP32-S3-WROOM-1 N16R8: LX7 at 240 MHz, 512 kB of SRAM (Espressif, ESP32-S3 Series Datasheet,
    # "Memory"). Octal PSRAM at 80 MHz with double data rate moves 160 MB/s, quad flash at 80 MHz with
    # single data rate 40 MB/s (ESP-IDF Programming Guide, "SPI Flash and External SPI RAM
    # Configuration"). The SRAM gives 4 bytes a cycle. GDMA reaches SRAM and PSRAM, and no flash
    # (ESP32-S3 Technical Reference Manual, "GDMA Controller").
    "esp32-s3": _board(
        240,
        1,
        _sram("sram", 512 * 1024, 4),
        _sdram("psram", 8, Fraction(2, 3)),
        _flash(16, Fraction(1, 6), has_dma=False),
    ),
    # STM32H743 at 480 MHz: 128 kB of DTCM with two 32-bit ports at the clock of the core, 512 kB of AXI
    # SRAM with 64 bits at 240 MHz (ST, DS12110, and RM0433, "Memory and bus architecture"). Boards
    # add an SDRAM of 32 bits at 100 MHz (FMC, DS12110 "FMC characteristics"); the internal flash gives
    # 256 bits in 5 cycles of 240 MHz at most, over 64 bits of AXI (RM0433, "Embedded flash memory":
    # 4 wait states), which is the bus. MDMA reaches all of them.
    "stm32h7": _board(
        480,
        2,
        _sram("dtcm", 128 * 1024, 8),
        _sram("axi", 512 * 1024, 4),
        _sdram("sdram", 8, Fraction(5, 6)),
        _flash(2, Fraction(16, 5)),
    ),
    # i.MX RT1170: Cortex-M7 at 996 MHz, 512 kB of FlexRAM, here half of it DTCM with 64 bits at the
    # clock of the core, 1 MB of OCRAM1 and 2 with 64 bits at 240 MHz; SDRAM of 32 bits at 200 MHz and
    # FlexSPI with 4 bits at 133 MHz on the MIMXRT1170-EVK (NXP, IMXRT1170CEC, "Features" and "SEMC
    # specifications", and IMXRT1170RM, "Clock tree"). eDMA reaches all of them.
    "imxrt1170": _board(
        996,
        2,
        _sram("dtcm", 256 * 1024, 8),
        _sram("ocram", 2**20, Fraction(1920, 996)),
        _sdram("sdram", 64, Fraction(800, 996)),
        _flash(16, Fraction(665, 9960)),
    ),
}

USUAL_PLATFORM = "cortex-m7"  # where nobody chooses: most questions about memory are about such


class PlatformNames:
    """Names of platforms, and files (JSON) that describe a core."""

    def __contains__(self, name: object) -> bool:
        """Whether the text can be looked up."""
        return name in PLATFORMS or str(name).endswith(".json")

    def __iter__(self) -> Iterator[str]:
        """Names of the platforms, and the word for a file."""
        return iter([*PLATFORMS, "FILE.json"])


def platform_named(name: str) -> Platform:
    """Return the platform of that name, or the platform of a file, which has the fields of a Core.

    Raises UnreadableFile for a file that says no such core, InvalidArgument for another name.
    """
    if name in PLATFORMS:
        return PLATFORMS[name]
    if name not in PlatformNames():
        raise InvalidArgument(
            f"there is no platform {name!r}; expected one of {', '.join(PlatformNames())}"
        )
    value = JsonValue.parse(read_bytes(name).decode("utf-8", "replace"), name)
    return core_platform(value.built(Core, {}))
