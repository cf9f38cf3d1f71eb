"""The work of `csdf cnn show`: a network is read and its layers are listed."""

from __future__ import annotations

import argparse
from typing import Any

from cnn2csdf.commands.cnn import chosen
from cnn2csdf.fixed_point.flash import and_in_flash, flash_bytes
from cnn2csdf.granularity import ROWS, parts
from cnn2csdf.network import Layer, Network
from cnn2csdf.parameters import (
    layer_parameters,
    multiply_accumulates,
    parameter_bytes,
    stored_arrays,
)
from cnn2csdf.readers.supported import GENERAL, supported
from cnn2csdf.stored_tensors import stored_as
from csdf.cli import answers
from csdf.cli.frame import terminal
from csdf.units import bytes_in_words

COLUMNS = ("layer", "operator", "output", "phases", "parameters", "MACs", "output bytes")


def work(options: argparse.Namespace) -> int:
    """Print the layers; return the exit code."""
    if options.supported:
        readers: dict[str, dict[str, str]] = {}
        for operator in supported():
            readers.setdefault(operator.reader, {})[operator.operator] = operator.in_words()
        width = max(len(name) for reader in readers.values() for name in reader)
        lines = []
        for reader, said in GENERAL.items():
            lines.append(f"{reader}: {said}")
            lines += [f"  {name:<{width}}  {note}" for name, note in readers[reader].items()]
        answers.show({"readers": readers, "general": GENERAL}, lines, options)
        return answers.ANSWERED
    network = chosen.read(options, knows_state=True).network
    rows = _rows(network, options.element_bytes, has_scales=options.scales)
    document = _as_json(network, rows, options.element_bytes)
    sizes = f"{answers.counted(options.element_bytes or 0, 'byte')} each (--element-bytes)"
    if not options.is_element_given:
        layers = sorted({layer.element.value for layer in network.layers})
        arrays = sorted({array.element.value for array in stored_arrays(network)})
        sizes = f"elements {', '.join(layers)}; parameters {', '.join(arrays) or 'none'}"
    ends = {"input": network.inputs, "output": network.outputs}
    in_words = [
        f"{end} {stored_as(layer).in_words()}"
        for end, layers in ends.items()
        for layer in layers
        if layer.quantization is not None
    ]
    answers.show(document, [*_lines(document, sizes), *in_words], options)
    return answers.ANSWERED


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
    """How the output and the parameters of a layer are quantised, by role."""
    quantizations = {stored.role: stored.quantization for stored in layer.stored}
    if not layer.is_output:
        quantizations = {"output": layer.quantization, **quantizations}
    return {
        role: {
            "element": quantization.element.value,
            "scales": list(quantization.scales),
            "zero_point": quantization.zero_point,
        }
        for role, quantization in quantizations.items()
        if quantization is not None
    }


def _kept(total: dict[str, Any]) -> str:
    """Return the bytes that stay from frame to frame, in words."""
    names = [row["layer"] for row in total["layers"] if row["operator"] == "previous"]
    rings = f"; variables: {answers.counted(len(names), 'tensor')}" if names else ""
    return f"state: {bytes_in_words(total['kept_bytes'])} retained between frames{rings}"


def _scales_in_words(quantization: dict[str, Any]) -> str:
    """Return the value of a step and the integer of zero; of several scales the extremes."""
    said = []
    for role, scaling in quantization.items():
        low, high = min(scaling["scales"]), max(scaling["scales"])
        scale = f"{low:.4g}" if low == high else f"{low:.4g} to {high:.4g}"
        zero = f" (zero is {scaling['zero_point']})" if scaling["zero_point"] else ""
        said.append(f"{role} {scale}{zero}")
    return ", ".join(said)


def _as_json(
    network: Network, rows: list[dict[str, Any]], element_bytes: int | None
) -> dict[str, Any]:
    used = sum(row["parameters"] for row in rows)
    parameters = sum(array.elements for array in stored_arrays(network))
    return {
        "network": network.name,
        "inputs": [stored_as(layer).to_json() for layer in network.inputs],
        "outputs": [stored_as(output).to_json() for output in network.outputs],
        "layers": rows,
        "parameters": parameters,
        "shared_parameters": used - parameters,
        "parameter_bytes": parameter_bytes(network, element_bytes),
        "flash_bytes": flash_bytes(network, element_bytes),
        "multiply_accumulates": sum(row["multiply_accumulates"] for row in rows),
        "largest_output_bytes": max(row["output_bytes"] for row in rows),
        **({"kept_bytes": network.kept_bytes(element_bytes)} if network.keeps_state else {}),
    }


def _lines(total: dict[str, Any], sizes: str) -> list[str]:
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
    again, trained = total["shared_parameters"], total["parameter_bytes"]
    stored = bytes_in_words(trained) + and_in_flash(trained, total["flash_bytes"])
    return [
        f"{total['network']}: {answers.counted(len(rows), 'layer')}, "
        f"{total['parameters']:,} parameters ({stored}), "
        f"{total['multiply_accumulates']:,} multiply-accumulates, "
        f"largest output {bytes_in_words(total['largest_output_bytes'])}",
        *lines,
        *([_kept(total)] if "kept_bytes" in total else []),
        f"sizes: {sizes}" + (f"; {again:,} more uses of shared parameters" if again else ""),
    ]
