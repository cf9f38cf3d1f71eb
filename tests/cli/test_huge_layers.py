"""Layers with a stride or a dimension beyond 32 bits: an answer, or one message."""

import subprocess

import pytest

from csdf.cli.main import main

pytest.importorskip("onnx")
from tests.cnn2csdf.onnx_models import numbers, one_node, saved

WIDE = {"x": (1, 2, 8, 2**31 - 1)}
KERNEL = numbers((3, 2, 3, 3), 1)


def refused(capsys, *command):
    """Return the line with which a command refuses."""
    assert main([*map(str, command)]) in (2, 3)
    lines = capsys.readouterr().err.strip().splitlines()
    return lines[-1]


@pytest.mark.parametrize("command", [("fit",), ("deploy", "-o"), ("cnn", "memory")])
def test_a_dimension_of_two_billion_is_refused_with_its_layer(command, tmp_path, capsys):
    wide = saved(one_node("Conv", KERNEL, inputs=WIDE, pads=[1] * 4), tmp_path)
    folder = [tmp_path / "out"] if "-o" in command else []
    line = refused(capsys, *command, *folder, wide)
    assert "2,147,483,647 of them in layer 'x'" in line
    assert "take a narrower frame" in line
    assert not (tmp_path / "out").exists()


def test_a_report_of_a_dimension_of_two_billion_ends(tmp_path, capsys):
    wide = saved(one_node("Conv", KERNEL, inputs=WIDE, pads=[1] * 4), tmp_path)
    assert main(["report", wide, "-o", str(tmp_path / "report.html")]) == 0
    assert "take a narrower frame" in capsys.readouterr().err


def test_a_stride_beyond_the_frame_is_verified_whatever_its_size(tmp_path, capsys):
    strided = saved(one_node("Conv", numbers((3, 3, 1, 1), 1), strides=[2**62, 1]), tmp_path)
    assert main(["cnn", "verify", strided]) == 0
    assert "equal" in capsys.readouterr().out


@pytest.mark.slow
def test_a_stride_of_two_to_the_62_is_deployed(tmp_path):
    strided = saved(one_node("Conv", numbers((3, 3, 1, 1), 1), strides=[2**62, 1]), tmp_path)
    assert main(["deploy", strided, "-o", str(tmp_path / "out")]) == 0
    subprocess.run(["make", "-C", tmp_path / "out", "test"], check=True, capture_output=True)
