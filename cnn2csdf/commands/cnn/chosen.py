"""The model, granularity, durations and parameters that the shared options of a command select.

They run a model without parameters with random ones.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING

from cnn2csdf.commands.cnn.options import platform_of
from cnn2csdf.dtypes import Element
from cnn2csdf.durations import parse_durations, platform_durations
from cnn2csdf.granularity import WHOLE, Granularity
from cnn2csdf.network import Network
from cnn2csdf.parameters import uniform_bytes
from cnn2csdf.readers.model_files import read_model
from cnn2csdf.rings import with_states
from cnn2csdf.simplify import simplified
from cnn2csdf.weights import Model
from csdf.cli import answers
from csdf.cli.frame import output
from csdf.cli.frame.output import remark
from csdf.errors import CsdfError, InvalidNetwork, UnsupportedOperator
from csdf.io.files import read_bytes

if TYPE_CHECKING:
    from cnn2csdf.lowering import Durations


def read(
    options: argparse.Namespace, *, with_weights: bool = False, knows_state: bool = False
) -> Model:
    """Return the model that the options name, simplified as they say; see read_source."""
    model = read_source(options.model, options, with_weights=with_weights, knows_state=knows_state)
    if "element_bytes" in options and not options.is_element_given:
        options.element_bytes = _bytes_in_file(model.network, options)
    return model


def _bytes_in_file(network: Network, options: argparse.Namespace) -> int | None:
    """The bytes of an element where all have the same; else None, or the most as not said so."""
    uniform = uniform_bytes(network)
    types = sorted({layer.element.value for layer in network.layers})
    if uniform is not None or options.is_by_tensor:
        counted = "as in the file"
    else:
        uniform = max(layer.element_bytes for layer in network.layers)
        counted = f"each counted as {uniform} bytes, parameters too"
    if types != [Element.FLOAT32.value] or uniform is None:
        remark(
            options.program,
            f"{network.name}: elements of {' and '.join(types)}, {counted}; "
            "--element-bytes counts others",
        )
    return uniform


def read_source(
    source: str,
    options: argparse.Namespace,
    *,
    with_weights: bool = False,
    knows_state: bool = False,
) -> Model:
    """Return the model of a file or of the catalogue, read and simplified as the options say.

    Raises UnsupportedOperator for a network that keeps a state from frame to frame, unless the command
    knows of states.
    """
    with answers.working(f"reading {source}"):
        model = read_model(
            source,
            shapes=dict(options.shape),
            constants=dict(options.constant),
            inputs=options.begin,
            outputs=options.until,
            with_weights=with_weights,
            repair=options.repair,
            runtime=options.runtime,
        )
        if options.state:
            try:
                pairs = _paired_names(model.network, options.state)
                names = [pattern for pattern, _ in pairs]
                for name in names:
                    if names.count(name) > 1:
                        raise CsdfError(
                            f"--state {name}=...: input {name!r} has two outputs; give one"
                        )
                model = with_states(model, dict(pairs))
            except InvalidNetwork as error:
                raise InvalidNetwork(f"{source}: {error}") from None
        if model.network.keeps_state and not knows_state:
            raise UnsupportedOperator(
                f"{source}: the network keeps a state between frames; {options.program} does not "
                "support states, in contrast to csdf fit, csdf deploy, csdf report, csdf cnn show, "
                "csdf cnn memory, csdf cnn verify and csdf cnn convert"
            )
        return simplified(model, options.simplify)


def _paired_names(network: Network, pairs: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the names of inputs and outputs; a star in both of a pair stands for any characters."""
    pairs_matched = []
    for state_input, taken in pairs:
        before, star, behind = state_input.partition("*")
        if not star or "*" not in taken:
            pairs_matched.append((state_input, taken))
            continue
        pattern = re.compile(f"{re.escape(before)}(.*){re.escape(behind)}")
        matches = [pattern.fullmatch(layer.name) for layer in network.inputs]
        names_matched = [(match[0], taken.replace("*", match[1], 1)) for match in matches if match]
        if not names_matched:
            listed = ", ".join(repr(layer.name) for layer in network.inputs)
            raise InvalidNetwork(f"state {state_input!r}: no input has such a name, only {listed}")
        pairs_matched += names_matched
    return pairs_matched


def granularity_of(options: argparse.Namespace) -> Granularity:
    """Return what the options say about parts."""
    return Granularity(rows=options.granularity, layers=dict(options.layer))


def durations_of(
    network: Network, options: argparse.Namespace
) -> Callable[[Granularity], Durations]:
    """Return a function from a granularity to the durations that the options ask for.

    A measured table has one granularity; of it, a whole layer takes as long as all of its parts.
    """
    if options.durations:
        table = durations_table(options.durations)
        whole = {layer: (sum(times),) for layer, times in table.items()}
        return lambda granularity: whole if granularity == WHOLE else table
    platform = platform_of(options)
    return lambda granularity: platform_durations(
        network, granularity, platform, element_bytes=options.element_bytes
    )


def durations_table(path: str) -> dict[str, tuple[int, ...]]:
    """Return the durations in a file. Raises UnreadableFile."""
    return parse_durations(read_bytes(path).decode("utf-8", "replace"), path)


def with_weights(command: str, model: Model, seed: int, *, remark: str = "") -> Model:
    """Return the model; with random weights, and a line that says so, where it has none."""
    if model.weights is not None:
        return model
    output.remark(command, f"random weights with seed {seed}{remark}")
    calibration = import_module("cnn2csdf.execution.calibration")  # executes networks
    weights = calibration.calibrated_weights(model.network, seed)
    return Model(network=model.network, weights=weights)
