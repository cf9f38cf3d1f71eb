"""Times that `make bench` measured on boards, in addition to the predicted times.

Run `python -m figures.board_times`; it writes board_times.md.

A measurement is two files of figures/boards/: NAME.csv as `make bench` printed it, and NAME.json, the
fields of `Board`. The page board_times.md has a row for each measurement. The network is one of the
catalogue, so that everybody can repeat it. An emulator counts instructions and knows no cycles: its
row has instructions.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

from cnn2csdf.catalogue.networks import from_catalogue
from cnn2csdf.durations import parse_durations
from cnn2csdf.platforms import NANOSECONDS, PLATFORMS, Core, core_platform
from cnn2csdf.simplify import simplified
from cnn2csdf.weights import Model
from csdf.errors import CsdfError, InvalidArgument
from csdf.io.files import read_bytes
from csdf.io.json_value import JsonValue
from planners.memory.answer import FitMethod
from planners.memory.fit import fit
from planners.memory.loaded_plan import layer_times

FOLDER = Path(__file__).parent / "boards"
CORES = tuple(name for name, platform in PLATFORMS.items() if platform.core is not None)
MILLION, THOUSAND = 10**6, 10**3


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """A board, and what was measured on it.

    core: a platform whose instructions are known. hertz: clock of the core. flash_wait_states: of the
    flash that code and weights were read from. caches: what was switched on, or "none". compiler: name,
    version and flags. is_emulated: whether instructions were counted in place of cycles. plan: the
    method of `csdf fit`, and arena: its bytes of RAM, as `csdf deploy` prints both; methods of one name
    differ in their bytes. version: of csdf. by: who measured.
    """

    board: str
    core: str
    hertz: int
    flash_wait_states: int
    caches: str
    compiler: str
    network: str
    plan: str
    arena: int
    version: str
    by: str
    is_emulated: bool = False

    def __post_init__(self) -> None:
        for field in ("board", "caches", "compiler", "version", "by"):
            text = getattr(self, field)
            if not text.strip():
                raise InvalidArgument(f"{field} is empty; expected a text")
            if "|" in text or not text.isprintable():
                raise InvalidArgument(f"{field} is {text!r}; expected one line without '|'")
        if self.core not in CORES:
            raise InvalidArgument(f"core {self.core!r}; expected one of {', '.join(CORES)}")
        if self.hertz < 1:
            raise InvalidArgument(f"hertz is {self.hertz}; expected the clock of the core")


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Nanoseconds of a frame: measured, and predicted as minimum and maximum; largest layer error.

    layer: with the largest difference from the prediction in proportion to the frame.
    """

    board: Board
    measured: int
    minimum: int
    maximum: int
    layer: str
    layer_measured: int
    layer_maximum: int


def read_board(path: Path) -> tuple[Board, dict[str, int]]:
    """Return a measurement and the nanoseconds of its layers. Raises UnreadableFile."""
    text = read_bytes(str(path)).decode("utf-8", "replace")
    board = JsonValue.parse(text, str(path)).built(Board, {})
    table = path.with_suffix(".csv")
    times = parse_durations(read_bytes(str(table)).decode("utf-8", "replace"), str(table))
    return board, {layer: sum(phases) for layer, phases in times.items()}


def compared(board: Board, times: Mapping[str, int]) -> Comparison:
    """Return a measurement beside the prediction for this clock. Raises InvalidArgument."""
    given = PLATFORMS[board.core].core
    assert given is not None
    core = Core(kernels=given.kernels, hertz=board.hertz, least=given.least, most=given.most)
    if board.is_emulated:
        core = replace(core, least=Fraction(1), most=Fraction(1))
    platform = core_platform(core)
    network = simplified(Model(network=from_catalogue(board.network))).network
    method = _method(board, fit(network, platform=platform).methods)
    predicted = layer_times(network, method.plan, platform=platform) or {}
    unknown = sorted(times.keys() - predicted.keys())
    if unknown or not times:
        shown = repr(unknown[0]) if unknown else "no layer"
        raise InvalidArgument(f"{shown} was measured, which {board.network} does not have")
    worst = max(times, key=lambda layer: (abs(times[layer] - predicted[layer]), layer))
    return Comparison(
        board=board,
        measured=sum(times.values()),
        minimum=core.at_best(method.nanoseconds),
        maximum=method.nanoseconds,
        layer=worst,
        layer_measured=times[worst],
        layer_maximum=predicted[worst],
    )


def _method(board: Board, methods: Sequence[FitMethod]) -> FitMethod:
    """Return the method with the name and the bytes of the measured plan."""
    plan = board.plan, board.arena
    matches = [method for method in methods if (method.name, method.ram_bytes) == plan]
    if len(matches) != 1:
        names = ", ".join(f"{method.name} of {method.ram_bytes}" for method in methods)
        text = f"{len(matches)} methods are {board.plan!r} of {board.arena} bytes"
        raise InvalidArgument(f"{text}; expected one of {names}")
    return matches[0]


def page(comparisons: list[Comparison]) -> Iterator[str]:
    """Yield the lines of the page."""
    yield "# Predicted and measured times of boards"
    yield ""
    yield "`python -m figures.board_times` writes this page from `figures/boards/`. A new row:"
    yield "[CONTRIBUTING](../CONTRIBUTING.md#how-to-add-a-measurement-of-a-board)."
    for is_emulated, title, unit in (
        (False, "Boards", "ms"),
        (True, "Emulators: instructions, not time", "thousand instructions"),
    ):
        yield f"\n## {title}\n"
        rows = [
            comparison for comparison in comparisons if comparison.board.is_emulated == is_emulated
        ]
        if not rows:
            yield "No measurement was contributed yet."
            continue
        yield (
            "| board | core, clock | flash wait states, caches | compiler | network, plan | predicted, "
            f"{unit} | measured, {unit} | measured / maximum | layer of the largest difference |"
        )
        yield "|---" * 9 + "|"
        yield from map(_row, rows)


def _row(comparison: Comparison) -> str:
    board = comparison.board
    limits = [comparison.maximum] if board.is_emulated else [comparison.minimum, comparison.maximum]
    cells = (
        board.board,
        f"{board.core}, {float(Fraction(board.hertz, MILLION)):.4g} MHz",
        f"{board.flash_wait_states}, {board.caches}",
        board.compiler,
        f"{board.network}, {board.plan} (csdf {board.version})",
        " to ".join(_amount(board, time) for time in limits),
        _amount(board, comparison.measured),
        f"{comparison.measured / comparison.maximum:.3f}",
        f"{comparison.layer}: {_amount(board, comparison.layer_measured)}, predicted "
        f"{_amount(board, comparison.layer_maximum)}",
    )
    return f"| {' | '.join(cells)} |"


def _amount(board: Board, nanoseconds: int) -> str:
    """Milliseconds, or thousand instructions, each of which takes one cycle in an emulator."""
    if board.is_emulated:
        return f"{float(Fraction(nanoseconds * board.hertz, NANOSECONDS * THOUSAND)):,.1f}"
    return f"{float(Fraction(nanoseconds, MILLION)):,.3f}"


def main() -> None:
    """Write the page; a file that is no measurement ends the script with its message."""
    comparisons = []
    for path in sorted(FOLDER.glob("*.json")):
        try:
            comparisons.append(compared(*read_board(path)))
        except CsdfError as error:
            raise SystemExit(f"{path.name}: {error}") from None
    Path(__file__).with_suffix(".md").write_text("\n".join(page(comparisons)) + "\n")


if __name__ == "__main__":
    main()
