"""`csdf deploy`: a network as a C library that runs in the planned memory."""

from __future__ import annotations

import argparse

from cnn2csdf.commands.cnn import options as shared
from csdf.cli import option_values, parsers
from planners.code.machines import TARGETS
from planners.code.packaging import CMAKE, MAKE, MODEL_LICENSE, PROJECTS, UNVERSIONED
from planners.code.parts import KERNELS, OWN
from planners.memory.command.main import EFFORT, SinglePlan, add_order_option, add_plan_options


def command_parser() -> argparse.ArgumentParser:
    """Return the parser of this command."""
    parser = parsers.new_parser(
        "csdf deploy",
        "Write a network as a C99 library that runs in exactly the bytes planned by csdf fit: "
        "one arena, constant tables for flash, the kernels used, and test vectors. Targets of "
        "its Makefile: test runs it on this machine, qemu on an emulated Cortex-M4, size prints "
        "its size. Several networks share one arena of the largest plan and run one at a time.",
        "csdf deploy keyword_spotting --ram 16kB -o firmware",
        "csdf deploy resnet8 keyword_spotting --input rows -o library --name senses",
        "csdf deploy resnet8 --bench --ram 2MB -o bench",
        work="planners.code.command.work",
        project_result="firmware",
        check=_check,
        notes="`csdf fit MODEL -o plan.json` and `csdf cnn memory MODEL -o plan.json` write a "
        "plan for --plan. Networks without weights get random weights. Tensors are stored in HWC "
        "order.",
    )
    shared.add_model_argument(
        parser,
        "models",
        nargs="+",
        help="model files (.onnx, .tflite, .cfg, .json) or networks of the catalogue; default: "
        "those of csdf.toml, with its options",
    )
    shared.add_reading_options(parser)
    add_plan_options(parser)
    parser.set_defaults(input=None, output_memory=None)  # which with --plan are the plan's
    parser.add_argument(
        "--plan",
        action=SinglePlan,
        metavar="FILE",
        help="a plan written by csdf fit -o, csdf cnn memory -o or csdf plan ... -o; default: "
        "search for a plan",
    )
    parser.add_argument(
        "--element-bytes",
        type=shared.element_bytes,
        metavar="N",
        dest="expected_bytes",
        help="bytes of each tensor element, as in csdf fit. A library computes with the element "
        "type of the file, 1 byte for int8 and 4 bytes for float32; other sizes are an error",
    )
    _add_kernel_options(parser)
    parser.add_argument(
        "--name",
        help="prefix of functions and files; default: the name of the network, or networks",
    )
    _add_package_options(parser)
    parser.add_argument(
        "--misra",
        metavar="FILE",
        help="write the deviations from MISRA C:2012 as CSV: rule, category, file, line, "
        "function, code, reason, risk. cppcheck has to be installed",
    )
    parser.add_argument(
        "--seed", type=option_values.from_zero, default=0, metavar="N", help="of random weights"
    )
    add_order_option(parser)
    parsers.add_effort(
        parser, "effort of the search for each plan, which ends with the best plan so far", EFFORT
    )
    parsers.add_json_option(parser)
    parsers.add_folder_option(parser)
    return parser


def _add_kernel_options(parser: argparse.ArgumentParser) -> None:
    """Add the kernels of the library, their processor, and the benchmark of all primitives."""
    parser.add_argument(
        "--kernels",
        choices=KERNELS,
        default=OWN,
        help="whose kernels the library calls. cmsis-nn: int8 layers that CMSIS-NN computes with "
        "bit-identical results call it, in the same plan. Its scratch counts in --ram; your build "
        "links it (make CMSIS_NN=FOLDER). Default: csdf",
    )
    parser.add_argument(
        "--target",
        choices=tuple(TARGETS),
        metavar="CORE",
        help="processor whose instructions the kernels use besides portable C: "
        f"{', '.join(TARGETS)}. Default: the core of --platform if given, else host, for tests on "
        "this machine",
    )
    parser.add_argument(
        "--bench",
        action="store_true",
        help="write a benchmark program instead: it times every primitive of every layer that "
        "fits --ram and --flash on the device, and prints the profile for csdf plan primitives "
        "--profile",
    )


def _add_package_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the metadata of a library, and of its build systems."""
    parser.add_argument(
        "--project",
        type=_projects,
        default=(CMAKE, MAKE),
        metavar="LIST",
        help=f"comma-separated build systems to write files for: {', '.join(PROJECTS)}; default: "
        f"{CMAKE},{MAKE}. arduino needs --author and --url",
    )
    parser.add_argument(
        "--library-version",
        default=UNVERSIONED,
        metavar="VERSION",
        help="version of the library, such as 1.2.0; also the macro NAME_VERSION",
    )
    parser.add_argument("--author", metavar="NAME", help="of the library, in its banners")
    parser.add_argument("--url", metavar="ADDRESS", help="of the library, in its banners")
    parser.add_argument(
        "--model-license",
        default=MODEL_LICENSE,
        metavar="SPDX",
        help="licence of the weights, as an SPDX expression such as MIT, in the banners of weights "
        f"and tables; default: {MODEL_LICENSE}, terms not stated",
    )
    parser.add_argument(
        "--rename",
        type=_renamed,
        action="append",
        default=[],
        metavar="OLD=NEW",
        help="name in C of a tensor of the file; repeat it for several. Default: the name in the "
        "file, shortened if long",
    )
    parser.add_argument(
        "--date",
        metavar="DATE",
        help="date in the banners, such as 2026-01-31; default: no date, so that equal commands "
        "write equal files",
    )


def _renamed(text: str) -> tuple[str, str]:
    """Read a tensor and its new name; names of tensors may contain `=`."""
    tensor, sign, name = text.rpartition("=")
    if not (sign and tensor and name):
        raise argparse.ArgumentTypeError(f"{text!r}; expected OLD=NEW, such as Identity:0=classes")
    return tensor, name


def _projects(text: str) -> tuple[str, ...]:
    """Read a list of build systems."""
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",")))
    for name in names:
        if name not in PROJECTS:
            raise argparse.ArgumentTypeError(
                f"{name!r} is no build system; expected {', '.join(PROJECTS)}"
            )
    return names


def _check(options: argparse.Namespace) -> None:
    if options.bench and options.kernels != OWN:
        options.refuse("--bench times primitives of its own; leave out --kernels")
    if options.bench and options.target is not None:
        options.refuse("--bench times primitives in portable C; leave out --target")
    if options.bench and options.misra is not None:
        options.refuse("--bench writes a program for measurements; leave out --misra")
    if options.bench and (options.plan or len(options.models) > 1):
        options.refuse(
            "--bench times all primitives of one network; give one model, without --plan"
        )
