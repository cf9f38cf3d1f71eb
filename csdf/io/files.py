"""Bytes from files and texts into files; whole, or not at all."""

from __future__ import annotations

import errno
import os
import re
import stat
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from typing import BinaryIO

from csdf.errors import MissingFile, UnreadableFile, UnwritableFile

STANDARD_INPUT = "-"
LARGEST_FILE_BYTES = 64 * 2**20
NAMED_DESCRIPTORS = {"/dev/stdout": 1, "/dev/stderr": 2}
DESCRIPTOR = r"/(?:dev|proc/self)/fd/([0-9]+)"
NO_SYNC = (errno.EINVAL, errno.ENOTSUP)  # of a file system that cannot promise anything
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
NO_REPLACING = (errno.EACCES, errno.EPERM, errno.EROFS, errno.EBUSY, errno.EXDEV)


def read_bytes(path: str | os.PathLike[str], maximum: int = LARGEST_FILE_BYTES) -> bytes:
    """Return the bytes of a file; "-" is standard input.

    Raises UnreadableFile for a folder, a forbidden file, and beyond `maximum` bytes; MissingFile.
    """
    try:
        if path == STANDARD_INPUT:
            content = sys.stdin.buffer.read(maximum + 1)
        else:
            with open(path, "rb") as file:
                content = file.read(maximum + 1)
    except IsADirectoryError:
        raise UnreadableFile(f"{path}: is a folder; expected a file") from None
    except OSError as error:
        refusal = MissingFile if isinstance(error, FileNotFoundError) else UnreadableFile
        raise refusal(f"{path}: cannot be read: {error.strerror}") from None
    except ValueError:
        raise UnreadableFile(f"{str(path)!r}: cannot be read: no file has such a name") from None
    require_size(content, str(path), maximum)
    return content


def read_found(path: str | os.PathLike[str], maximum: int = LARGEST_FILE_BYTES) -> bytes:
    """Return the bytes of a file that no command line names: in a project's folder, or beside a file.

    A pipe there may have no writer, and a device may have no end: both raise UnreadableFile. Other
    errors are those of `read_bytes`.
    """
    require_plain(path)
    return read_bytes(path, maximum)


def require_plain(path: str | os.PathLike[str]) -> None:
    """Raise UnreadableFile for a pipe, a socket or a device; a file that does not exist will do."""
    with suppress(OSError, ValueError):
        kind = os.stat(path).st_mode
        if not stat.S_ISREG(kind) and not stat.S_ISDIR(kind):
            raise UnreadableFile(f"{path}: is a pipe or a device; expected a file")


