"""`csdf cnn show`: layers, shapes, parameters, work."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from typing import Any

from cnn2csdf.commands.cnn import options as shared
from cnn2csdf.describe import bytes_in_words
from cnn2csdf.granularity import ROWS, parts
from cnn2csdf.network import Network
from cnn2csdf.parameters import (
    layer_parameters,
    multiply_accumulates,
    parameter_bytes,
    stored_arrays,
)
from csdf.cli import answers, parsers

COLUMNS = ("layer", "operator", "output", "phases", "parameters", "MACs", "output bytes")


def main(argv: Sequence[str]) -> int:
    """Print the layers; return the exit code."""
    options = command_parser().parse_args(argv)
    network = shared.read(options).network
    rows = _rows(network, options.element_bytes)
    found = _as_json(network, rows, options.element_bytes)
    print(
        json.dumps(found, indent=2) if options.json else _as_text(found, _sizes(network, options))
    )
    return answers.ANSWERED


def command_parser() -> argparse.ArgumentParser:
    """Return the parser of this command."""
    parser = parsers.new_parser(
        "csdf cnn show",
        "The layers of a network: shape and bytes of what each writes, trained "
        "parameters, multiply-accumulates, and phases when it works row by row.",
        "csdf cnn show samos_example",
    )
    shared.add_model_options(parser)
    shared.add_element_bytes_option(parser, is_by_tensor=True)
    parsers.add_json_option(parser)
    return parser


def _rows(network: Network, element_bytes: int | None) -> list[dict[str, Any]]:
    parameters = layer_parameters(network)
    return [
        {
            **layer.to_json(),
            "phases": len(parts(layer, network.input_shapes(layer), ROWS)),
            "parameters": parameters[layer.name],
            "multiply_accumulates": multiply_accumulates(layer, network.input_shapes(layer)),
            "output_bytes": layer.shape.elements * (element_bytes or layer.element_bytes),
        }
        for layer in network.layers
    ]


def _sizes(network: Network, options: argparse.Namespace) -> str:
    """Where the sizes come from."""
    if options.is_element_given:
        return f"{answers.counted(options.element_bytes, 'byte')} each (--element-bytes)"
    elements = {layer.element.value for layer in network.layers}
    arrays = {array.element.value for array in stored_arrays(network)}
    return (
        f"elements {', '.join(sorted(elements))}; parameters {', '.join(sorted(arrays)) or 'none'}"
    )


def _as_json(
    network: Network, rows: list[dict[str, Any]], element_bytes: int | None
) -> dict[str, Any]:
    used = sum(row["parameters"] for row in rows)
    parameters = sum(array.elements for array in stored_arrays(network))
    return {
        "network": network.name,
        "layers": rows,
        "parameters": parameters,
        "shared_parameters": used - parameters,
        "parameter_bytes": parameter_bytes(network, element_bytes),
        "multiply_accumulates": sum(row["multiply_accumulates"] for row in rows),
        "largest_output_bytes": max(row["output_bytes"] for row in rows),
    }


def _as_text(total: dict[str, Any], sizes: str) -> str:
    rows = total["layers"]
    cells = [
        (
            row["layer"],
            row["operator"],
            "x".join(map(str, row["output"])),
            *(f"{row[key]:,}" for key in ("phases", "parameters", "multiply_accumulates")),
            bytes_in_words(row["output_bytes"]),
        )
        for row in rows
    ]
    widths = [max(len(line[i]) for line in (COLUMNS, *cells)) for i in range(len(COLUMNS))]
    lines = [_line(line, widths) for line in (COLUMNS, *cells)]
    again = total["shared_parameters"]
    return answers.one_text(
        [
            *lines,
            f"{total['network']}: {answers.counted(len(rows), 'layer')}, "
            f"{total['parameters']:,} parameters ({bytes_in_words(total['parameter_bytes'])}), "
            f"{total['multiply_accumulates']:,} multiply-accumulates, "
            f"largest output {bytes_in_words(total['largest_output_bytes'])}",
            f"sizes: {sizes}" + (f"; {again:,} more uses of shared parameters" if again else ""),
        ]
    )


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    """Names to the left, numbers to the right."""
    aligned = [
        cell.ljust(width) if i < 3 else cell.rjust(width)
        for i, (cell, width) in enumerate(zip(cells, widths, strict=True))
    ]
    return "  ".join(aligned).rstrip()
