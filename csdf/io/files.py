"""Bytes from files and texts into files; whole, or not at all."""

from __future__ import annotations

import os
from pathlib import Path

from csdf.errors import UnreadableFile, UnwritableFile

LARGEST_FILE_BYTES = 64 * 2**20


def read_bytes(path: str | os.PathLike[str]) -> bytes:
    """Return what the file holds.

    Raises UnreadableFile for a folder, a missing or forbidden file, and beyond LARGEST_FILE_BYTES.
    """
    try:
        with open(path, "rb") as file:
            content = file.read(LARGEST_FILE_BYTES + 1)
    except IsADirectoryError:
        raise UnreadableFile(f"{path}: is a folder; expected a file") from None
    except OSError as error:
        raise UnreadableFile(f"{path}: cannot be read: {error.strerror}") from None
    require_size(content, str(path))
    return content


def require_size(content: bytes, name: str) -> None:
    """Raise UnreadableFile if there are more than LARGEST_FILE_BYTES."""
    if len(content) > LARGEST_FILE_BYTES:
        raise UnreadableFile(
            f"{name}: larger than the limit of {LARGEST_FILE_BYTES // 2**20} MiB for one file"
        )


def write_text(path: str | os.PathLike[str], text: str | bytes) -> None:
    """Put the text, as UTF-8, or the bytes in the file; an older file stays until the new one is whole.

    A device or a pipe, such as /dev/stdout, is written to and stays what it is. Raises
    UnwritableFile and leaves nothing behind.
    """
    require_writable(path)
    try:
        content = text if isinstance(text, bytes) else text.encode()
        if _is_stream(path):
            with open(path, "wb") as stream:
                stream.write(content)
        else:
            _replace(Path(path).resolve(), content)
    except UnicodeEncodeError as error:
        raise UnwritableFile(f"{path}: the text is not Unicode: {error.reason}") from None
    except OSError as error:
        raise UnwritableFile(f"{path}: cannot be written: {error.strerror}") from None


def require_writable(path: str | os.PathLike[str]) -> None:
    """Raise UnwritableFile for what can never become a file; before work, it saves the work."""
    if _is_stream(path):
        return
    target = Path(path).resolve()
    if target.is_dir():
        raise UnwritableFile(f"{path}: is a folder; expected the name of a file")
    if not target.parent.exists():
        raise UnwritableFile(f"{path}: there is no folder {str(target.parent)!r}")
    if not target.parent.is_dir():
        raise UnwritableFile(f"{path}: cannot be written: Not a directory")
    if not os.access(target.parent, os.W_OK):
        raise UnwritableFile(f"{path}: cannot be written: Permission denied")


def _is_stream(path: str | os.PathLike[str]) -> bool:
    """Whether it is there and neither a file nor a folder, so that nothing may take its place."""
    return os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path)


def _replace(target: Path, content: bytes) -> None:
    temporary = target.with_name(f".{target.name[:32]}.{os.getpid()}.part")
    with temporary.open("xb") as file:
        try:
            file.write(content)
            file.flush()
            temporary.replace(target)
        except BaseException:  # an interrupt too leaves nothing behind
            temporary.unlink()
            raise
