"""Options that the commands on networks share: reading a model, cutting it into parts, timing them.

Nothing here loads operators, readers or NumPy: help, completion and refused words need none of them.
What the options ask for is done by `chosen`.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from math import isfinite, nan
from typing import Any

from cnn2csdf.catalogue.networks import CATALOGUE
from cnn2csdf.dtypes import USUAL_RUNTIME, Element, Runtime
from cnn2csdf.platforms import USUAL_PLATFORM, Platform, PlatformNames, platform_named
from cnn2csdf.rewrite_names import REWRITE_NAMES
from csdf.cli import option_values, parsers
from csdf.cli.frame.output import remark

MODEL_HELP = (
    "an ONNX or TensorFlow Lite model (.onnx, .tflite), a Darknet configuration (.cfg), a network in "
    "JSON (.json), or one of the catalogue such as resnet18 or mobilenet_v1:width=1/4,resolution=128"
)

FIGURES = ("operations", "bandwidth", "launch")  # of a platform, as options replace them


def add_model_options(parser: argparse.ArgumentParser) -> None:
    """Add the model and how it is to be read and simplified."""
    add_model_argument(parser, "model", help=MODEL_HELP)
    add_reading_options(parser)


def add_model_argument(
    parser: argparse.ArgumentParser, name: str, **details: Any
) -> argparse.Action:
    """Add an argument that takes model files and names of the catalogue, and return it."""
    action = parser.add_argument(name, metavar="MODEL", **details)
    parsers.takes_words(action, CATALOGUE)
    return action


def add_reading_options(parser: argparse.ArgumentParser) -> None:
    """Add how models are to be read and simplified."""
    parser.add_argument(
        "--shape",
        action="append",
        type=_named_shape,
        metavar="NAME=1x3x224x224",
        default=[],
        help="shape of an input of an ONNX or TensorFlow Lite file, or NAME=N for the symbolic "
        "dimension of that name in an ONNX file",
    )
    parser.add_argument(
        "--constant",
        action="append",
        type=_named_number,
        metavar="NAME=NUMBER",
        default=[],
        help="an ONNX input that has the same value in every frame, such as sr=16000",
    )
    parser.add_argument(
        "--from",
        dest="begin",
        action="append",
        metavar="TENSOR",
        default=[],
        help="start of the subgraph to read from an ONNX or TensorFlow Lite file: this tensor is "
        "an input, such as features that other code computes; repeat it for several",
    )
    parser.add_argument(
        "--until",
        action="append",
        metavar="TENSOR",
        default=[],
        help="end of the subgraph to read: this tensor is an output, for layers after it that "
        "other code computes",
    )
    parser.add_argument(
        "--simplify",
        type=_rewrites,
        metavar="STEPS",
        default=REWRITE_NAMES,
        help=f"none, all, or some of {','.join(REWRITE_NAMES)} (eliminate-nop: dropout and reshapes "
        "that move nothing; convert-layout: swap rows and columns between transpositions, to run row "
        "by row; tokens-as-rows: attention on maps whose rows are tokens, head by head; "
        "moves-as-views: reshapes and transpositions that keep the order of memory, without a copy; "
        "fuse-pad: padding with zeros before a convolution; fuse-bn: batch normalisation into weights; "
        "fuse-activation: activations into the layer that they follow; fuse-bias: constants added "
        "to a layer's output); default: all",
    )
    parser.add_argument(
        "--state",
        action="append",
        type=_paired,
        metavar="IN=OUT",
        default=[],
        help="an input that equals an output of the previous frame, and is zero for the first "
        "frame; a star in both names matches the same characters: 'past.*=present.*'",
    )
    parser.add_argument(
        "--runtime",
        choices=[runtime.value for runtime in Runtime],
        default=USUAL_RUNTIME.value,
        help="runtime whose results are reproduced bit by bit for TensorFlow Lite files; the "
        "two differ in the rounding of int8 fully connected layers; default: tflite-micro",
    )
    parser.add_argument(
        "--repair", action="store_true", help="recompute inconsistent shapes of a JSON network"
    )


def _paired(text: str) -> tuple[str, str]:
    """Two names with an equals sign between."""
    name, sign, taken = text.partition("=")
    if not (name and sign and taken):
        raise argparse.ArgumentTypeError(f"{text!r}; expected IN=OUT, an input and an output")
    return name, taken


def add_seed_option(parser: argparse.ArgumentParser, text: str) -> None:
    """Add --seed; text: the help, what the seed is of."""
    parser.add_argument("--seed", type=option_values.integer, metavar="N", default=0, help=text)


def add_granularity_options(parser: argparse.ArgumentParser) -> None:
    """Add how the layers are cut into parts."""
    parser.add_argument(
        "--granularity",
        type=_rows,
        metavar="ROWS",
        default=1,
        help="rows per phase: a number, rows (one row) or whole (all rows); default: rows",
    )
    parser.add_argument(
        "--layer",
        action="append",
        type=_layer_rows,
        metavar="NAME=N|whole",
        default=[],
        help="another granularity for one layer",
    )
    add_element_bytes_option(parser, is_by_tensor=True)


class _Given(argparse.Action):
    """Stores a value, and in the option named by `const` that the value was given."""

    def __call__(
        self, _parser: object, options: argparse.Namespace, value: object, _option: object = None
    ) -> None:
        setattr(options, self.dest, value)
        setattr(options, str(self.const), True)


def add_element_bytes_option(
    parser: argparse.ArgumentParser, *, is_by_tensor: bool = False
) -> None:
    """Add the bytes of one element of a tensor.

    is_by_tensor: the command counts each tensor with its own elements, where the file has several
    types: `read` leaves None then.
    """
    parser.add_argument(
        "--element-bytes",
        type=element_bytes,
        action=_Given,
        const="is_element_given",
        metavar="N",
        default=4,
        help="bytes of each tensor and parameter element; default: as in the file, else 4; int8 "
        "is 1",
    )
    parser.set_defaults(is_element_given=False, is_by_tensor=is_by_tensor)


def add_duration_options(parser: argparse.ArgumentParser) -> None:
    """Add where the durations of phases come from."""
    group = parser.add_argument_group("durations of phases, in nanoseconds")
    add_platform_option(group)
    group.add_argument(
        "--operations", type=option_values.above_zero, metavar="N", help="per second, instead"
    )
    group.add_argument(
        "--bandwidth", type=option_values.above_zero, metavar="N", help="bytes per second, instead"
    )
    group.add_argument(
        "--launch",
        type=option_values.exact_seconds,
        metavar="TIME",
        help="to start a phase, instead; e.g. 0, 5us, 1ms",
    )
    group.add_argument(
        "--durations", metavar="FILE", help="a measured table: layer,phase,nanoseconds (CSV)"
    )


def add_platform_option(parser: argparse._ActionsContainer) -> None:
    """Add the processor whose times are predicted, the same by default in all commands."""
    parser.add_argument(
        "--platform",
        choices=PlatformNames(),
        action=_Given,
        const="is_platform_given",
        default=USUAL_PLATFORM,
        metavar="NAME",
        help=f"platform whose times are predicted: {', '.join(PlatformNames())} with a core; "
        f"default: {USUAL_PLATFORM}, with a note",
    )


def remark_on_platform(
    command: str, options: argparse.Namespace, measured: Sequence[str] = ()
) -> None:
    """Name the processor of the predicted times where the user chose none.

    measured: the networks whose times are not predicted, where others are.
    """
    options_stated = [name for name in FIGURES if getattr(options, name, None) is not None]
    if "is_platform_given" in options or len(options_stated) == len(FIGURES):
        return
    if not measured and getattr(options, "durations", None):
        return
    but = [f"but those of {' and '.join(measured)}"] if measured else []
    but += [f"with --{name} as given" for name in options_stated]
    which = "".join(f", {words}" for words in but)
    remark(command, f"times are predicted for {options.platform}{which}; --platform chooses")


def add_time_limit(parser: argparse.ArgumentParser) -> None:
    """Add how long the search for the smallest buffers may take."""
    parsers.add_time_limit(
        parser, "limit of the search for the smallest buffers, which ends with the smallest so far"
    )


def platform_of(options: argparse.Namespace) -> Platform:
    """Return the platform that the options describe."""
    chosen = platform_named(options.platform)
    return replace(
        chosen,
        operations_per_second=options.operations or chosen.operations_per_second,
        bytes_per_second=options.bandwidth or chosen.bytes_per_second,
        launch=chosen.launch if options.launch is None else options.launch,
        core=chosen.core if options.operations is None else None,
    )


def element_bytes(text: str) -> int:
    """Return the bytes of an element of that many bytes; for argparse."""
    sizes = sorted({element.bytes for element in Element})
    if text not in map(str, sizes):
        listed = f"{', '.join(map(str, sizes[:-1]))} or {sizes[-1]}"
        raise argparse.ArgumentTypeError(
            f"{text!r} is not the size of an element; expected {listed} bytes"
        )
    return int(text)


def _rows(text: str) -> int | None:
    if text == "whole":
        return None
    return 1 if text == "rows" else option_values.positive(text)


def _layer_rows(text: str) -> tuple[str, int | None]:
    name, _, value = text.rpartition("=")
    if not name:
        raise argparse.ArgumentTypeError(f"{text!r} is not LAYER=N or LAYER=whole")
    return name, _rows(value)


def _named_shape(text: str) -> tuple[str, tuple[int, ...]]:
    name, _, dims = text.rpartition("=")
    if not name:
        raise option_values.unfit(text, "NAME=1x3x224x224")
    return name, tuple(option_values.positive(size) for size in dims.split("x"))


def _named_number(text: str) -> tuple[str, float]:
    name, _, number = text.rpartition("=")
    try:
        value = float(number)
    except ValueError:
        value = nan
    if not name or not isfinite(value):
        raise option_values.unfit(text, "NAME=16000")
    return name, value


def _rewrites(text: str) -> tuple[str, ...]:
    if text in ("all", "none"):
        return REWRITE_NAMES if text == "all" else ()
    names = tuple(text.split(","))
    unknown = [name for name in names if name not in REWRITE_NAMES]
    if unknown:
        raise argparse.ArgumentTypeError(
            f"there is no step {unknown[0]!r}; none, all, or some of {','.join(REWRITE_NAMES)}"
        )
    return names
