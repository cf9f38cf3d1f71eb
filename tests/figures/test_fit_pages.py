"""The pages on RAM by way, ours beside others', and the published networks behind them."""

import re
from pathlib import Path

import pytest

from cnn2csdf.parameters import multiply_accumulates
from figures import fit_networks, msf_cnn
from planners.memory.answer import EXTERNAL, SEARCHED
from planners.memory.fit import fit
from planners.plan.executor import PlanMachine
from planners.rewrites.rematerialisation import executed_network


def kept(script):
    return Path(script.__file__).with_suffix(".md").read_text()


def tables(page, columns):
    """The cells of all table lines with so many columns, numbers of each cell first."""
    lines = [line.strip("|").split("|") for line in page.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line] for line in lines if len(line) == columns]


def bytes_and_work(cell):
    size, work = re.fullmatch(r"([\d,]+) at ([\d.]+)", cell).groups()
    return int(size.replace(",", "")), float(work)


@pytest.mark.parametrize("subject", msf_cnn.SUBJECTS, ids=lambda one: one.file)
def test_the_chains_have_the_multiply_accumulates_that_are_published(subject):
    network = msf_cnn.network_of(subject)
    found = sum(
        multiply_accumulates(layer, network.input_shapes(layer)) for layer in network.layers
    )
    assert found == subject.once


def test_within_each_budget_of_msf_cnn_there_is_no_more_work():
    rows = [row for row in tables(kept(msf_cnn), 6) if re.match(r"\d+ kB", row[0])]
    assert len(rows) == len(msf_cnn.SUBJECTS) * len(msf_cnn.BUDGETS)
    for row in rows:
        if row[1] != "none":
            assert bytes_and_work(row[2])[1] <= bytes_and_work(row[1])[1] + 0.0005


def test_at_each_work_of_msf_cnn_three_quarters_of_its_bytes_do():
    rows = [row for row in tables(kept(msf_cnn), 7) if re.match(r"\d\.", row[0])]
    assert len(rows) == sum(len(subject.plans) for subject in msf_cnn.SUBJECTS)
    for row in rows:
        theirs, (size, work) = int(row[1].replace(",", "")), bytes_and_work(row[2])
        assert size <= 0.75 * theirs
        assert work <= float(row[0]) + 0.0005


@pytest.mark.slow
def test_documented_rows_are_reproduced():
    subject = msf_cnn.SUBJECTS[1]
    network = msf_cnn.network_of(subject)
    theirs = next(plan for plan in subject.plans if plan.ram == 17_760)
    ram = theirs.ram * 3 // 4
    ends = {"input": EXTERNAL, "output": EXTERNAL}
    found = fit(network, ram=ram, element_bytes=1, searched=SEARCHED, **ends).best
    assert found is not None
    PlanMachine(executed_network(network, found.plan.rematerialised), found.plan).run()
    assert found.mac_ratio <= theirs.work / subject.once


def test_a_quarter_of_the_interpreters_arena_is_enough_and_less_than_tinyts_has():
    rows = {row[0]: row for row in tables(kept(fit_networks), len(fit_networks.HEADER))}
    parts = []
    for subject in fit_networks.SUBJECTS:
        row = rows[subject.title]
        resident, by_rows = (int(cell.replace(",", "")) for cell in row[6:8])
        if any(subject.tinyts):
            assert resident < subject.tinyts[0]
            assert by_rows < subject.tinyts[1]
        if subject.interpreter:
            size, work = bytes_and_work(row[8])
            assert work <= 1.05
            parts.append(size / subject.interpreter)
    mean = 1.0
    for part in parts:
        mean *= part
    assert mean ** (1 / len(parts)) <= 0.25


@pytest.mark.slow
def test_documented_rows_of_networks_are_reproduced():
    line = " | ".join(fit_networks.cells(fit_networks.row_of(fit_networks.SUBJECTS[0])))
    assert f"| {line} |" in kept(fit_networks)
