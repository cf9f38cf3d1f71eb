import os

import pytest

from csdf.errors import UnwritableFile
from csdf.io.files import require_writable, write_text


def test_a_text_replaces_what_the_file_held(tmp_path):
    path = tmp_path / "out"
    path.write_text("older and longer")
    write_text(path, "né")
    assert path.read_bytes() == "né".encode()
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_stays_a_link_to_the_new_text(tmp_path):
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "target")
    write_text(link, "x")
    assert link.is_symlink()
    assert (tmp_path / "target").read_text() == "x"


def test_a_missing_folder_is_refused_by_name(tmp_path):
    with pytest.raises(UnwritableFile, match=r"there is no folder '.*none'"):
        write_text(tmp_path / "none" / "out", "x")


def test_a_folder_cannot_be_written(tmp_path):
    with pytest.raises(UnwritableFile, match="is a folder"):
        write_text(tmp_path, "x")


def test_a_file_is_no_folder(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(UnwritableFile, match="cannot be written: Not a directory"):
        write_text(tmp_path / "file" / "out", "x")


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may write everywhere")
def test_a_forbidden_folder_is_refused(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(UnwritableFile, match="cannot be written: Permission denied"):
        write_text(tmp_path / "out", "x")


def test_a_failed_replacement_leaves_nothing_behind(tmp_path, monkeypatch):
    path = tmp_path / "out"
    path.write_text("old")

    def fail(self, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pathlib.Path.replace", fail)
    with pytest.raises(UnwritableFile, match="No space left on device"):
        write_text(path, "new")
    assert [(each.name, each.read_text()) for each in tmp_path.iterdir()] == [("out", "old")]


def test_a_device_is_written_to_and_stays_a_device(tmp_path):
    read, write = os.pipe()
    write_text(f"/dev/fd/{write}", "né")
    os.close(write)
    with open(read, "rb") as end:
        assert end.read() == "né".encode()
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    write_text(fifo, "x")
    assert os.read(reader, 9) == b"x"
    os.close(reader)
    assert fifo.is_fifo()
    assert list(tmp_path.iterdir()) == [fifo]


def test_what_cannot_be_written_is_known_before(tmp_path):
    require_writable(tmp_path / "new")
    assert not list(tmp_path.iterdir())
    with pytest.raises(UnwritableFile, match="there is no folder"):
        require_writable(tmp_path / "none" / "out")
    with pytest.raises(UnwritableFile, match="is a folder"):
        require_writable(tmp_path)


@pytest.mark.skipif(not os.path.isdir("/proc"), reason="no folder that takes no file")
def test_a_folder_that_takes_no_file_is_not_said_to_be_missing():
    with pytest.raises(UnwritableFile, match="cannot be written"):
        write_text("/proc/out", "x")
