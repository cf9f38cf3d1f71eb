"""Block diagram of a network in execution order, as SVG.

The blocks stand below one another, each in a row of its own. A result that the next block reads is a
straight arrow. A result with other readers has a lane at the right, a vertical line from its block to
its last reader, so that the lanes beside a block are the long-lived results at that time. Lanes are
shared by first fit over intervals. Neighbouring blocks of a group have a band at the left.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from csdf.draw.graph_drawing import shortened
from csdf.draw.report.markup import Html, element, joined

BAND = 68.0  # pixels of the column of groups
BOX_WIDTH, BOX_HEIGHT, PITCH = 400.0, 44.0, 60.0
MARGIN = 8.0
LANES = 420.0  # pixels that all lanes may take
LANE = 14.0  # pixels from lane to lane, less where the lanes would take more
HEAD = 6.0  # pixels of an arrow head
LINE = 54  # letters of both texts of a line together
MOST_BLOCKS = 1500  # as many as a table has rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A block: two lines of text at the left and two at the right, and a longer text as a hint.

    sources: the blocks whose results it reads, each by its place among all blocks. group: the name
    of its group; empty for none.
    """

    name: str
    kind: str
    facts: tuple[str, str]
    hint: str
    sources: tuple[int, ...] = ()
    group: str = ""
    is_marked: bool = False


def block_diagram(blocks: Sequence[Block], label: str) -> Html:
    """Return the diagram of these blocks, from top to bottom. label: its name for screen readers."""
    shown = blocks[:MOST_BLOCKS]
    readers: dict[int, list[int]] = {}
    for number, block in enumerate(shown):
        for source in block.sources:
            if source >= len(shown):
                continue  # left out, as a later block
            readers.setdefault(source, []).append(number)
    lanes = lanes_of(readers)
    step = min(LANE, LANES / max(1, len(set(lanes.values()))))
    has_groups = any(block.group for block in shown)
    left = MARGIN + (BAND if has_groups else 0)
    right = left + BOX_WIDTH
    width = right + step * (max(lanes.values(), default=-1) + 1) + 3 * MARGIN
    height = PITCH * len(shown) + 2 * MARGIN
    drawn = [
        *(_bands(shown) if has_groups else ()),
        *(_edges(readers, lanes, left, step)),
        *(_box(number, block, left) for number, block in enumerate(shown)),
    ]
    svg = element(
        "svg",
        drawn,
        viewBox=f"0 0 {width:.0f} {height:.0f}",
        width=f"{width:.0f}",
        height=f"{height:.0f}",
        role="img",
        class_="blocks",
        aria_label=label,
    )
    left_out = len(blocks) - len(shown)
    note = (
        element("p", f"The last {left_out} of {len(blocks)} blocks are left out.")
        if left_out
        else None
    )
    view = element(
        "div", svg, class_="scroller", id="blocks", tabindex=0, role="region", aria_label=label
    )
    return joined([view, note])


def lanes_of(readers: dict[int, list[int]]) -> dict[int, int]:
    """Return the lane of each result that a block other than the next reads; lanes never overlap.

    readers: of the result of each block. Lane 0 is next to the blocks. First fit in the order of the
    first row that a lane passes.
    """
    spans = []
    for source, places in readers.items():
        if any(index != source + 1 for index in places):
            rows = [source, *places]
            spans.append((min(rows), max(rows), source))
    ends: list[int] = []
    lanes: dict[int, int] = {}
    for begin, end, source in sorted(spans):
        lane = next((lane for lane, last in enumerate(ends) if last < begin), len(ends))
        ends[lane : lane + 1] = [end]
        lanes[source] = lane
    return lanes


def _top(number: int) -> float:
    return MARGIN + number * PITCH + (PITCH - BOX_HEIGHT) / 2


def _bands(blocks: Sequence[Block]) -> Iterator[Html]:
    """A band for each run of neighbouring blocks of one group."""
    runs = groupby(range(len(blocks)), key=lambda number: blocks[number].group)
    for index, (group, members) in enumerate((name, list(run)) for name, run in runs):
        if not group:
            continue
        top, end = _top(members[0]) - 4, _top(members[-1]) + BOX_HEIGHT + 4
        yield element(
            "rect", x=MARGIN / 2, y=f"{top:.1f}", width=BAND + BOX_WIDTH + MARGIN,
            height=f"{end - top:.1f}", rx=8, class_="band odd" if index % 2 else "band",
        )  # fmt: skip
        middle = f"{_top(members[0]) + BOX_HEIGHT / 2 + 4:.1f}"
        yield element("text", shortened(group, 10), x=MARGIN + 4, y=middle, class_="group")


def _edges(
    readers: dict[int, list[int]], lanes: dict[int, int], left: float, step: float
) -> Iterator[Html]:
    """The arrows to the next block, then the lanes with a branch to each further reader."""
    right = left + BOX_WIDTH
    for source, places in readers.items():
        if source + 1 in places:
            x, y = left + BOX_WIDTH / 2, _top(source + 1)
            line = f"M{x:.1f} {_top(source) + BOX_HEIGHT:.1f}V{y - HEAD:.1f}"
            head = f"M{x - HEAD / 1.5:.1f} {y - HEAD:.1f}H{x + HEAD / 1.5:.1f}L{x:.1f} {y:.1f}z"
            yield element("path", d=line, class_="wire")
            yield element("path", d=head, class_="arrow")
    for source, lane in lanes.items():
        x = right + (lane + 1) * step + MARGIN / 2
        begin = _top(source) + BOX_HEIGHT * 0.72
        for index in readers[source]:
            if index == source + 1:
                continue
            y = _top(index) + BOX_HEIGHT * 0.28
            line = f"M{right:.1f} {begin:.1f}H{x:.1f}V{y:.1f}H{right + HEAD:.1f}"
            tip = (
                f"M{right + HEAD:.1f} {y - HEAD / 1.5:.1f}v{HEAD * 4 / 3:.1f}L{right:.1f} {y:.1f}z"
            )
            yield element("path", d=line, class_="wire")
            yield element("path", d=tip, class_="arrow")


def _box(number: int, block: Block, left: float) -> Html:
    """A box with its texts; where a line is too long, the left text is shortened before the right."""
    texts = []
    for row, (text, fact) in enumerate(
        zip((block.name, block.kind), block.facts, strict=True), start=1
    ):
        y = 18 * row
        fact = shortened(fact, LINE - 16)
        kind = "name" if row == 1 else "soft"
        texts += [
            element("text", shortened(text, LINE - len(fact)), x=10, y=y, class_=kind),
            element("text", fact, x=BOX_WIDTH - 10, y=y, class_="soft fact"),
        ]
    return element(
        "g",
        element("title", block.hint),
        element("rect", width=BOX_WIDTH, height=BOX_HEIGHT, rx=6),
        texts,
        transform=f"translate({left:.1f} {_top(number):.1f})",
        class_="block marked" if block.is_marked else "block",
        data_actor=block.name,
    )
