"""Devices that durations are predicted for: operations and bytes a second, and the start of a phase."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import ceil

from csdf.errors import InvalidNetwork

NANOSECONDS = 10**9


@dataclass(frozen=True, slots=True, kw_only=True)
class Platform:
    """The cost of a phase on a device: it starts, then computes and moves bytes at the same time.

    A phase takes launch + max(operations / operations_per_second, bytes / bytes_per_second) seconds
    (the roofline of Williams, Waterman and Patterson, CACM 52(4), 2009, with a cost to start), where
    the bytes are the rows it consumes, those it writes, and all parameters of its layer.
    """

    operations_per_second: Fraction
    bytes_per_second: Fraction
    launch: Fraction  # seconds

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
    # An Arm Cortex-M7 at 216 MHz: two 16-bit multiply-accumulates a cycle, 32 bits a cycle from
    # SRAM; a function call.
    "cortex-m7": Platform(
        operations_per_second=Fraction(864_000_000),
        bytes_per_second=Fraction(864_000_000),
        launch=Fraction(1, 10**6),
    ),
}

USUAL_PLATFORM = "cortex-m7"  # where nobody chooses: most questions about memory are about such
