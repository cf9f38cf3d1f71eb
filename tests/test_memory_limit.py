"""Memory limits: searches end with their best answer, and no allocation takes the machine down."""

import pytest

from csdf import memory_limit
from csdf.cli.main import main
from csdf.errors import CsdfError, GaveUp
from csdf.memory_limit import exceeded_limit, free_bytes, memory_limited, resident_bytes
from csdf.time_limit import Stop
from tests.cli.running import GRAPHS

pytestmark = pytest.mark.skipif(not resident_bytes(), reason="the system tells no memory in use")


@pytest.fixture
def growing(monkeypatch):
    """Let the process seem to use a megabyte more at each look."""
    used = [50 * 10**6]

    def resident():
        used[0] += 10**6
        return used[0]

    monkeypatch.setattr(memory_limit, "resident_bytes", resident)


def look_often(stop):
    for _ in range(1000):
        stop.look()


def test_a_search_that_fills_the_memory_ends_in_good_order(growing):
    stop = Stop()
    with memory_limited(59 * 10**6):
        for _ in range(16 * 5):  # the soft limit is 7 MB away
            stop.look()
        with pytest.raises(GaveUp, match="the memory limit of 59 MB is reached"):
            look_often(stop)
    look_often(stop)  # beyond the block nothing is limited


def test_a_front_that_reaches_the_memory_limit_is_unknown_and_says_why(growing, capsys):
    words = ["pareto", str(GRAPHS / "h263decoder.xml"), "--json", "--memory-limit", "52MB"]
    assert main(words) == 3
    assert "the memory limit of 52 MB is reached" in capsys.readouterr().out


def test_one_allocation_beyond_the_limit_is_refused_by_the_system():
    with memory_limited(resident_bytes() + 10**7), pytest.raises(MemoryError):
        bytearray(2**30)
    assert len(bytearray(2**26)) == 2**26


def test_a_limit_below_the_memory_of_the_start_is_refused():
    with pytest.raises(CsdfError, match="give a larger --memory-limit"), memory_limited(1000):
        pass


def test_too_many_processes_for_the_default_limit_are_refused_without_a_limit_to_raise():
    count = 1 + (resident_bytes() + free_bytes()) // resident_bytes()
    words = f"the share of each of {count} processes, .*; free memory, or start fewer processes"
    with pytest.raises(CsdfError, match=words), memory_limited(None, processes=count):
        pass


def test_workers_share_the_limit():
    used = resident_bytes()
    with memory_limited(4 * (used + 10**9), processes=4):
        assert memory_limit._limit == used + 10**9
    assert exceeded_limit() is None


def test_by_default_three_quarters_of_the_free_memory_may_be_used():
    with memory_limited(None):
        more = memory_limit._limit - resident_bytes()
    assert 0.7 * free_bytes() < more < 0.8 * free_bytes()
