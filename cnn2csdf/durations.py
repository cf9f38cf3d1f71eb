"""How long each phase of each layer takes: from its work and a platform, or from a measured table."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil

from cnn2csdf.granularity import Granularity, differences, parts
from cnn2csdf.network import Layer, Network
from cnn2csdf.parameters import layer_parameter_bytes, operations
from cnn2csdf.rates import reading_rates
from csdf.errors import InvalidNetwork, UnreadableFile

NANOSECONDS = 10**9
COLUMNS = ("layer", "phase", "nanoseconds")


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


PLATFORMS = {
    # 256 cores at 1.30 GHz, two operations each; LPDDR4 of 59.7 GB/s: NVIDIA's data sheet of the
    # Jetson TX2. A phase more costs 2.1 to 2.9 microseconds in all rows of Table III of SAMOS 2020
    # (figures/samos2020_table3.md).
    "jetson-tx2": Platform(
        operations_per_second=Fraction(665_600_000_000),
        bytes_per_second=Fraction(59_700_000_000),
        launch=Fraction(5, 2 * 10**6),
    ),
    # An Arm Cortex-M7 at 216 MHz: two 16-bit multiply-accumulates a cycle, 32 bits a cycle from
    # SRAM; a function call.
    "cortex-m7": Platform(
        operations_per_second=Fraction(864_000_000),
        bytes_per_second=Fraction(864_000_000),
        launch=Fraction(1, 10**6),
    ),
}


def platform_durations(
    network: Network,
    granularity: Granularity,
    platform: Platform,
    *,
    element_bytes: int | None = None,
) -> dict[str, tuple[int, ...]]:
    """Return the nanoseconds of each phase of each layer.

    element_bytes: of all tensors and trained numbers; by default each has its own type.
    """
    return {
        layer.name: _layer_durations(network, layer, granularity, platform, element_bytes)
        for layer in network.layers
    }


def _layer_durations(
    network: Network,
    layer: Layer,
    granularity: Granularity,
    platform: Platform,
    element_bytes: int | None,
) -> tuple[int, ...]:
    inputs = network.input_shapes(layer)
    work_of_row = Fraction(operations(layer, inputs), layer.shape.rows)
    rows = differences(parts(layer, inputs, granularity))
    parameters = layer_parameter_bytes(layer, inputs, element_bytes)
    row_bytes = layer.shape.row_elements * (element_bytes or layer.element_bytes)
    moved = [count * row_bytes + parameters for count in rows]
    for index, source in enumerate(map(network.layer, layer.inputs)):
        row_bytes = source.shape.row_elements * (element_bytes or source.element_bytes)
        consumed = reading_rates(layer, index, inputs, granularity).consumed
        for phase, count in enumerate(consumed):
            moved[phase] += count * row_bytes
    phases = list(zip(rows, moved, strict=True))
    times = {  # most phases of a layer are alike
        (count, size): platform.nanoseconds(work_of_row * count, Fraction(size))
        for count, size in dict.fromkeys(phases)
    }
    return tuple(times[phase] for phase in phases)


def format_durations(durations: Mapping[str, Sequence[int]]) -> str:
    """Return a table of nanoseconds, one row a phase, as CSV."""
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(COLUMNS)
    for layer, times in durations.items():
        table.writerows((layer, phase, time) for phase, time in enumerate(times))
    return text.getvalue()


def parse_durations(text: str, name: str) -> dict[str, tuple[int, ...]]:
    """Return the nanoseconds of each phase of each layer in a table written by format_durations.

    name: of the file, for messages. Raises UnreadableFile naming the line.
    """
    rows = csv.reader(io.StringIO(text))
    found: dict[str, list[int]] = {}
    try:
        header = tuple(next(rows, ()))
        if header != COLUMNS:
            raise UnreadableFile(
                f"{name}, line 1: expected {','.join(COLUMNS)}, found {','.join(header)[:80]!r}"
            )
        for row in rows:
            _add_phase(found, row, f"{name}, line {rows.line_num}")
    except csv.Error as error:
        raise UnreadableFile(f"{name}, line {rows.line_num}: {error}") from None
    return {layer: tuple(times) for layer, times in found.items()}


def _add_phase(found: dict[str, list[int]], row: Sequence[str], where: str) -> None:
    if len(row) != len(COLUMNS):
        raise UnreadableFile(f"{where}: expected {len(COLUMNS)} values, found {len(row)}")
    layer, phase, time = row
    times = found.setdefault(layer, [])
    if phase != str(len(times)):
        raise UnreadableFile(
            f"{where}: layer {layer!r} goes on with phase {len(times)}, found {phase!r}"
        )
    if not (time.isascii() and time.isdigit()) or len(time) > 18:
        raise UnreadableFile(f"{where}: {time!r} is not a whole number of nanoseconds")
    times.append(int(time))
