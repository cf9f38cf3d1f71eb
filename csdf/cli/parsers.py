"""Argument parsers of the commands: the form of the help, and the options that several commands share.

Shell completion is derived from the arguments: FILE and MODEL complete to files, other arguments to the
words that `takes_words` lists.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from typing import Any, NoReturn

import csdf.names as names
from csdf.arguments import SIZE_UNITS, TIME_UNITS
from csdf.cli import option_values
from csdf.cli.frame.output import UNUSABLE, refusal
from csdf.cli.frame.streams import Remarks
from csdf.cli.frame.terminal import columns
from csdf.draw.column import WIDTHS
from csdf.errors import UnwritableFile
from csdf.io.files import require_folder, require_writable, suffix_of
from csdf.model.exact import shown

WIDTH = 79
EXAMPLES = "For example:"
PICTURES = ("png", "svg", "pdf", "html", "pgf", "tex")  # suffixes
FILES = ("FILE", "MODEL")  # metavars that stand for files
GRAPH_HELP = (
    "a graph: SDF3 XML (.xml), JSON (.json), a table of layers (.csv) or PREESM (.pi, .scenario)"
)
SEARCH_SECONDS = 60.0  # seconds
NEGATIVE = re.compile(r"-\.?\d\S*")  # no option begins so
MARGIN = 2  # columns at the right of a help, as argparse leaves them
SYNONYMS = {  # words of other tools for our options
    "--board": "--platform",
    "--cpu": "--platform",
    "--mcu": "--platform",
    "--rom": "--flash",
    "--target": "--platform",
    "--throughput": "--fps",
}
LIKENESS = 0.7  # minimum difflib ratio of an unknown option and the suggested option


class Parser(argparse.ArgumentParser):
    """A parser that suggests an option for an unknown word."""

    notes: str = ""  # after the options, before the examples
    color: bool  # whether later versions of Python colour the help
    work: Callable[[argparse.Namespace], int] | str | None
    check: Callable[[argparse.Namespace], None] | None
    # The result of the command in the output folder of a project; empty: it reads no project file.
    project_result: str
    made_folders: Sequence[str] = ()  # the folders made for this result, the outermost first

    def error(self, message: str) -> NoReturn:
        """Print a refusal of one line that names the help; exit with code 2."""
        _, _, unknown = message.partition("unrecognized arguments: ")
        name = unknown.partition(" ")[0].partition("=")[0]
        if name and (name in SIZE_UNITS or name in TIME_UNITS):
            message += f"; a number and its unit are one word, such as 5{name}"
        option_names = [option for option in self._option_string_actions if option.startswith("--")]
        from difflib import get_close_matches  # slow to import, and seldom needed

        suggestions = [SYNONYMS[name]] if SYNONYMS.get(name) in option_names else []
        if name.startswith("--") and not suggestions:
            suggestions = get_close_matches(name, option_names, 1, LIKENESS)
        words = f"{message}; did you mean {suggestions[0]}?" if suggestions else message
        hint = " See" if words.endswith("?") else "; see"
        refusal(self.prog, f"{words}{hint} {self.prog} --help")
        self.exit(UNUSABLE)

    def _get_formatter(self) -> argparse.HelpFormatter:
        """Return a formatter as wide as the terminal; argparse asks for one at each option."""
        return argparse.RawDescriptionHelpFormatter(prog=self.prog, width=columns() - MARGIN)

    def format_help(self) -> str:
        """Return the help: paragraphs of WIDTH characters, and examples that a shell can execute."""
        from textwrap import TextWrapper, fill  # slow to import, and for helps alone

        if self.description:
            self.description = fill(self.description, WIDTH)
        if self.notes:
            self.epilog, self.notes = f"{fill(self.notes, WIDTH)}\n\n{self.epilog}", ""
        text, head, examples = super().format_help().partition(f"{EXAMPLES}\n")
        form = TextWrapper(
            WIDTH - 2, subsequent_indent=" " * 6, break_long_words=False, break_on_hyphens=False
        )
        lines = [" \\\n".join(form.wrap(example)) + "\n" for example in examples.splitlines()]
        return "".join([text, head, *lines])

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Refuse a value that is not among the choices, with a suggestion."""
        choices = action.choices
        if choices is not None and value not in choices:
            listed = list(map(str, choices))
            expected = f"expected one of {', '.join(listed)}"
            # Names with other digits are other cores or chips.
            alike = [name for name in listed if _digits(name) == _digits(value)]
            near = names.meant(str(value), alike if _digits(value) else listed)
            words = f"found {shown(str(value))}; {expected}{near}"
            raise argparse.ArgumentError(action, words)


def _digits(value: object) -> str:
    """Return the digits of a text, by which names of cores differ."""
    return "".join(filter(str.isdigit, str(value)))


