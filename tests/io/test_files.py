import errno
import os
import stat
from pathlib import Path, PurePath

import pytest

from csdf.errors import UnreadableFile, UnwritableFile
from csdf.io import files
from csdf.io.files import (
    append_text,
    read_bytes,
    require_writable,
    suffix_of,
    write_text,
    write_texts,
)


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


def test_a_failed_replacement_leaves_no_temporary_file(tmp_path, monkeypatch):
    path = tmp_path / "out"
    path.write_text("old")

    def fail(source, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", fail)
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


def mode_of(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o755])
def test_permissions_of_an_older_file_stay(tmp_path, mode):
    path = tmp_path / "out"
    path.write_text("older")
    path.chmod(mode)
    write_text(path, "new")
    assert (path.read_text(), mode_of(path)) == ("new", mode)


def test_a_new_file_gets_the_permissions_that_the_user_wants_for_new_files(tmp_path):
    before = os.umask(0o027)
    try:
        write_text(tmp_path / "out", "x")
    finally:
        os.umask(before)
    assert mode_of(tmp_path / "out") == 0o640


@pytest.mark.skipif(os.geteuid() != 0, reason="only the superuser may give files away")
def test_the_owner_of_an_older_file_stays(tmp_path):
    path = tmp_path / "out"
    path.write_text("older")
    os.chown(path, 12345, 23456)
    write_text(path, "new")
    assert (path.stat().st_uid, path.stat().st_gid) == (12345, 23456)


def test_a_file_is_as_young_as_its_text(tmp_path):
    path = tmp_path / "out"
    path.write_text("older")
    os.utime(path, (1, 1))
    write_text(path, "new")
    assert path.stat().st_mtime > 1


def test_all_names_of_a_file_lead_to_the_new_text(tmp_path):
    path, other = tmp_path / "out", tmp_path / "other name"
    path.write_text("older and longer")
    other.hardlink_to(path)
    write_text(path, "new")
    assert (path.read_text(), other.read_text()) == ("new", "new")
    assert path.samefile(other)
    assert sorted(tmp_path.iterdir()) == [other, path]


