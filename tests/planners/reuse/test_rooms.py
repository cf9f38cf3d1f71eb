"""The rooms of planners/reuse, each built on those before it."""

import re
from pathlib import Path

import pytest

import planners.reuse

HERE = Path(planners.reuse.__file__).parent
BUILT_ON = {
    "application": set(),
    "edge_buffers": {"application"},
    "partition": {"application", "edge_buffers"},
    "cost": {"application", "edge_buffers", "partition"},
    "front": {"application", "edge_buffers", "partition", "cost"},
    "deployment": {"application", "edge_buffers", "partition", "cost"},
    "command": {"application", "edge_buffers", "partition", "cost", "front", "deployment"},
}


def entered(module):
    """The rooms that a module imports from."""
    return set(re.findall(r"^(?:from|import) planners\.reuse\.(\w+)", module.read_text(), re.M))


@pytest.mark.parametrize("room", BUILT_ON)
def test_a_room_is_built_on_those_before_it(room):
    modules = sorted((HERE / room).rglob("*.py")) or [HERE / f"{room}.py"]
    assert all(one.exists() for one in modules)
    above = {one.name: entered(one) - BUILT_ON[room] - {room} for one in modules}
    assert not any(above.values()), above
