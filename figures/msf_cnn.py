"""RAM and work of the three networks of msf-CNN, ours beside theirs.

Zhaolan Huang et al., msf-CNN: Patch-based Multi-Stage Fusion with Convolutional Neural Networks for
TinyML, arXiv 2505.11483, 2025; their figures are the files result.json of its repository. Run
`python -m figures.msf_cnn`: writes the .md beside it, in some minutes.
"""

import time
from collections.abc import Iterable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

from cnn2csdf import read_model
from cnn2csdf.network import Network
from cnn2csdf.simplify import simplified
from csdf.errors import GaveUp
from csdf.status import told
from csdf.time_limit import Progress, Stop
from planners.memory.answer import EXTERNAL, RESIDENT, ROWS, SEARCHED, Fit, FitMethod
from planners.memory.fit import fit
from planners.plan.executor import PlanMachine
from planners.rewrites.rematerialisation import executed_network

MODELS = Path(__file__).parents[1] / "models" / "networks"
SECONDS = 20.0  # of the processor, for each network and accounting
BUDGETS = (16_000, 32_000, 64_000, 128_000, 256_000)


class Theirs(NamedTuple):
    """A plan of msf-CNN: bytes in its accounting, and multiply-accumulates."""

    ram: int
    work: int


class Subject(NamedTuple):
    """A network: its file, its multiply-accumulates, and the plans that are published for it."""

    title: str
    file: str
    once: int
    plans: tuple[Theirs, ...]


SUBJECTS = (
    Subject(
        "MobileNetV2, width 0.35, 144x144",
        "msf_mobilenetv2_w0.35_r144.cfg",
        18_909_490,
        (
            Theirs(181_440, 18_909_490),
            Theirs(83_065, 19_265_890),
            Theirs(67_905, 20_751_538),
            Theirs(63_741, 23_249_938),
            Theirs(25_674, 23_700_946),
            Theirs(21_288, 24_536_110),
            Theirs(15_340, 26_132_080),
            Theirs(13_926, 29_560_000),
            Theirs(7_887, 31_758_160),
        ),
    ),
    Subject(
        "MCUNetV2-VWW-5fps, 80x80",
        "msf_mcunetv2_vww_r80.cfg",
        11_578_496,
        (
            Theirs(89_600, 11_578_496),
            Theirs(38_576, 11_839_616),
            Theirs(32_792, 12_024_576),
            Theirs(26_128, 12_888_576),
            Theirs(17_760, 15_000_576),
            Theirs(13_376, 15_576_576),
            Theirs(12_000, 22_655_616),
        ),
    ),
    Subject(
        "MCUNet-320KB-ImageNet, 176x176",
        "msf_mcunet_320k_r176.cfg",
        81_625_520,
        (
            Theirs(247_808, 81_625_520),
            Theirs(190_096, 84_987_824),
            Theirs(186_736, 97_490_864),
            Theirs(186_032, 102_109_104),
            Theirs(156_672, 111_725_744),
            Theirs(94_184, 118_754_480),
            Theirs(62_880, 164_842_544),
            Theirs(42_643, 219_971_376),
        ),
    ),
)


def network_of(subject: Subject) -> Network:
    """Return the chain, as its repository has it."""
    return simplified(read_model(str(MODELS / subject.file), with_weights=False)).network


def ours(network: Network, ends: tuple[str, str], seconds: float = SECONDS) -> Fit:
    """Return the front of a network in int8."""
    end = time.process_time() + seconds

    def look(_: Progress) -> None:
        if time.process_time() > end:
            raise GaveUp(told(f"{seconds:.0f} s are used up"))

    return fit(
        network,
        element_bytes=1,
        input=ends[0],
        output=ends[1],
        searched=SEARCHED,
        platform=None,
        budget=Stop(report=look),
    )


def least_work(ways: Iterable[FitMethod], ram: int) -> FitMethod | None:
    """Return the way with the least work within some bytes."""
    fitting = [way for way in ways if way.ram_bytes <= ram]
    return min(fitting, key=lambda way: (way.mac_ratio, way.ram_bytes), default=None)


def least_ram(ways: Iterable[FitMethod], work: Fraction) -> FitMethod | None:
    """Return the way with the least bytes at no more than some work."""
    fitting = [way for way in ways if way.mac_ratio <= work]
    return min(fitting, key=lambda way: (way.ram_bytes, way.mac_ratio), default=None)


def budgets(subject: Subject, found: Sequence[Fit]) -> list[str]:
    """The least work within each budget: theirs, and ours in each accounting."""
    lines = [_line("budget", "msf-CNN", *ACCOUNTINGS, "met"), _line(*["---"] * COLUMNS)]
    for ram in BUDGETS:
        fitting = [plan for plan in subject.plans if plan.ram <= ram]
        best = min(fitting, key=lambda plan: plan.work, default=None)
        ways = [least_work(one.methods, ram) for one in found]
        most = None if best is None else Fraction(best.work, subject.once)
        cells = [
            "none" if best is None else f"{best.ram:,} at {best.work / subject.once:.3f}",
            *map(shown, ways),
            met(most is None or (way is not None and way.mac_ratio <= most) for way in ways),
        ]
        lines.append(f"| {ram // 1000} kB | {' | '.join(cells)} |")
    return lines