@pytest.mark.parametrize("end", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_file_with_several_names_keeps_its_text_where_a_write_fails(tmp_path, monkeypatch, end):
    path, other = tmp_path / "out", tmp_path / "other name"
    path.write_text("older and longer")
    other.hardlink_to(path)
    syncs = iter([end])

    def fail_once(descriptor):
        if found := next(syncs, None):
            raise found

    monkeypatch.setattr("os.fsync", fail_once)
    with pytest.raises((UnwritableFile, KeyboardInterrupt)):
        write_text(path, "new")
    assert other.read_text() == "older and longer"


def test_a_full_disk_is_known_before_a_file_with_several_names_is_touched(tmp_path, monkeypatch):
    path = tmp_path / "out"
    path.write_text("older")
    (tmp_path / "other name").hardlink_to(path)

    def refuse(descriptor, offset, size):
        assert path.read_text() == "older"
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.posix_fallocate", refuse, raising=False)
    with pytest.raises(UnwritableFile, match="No space left on device"):
        write_text(path, "new and longer")
    assert path.read_text() == "older"


@pytest.mark.parametrize("number", [errno.EACCES, errno.EROFS, errno.EBUSY, errno.EXDEV])
def test_a_file_that_cannot_be_replaced_is_overwritten(tmp_path, monkeypatch, number):
    # A folder without write permission, a mounted file, a file of another user in /tmp.
    path = tmp_path / "out"
    path.write_text("older")

    def refuse(source, target):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("os.replace", refuse)
    write_text(path, "new")
    assert [(each.name, each.read_text()) for each in tmp_path.iterdir()] == [("out", "new")]


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may write everywhere")
def test_a_protected_file_is_refused(tmp_path):
    path = tmp_path / "out"
    path.write_text("older")
    path.chmod(0o400)
    with pytest.raises(UnwritableFile, match="Permission denied"):
        write_text(path, "new")
    assert path.read_text() == "older"


def test_what_a_killed_process_left_blocks_nobody(tmp_path):
    # A process in a container always has number 1, so its number names no part of a file.
    for number in (1, os.getpid()):
        (tmp_path / f".out.{number}.part").write_text("half")
    write_text(tmp_path / "out", "x")
    write_text(tmp_path / "out", "y")
    assert (tmp_path / "out").read_text() == "y"


def test_an_interrupt_right_after_the_last_step_is_still_an_interrupt(tmp_path, monkeypatch):
    replace = os.replace

    def replace_then_end(source, target):
        replace(source, target)
        raise KeyboardInterrupt

    monkeypatch.setattr("os.replace", replace_then_end)
    with pytest.raises(KeyboardInterrupt):
        write_text(tmp_path / "out", "x")
    assert [(each.name, each.read_text()) for each in tmp_path.iterdir()] == [("out", "x")]


def test_the_text_is_on_the_disk_before_it_takes_the_place_of_the_older_one(tmp_path, monkeypatch):
    steps = []
    replace, sync = os.replace, os.fsync
    monkeypatch.setattr("os.fsync", lambda one: (steps.append("sync"), sync(one)))
    monkeypatch.setattr("os.replace", lambda *two: (steps.append("replace"), replace(*two)))
    write_text(tmp_path / "out", "x")
    assert steps == ["sync", "replace", "sync"]  # the text, its name, the folder with the name


def test_a_file_system_that_cannot_sync_is_written_all_the_same(tmp_path, monkeypatch):
    def refuse(descriptor):
        raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr("os.fsync", refuse)
    write_text(tmp_path / "out", "x")
    assert (tmp_path / "out").read_text() == "x"


def test_a_link_to_itself_is_refused(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "link")
    with pytest.raises(UnwritableFile, match="cannot be written: Too many levels"):
        write_text(tmp_path / "link", "x")


def test_a_name_that_ends_like_a_folder_is_no_file(tmp_path):
    with pytest.raises(UnwritableFile, match="out/: is the name of a folder"):
        write_text(f"{tmp_path}/out/", "x")
    assert not list(tmp_path.iterdir())


def test_no_file_has_a_zero_in_its_name():
    with pytest.raises(UnwritableFile, match="no file has such a name"):
        write_text("a\0b", "x")
    with pytest.raises(UnreadableFile, match="no file has such a name"):
        read_bytes("a\0b")


@pytest.mark.skipif(not os.path.exists("/dev/fd"), reason="no names of open files")
def test_an_open_file_is_written_on_from_where_it_is(tmp_path):
    # As in `csdf plan arena ... -o /dev/stdout > all`: a table follows what the option wrote.
    with open(tmp_path / "all", "wb", buffering=0) as file:
        file.write(b"before ")
        write_text(f"/dev/fd/{file.fileno()}", "between ")
        file.write(b"after")
    assert (tmp_path / "all").read_text() == "before between after"
    assert list(tmp_path.iterdir()) == [tmp_path / "all"]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full")
def test_a_full_device_is_reported():
    with pytest.raises(UnwritableFile, match="/dev/full: cannot be written: No space left"):
        write_text("/dev/full", "x")


@pytest.mark.parametrize(
    "name",
    ["a.xml", "A.XML", "a.b/c", "a/b.json/", "a.tar.gz", ".xml", "a", "", "/", "é.Pi"],
)
def test_the_suffix_of_a_name_is_that_of_pathlib(name):
    assert suffix_of(name) == PurePath(name).suffix.lower()
    assert suffix_of(Path(name)) == Path(name).suffix.lower()


@pytest.mark.parametrize("write", [write_text, append_text])
def test_a_text_with_a_lone_surrogate_is_refused(write, tmp_path):
    with pytest.raises(UnwritableFile, match="the text is not Unicode: surrogates not allowed"):
        write(tmp_path / "out", "a\ud800")


def test_of_several_files_one_that_cannot_be_restored_is_refused(tmp_path, monkeypatch):
    def forbidden(path, mode):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)

    older, new = tmp_path / "older", tmp_path / "new"
    older.write_text("older")
    monkeypatch.setattr(files, "open", forbidden, raising=False)
    with pytest.raises(
        UnwritableFile, match="older: cannot be replaced, because it cannot be read"
    ):
        write_texts({str(older): "x", str(new): "x"})
    assert older.read_text() == "older"
    assert not new.exists()
