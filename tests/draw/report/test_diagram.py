"""Block diagrams: lanes of results, texts that fit, names that look like markup."""

from dataclasses import replace
from itertools import pairwise
from random import Random

import pytest
from lxml import html

from csdf.draw.report import diagram
from csdf.draw.report.diagram import BOX_WIDTH, Block, block_diagram, lanes_of


def chain(count, **others):
    return [
        Block(
            name=f"b{number}",
            kind="conv",
            facts=("8x8", "1 kB"),
            hint="h",
            sources=(number - 1,) if number else (),
            **others,
        )
        for number in range(count)
    ]


@pytest.mark.parametrize("seed", range(20))
def test_two_results_in_one_lane_are_never_live_beside_the_same_block(seed):
    random = Random(seed)
    readers = {
        source: sorted(random.sample(range(source + 1, 30), random.randint(1, min(3, 29 - source))))
        for source in range(25)
    }
    lanes = lanes_of(readers)
    assert set(lanes) == {source for source in readers if readers[source] != [source + 1]}
    rows = [
        (lane, row)
        for source, lane in lanes.items()
        for row in range(source, readers[source][-1] + 1)
    ]
    assert len(set(rows)) == len(rows)
    # First fit over intervals takes as many lanes as there are results beside one block.
    live = [sum(source <= row <= readers[source][-1] for source in lanes) for row in range(30)]
    assert len(set(lanes.values())) == max(live)


def test_a_block_has_an_arrow_from_each_block_that_it_reads():
    blocks = [*chain(3), Block(name="sum", kind="add", facts=("", ""), hint="", sources=(2, 0))]
    drawn = html.fromstring(block_diagram(blocks, "blocks"))
    assert len(drawn.xpath("//path[@class='arrow']")) == 4


def test_neighbours_of_a_group_share_a_band():
    blocks = [*chain(2, group="group 1"), *chain(3, group="group 2"), *chain(1)]
    drawn = html.fromstring(block_diagram(blocks, "blocks"))
    bands = drawn.xpath("//rect[starts-with(@class, 'band')]")
    assert [float(band.get("height")) for band in bands] == [112.0, 172.0]
    ends = [
        (float(band.get("y")), float(band.get("y")) + float(band.get("height"))) for band in bands
    ]
    assert all(end < begin for (_, end), (begin, _) in pairwise(ends))


def test_long_texts_are_shortened_and_markup_is_text():
    name = "<script>" + "long/" * 40
    block = Block(name=name, kind="k" * 90, facts=("1x" * 60, ""), hint=name)
    drawn = html.fromstring(block_diagram([block], "blocks"))
    assert not drawn.xpath("//script")
    for row in (18, 36):
        letters = "".join(drawn.xpath(f"//g/text[@y='{row}']/text()"))
        assert len(letters) * 6.9 < BOX_WIDTH  # pixels of a letter on average


def test_no_arrow_leaves_the_picture_where_blocks_are_left_out(monkeypatch):
    monkeypatch.setattr(diagram, "MOST_BLOCKS", 4)
    blocks = chain(9)
    blocks[2] = replace(blocks[2], sources=(1, 7))
    drawn = html.fromstring(block_diagram(blocks, "blocks"))
    kept = html.fromstring(block_diagram(chain(4), "blocks"))
    lines, kept_lines = ([p.get("d") for p in svg.xpath("//path")] for svg in (drawn, kept))
    assert lines == kept_lines
    assert "The last 5 of 9 blocks are left out." in drawn.text_content()
