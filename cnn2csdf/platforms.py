"""Devices that durations are predicted for: a roofline, or a core and what emitted C runs on it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import Any

from cnn2csdf.instruction_table import INSTRUCTIONS
from csdf.errors import InvalidNetwork
from csdf.io.files import read_bytes
from csdf.io.json_value import JsonValue

NANOSECONDS = 10**9


Table = Mapping[str, Mapping[str, Fraction]]  # instructions of a turn, by kernel and loop
FREE = Fraction(10**18)  # bytes a second that take no time: instructions are all that counts


@dataclass(frozen=True, slots=True, kw_only=True)
class Core:
    """A core that runs C of `csdf deploy`, without wait states.

    kernels: whose instructions `cnn2csdf.instruction_table` has. least, most: cycles an instruction.
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
    def table(self) -> Table:
        """Instructions of a turn of each loop of each kernel."""
        return INSTRUCTIONS[self.kernels]

    def in_words(self) -> str:
        """Return the clock and the range of cycles."""
        clock = f"{float(Fraction(self.hertz, 10**6)):.4g} MHz"
        return f"{float(self.least):.4g} to {float(self.most):.4g} cycles an instruction at {clock}"

    def to_json(self) -> dict[str, Any]:
        """Return the core as a JSON value."""
        cycles = [str(self.least), str(self.most)]
        return {"kernels": self.kernels, "hertz": self.hertz, "cycles_per_instruction": cycles}


@dataclass(frozen=True, slots=True, kw_only=True)
class Platform:
    """The cost of a phase on a device: it starts, then computes and moves bytes at the same time.

    A phase takes launch + max(operations / operations_per_second, bytes / bytes_per_second) seconds
    (the roofline of Williams, Waterman and Patterson, CACM 52(4), 2009, with a cost to start), where
    the bytes are the rows it consumes, those it writes, and all parameters of its layer. On a core
    the operations are instructions of the emitted C, at the slow end of their cycles.
    """

    operations_per_second: Fraction
    bytes_per_second: Fraction
    launch: Fraction  # seconds
    core: Core | None = None

    def __post_init__(self) -> None:
        if self.operations_per_second <= 0 or self.bytes_per_second <= 0 or self.launch < 0:
            raise InvalidNetwork(
                f"a platform with {self.operations_per_second} operations and "
                f"{self.bytes_per_second} bytes per second, {self.launch} s to start a phase"
            )

    def nanoseconds(self, work: Fraction, moved: Fraction) -> int:
        """Time of so many operations and bytes, rounded up, at least one nanosecond."""
        busy = max(work / self.operations_per_second, moved / self.bytes_per_second)
        return max(1, ceil((self.launch + busy) * NANOSECONDS))


def core_platform(core: Core) -> Platform:
    """Return the platform that a core is, at the slow end of its cycles."""
    speed = core.hertz / core.most
    loops = (("firing", "firings"), ("firing", "calls"), ("frame", "firings"))
    call = sum(core.table.get(kernel, {}).get(loop, Fraction(0)) for kernel, loop in loops)
    return Platform(
        operations_per_second=speed, bytes_per_second=FREE, launch=call / speed, core=core
    )


def _cortex(kernels: str, megahertz: int, least: Fraction | int) -> Platform:
    """A Cortex-M that takes two cycles for an instruction at most, in the mean of a loop."""
    core = Core(kernels=kernels, hertz=megahertz * 10**6, least=Fraction(least), most=Fraction(2))
    return core_platform(core)


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
    # instruction of Helium goes through in two beats. The slow end is the same for all: no manual
    # says what a mean loop takes. Clocks are those of common boards.
    "cortex-m0plus": _cortex("m0plus", 48, 1),
    "cortex-m4": _cortex("m4", 168, 1),
    "cortex-m7": _cortex("m4", 216, Fraction(1, 2)),
    "cortex-m33": _cortex("m4", 160, Fraction(1, 2)),
    "cortex-m55": _cortex("m55", 160, Fraction(1, 2)),
}

USUAL_PLATFORM = "cortex-m7"  # where nobody chooses: most questions about memory are about such


class PlatformNames:
    """Names of platforms, and files (JSON) that describe a core."""

    def __contains__(self, name: object) -> bool:
        """Whether the text can be looked up."""
        return name in PLATFORMS or str(name).endswith(".json")

    def __iter__(self) -> Iterator[str]:
        """Names of the platforms."""
        return iter(PLATFORMS)


def platform_named(name: str) -> Platform:
    """Return the platform of that name, or that of a file, which has the fields of a Core.

    Raises UnreadableFile for a file that says no such core, InvalidNetwork for another name.
    """
    if name in PLATFORMS:
        return PLATFORMS[name]
    if name not in PlatformNames():
        raise InvalidNetwork(
            f"there is no platform {name!r}; expected one of {', '.join(PLATFORMS)}, or FILE.json"
        )
    value = JsonValue.parse(read_bytes(name).decode("utf-8", "replace"), name)
    return core_platform(value.built(Core, {}))
