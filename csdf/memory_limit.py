"""Memory limits: how much memory a search may use, and what the process uses now.

Searches that look at their stop end in good order at the soft limit, with the best answer so far.
Where more is allocated between two looks, the operating system refuses it at the hard limit, which is
MemoryError. The numbers are those of Linux; on other systems no limit is set.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from csdf.errors import CsdfError
from csdf.units import bytes_in_words

try:
    import resource
except ImportError:  # of POSIX alone
    resource = None  # type: ignore[assignment]

SHARE = (3, 4)  # of the free memory, where the user gives no limit
SOFT = (7, 8)  # of the limit; the rest is for the answer
# Address space that counts at the hard limit and takes no memory: thread stacks, pools of libraries.
RESERVED = 256 * 2**20
CONTROL_GROUP = "/sys/fs/cgroup"
NO_LIMIT = 2**62

_soft_limit: int | None = None
_limit: int | None = None
_page_bytes = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 0


def exceeded_limit() -> int | None:
    """Return the memory limit in bytes where the process is about to exceed it; None elsewhere."""
    if _soft_limit is None or resident_bytes() <= _soft_limit:
        return None
    return _limit


def resident_bytes() -> int:
    """Return the physical memory that the process uses; 0 where the system does not tell."""
    words = _words("/proc/self/statm")
    return int(words[1]) * _page_bytes if len(words) > 1 else 0


def free_bytes() -> int | None:
    """Return the memory that is free for this process, in its control group too; None if unknown."""
    free = [_named_bytes("/proc/meminfo", "MemAvailable:")]
    maximum, now = (_words(f"{CONTROL_GROUP}/memory.{name}") for name in ("max", "current"))
    if maximum and now and maximum[0].isdecimal():
        free.append(int(maximum[0]) - int(now[0]))
    return min((size for size in free if size is not None), default=None)


@contextmanager
def memory_limited(limit: int | None, *, processes: int = 1) -> Iterator[None]:
    """Limit the memory of the process within the block.

    limit: bytes; None for what the process uses and three quarters of what is free. processes: that
    share the limit. Raises CsdfError for a share below what the process uses already.
    """
    global _soft_limit, _limit
    used, free, is_given = resident_bytes(), free_bytes(), limit is not None
    if limit is None and free is not None:
        limit = used + free * SHARE[0] // SHARE[1]
    if limit is None or not used:
        yield
        return
    share = limit // processes
    if share <= used:
        of = "" if processes == 1 else f", the share of each of {processes} processes,"
        advice = "give a larger --memory-limit" if is_given else "free memory"
        raise CsdfError(
            f"the memory limit of {bytes_in_words(share)}{of} is less than the {bytes_in_words(used)} "
            f"that the command uses before it begins; {advice}"
            f"{', or start fewer processes' if processes > 1 else ''}"
        )
    before = _soft_limit, _limit
    _soft_limit, _limit = used + (share - used) * SOFT[0] // SOFT[1], share
    try:
        with _refused_beyond(share - used):
            yield
    finally:
        _soft_limit, _limit = before


@contextmanager
def _refused_beyond(more: int) -> Iterator[None]:
    """Let the system refuse more data than this, in addition to what the process has."""
    data = _named_bytes("/proc/self/status", "VmData:")
    if resource is None or data is None:
        yield
        return
    before, hard = resource.getrlimit(resource.RLIMIT_DATA)
    limits = [limit for limit in (before, hard) if limit != resource.RLIM_INFINITY]
    soft = min(data + more + RESERVED, NO_LIMIT, *limits)
    resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (before, hard))


def _words(path: str) -> list[str]:
    try:
        with open(path, encoding="ascii") as file:
            return file.read().split()
    except OSError:
        return []


def _named_bytes(path: str, name: str) -> int | None:
    """Return the number, in KiB, after a name in a file of the system."""
    words = _words(path)
    return int(words[words.index(name) + 1]) * 1024 if name in words else None