def new_parser(
    program: str,
    about: str,
    *examples: str,
    work: Callable[[argparse.Namespace], int] | str | None = None,
    check: Callable[[argparse.Namespace], None] | None = None,
    notes: str = "",
    project_result: str = "",
) -> argparse.ArgumentParser:
    """Return a parser whose help describes the command and ends with examples that run.

    work: executes the command and returns its exit code. A string names a module with a function
    `work`, imported only after the arguments are accepted, for commands with slow imports. check:
    called before `work`; refuses options that contradict each other.
    project_result: the command reads a project file if no model is named, and writes its result under
    this name into the output folder of the project.

    The parsed options also contain `program`, the name of the command; `words`, its arguments, also
    those of a project file; and `refuse`, which prints a message and exits.
    """
    lines = "\n".join(f"  {example}" for example in examples)
    parser = Parser(
        prog=program, description=about, epilog=f"{EXAMPLES}\n{lines}", allow_abbrev=False
    )
    parser.color = False  # messages quote parts of the help, and would quote its escape codes
    parser._negative_number_matcher = NEGATIVE  # a wrong size is refused as such, not as an option
    parser.notes = notes
    parser.work, parser.check, parser.project_result = work, check, project_result
    parser.set_defaults(program=program, refuse=parser.error)
    _add_remark_options(parser)
    return parser


def _add_remark_options(parser: argparse.ArgumentParser) -> None:
    """Add --verbose and --quiet: the amount of text on standard error."""
    verbosity = parser.add_mutually_exclusive_group()
    verbosity.add_argument(
        "-v",
        "--verbose",
        action="count",
        default=0,
        help="log results and ends of searches on standard error; -vv also logs bounds and cuts",
    )
    verbosity.add_argument(
        "-q", "--quiet", action=_Quiet, nargs=0, help="print no notes and no progress, only errors"
    )


class _Quiet(argparse.Action):
    """Silences notes and progress as soon as it is parsed: later options may print notes."""

    def __call__(self, *_: object) -> None:
        """Silence standard error but for refusals."""
        if isinstance(sys.stderr, Remarks):
            sys.stderr.is_quiet = True


def takes_words(action: argparse.Action, words: Iterable[str]) -> None:
    """Declare the words that an argument accepts in addition to files, such as built-in names."""
    action.words = tuple(words)  # type: ignore[attr-defined]


def words_of(action: argparse.Action) -> tuple[str, ...]:
    """Return the words that an argument accepts in addition to files."""
    words: tuple[str, ...] = getattr(action, "words", ())
    return words


def add_json_option(parser: argparse._ActionsContainer) -> None:
    """Add --json and --explain."""
    parser.add_argument(
        "--json", action="store_true", help="print one JSON object, with fractions as strings"
    )
    add_explain_option(parser)


def add_explain_option(parser: argparse._ActionsContainer) -> None:
    """Add --explain: the long form of an answer in words."""
    parser.add_argument(
        "--explain", action="store_true", help="print details, and definitions of the terms"
    )


def add_output_option(
    parser: argparse._ActionsContainer, what: str, *suffixes: str, required: bool = False
) -> None:
    """Add --output: the file for the result. suffixes: permitted suffixes; all by default."""
    kind = output_file(*suffixes)
    parser.add_argument("-o", "--output", type=kind, metavar="FILE", required=required, help=what)


def output_file(*suffixes: str) -> Callable[[str], str]:
    """Return a function for argparse that checks the path of an output file and returns it.

    suffixes: permitted suffixes; all by default. Raises UnwritableFile, before a long computation
    whose result could not be written.
    """

    def parse(path: str) -> str:
        if suffixes and suffix_of(path).removeprefix(".") not in suffixes:
            expected = " or ".join(f".{suffix}" for suffix in suffixes)
            raise UnwritableFile(f"{path}: expected the suffix {expected}")
        require_writable(path)
        return path

    parse.writes_a_file = True  # type: ignore[attr-defined]
    return parse


def output_folder(path: str) -> str:
    """Return the path of a writable folder; for argparse. Raises UnwritableFile."""
    require_folder(path)
    return path


def add_folder_option(parser: argparse._ActionsContainer) -> None:
    """Add --output: the folder for the files of the result."""
    what = "a new or empty folder, or one written by this command before"
    parser.add_argument(
        "-o", "--output", type=output_folder, metavar="FOLDER", required=True, help=what
    )


def add_plot_option(parser: argparse._ActionsContainer, what: str) -> None:
    """Add --plot and --column: the file for a picture, and its size."""
    parser.add_argument(
        "--plot",
        type=output_file(*PICTURES),
        metavar="FILE",
        help=f"draw {what} in a .png, .svg, .pdf, .html, or (PGF) .pgf or .tex file",
    )
    parser.add_argument(
        "--column",
        choices=tuple(WIDTHS),
        help="size of the picture: one column of a paper, or both (wide), with 7-point text",
    )


