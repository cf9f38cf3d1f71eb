"""The page of a FIFO design: what FIFOs hold over time, and the story of a deadlock."""

import re
from fractions import Fraction

import numpy as np
import pytest

from csdf.cli.main import main
from csdf.errors import GaveUp
from planners.fifo.command.page import occupancies, waits
from planners.fifo.event_graph import EventGraph
from planners.fifo.sizing import smallest_depths
from planners.fifo.study import max_rate, study
from tests.draw.report.html_reader import read_page
from tests.planners.fifo.designs import RESIDUAL, documented_chain, fork


def held_by_counting(design, depths, period, frames):
    """Words in each FIFO in each cycle, counted word by word."""
    graph = EventGraph(design)
    times = graph.restricted(range(len(design.layers)), depths).times(period, frames)
    rows = []
    for fifo in design.fifos:
        moments = []
        for layer, port in zip((fifo.producer, fifo.consumer), design.ports(fifo), strict=True):
            frames_of = times[graph.sequence(layer, port)]
            moments.append(
                [
                    int(time)
                    for row in frames_of
                    for time in (row if port.events is None else row[port.events])
                ]
            )
        last = max(moments[1])
        cells = [0] * (last + 2)
        for put, taken in zip(*moments, strict=True):
            for cycle in range(put, taken + 1):
                cells[cycle] += 1
        rows.append(cells)
    return rows


@pytest.mark.parametrize("design", [documented_chain(), fork(), fork(size=5)], ids=str)
def test_the_occupancy_is_that_of_counting_words_cycle_by_cycle(design):
    graph = EventGraph(design)
    period, _ = max_rate(graph)
    depths = smallest_depths(graph, period).depths
    held, end = occupancies(design, depths, period, frames=2)
    for occupancy, cells, depth in zip(
        held, held_by_counting(design, depths, period, 2), depths, strict=True
    ):
        places = np.searchsorted(occupancy.cycles, np.arange(len(cells)), side="right") - 1
        assert [int(level) for level in occupancy.levels[places]] == cells
        assert occupancy.most == max(cells) <= depth
        columns = occupancy.columns(end, 7)
        padded = cells + [0] * end
        assert columns == [
            max(padded[end * part // 7 : max(end * part // 7 + 1, end * (part + 1) // 7)])
            for part in range(7)
        ]


def test_depths_that_deadlock_have_no_occupancy():
    design = fork()
    with pytest.raises(GaveUp, match="deadlocks"):
        occupancies(design, [2] * len(design.fifos), Fraction(100))


def test_a_deadlock_is_reported_as_a_cycle_of_layers_and_fifos():
    answer = study(fork())
    design, cycle = answer.design, answer.at_depth_2.cycle
    told = list(waits(design, answer.at_depth_2))
    assert len(told) == len(cycle.layers)
    named = {fifo.name: fifo for fifo in design.fifos}
    full = set()
    for number, step in enumerate(told):
        layer = design.layers[cycle.layers[number]].name
        awaited = design.layers[cycle.layers[(number + 1) % len(told)]].name
        assert step.startswith(f"“{layer}” ")
        assert f"“{awaited}”" in step
        fifos = [named[name] for name in re.findall("“(.*?)”", step) if name in named]
        ends = {frozenset((fifo.producer, fifo.consumer)) for fifo in fifos}
        assert ends == {frozenset((cycle.layers[number], cycle.layers[(number + 1) % len(told)]))}
        if "cannot write" in step:
            full |= {fifo.name for fifo in fifos}
    assert full == {design.fifos[number].name for number in cycle.fifos}


def test_the_page_has_depths_occupancy_and_the_deadlock(tmp_path, capsys):
    path = tmp_path / "design.html"
    assert main(["fifo", "finn", str(RESIDUAL), "--page", str(path)]) == 0
    assert f"wrote {path}" in capsys.readouterr().err
    page = read_page(path)
    assert page.problems == []
    text = path.read_text(encoding="utf-8")
    assert "194 bits of FIFO storage" in text
    assert "Depth 2: why the design deadlocks" in text
    assert "from 2 to 40 words: 76 bits more." in text
    assert text.count('class="spark"') == 2  # FIFOs deeper than 2
    assert "<script" not in text


def test_a_front_has_no_page(tmp_path, capsys):
    path = tmp_path / "design.html"
    assert main(["fifo", "finn", str(RESIDUAL), "--front", "--page", str(path)]) == 2
    assert "without --page" in capsys.readouterr().err
    assert not path.exists()