def decoded(content: bytes, name: str) -> str:
    """Return the bytes of a file as text. Raises UnreadableFile unless they are UTF-8."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        byte_read = f"found {content[error.start]:#04x} at byte {error.start}"
        raise UnreadableFile(f"{name}: not text in UTF-8: {byte_read}") from None


def read_text(path: str | os.PathLike[str]) -> str:
    """Return the text of a file in UTF-8; raises as `read_bytes` and `decoded` do."""
    return decoded(read_bytes(path), os.fspath(path))


def require_size(content: bytes, name: str, maximum: int = LARGEST_FILE_BYTES) -> None:
    """Raise UnreadableFile if there are more than `maximum` bytes."""
    if len(content) > maximum:
        limit = f"{maximum // 2**20} MiB" if maximum % 2**20 == 0 else f"{maximum} bytes"
        raise UnreadableFile(
            f"{name}: larger than the limit of {limit} for one file; "
            "the option --file-limit of commands on graphs raises it"
        )


def write_text(path: str | os.PathLike[str], text: str | bytes) -> None:
    """Put the text, as UTF-8, or the bytes in the file; an older file stays until the new one is whole.

    The new text is written beside the file, reaches the disk, and replaces the older one in
    one step, with its permissions and its owner. A file with several names (hard links), or one whose
    folder or owner does not let it be replaced, is overwritten where it is, which is not one step; if
    that fails or is interrupted, the older text is put back. A device, a pipe or an open file such
    as /dev/stdout is written to and stays what it is.

    Raises UnwritableFile and leaves nothing behind; BrokenPipeError for a closed standard output.
    """
    require_writable(path)
    try:
        _write(path, text if isinstance(text, bytes) else text.encode())
    except BrokenPipeError as error:
        if _descriptor(path) == NAMED_DESCRIPTORS["/dev/stdout"]:
            raise
        raise UnwritableFile(f"{path}: cannot be written: {error.strerror}") from None
    except UnicodeEncodeError as error:
        raise UnwritableFile(f"{path}: the text is not Unicode: {error.reason}") from None
    except OSError as error:
        raise UnwritableFile(f"{path}: cannot be written: {error.strerror}") from None


def append_text(path: str | os.PathLike[str], text: str) -> None:
    """Append the text to a file, as UTF-8. Raises UnwritableFile."""
    require_writable(path)
    try:
        with open(path, "ab") as file:
            file.write(text.encode())
    except UnicodeEncodeError as error:
        raise UnwritableFile(f"{path}: the text is not Unicode: {error.reason}") from None
    except OSError as error:
        raise UnwritableFile(f"{path}: cannot be written: {error.strerror}") from None


def write_texts(texts: Mapping[str, str | bytes]) -> None:
    """Write files by their paths, each as `write_text` does: all of them, or none.

    Missing folders are created. If a file cannot be written, or at Ctrl-C, older files are restored,
    and new files and their folders are removed. Raises UnwritableFile.
    """
    older: dict[str, bytes | None] = {}
    new_folders: list[str] = []
    try:
        for path, text in texts.items():
            folder = os.path.dirname(path)
            new_folders += missing_folders(folder)
            make_folder(folder or os.curdir)
            require_writable(path)
            older[path] = _content(path)
            write_text(path, text)
    except BaseException:
        for path, content in older.items():
            if content is not None:
                write_text(path, content)
            elif os.path.isfile(path):
                os.unlink(path)
        remove_empty(new_folders)
        raise


def _content(path: str) -> bytes | None:
    """The bytes of a file; None for a missing file, a pipe or a device.

    Raises UnwritableFile for an unreadable file, which could not be restored.
    """
    if not os.path.isfile(path):
        return None
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise UnwritableFile(
            f"{path}: cannot be replaced, because it cannot be read: {error.strerror}"
        ) from None


def missing_folders(folder: str) -> list[str]:
    """The missing folders on the path to a folder, the outermost first."""
    missing: list[str] = []
    while folder and not os.path.exists(folder):
        missing.insert(0, folder)
        folder = os.path.dirname(folder)
    return missing


def remove_empty(folders: Sequence[str]) -> None:
    """Remove the empty ones of some folders, the outermost of which is the first."""
    for folder in reversed(folders):
        with suppress(OSError):  # it has files
            os.rmdir(folder)


def require_writable(path: str | os.PathLike[str]) -> None:
    """Raise UnwritableFile before a computation if its result cannot be written to this path."""
    if _is_stream(path):
        return
    if not os.fspath(path):
        raise UnwritableFile("the name of the file to write is empty")
    if os.fspath(path).endswith(os.sep):
        raise UnwritableFile(f"{path}: is the name of a folder; expected the name of a file")
    try:
        target = os.path.realpath(path)
        folder = os.path.dirname(target)
    except ValueError:
        raise UnwritableFile(f"{str(path)!r}: no file has such a name") from None
    if os.path.isdir(target):
        raise UnwritableFile(f"{path}: is a folder; expected the name of a file")
    if os.path.islink(target):
        raise UnwritableFile(f"{path}: cannot be written: {os.strerror(errno.ELOOP)}")
    if not os.path.exists(folder):
        raise UnwritableFile(f"{path}: there is no folder {folder!r}")
    if not os.path.isdir(folder):
        raise UnwritableFile(f"{path}: cannot be written: Not a directory")
    if not os.access(target if os.path.exists(target) else folder, os.W_OK):
        raise UnwritableFile(f"{path}: cannot be written: Permission denied")


def require_folder(path: str | os.PathLike[str]) -> None:
    """Raise UnwritableFile before a computation if its files cannot be written to this folder."""
    name = os.fspath(path)
    if not name:
        raise UnwritableFile("the name of the folder to write into is empty")
    if name == "-":  # standard output elsewhere
        raise UnwritableFile("-: expected the name of a folder")
    try:
        above = os.path.realpath(name)
    except ValueError:
        raise UnwritableFile(f"{name!r}: no folder has such a name") from None
    if os.path.exists(above) and not os.path.isdir(above):
        raise UnwritableFile(f"{name}: is a file; expected a folder")
    while not os.path.exists(above):
        above = os.path.dirname(above)
    if not os.path.isdir(above):
        raise UnwritableFile(f"{name}: cannot be made: {above} is a file")
    if not os.access(above, os.W_OK):
        raise UnwritableFile(f"{name}: cannot be written: Permission denied")


def suffix_of(path: str | os.PathLike[str]) -> str:
    """Return the suffix of a name in small letters, with the dot; empty if there is no suffix.

    As pathlib's suffix, without the slow import of pathlib.
    """
    name = os.path.basename(os.fspath(path).rstrip(os.sep))
    dot = name.rfind(".")
    return name[dot:].lower() if 0 < dot < len(name) - 1 else ""


def is_file_or_stream(path: str | os.PathLike[str]) -> bool:
    """Whether the path leads to a file, a pipe or a device, which can be read, and to no folder."""
    return os.path.exists(path) and not os.path.isdir(path)


def is_same_file(one: str | os.PathLike[str], other: str | os.PathLike[str]) -> bool:
    """Whether two paths lead to the same existing file."""
    try:
        return os.path.isfile(one) and os.path.samefile(one, other)
    except (OSError, ValueError):
        return False


def make_folder(path: str | os.PathLike[str]) -> None:
    """Create a folder and its missing parents. Raises UnwritableFile."""
    try:
        os.makedirs(path, exist_ok=True)
    except FileExistsError:
        raise UnwritableFile(f"{path}: is a file; expected a folder") from None
    except ValueError:
        raise UnwritableFile(f"{str(path)!r}: no folder has such a name") from None
    except OSError as error:
        raise UnwritableFile(f"{path}: cannot be made: {error.strerror}") from None


def _is_stream(path: str | os.PathLike[str]) -> bool:
    """Whether it exists and is neither a file nor a folder, so that it must not be replaced."""
    is_there = is_file_or_stream(path) and not os.path.isfile(path)
    return is_there or _descriptor(path) is not None


def _descriptor(path: str | os.PathLike[str]) -> int | None:
    """Return which open file of this process the path names, though it may lead to a file."""
    name = os.fspath(path)
    match = re.fullmatch(DESCRIPTOR, name)
    return int(match[1]) if match else NAMED_DESCRIPTORS.get(name)


def _write(path: str | os.PathLike[str], content: bytes) -> None:
    if _is_stream(path):
        number = _descriptor(path)
        with open(path if number is None else os.dup(number), "wb") as stream:
            stream.write(content)
        return
    target = os.path.realpath(path)
    older = os.stat(target) if os.path.exists(target) else None
    if older is None or older.st_nlink == 1:
        try:
            _replace(target, content, older)
        except OSError as error:
            if older is None or error.errno not in NO_REPLACING:
                raise
        else:
            return
    _overwrite(target, content)


def _replace(target: str, content: bytes, older: os.stat_result | None) -> None:
    """Write a temporary file beside the target, then rename it to the target."""
    folder, name = os.path.split(target)
    temporary = os.path.join(folder, f".{name[:32]}.{os.urandom(8).hex()}.part")
    mode = 0o666 if older is None else 0o600  # less than what it gets at the end
    try:
        with open(temporary, "xb", opener=lambda path, flags: os.open(path, flags, mode)) as file:
            file.write(content)
            _finish(file)
        if older is not None:
            _make_alike(temporary, target, older)
        os.replace(temporary, target)
    except BaseException:  # an interrupt too leaves nothing behind
        with suppress(FileNotFoundError):  # where it came after the last step
            os.unlink(temporary)
        raise
    _finish_folder(folder)


def _make_alike(temporary: str, target: str, older: os.stat_result) -> None:
    """Give the new file the owner, permissions and attributes of the older one, but not its times."""
    status = os.stat(temporary)
    if (status.st_uid, status.st_gid) != (older.st_uid, older.st_gid):
        os.chown(temporary, older.st_uid, older.st_gid)
    import_module("shutil").copystat(target, temporary)  # slow to import, and seldom needed
    os.utime(temporary)


def _overwrite(target: str, content: bytes) -> None:
    """Overwrite the file in place; restore its content if writing fails."""
    with open(target, "r+b") as file:
        older = file.read()
        try:
            _reserve(file, len(content))
            _put(file, content)
        except BaseException:
            _put(file, older)
            raise


def _reserve(file: BinaryIO, size: int) -> None:
    """Find out that the disk is full before a byte is overwritten, where the system can tell."""
    if size == 0 or not hasattr(os, "posix_fallocate"):
        return
    try:
        os.posix_fallocate(file.fileno(), 0, size)
    except OSError as error:
        if error.errno in NO_ROOM:
            raise


def _put(file: BinaryIO, content: bytes) -> None:
    file.seek(0)
    file.write(content)
    file.truncate()
    _finish(file)


def _finish(file: BinaryIO) -> None:
    """Return when the content is on the disk."""
    file.flush()
    try:
        os.fsync(file.fileno())
    except OSError as error:
        if error.errno not in NO_SYNC:
            raise


def _finish_folder(folder: str) -> None:
    """Return when the new name is on the disk too; the file is whole in either case."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
