"""`csdf fit`: whether a network fits into RAM and flash, and with which plan.

It shares the options of a plan with `csdf deploy`.
"""

from __future__ import annotations

import argparse

from cnn2csdf.commands.cnn import options as shared
from cnn2csdf.platforms import BoardMemory, GivenMemory, memories_of, memory_of, platform_named
from csdf.cli import option_values, parsers
from csdf.cli.parsers import add_limit_options
from csdf.errors import CsdfError, InvalidArgument
from csdf.model.exact import MalformedText
from planners.memory.answer import EXTERNAL, INPUTS, OUTPUT_MEMORIES, RESIDENT, ROWS

# Seconds of a usual machine, for the plan of a network, or of all that are planned beside another
# answer. A catalogue network of 50 layers takes 1 to 4; half of them ends five more searches early.
EFFORT = 9.0


def command_parser() -> argparse.ArgumentParser:
    """Return the parser of this command."""
    parser = parsers.new_parser(
        "csdf fit",
        "Memory plan of a network for a limit of RAM and flash. Candidates run layer by layer, "
        "row by row, or in fused groups with line buffers and column strips, in one arena. The "
        "candidate with the fewest multiply-accumulates (MACs) that fits is chosen, the fastest "
        "if several have that number. Without --ram: the Pareto front of RAM and MACs. Several "
        "networks share one arena and run one at a time. The search counts its steps: the same "
        "command gives the same answer. Ctrl-C and the time limit print the best plan so far.",
        "csdf fit person_detection --element-bytes 1 --ram 16kB --input rows",
        "csdf fit keyword_spotting --plot plan.svg -o plan.json",
        "csdf fit resnet8 --element-bytes 1 --memory sram=8kB --memory psram=1MB:slow",
        "csdf fit keyword_spotting --element-bytes 1 --platform esp32-s3 --memory sram=8kB",
        work="planners.memory.command.work",
        project_result="plan.json",
        notes="1x MACs: no recomputation. Column strips recompute the overlap of neighbouring "
        "strips, line buffers recompute nothing. The arena holds all tensors, accumulators and "
        "staging buffers, and the input if resident. RAM is the arena, the execution state and "
        "the stack of the C library, and --reserve.",
    )
    shared.add_model_argument(
        parser,
        "models",
        nargs="+",
        help="model files (.onnx, .tflite, .cfg, .json) or networks of the catalogue; default: "
        "those of csdf.toml, with its options; csdf init writes one",
    )
    shared.add_reading_options(parser)
    add_plan_options(parser)
    parser.set_defaults(input=None, output_memory=None)  # which with --plan are the plan's
    _add_sources(parser)
    _add_sizes_and_checks(parser)
    add_order_option(parser)
    parsers.add_effort(
        parser,
        "effort of the search for each network, which ends with the best plan so far",
        EFFORT,
    )
    parsers.add_json_option(parser)
    parsers.add_plot_option(parser, "the plan: the buffers in memory over a frame")
    parser.add_argument(
        "--plot-tradeoff",
        type=parsers.output_file(*parsers.PICTURES),
        metavar="FILE",
        help="draw RAM against MACs of all methods; with --memory slow bytes, or time, against the "
        "size of the first memory, with the effort for each size",
    )
    parsers.add_output_option(parser, "the plan, in JSON, if a plan fits", "json")
    return parser


def _add_sources(parser: argparse.ArgumentParser) -> None:
    """Add the plan to check, and the frame rate with the times that it is checked by."""
    parser.add_argument(
        "--plan",
        action=SinglePlan,
        metavar="FILE",
        help="check this plan instead of searching: a file written with -o by csdf fit, csdf "
        "cnn memory, or csdf plan fusion, reuse or primitives",
    )
    parser.add_argument(
        "--fps",
        type=option_values.above_zero,
        metavar="N",
        help="minimum number of frames per second, by the predicted or measured (--durations) "
        "times",
    )
    parser.add_argument(
        "--durations",
        metavar="FILE",
        help="measured times of the layers: what `make bench` of a library prints on your board, or "
        "csdf cnn measure writes; the platform adds the start of a phase",
    )


