"""How long each phase of each layer takes: from its work and a platform, or from a measured table."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import chain

from cnn2csdf.granularity import Granularity, differences, parts, reading_rates, require_few_parts
from cnn2csdf.instructions import work
from cnn2csdf.network import Layer, Network
from cnn2csdf.parameters import layer_parameter_bytes
from cnn2csdf.platforms import Platform
from csdf.arguments import Positive, public
from csdf.errors import UnreadableFile
from csdf.io.csv_text import csv_text, unguarded

COLUMNS = ("layer", "phase", "nanoseconds")


@public
def platform_durations(
    network: Network,
    granularity: Granularity,
    platform: Platform,
    *,
    element_bytes: Positive | None = None,
) -> dict[str, tuple[int, ...]]:
    """Return the nanoseconds of each phase of each layer.

    element_bytes: of all tensors and parameters; by default each has its own type. Raises
    InvalidNetwork for too many parts.
    """
    require_few_parts(network, granularity)
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
    """Nanoseconds of each phase of a layer."""
    inputs = network.input_shapes(layer)
    # Operations, or instructions on a core.
    work_of_frame = work(platform, network, layer, element_bytes or layer.element_bytes)
    work_of_row = work_of_frame / layer.shape.rows
    rows = differences(parts(layer, inputs, granularity))
    # Each phase reads all parameters: no phase leaves them in a cache for the next one.
    parameter_bytes = layer_parameter_bytes(layer, inputs, element_bytes)
    output_row_bytes = layer.shape.row_elements * (element_bytes or layer.element_bytes)
    moved_bytes = [count * output_row_bytes + parameter_bytes for count in rows]
    for index, source in enumerate(map(network.layer, layer.inputs)):
        input_row_bytes = source.shape.row_elements * (element_bytes or source.element_bytes)
        consumed = reading_rates(layer, index, inputs, granularity).consumed
        for phase, count in enumerate(consumed):
            moved_bytes[phase] += count * input_row_bytes
    phases = list(zip(rows, moved_bytes, strict=True))
    times = {  # most phases of a layer have equal rows and bytes
        (count, size): platform.nanoseconds(work_of_row * count, Fraction(size))
        for count, size in dict.fromkeys(phases)
    }
    return tuple(times[phase] for phase in phases)


def format_durations(durations: Mapping[str, Sequence[int]]) -> str:
    """Return a table of nanoseconds, one row a phase, as CSV."""
    rows = (
        (layer, phase, time)
        for layer, times in durations.items()
        for phase, time in enumerate(times)
    )
    return csv_text(chain([COLUMNS], rows))


def parse_durations(text: str, name: str) -> dict[str, tuple[int, ...]]:
    """Return the nanoseconds of each phase of each layer in a table written by format_durations.

    name: of the file, for messages. Raises UnreadableFile naming the line.
    """
    rows = csv.reader(io.StringIO(text))
    times_of_layers: dict[str, list[int]] = {}
    try:
        header = tuple(next(rows, ()))
        if header != COLUMNS:
            raise UnreadableFile(
                f"{name}, line 1: expected {','.join(COLUMNS)}, found {','.join(header)[:80]!r}"
            )
        for row in rows:
            _add_phase(times_of_layers, row, f"{name}, line {rows.line_num}")
    except csv.Error as error:
        raise UnreadableFile(f"{name}, line {rows.line_num}: {error}") from None
    return {layer: tuple(times) for layer, times in times_of_layers.items()}


def _add_phase(times_of_layers: dict[str, list[int]], row: Sequence[str], where: str) -> None:
    if len(row) != len(COLUMNS):
        raise UnreadableFile(f"{where}: expected {len(COLUMNS)} values, found {len(row)}")
    layer, phase, time = unguarded(row[0]), *row[1:]
    times = times_of_layers.setdefault(layer, [])
    if phase != str(len(times)):
        raise UnreadableFile(
            f"{where}: layer {layer!r} goes on with phase {len(times)}, found {phase!r}"
        )
    if not (time.isascii() and time.isdigit()) or len(time) > 18:
        raise UnreadableFile(f"{where}: {time!r} is not a whole number of nanoseconds")
    times.append(int(time))
