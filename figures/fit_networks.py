"""RAM of networks for microcontrollers by way, ours beside others' measured and published figures.

Theirs: TensorFlow Lite Micro (greedy planner, 32-bit Arm, measured), TinyTS (HPCA 2024, generated C,
by rows without recomputing; with the input and without), MCUNetV2's patches as TinyEngine plans them
(2x2; with the image beside), msf-CNN (its accounting, of the chain without residuals and head). Run
`python -m figures.fit_networks`: writes the .md beside it, every plan in it carried out byte by byte.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from math import prod
from pathlib import Path
from typing import NamedTuple

from cnn2csdf import read_model
from cnn2csdf.network import Network
from cnn2csdf.simplify import simplified
from cnn2csdf.weights import Model
from csdf.errors import GaveUp
from csdf.status import told
from csdf.time_limit import Progress, Stop
from figures.branched_networks import lraspp_like, yolov8n_like
from planners.memory.answer import BY_ROWS, RESIDENT, ROWS, SEARCHED, WHOLE_LAYERS, Fit, FitMethod
from planners.memory.fit import fit
from planners.plan.executor import PlanMachine
from planners.rewrites.rematerialisation import executed_network

MODELS = Path(__file__).parents[1] / "models" / "networks"
SECONDS = 8.0  # of the processor, for each network and input
ALMOST_ONCE = Fraction(21, 20)


class Subject(NamedTuple):
    """A network, and what others need for it; zero where nobody says.

    interpreter: bytes of TensorFlow Lite Micro's arena. tinyts: with the input, and without.
    published: others, in words.
    """

    title: str
    model: str | Callable[[], Network]
    interpreter: int = 0
    tinyts: tuple[int, int] = (0, 0)
    published: str = ""


SUBJECTS = (
    Subject("keyword spotting (49x10)", "keyword_spotting", 22_772, (9_920, 9_920)),
    Subject("ResNet-8 (32x32)", "resnet8", 54_340, (14_272, 13_568)),
    Subject(
        "visual wake words (96x96x3)",
        "mobilenet_v1:width=1/4,resolution=96,classes=2",
        100_660,
        (29_568, 13_824),
    ),
    Subject("person detection (96x96)", "person_detection", 82_292),
    Subject(
        "MCUNet-VWW-5fps (80x80)",
        str(MODELS / "mcunet_vww_r80.cfg"),
        219_744,
        (36_960, 34_448),
        "TinyEngine 93,992, patches 62,352 + 19,200; msf-CNN 12,000 at 1.96",
    ),
    Subject(
        "MobileNetV2 0.35 (144x144)",
        "mobilenet_v2:width=0.35,resolution=144",
        0,
        (80_640, 52_672),
        "msf-CNN 7,887 at 1.68",
    ),
    Subject(
        "MCUNet-320K (176x176)",
        str(MODELS / "mcunet_320k_r176.cfg"),
        0,
        (168_256, 141_104),
        "msf-CNN 42,643 at 2.69",
    ),
    Subject("MobileNetV2 (224x224)", "mobilenet_v2", published="patches 172,000"),
    Subject("EfficientNet-B0 (224x224)", "efficientnet_b0"),
    Subject("like YOLOv8n (320x320)", yolov8n_like),
    Subject("like LR-ASPP over MobileNetV3 (320x320)", lraspp_like),
)
HEADER = (
    "network",
    "TFLM",
    "TinyTS, with / without input",
    "others",
    "layer by layer",
    "rows",
    "lines, input resident",
    "lines, input by rows",
    "at most 1.05 times the work",
    "the least",
)
PREFACE = """# RAM of networks, by way

