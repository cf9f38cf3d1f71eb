"""The RAM of a network: arena, execution state and stack of its library, and a reserve."""

import re
from dataclasses import replace
from fractions import Fraction

import pytest

from cnn2csdf.catalogue.networks import from_catalogue
from cnn2csdf.readers.model_files import read_model
from cnn2csdf.simplify import simplified
from cnn2csdf.weights import Model, random_weights
from csdf.status import Status
from planners.code.sources import library_sources
from planners.memory.fit import fit
from planners.memory.several_networks import Together, within_one_ram, within_time
from planners.plan.ram import RamBeside, ram_beside, state_bytes
from tests.cli.running import run
from tests.shared_data import SHARED, each

__all__ = ["run"]

WITH_STATE = [
    one
    for name in ("kws_int8", "keyword_scrambled_8bit", "mnist_lstm_int8")
    if (one := SHARED / f"networks/tflite/{name}.tflite").exists()
]
ENDS = [("resident", "resident"), ("rows", "external"), ("external", "external")]


@pytest.mark.parametrize("ends", ENDS)
def test_the_state_of_each_method_is_that_of_its_library(ends):
    network = from_catalogue("keyword_spotting:rows=25")
    network = simplified(Model(network=network)).network
    model = Model(network=network, weights=random_weights(network, 0))
    input_place, output_place = ends
    found = fit(
        model, input=input_place, output=output_place, labels=(12,), beside=ram_beside(network)
    )
    for method in found.methods:
        written = library_sources(model, method.plan, "words")
        assert written.state_bytes == method.state_bytes == state_bytes(method.plan, network)
        assert method.needed_ram == (method.ram_bytes + written.state_bytes + written.stack_bytes)


@each("path", WITH_STATE)
def test_the_state_of_a_file_is_that_of_its_library(path):
    model = simplified(read_model(path, with_weights=True))
    plan = fit(model, searched=(), labels=(12,)).best.plan
    assert library_sources(model, plan, "net").state_bytes == state_bytes(plan, model.network)


def test_a_network_fits_where_arena_state_and_stack_do_and_not_a_byte_below():
    network = from_catalogue("samos_example")
    beside = ram_beside(network, element_bytes=1, reserve_bytes=2000)
    least = fit(network, element_bytes=1, beside=beside).least
    needed = (
        least.ram_bytes + least.state_bytes + beside.stack_bytes + least.stage_stack_bytes + 2000
    )
    for ram, status in ((needed, Status.FEASIBLE), (needed - 1, Status.UNKNOWN)):
        assert fit(network, ram=ram, element_bytes=1, beside=beside).status is status
    # Fewer bytes than the stack: not a byte is left for the arena.
    assert fit(network, ram=1000, beside=beside).status is Status.INFEASIBLE
    # Without the stack the limit is that of the arena.
    assert fit(network, ram=least.ram_bytes, element_bytes=1).best.ram_bytes == least.ram_bytes


def test_several_networks_in_turn_have_one_stack_and_a_state_each():
    network = from_catalogue("samos_example")
    terms = {"element_bytes": 1, "beside": RamBeside(), "labels": (12,)}

    def answer(_, ram):
        return fit(network, ram=ram, **terms)

    least = fit(network, **terms).least
    stack = terms["beside"].stack_bytes + least.stage_stack_bytes
    needed = least.ram_bytes + 2 * least.state_bytes + stack
    for ram, status in ((needed, Status.FEASIBLE), (needed - 1, Status.UNKNOWN)):
        # Where the state of the other plan leaves too little, another plan may have a smaller state.
        for replan in (answer, lambda *_: answer(0, 1)):
            found = within_one_ram([answer(0, ram), answer(1, ram)], replan)
            together = Together(fits=tuple(found), flash=None, longest=None)
            assert together.verdict[0] is status
    assert together.needed_ram == needed


def test_a_faster_plan_that_exceeds_the_ram_of_all_is_skipped():
    network = from_catalogue("samos_example")
    least = fit(network, element_bytes=1, ram=20_000).least

    def with_faster(gain, state):
        slow = replace(least, nanoseconds=1000, state_bytes=0)
        fast = replace(least, nanoseconds=1000 - gain, state_bytes=state)
        answer = fit(network, element_bytes=1, ram=20_000)
        return replace(answer, methods=(slow, fast), best=slow, ram=slow.needed_ram + 4000)

    large, small = with_faster(500, 3000), with_faster(400, 0)
    other = replace(large.methods[0], state_bytes=2000)
    fits = (large, small, replace(large, methods=(other,), best=other))
    together = within_time(Together(fits=fits, flash=None, longest=Fraction(2700)))
    assert together.verdict[0] is Status.FEASIBLE
    assert [answer.best.nanoseconds for answer in together.fits] == [1000, 600, 1000]


def test_the_parts_of_the_ram_are_printed_and_the_sum_is_the_limit(run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    words = ("fit", "keyword_spotting:rows=25", "--element-bytes", "1", "--reserve", "2kB")
    output = run(*words)[1]
    (line,) = [one for one in output.splitlines() if one.startswith("  RAM ")]
    sizes = re.findall(r"(arena|state at most|stack at most|reserve) ([\d.]+) (k?)B", line)
    bytes_ = [int(float(size) * (1000 if unit else 1)) for _, size, unit in sizes]
    assert [name.split()[0] for name, *_ in sizes] == ["arena", "state", "stack", "reserve"]
    size = re.search(r": ([\d.]+) kB of RAM", output.splitlines()[0])[1]
    assert 0 <= float(size) * 1000 - sum(bytes_) < 2
    assert run(*words, "--ram", f"{size}kB")[0] == 0