def add_table_option(parser: argparse._ActionsContainer, what: str) -> None:
    """Add --table: the file for a LaTeX table."""
    parser.add_argument(
        "--table",
        type=output_file("tex"),
        metavar="FILE",
        help=f"write {what} as a table of LaTeX (booktabs), .tex",
    )


def add_time_limit(
    parser: argparse._ActionsContainer, what: str, default: float | None = SEARCH_SECONDS
) -> None:
    """Add --time-limit and --memory-limit."""
    end = "no limit" if default is None else f"{default:g}s"
    parser.add_argument(
        "--time-limit",
        type=option_values.seconds,
        metavar="TIME",
        default=default,
        help=f"{what}, such as 30s, 500ms or 2m; default: {end}",
    )
    add_memory_limit(parser)


def add_period(
    parser: argparse.ArgumentParser,
    what: str,
    rate: str = "instead of --period: iterations per time unit",
) -> None:
    """Add --period and --throughput, which exclude each other; see `period_of`."""
    group = parser.add_mutually_exclusive_group()
    kind = option_values.above_zero
    group.add_argument("--period", type=kind, metavar="TIME", help=what)
    group.add_argument("--throughput", type=kind, metavar="RATE", help=rate)


def period_of(options: argparse.Namespace) -> Fraction | None:
    """Return the period of --period or --throughput; None without both."""
    period: Fraction | None = options.period
    return period if options.throughput is None else 1 / options.throughput


def add_memory_limit(parser: argparse._ActionsContainer) -> None:
    """Add --memory-limit."""
    parser.add_argument(
        "--memory-limit",
        type=option_values.size,
        metavar="SIZE",
        help="stop likewise if the command uses more memory, such as 2GB; default: three quarters "
        "of the free memory",
    )


def add_effort(parser: argparse._ActionsContainer, what: str, default: float) -> None:
    """Add --effort, --time-limit, --best-effort and --memory-limit."""
    parser.add_argument(
        "--effort",
        type=option_values.seconds,
        metavar="TIME",
        default=default,
        help=f"{what}: the number of steps that take this time on a typical machine. Steps are "
        f"counted, so the answer does not depend on the load; default: {default:g}s",
    )
    parser.add_argument(
        "--time-limit",
        type=option_values.seconds,
        metavar="TIME",
        default=None,
        help="stop after this wall-clock time with the best answer so far and exit code 3; "
        "default: 20 times the effort, at least 60s",
    )
    parser.add_argument(
        "--best-effort",
        action="store_true",
        help="accept the best answer so far if the time limit ends the search",
    )
    add_memory_limit(parser)


PERIODIC = r"periodic-([1-9][0-9]{0,5})"
BOUND = (
    "periodic-K, such as periodic-1: only schedules that repeat K cycles of each actor, which "
    "is faster and gives an upper bound"
)

# The remarks that commands print next to an answer of the method periodic-K.
PERIOD_IS_A_BOUND = "the graph itself may be faster, never slower"
STORAGE_IS_A_BOUND = "of these schedules; other schedules may need less, never more"


def copies_of(method: str) -> int | None:
    """Return the K of `periodic-K`; None for another method."""
    match = re.fullmatch(PERIODIC, method)
    return int(match[1]) if match else None


def one_of(names: Sequence[str]) -> Callable[[str], str]:
    """Return a function for argparse that checks a method: one of the names, or `periodic-K`."""

    def parse(text: str) -> str:
        if text in names or copies_of(text) is not None:
            return text
        raise option_values.unfit(
            text, f"one of {', '.join(names)}, or periodic-K such as periodic-1"
        )

    return parse


def add_limit_options(
    parser: argparse._ActionsContainer, memory: str | None = None, *, has_reserve: bool = False
) -> None:
    """Add --ram and --flash; with `memory`, the help text, also --total-memory.

    has_reserve: --ram limits all RAM of the network, not only its buffers; --reserve is added.
    """
    buffers = "maximum bytes of all buffers, without parameters"
    everything = "maximum RAM of the network: arena, execution state and stack in C"
    parser.add_argument(
        "--ram",
        type=option_values.size,
        metavar="SIZE",
        help=f"{everything if has_reserve else buffers}; e.g. 64kB, 1MiB",
    )
    if has_reserve:
        parser.add_argument(
            "--reserve",
            type=option_values.size,
            metavar="SIZE",
            default=0,
            help="RAM reserved for the application: its stack, drivers, buffers; e.g. 2kB",
        )
    parser.add_argument(
        "--flash",
        type=option_values.size,
        metavar="SIZE",
        help="maximum flash of all parameters as stored in C; e.g. 256kB",
    )
    if memory is not None:
        parser.add_argument(
            "--total-memory", type=option_values.size, metavar="SIZE", dest="memory", help=memory
        )
