"""Confinement of the program that records a trace: writes, network, processes and input files.

A test bench is foreign code. `confine` forbids it to write outside its folder and to use TCP, where
the Linux kernel supports it; UDP and local sockets remain allowed. `end_group` ends every process
that it has started, and `copy_inputs` gives it copies of the files that it may open.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import struct
import subprocess
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

COPIED_FILES, COPIED_BYTES = 2000, 1 << 26  # limits of input files copied for the test bench
PREFIX = "csdf-hls-"  # of the name of the temporary folder

# Access rights of Landlock (Linux 5.13 and later), as bits; rights that are handled are refused
# unless a rule allows them.
WRITES = (1 << 1, *(1 << bit for bit in range(4, 13)))  # write files; remove and create entries
TRUNCATES, REFERS = 1 << 14, 1 << 13  # of version 3: truncate; of version 2: link across folders
CONNECTIONS = 3  # of version 4: bind and connect TCP sockets


def confine(folder: Path) -> None:
    """Forbid this process to write outside a folder and to use TCP, by Landlock.

    Files need version 1 of Landlock (Linux 5.13), TCP version 4 (Linux 6.7). Without Landlock nothing
    is forbidden.
    """
    library = ctypes.CDLL(None, use_errno=True)
    # System call 444 creates a ruleset (here: returns the version), 445 adds a rule, 446 applies it.
    version = library.syscall(444, None, ctypes.c_size_t(0), ctypes.c_uint32(1))
    if version < 1:
        return
    rights = sum(WRITES) | (REFERS if version >= 2 else 0) | (TRUNCATES if version >= 3 else 0)
    rules = struct.pack("=QQ", rights, CONNECTIONS)[: 16 if version >= 4 else 8]
    ruleset = library.syscall(444, rules, ctypes.c_size_t(len(rules)), ctypes.c_uint32(0))
    if ruleset < 0:
        return
    for path, allowed in ((folder, rights), (Path("/dev/null"), WRITES[0])):
        opened = os.open(path, os.O_PATH)
        rule = struct.pack("=Qi", allowed, opened)
        library.syscall(445, ruleset, 1, rule, ctypes.c_uint32(0))
        os.close(opened)
    library.prctl(38, 1, 0, 0, 0)  # no new privileges
    library.syscall(446, ruleset, ctypes.c_uint32(0))


def end_group(process: subprocess.Popen[bytes], folder: str) -> None:
    """End a process and all its descendants, in its process group or, by /proc, outside it."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    # Marks descendants of the recorded program; compilers have another HOME.
    mark = f"HOME={folder}/run\0".encode()
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if int(entry.name) != os.getpid() and mark in (entry / "environ").read_bytes():
                os.kill(int(entry.name), signal.SIGKILL)


def copy_inputs(folders: Iterable[Path], target: Path) -> None:
    """Copy files that a test bench may open, up to limits of number and size."""
    files = total = 0
    for folder in folders:
        for root, names, here in os.walk(folder):
            names[:] = sorted(name for name in names if not name.startswith((".", PREFIX)))
            for name in sorted(here):
                path = Path(root, name)
                if path.is_symlink() or not path.is_file():
                    continue
                files += 1
                total += path.stat().st_size
                if files > COPIED_FILES or total > COPIED_BYTES:
                    return
                copy = target / path.relative_to(folder)
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, copy)
