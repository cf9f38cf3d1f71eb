"""Glow traces."""

import pytest

from csdf.errors import UnreadableFile
from planners.formats.allocation_traces import parse_traces

TRACE = """# two models
MODEL first net
ALIGN 64
ALLOC 1 100   # lives from instruction 0
ALLOC 2 28
FREE 1
FREE 2
MEM 192
EFF 1.0
MODEL second
ALLOC x 1
FREE x
"""


def test_time_counts_instructions():
    first, second = parse_traces(TRACE, "t.txt")
    assert first.name == "first net"
    assert [(b.name, b.size, b.start, b.end, b.alignment) for b in first.buffers] == [
        ("1", 100, 0, 2, 64),
        ("2", 28, 1, 3, 64),
    ]
    assert [(b.name, b.start, b.end, b.alignment) for b in second.buffers] == [("x", 0, 1, 1)]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("ALLOC 1 2\n", "t.txt:1: ALLOC comes before the first MODEL"),
        ("MODEL m\nGRAB 1\n", "t.txt:2: found 'GRAB'; expected one of MODEL"),
        ("MODEL\n", "t.txt:1: MODEL without a name"),
        ("MODEL m\nALLOC 1\n", "t.txt:2: found 1 value after ALLOC"),
        (
            "MODEL m\nALLOC 1 big\n",
            "t.txt:2: buffer '1': found 'big'; expected a whole number >= 0",
        ),
        ("MODEL m\nALIGN 0\n", "t.txt:2: ALIGN: found '0'; expected a whole number >= 1"),
        ("MODEL m\nALLOC 1 2\nALLOC 1 2\n", "t.txt:3: buffer '1' is allocated twice"),
        ("MODEL m\nFREE 1\n", "t.txt:2: buffer '1' is freed, but was not allocated"),
        ("MODEL m\nALLOC 1 2\nFREE 1\nFREE 1\n", "t.txt:4: buffer '1' is freed twice"),
        ("MODEL m\nALLOC 1 2\n", "t.txt:1: MODEL 'm': buffer '1' is never freed"),
    ],
)
def test_a_broken_trace_is_refused_with_its_line(text, complaint):
    with pytest.raises(UnreadableFile) as found:
        parse_traces(text, "t.txt")
    assert str(found.value).startswith(complaint)