def factors(subject: Subject, found: Sequence[Fit]) -> list[str]:
    """The least bytes at each of their work factors: theirs, and ours in each accounting."""
    lines = [_line("work", "msf-CNN", *ACCOUNTINGS, "part", "met"), _line(*["---"] * (COLUMNS + 1))]
    for plan in subject.plans:
        work = Fraction(plan.work, subject.once)
        ways = [least_ram(one.methods, work) for one in found]
        part = "" if ways[0] is None else f"{ways[0].ram_bytes / plan.ram:.2f}"
        enough = (way is not None and 4 * way.ram_bytes <= 3 * plan.ram for way in ways)
        cells = [f"{plan.ram:,}", *map(shown, ways), part, met(enough)]
        lines.append(f"| {float(work):.3f} | {' | '.join(cells)} |")
    return lines


def least(subject: Subject, found: Sequence[Fit]) -> str:
    """Whether the least memory is below theirs, at less work, and what no plan can be below."""
    theirs = min(subject.plans)
    work = Fraction(theirs.work, subject.once)
    best = [least_ram((way for way in one.methods if way.mac_ratio < work), work) for one in found]
    below = met(way is not None and way.ram_bytes < theirs.ram for way in best)
    bounds = ", ".join(f"{one.lower_bound:,}" for one in found)
    return (
        f"Their least, {theirs.ram:,} at {float(work):.3f}, against ours at less work: "
        f"{', '.join(map(shown, best))}; below it: {below}. No plan needs less than {bounds}."
    )


def met(every: Iterable[bool]) -> str:
    """The letters of the accountings that meet a target."""
    letters = [letter for letter, is_met in zip("abc", every, strict=True) if is_met]
    return " ".join(letters) or "none"


def _line(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def shown(way: FitMethod | None) -> str:
    """A way in a cell."""
    return "none" if way is None else f"{way.ram_bytes:,} at {float(way.mac_ratio):.3f}"


def check(network: Network, subject: Subject, found: Fit) -> None:
    """Carry out the plans that are printed of an accounting, byte by byte."""
    works = [Fraction(plan.work, subject.once) for plan in subject.plans]
    ways = [least_work(found.methods, ram) for ram in BUDGETS]
    ways += [least_ram(found.methods, work) for work in works]
    for way in {id(one): one for one in ways if one is not None}.values():
        PlanMachine(executed_network(network, way.plan.rematerialised), way.plan).run()


ACCOUNTINGS = {
    "a: ours, ends outside": (EXTERNAL, EXTERNAL),
    "b: ours, input by rows": (ROWS, EXTERNAL),
    "c: ours, all inside": (RESIDENT, RESIDENT),
}
COLUMNS = 3 + len(ACCOUNTINGS)
PREFACE = """# msf-CNN's three networks

Made by `python -m figures.msf_cnn`. Bytes of RAM at work, which is multiply-accumulates over those
of the chain computed once. int8; the chains are those of the repository of
[msf-CNN](https://arxiv.org/abs/2505.11483), without residuals, pooling and head
(`models/networks/msf_*.cfg`), and the published plans are its `result.json` files.

| | msf-CNN | a: ours, ends outside | b: ours, input by rows | c: ours, all inside |
|---|---|---|---|---|
| network's input | not counted | not counted, read where it lies | the rows that are kept | counted |
| network's output | not counted | not counted | not counted | counted |
| between groups | input and output side by side | one over dead rows of the other | same | same |
| in a group | kernel x tile height x channels a layer | lines, strips, sums, staging | same | same |
| scratch, residuals | not counted | there are none | same | same |
| work | all of each tile, outside the image too | rows inside the image | same | same |

Part is a over msf-CNN's bytes. Met names the accountings in which ours has no more work within the
budget, and at most 0.75 of their bytes at their work: against their figures as they are published,
which count neither end. So c compares a plan with its input against one without: the input alone
has 62,208, 19,200 and 92,928 bytes, which no plan of c is below. All plans that are printed are
carried out byte by byte before.
"""


def page() -> str:
    """Return the page."""
    lines = [PREFACE]
    for subject in SUBJECTS:
        network = network_of(subject)
        found = [ours(network, ends) for ends in ACCOUNTINGS.values()]
        for one in found:
            check(network, subject, one)
        lines += [f"## {subject.title}", "", *budgets(subject, found), ""]
        lines += [*factors(subject, found), "", least(subject, found), ""]
    return "\n".join(lines)


if __name__ == "__main__":
    Path(__file__).with_suffix(".md").write_text(page())