Made by `python -m figures.fit_networks`. Bytes of the arena in int8, residuals and heads included,
all tensors, sums and staged rows counted; the last two columns have the input by rows or resident,
whichever needs less, with the work.
Every plan is carried out byte by byte before it is printed. What others count differs: an arena of
TensorFlow Lite Micro has tables of its operators in it (of 54,340 bytes 49,152 are tensors), msf-CNN
neither input nor output, residuals, pooling and head ([its networks in its accounting](msf_cnn.md)).
The last two networks are graphs with many branches, built by
[branched_networks.py](branched_networks.py).
"""


def network_of(subject: Subject) -> Network:
    """Return the network, activations fused and batch normalisation folded."""
    if isinstance(subject.model, str):
        return simplified(read_model(subject.model, with_weights=False)).network
    return simplified(Model(network=subject.model())).network


def ours(network: Network, place: str, seconds: float = SECONDS) -> Fit:
    """Return the ways of a network in int8."""
    end = time.process_time() + seconds

    def look(_: Progress) -> None:
        if time.process_time() > end:
            raise GaveUp(told(f"{seconds:.0f} s are used up"))

    return fit(
        network,
        element_bytes=1,
        input=place,
        searched=SEARCHED,
        platform=None,
        budget=Stop(report=look),
    )


def least_at(ways: Iterable[FitMethod], work: Fraction) -> FitMethod:
    """Return the way with the least bytes at no more than some work."""
    return min((way for way in ways if way.mac_ratio <= work), key=lambda way: way.ram_bytes)


class Row(NamedTuple):
    """The ways of a network that the table prints."""

    subject: Subject
    whole: FitMethod
    rows: FitMethod
    once_resident: FitMethod
    once: FitMethod
    almost_once: FitMethod
    least: FitMethod


def row_of(subject: Subject, seconds: float = SECONDS) -> Row:
    """Return the ways of a network, each carried out byte by byte."""
    network = network_of(subject)
    resident, by_rows = (ours(network, place, seconds) for place in (RESIDENT, ROWS))
    named = {way.name: way for way in by_rows.methods}
    found = Row(
        subject,
        named[WHOLE_LAYERS],
        named[BY_ROWS],
        least_at(resident.methods, Fraction(1)),
        least_at(by_rows.methods, Fraction(1)),
        least_at((*by_rows.methods, *resident.methods), ALMOST_ONCE),
        min(by_rows.least, resident.least, key=lambda way: way.ram_bytes),
    )
    for way in found[1:]:
        PlanMachine(executed_network(network, way.plan.rematerialised), way.plan).run()
    return found


def cells(row: Row) -> list[str]:
    """The cells of a line of the table."""
    one = row.subject
    arena = f"{one.interpreter:,}" if one.interpreter else ""
    tinyts = " / ".join(f"{size:,}" for size in one.tinyts) if any(one.tinyts) else ""
    plain = [row.whole, row.rows, row.once_resident, row.once]
    dear = [
        f"{way.ram_bytes:,} at {float(way.mac_ratio):.3f}" for way in (row.almost_once, row.least)
    ]
    sizes = [f"{way.ram_bytes:,}" for way in plain]
    return [one.title, arena, tinyts, one.published, *sizes, *dear]


def part_of_interpreter(rows: Sequence[Row]) -> float:
    """Geometric mean of our bytes at almost no more work over those of the interpreter's arena."""
    parts = [
        row.almost_once.ram_bytes / row.subject.interpreter
        for row in rows
        if row.subject.interpreter
    ]
    return prod(parts) ** (1 / len(parts))


def page(subjects: Sequence[Subject] = SUBJECTS) -> str:
    """Return the page."""
    rows = [row_of(subject) for subject in subjects]
    lines = [PREFACE, f"| {' | '.join(HEADER)} |", "|---" * len(HEADER) + "|"]
    lines += [f"| {' | '.join(cells(row))} |" for row in rows]
    lines += [
        "",
        "At most 1.05 times the work, ours is "
        f"{part_of_interpreter(rows):.3f} of TensorFlow Lite Micro's arena in the geometric mean.",
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    Path(__file__).with_suffix(".md").write_text(page())
