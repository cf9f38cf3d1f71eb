"""The work of `csdf cnn show`: a network is read and its layers are listed."""

from __future__ import annotations

import argparse
import json
from typing import Any

from cnn2csdf.commands.cnn import chosen
from cnn2csdf.fixed_point.flash import and_in_flash, flash_bytes
from cnn2csdf.granularity import ROWS, parts
from cnn2csdf.network import Layer, Network
from cnn2csdf.operators import Output
from cnn2csdf.parameters import (
    layer_parameters,
    multiply_accumulates,
    parameter_bytes,
    stored_arrays,
)
from cnn2csdf.readers.supported import GENERAL, supported
from csdf.cli import answers
from csdf.cli.frame import terminal
from csdf.words import bytes_in_words

COLUMNS = ("layer", "operator", "output", "phases", "parameters", "MACs", "output bytes")


def work(options: argparse.Namespace) -> int:
    """Print the layers; return the exit code."""
    if options.supported:
        print(_supported_as_json() if options.json else _supported_as_text())
        return answers.ANSWERED
    network = chosen.read(options).network
    rows = _rows(network, options.element_bytes, has_scales=options.scales)
    found = _as_json(network, rows, options.element_bytes)
    print(
        json.dumps(found, indent=2) if options.json else _as_text(found, _sizes(network, options))
    )
    return answers.ANSWERED


def _supported_as_json() -> str:
    found: dict[str, dict[str, str]] = {}
    for one in supported():
        found.setdefault(one.reader, {})[one.operator] = one.note
    return json.dumps({"readers": found, "general": GENERAL}, indent=2)


def _supported_as_text() -> str:
    found = supported()
    width = max(len(one.operator) for one in found)
    lines = []
    for reader, said in GENERAL.items():
        lines.append(f"{reader}: {said}")
        lines += [
            f"  {one.operator.ljust(width)}  {one.note}" for one in found if one.reader == reader
        ]
    return answers.one_text(lines)


def _rows(network: Network, element_bytes: int | None, *, has_scales: bool) -> list[dict[str, Any]]:
    parameters = layer_parameters(network)
    return [
        {
            **({"quantization": _quantization(layer)} if has_scales else {}),
            **layer.to_json(),
            "phases": len(parts(layer, network.input_shapes(layer), ROWS)),
            "parameters": parameters[layer.name],
            "multiply_accumulates": multiply_accumulates(layer, network.input_shapes(layer)),
            "output_bytes": layer.shape.elements * (element_bytes or layer.element_bytes),
        }
        for layer in network.layers
    ]


def _quantization(layer: Layer) -> dict[str, Any]:
    """How the output and the trained numbers of a layer are quantised, by role."""
    found = {one.role: one.quantization for one in layer.stored}
    if not isinstance(layer.operator, Output):
        found = {"output": layer.quantization, **found}
    return {
        role: {
            "element": one.element.value,
            "scales": list(one.scales),
            "zero_point": one.zero_point,
        }
        for role, one in found.items()
        if one is not None
    }


def _scales_in_words(quantization: dict[str, Any]) -> str:
    """Return the value of a step and the integer of zero; of several scales the extremes."""
    return ", ".join(
        f"{role} {_scale_in_words(one['scales'])}"
        + (f" (zero is {one['zero_point']})" if one["zero_point"] else "")
        for role, one in quantization.items()
    )


def _scale_in_words(scales: list[float]) -> str:
    low, high = min(scales), max(scales)
    return f"{low:.4g}" if low == high else f"{low:.4g} to {high:.4g}"


def _sizes(network: Network, options: argparse.Namespace) -> str:
    """Return from where the sizes of elements are known."""
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
        "flash_bytes": flash_bytes(network, element_bytes),
        "multiply_accumulates": sum(row["multiply_accumulates"] for row in rows),
        "largest_output_bytes": max(row["output_bytes"] for row in rows),
    }


def _parameter_bytes(total: dict[str, Any]) -> str:
    trained, stored = total["parameter_bytes"], total["flash_bytes"]
    return bytes_in_words(trained) + and_in_flash(trained, stored)


def _as_text(total: dict[str, Any], sizes: str) -> str:
    rows = total["layers"]
    columns = list(COLUMNS)
    has_elements = {row["element"] for row in rows} != {"float32"}
    has_scales = "quantization" in rows[0]
    columns += ["element"] * has_elements + ["scales"] * has_scales
    cells = [
        [
            row["layer"],
            row["operator"],
            "x".join(map(str, row["output"])),
            *(f"{row[key]:,}" for key in ("phases", "parameters", "multiply_accumulates")),
            bytes_in_words(row["output_bytes"]),
            *([row["element"]] * has_elements),
            *([_scales_in_words(row["quantization"])] if has_scales else []),
        ]
        for row in rows
    ]
    texts = {0, 1, 2, *range(len(COLUMNS), len(columns))}
    lines = terminal.aligned([columns, *cells], texts=texts)
    again = total["shared_parameters"]
    return answers.one_text(
        [
            *lines,
            f"{total['network']}: {answers.counted(len(rows), 'layer')}, "
            f"{total['parameters']:,} parameters ({_parameter_bytes(total)}), "
            f"{total['multiply_accumulates']:,} multiply-accumulates, "
            f"largest output {bytes_in_words(total['largest_output_bytes'])}",
            f"sizes: {sizes}" + (f"; {again:,} more uses of shared parameters" if again else ""),
        ]
    )
