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
from cnn2csdf.parameters import layer_parameters, multiply_accumulates
from csdf.cli import answers, parsers

COLUMNS = ("layer", "operator", "output", "phases", "parameters", "MACs", "output bytes")


def main(argv: Sequence[str]) -> int:
    """Print the layers; return the exit code."""
    options = command_parser().parse_args(argv)
    network = shared.read(options).network
    rows = _rows(network, options.element_bytes)
    if options.json:
        print(json.dumps(_as_json(network, rows, options.element_bytes), indent=2))
    else:
        print(_as_text(network, rows, options.element_bytes))
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
    shared.add_element_bytes_option(parser)
    parsers.add_json_option(parser)
    return parser


def _rows(network: Network, element_bytes: int) -> list[dict[str, Any]]:
    parameters = layer_parameters(network)
    return [
        {
            **layer.to_json(),
            "phases": len(parts(layer, network.input_shapes(layer), ROWS)),
            "parameters": parameters[layer.name],
            "multiply_accumulates": multiply_accumulates(layer, network.input_shapes(layer)),
            "output_bytes": layer.shape.elements * element_bytes,
        }
        for layer in network.layers
    ]


def _as_json(network: Network, rows: list[dict[str, Any]], element_bytes: int) -> dict[str, Any]:
    parameters = sum(row["parameters"] for row in rows)
    return {
        "network": network.name,
        "layers": rows,
        "parameters": parameters,
        "parameter_bytes": parameters * element_bytes,
        "multiply_accumulates": sum(row["multiply_accumulates"] for row in rows),
        "largest_output_bytes": max(row["output_bytes"] for row in rows),
    }


def _as_text(network: Network, rows: list[dict[str, Any]], element_bytes: int) -> str:
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
    total = _as_json(network, rows, element_bytes)
    return "\n".join(
        [
            *lines,
            f"{network.name}: {answers.counted(len(rows), 'layer')}, "
            f"{total['parameters']:,} parameters ({bytes_in_words(total['parameter_bytes'])}), "
            f"{total['multiply_accumulates']:,} multiply-accumulates, "
            f"largest output {bytes_in_words(total['largest_output_bytes'])}",
        ]
    )


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    """Names to the left, numbers to the right."""
    aligned = [
        cell.ljust(width) if i < 3 else cell.rjust(width)
        for i, (cell, width) in enumerate(zip(cells, widths, strict=True))
    ]
    return "  ".join(aligned).rstrip()