def _add_sizes_and_checks(parser: argparse.ArgumentParser) -> None:
    """Add the sizes of elements, the run of the plan, and its printing."""
    shared.add_element_bytes_option(parser, is_by_tensor=True)
    parser.add_argument(
        "--parameter-bytes",
        type=option_values.positive,
        metavar="N",
        help="bytes of each parameter, if different from --element-bytes",
    )
    parser.add_argument(
        "--verify",
        action="store_true",
        help="run the plan in its arena and compare its outputs with a run without a plan",
    )
    parser.add_argument(
        "--seed",
        type=option_values.from_zero,
        default=0,
        metavar="N",
        help="seed of random weights and frames",
    )
    parser.add_argument(
        "--show-plan",
        action="store_true",
        help="also print the plan: groups, stages, and buffers with their offsets",
    )


class SinglePlan(argparse.Action):
    """A file of plans, accepted once."""

    def __call__(
        self, _parser: object, options: argparse.Namespace, value: object, _option: object = None
    ) -> None:
        """Store the file; reject a second one."""
        if options.plan is not None:
            words = (
                "there is one already; csdf report MODEL --plan a.json --plan b.json compares plans"
            )
            raise argparse.ArgumentError(self, words)
        options.plan = value


WHERE_INPUTS_ARE = {
    RESIDENT: "resident: whole in the arena before the first layer",
    ROWS: "rows: row by row, as a camera delivers them",
    EXTERNAL: "external: whole in memory outside the arena, readable at any time",
}


def add_order_option(parser: argparse.ArgumentParser) -> None:
    """Add the option for the layer orders that are planned."""
    parser.add_argument(
        "--order",
        choices=("search", "file"),
        default="search",
        help="order of the layers: search also tries canonical orders, such as the order of the "
        "lowest peak of whole tensors; file keeps the order of the file; default: search",
    )


def add_plan_options(parser: argparse.ArgumentParser) -> None:
    """Add --ram, --flash, --platform, --memory, --hop, --input and --output-memory."""
    add_limit_options(parser, has_reserve=True)
    shared.add_platform_option(parser)
    parser.add_argument(
        "--memory",
        type=memory,
        action="append",
        dest="memories",
        default=[],
        metavar="NAME=SIZE[:WHAT ...]",
        help="instead of --ram: fast memories, the nearest first, then slow memories, such as "
        "sram=64kB and psram=2MB:slow:read=0.5; after the size :slow, :read=N, :write=N, "
        ":holds=WHAT, :dma in any order. read and write: bytes a cycle; holds: contents of the "
        "memory, any of tensors, weights, scratch and stack (all of --ram but the arena) with + "
        "between; default: tensors+weights+scratch; dma: copies overlap computation. With "
        "flash=4MB:slow:holds=weights, reads of weights are counted, and weights are copied to "
        "fast memory if that reads less. The plan minimises time if the rates of all slow "
        "memories are given, else slow-memory traffic. With a board as --platform: overrides its "
        "memory of that name",
    )
    parser.add_argument(
        "--hop",
        type=option_values.positive,
        metavar="N",
        help="new input rows per frame of a sliding window; rows that later frames need are "
        "kept as state",
    )
    add_place_options(parser)
    parser.set_defaults(input=RESIDENT, output_memory=RESIDENT)


def add_place_options(parser: argparse._ActionsContainer) -> None:
    """Add --input and --output-memory: None if they are not given."""
    parser.add_argument(
        "--input",
        choices=INPUTS,
        help="; ".join(WHERE_INPUTS_ARE[placement] for placement in INPUTS) + "; default: resident",
    )
    parser.add_argument(
        "--output-memory",
        choices=OUTPUT_MEMORIES,
        help="resident: whole in the arena; external: written to memory outside the arena; "
        "default: resident",
    )


def memory(text: str) -> GivenMemory:
    """Parse a memory such as psram=2MB:slow:read=0.5; for argparse."""
    try:
        memory = memory_of(text)
    except MalformedText as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    # The size alone again: its parser says how many bytes a KB has.
    option_values.size(text.partition("=")[2].partition(":")[0])
    return memory


def memories_of_options(options: argparse.Namespace) -> tuple[BoardMemory, ...]:
    """Return the memories of the platform with the changes of --memory; empty for one memory.

    Raises CsdfError for a name that the platform does not have, and for options that contradict
    --memory.
    """
    changes, has_platform = options.memories, "is_platform_given" in options
    board = platform_named(options.platform).memories if has_platform else ()
    if not changes and (not board or options.ram is not None or options.plan is not None):
        return ()
    try:
        memories = memories_of(changes, board)
    except InvalidArgument as error:
        raise CsdfError(f"--memory: {error}") from None
    for name, value in (("--ram", options.ram), ("--plan", options.plan)):
        if value is not None:
            raise CsdfError(f"{name} is for a single memory; leave out {name} or --memory")
    return memories
