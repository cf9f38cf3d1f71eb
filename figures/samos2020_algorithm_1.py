"""SAMOS 2020 as printed: Algorithm 1 literally, Table II's speeds and orders, Table III's percentages.

Minakova and Stefanov, Buffer Sizes Reduction for Memory-efficient CNN Inference on Mobile and
Embedded Devices, SAMOS 2020. Run `python -m figures.samos2020_algorithm_1`: writes the .md beside it.
"""

from collections.abc import Iterator
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import NamedTuple

from cnn2csdf.granularity import Granularity
from cnn2csdf.network import Network
from cnn2csdf.operators import Convolution, Pooling
from figures.samos2020_table3 import BYTES, NETWORKS, unfused
from planners.published.samos import published_memory

SPEEDS = (  # Table II: example, bytes, frames a second, steps
    ("Ex1", 2098, 334, 5),
    ("Ex2", 1842, 333, 7),
    ("Ex3", 1618, 310, 51),
    ("Ex4", 978, 308, 54),
)
ORDERS = (
    "n1 n2 n3 n4 n5",
    "n1_1 n2_1 n1_2 n2_2 n3_1 n4_1 n5_1",
    "n1_(1-17) n2_1 [n1_(18-32) n2_(2-16)] n3_1 n4_1 n5_1",
    "n1_(1-17) n2_1 [n1_(18-22) n2_(2-6)] n3_1 [n1_(23-25) n2_(7-9)] n3_2 "
    "[n1_(26-28) n2_(10-12)] n3_3 [n1_(29-32) n2_(13-16)] n3_4 n4_1 n5_1",
)
LINE_9 = ("resnet18", "tiny yolo v2", "squeezenet", "VGG19")


class Window(NamedTuple):
    """A layer as Algorithm 1 sees it; pad: top and bottom."""

    window: int  # rows
    stride: int
    pad: tuple[int, int]
    height: int  # of the input
    width: int
    maps: int


class Rates(NamedTuple):
    """The result of Algorithm 1: phases, consumption, and what the self-loop takes over, if any."""

    phases: Fraction
    consumed: tuple[int, ...]
    kept: tuple[int, ...]


def printed_rates(one: Window, producer_phases: int) -> Rates:
    """Return the rates of a layer, word for word; a number of phases may not be whole, as printed."""
    padded = sum(one.pad)
    whole = (one.stride >= one.window and not padded) or one.window == one.height
    steps = one.height + padded - max(one.window, one.stride)
    phases = Fraction(1) if whole else Fraction(steps, one.stride) + 1
    count, row = int(phases), one.width * one.maps
    has_loop = one.stride < one.window
    kept = tuple(
        (one.window - one.stride) * row if has_loop and phase < count else 0
        for phase in range(1, count + 1)
    )
    taken = one.pad[0] + one.pad[1] if producer_phases == 1 else one.pad[1]
    middle = one.window if not has_loop or producer_phases == 1 else one.stride
    rows = [one.window - one.pad[0], *[middle] * (count - 2), middle - taken][: max(1, count)]
    return Rates(phases, tuple(count * row for count in rows), kept)


def is_right(one: Window) -> bool:
    """Whether the printed rates are whole, positive, and consume the rows of the input."""
    found = printed_rates(one, one.height)
    rows = sum(found.consumed) // (one.width * one.maps)
    fits = found.phases.denominator == 1 and min(found.consumed) >= 0
    return fits and rows == one.height


def windows() -> Iterator[Window]:
    """Yield small layers with windows of one to seven rows."""
    for window, stride, top, bottom, height in product(
        range(1, 8), range(1, 5), range(4), range(4), range(8, 33)
    ):
        if top < window and bottom < window:
            yield Window(window, stride, (top, bottom), height, 1, 1)


