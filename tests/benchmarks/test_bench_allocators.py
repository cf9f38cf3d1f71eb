"""The rule of the interpreter for microcontrollers, on a problem whose peak is counted by hand."""

from planners.arena.problem import Buffer, Problem
from tests.benchmarks.bench_allocators import interpreter


def test_the_interpreter_stacks_two_tensors_that_are_alive_together():
    lives = {"0": (32, 0, 2), "1": (16, 1, 3), "2": (32, 2, 4)}
    buffers = [
        Buffer(name=name, size=size, start=start, end=end)
        for name, (size, start, end) in lives.items()
    ]
    assert interpreter(Problem(name="chain", buffers=tuple(buffers)), 1) == 48
