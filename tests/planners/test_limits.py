"""RAM for buffers, flash for parameters, or one memory for both."""

from dataclasses import replace

import pytest

from cnn2csdf import ROWS, from_catalogue
from csdf.errors import GaveUp
from csdf.search.trade_off import smallest_storage
from planners.memory.answer import MemoryLimits
from planners.published import samos


@pytest.mark.parametrize(
    ("limits", "room"),
    [
        (MemoryLimits(), None),
        (MemoryLimits(ram=50), 50),  # parameters lie elsewhere
        (MemoryLimits(memory=250), 50),  # 250 - 200
        (MemoryLimits(memory=150), -50),
        (MemoryLimits(flash=220), None),  # as many as there are
        (MemoryLimits(flash=219), -1),
        (MemoryLimits(ram=50, flash=219), -1),
        (MemoryLimits(ram=50, memory=230), 30),
    ],
)
def test_room_for_buffers_beside_200_bytes_of_parameters_stored_in_220(limits, room):
    assert limits.room(200, 220) == room


def test_limits_say_what_they_are_for():
    assert str(MemoryLimits(ram=64_000, flash=10**6)) == (
        "64 kB of RAM, 1 MB of flash for parameters"
    )
    assert not MemoryLimits().is_given


def test_memory_with_an_unknown_period_does_not_deny_the_buffers(monkeypatch):
    def without_period(*arguments, **options):
        storage = smallest_storage(*arguments, **options)
        return replace(storage, point=replace(storage.point, period=None))

    monkeypatch.setattr(samos, "smallest_storage", without_period)
    with pytest.raises(GaveUp, match="the period of 'samos_example' with its smallest buffers"):
        samos.network_memory(from_catalogue("samos_example"), ROWS)
