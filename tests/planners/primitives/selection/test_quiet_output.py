"""Output of C within the block is gone; what is printed before and after stays."""

import ctypes
import os
import sys

import pytest

from planners.primitives.selection.solver import quiet_output

pytestmark = pytest.mark.skipif(os.name != "posix", reason="C's output is reached on POSIX only")


def test_only_output_printed_inside_the_block_is_dropped(capfd):
    printf = ctypes.CDLL(None).puts
    printf(b"before")
    with quiet_output():
        printf(b"within")
        os.write(1, b"also within\n")
    printf(b"after")
    ctypes.pythonapi.fflush(None)
    sys.stdout.flush()
    assert capfd.readouterr().out.split() == ["before", "after"]


def test_an_error_inside_the_block_restores_the_output(capfd):
    with pytest.raises(ValueError, match="within"), quiet_output():
        raise ValueError("within")
    print("after", flush=True)
    assert capfd.readouterr().out == "after\n"
