import os

import pytest

from csdf.errors import UnwritableFile
from csdf.io.files import write_text


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