def line_9(network: Network) -> Granularity:
    """Return the cut of line 9: one phase where windows do not overlap and nothing is padded."""
    whole = {}
    for layer in network.layers:
        if layer.is_input:
            continue  # no layer of the algorithm; frames come by rows
        window = getattr(layer.operator, "window", None)
        is_window = isinstance(layer.operator, Convolution | Pooling)
        if not is_window or (window.stride[0] >= window.extent[0] and not any(window.padding[::2])):
            whole[layer.name] = None
    return Granularity(rows=1, layers=whole)


def speed_table() -> str:
    """Return Table II with what follows from its columns."""
    lines = [
        "| | bytes | frames/s | steps | less memory | less speed | a step more | order |\n"
        "|---|---|---|---|---|---|---|---|"
    ]
    first = SPEEDS[0]
    for (name, size, speed, steps), order in zip(SPEEDS, ORDERS, strict=True):
        more = steps - first[3]
        each = 1e6 * (1 / speed - 1 / first[2]) / more if more else 0
        cells = (
            name,
            str(size),
            str(speed),
            str(steps),
            f"{1 - size / first[1]:.0%}",
            f"{1 - speed / first[2]:.1%}",
            f"{each:.1f} us" if more else "",
            order,
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def percentage_table() -> str:
    """Return the printed percentages beside those that follow from the printed figures."""
    lines = [
        "| network | MB | less, printed | from the figures | frames/s | less, printed "
        "| from the figures |\n|---|---|---|---|---|---|---|"
    ]
    for name, (_, one) in NETWORKS.items():
        less, slower = one.less, one.slower
        saved = round(100 * (1 - one.parts / one.whole))
        lost = round(100 * (1 - one.parts_speed / one.whole_speed))
        cells = (
            name,
            f"{one.whole} / {one.parts}",
            f"{less}%",
            f"{saved}%" if saved != less else "the same",
            f"{one.whole_speed:g} / {one.parts_speed:g}",
            f"{slower}%",
            f"{lost}%" if lost != slower else "the same",
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def line_9_table() -> str:
    """Return the memory that line 9 gives, beside what is printed."""
    lines = ["| network | by line 9, MB | printed |", "|---|---|---|"]
    for name in LINE_9:
        build, printed = NETWORKS[name]
        network = unfused(build())
        size = published_memory(network, line_9(network), element_bytes=BYTES).total
        lines.append(f"| {name} | {size / 1e6:.1f} | {printed.parts} |")
    return "\n".join(lines)


def page() -> str:
    """Return the page."""
    found = list(map(is_right, windows()))
    return f"""# SAMOS 2020 as printed

Made by `python -m figures.samos2020_algorithm_1`; sizes by our graphs are in samos2020_fig1_table2.md
and samos2020_table3.md.

## Table II: speeds, orders and steps

The four sizes are ours too, each proved the smallest. The text says 12.7% less speed for Ex4; its
figures give 7.8%. It says 786 bytes where the table has 768.

{speed_table()}

A layer's phases are written n2_1 and so on. The table prints 18-21 where 18-32 belongs in Ex3. A step
more costs about five microseconds in each of the three, which were measured.

## Algorithm 1 literally

On {len(found)} layers with windows of one to seven rows, strides to four, paddings to three and 8 to 32
rows, read by rows, {sum(found) / len(found):.0%} get rates that are whole, not negative and consume the
input's rows; for the others ours are the clipped cumulative rows of the semantics page. Line 9 gives
one phase to every layer whose windows do not overlap and that is not padded: activations,
normalisations, 1x1 convolutions, 2x2 poolings of stride 2. Table III was not made so:

{line_9_table()}

One phase a row for all of them, as we have it, gives the printed figures (samos2020_table3.md).

## Table III: the percentages

The headline, 17% to 64% less memory for 3% to 54% of the speed, is of the printed columns. Those that
do not follow from the rounded figures beside them:

{percentage_table()}
"""


if __name__ == "__main__":
    Path(__file__).with_suffix(".md").write_text(page())
