"""Jobs for a process of its own, in which matrix products have one thread.

The libraries that multiply matrices read the number of their threads when they are loaded, so the
process must be started with it. Parent and worker exchange pickled values: the parent sends one job,
the worker sends Progress values and at last a Returned or a Failure.

The machine that this process runs on, as a profile describes it.
"""

from __future__ import annotations

import os
import pickle
import platform
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from csdf.errors import CsdfError, ExecutionError
from csdf.time_limit import Stop
from planners.primitives.profile import Machine

THREADS = 1
WORKER = "planners.primitives.profiling.worker"
HOME = str(Path(__file__).parents[3])  # the folder of this project's packages


class Returned(NamedTuple):
    """Return the value that the job returned."""

    value: Any


class Failure(NamedTuple):
    """An error of this project, for the parent to raise."""

    error: CsdfError


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A function of some module, by reference, that takes these values and then a stop."""

    function: Callable[..., Any]
    values: tuple[Any, ...]


def run_in_worker(job: Job, stop: Stop) -> Any:
    """Return what the job returns; the stop sees its progress, and may end it.

    Raises what the job raised, and ExecutionError where the worker ended without an answer.
    """
    command = [sys.executable, "-P", "-m", WORKER]  # -P: not from the folder that it starts in
    environment = {
        **os.environ,
        **dict.fromkeys(PINNED, str(THREADS)),
        "PYTHONPATH": os.pathsep.join(import_path()),
    }
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
    ) as process:
        try:
            return _answer(process, job, stop)
        finally:
            process.kill()


def import_path() -> list[str]:
    """Return where this process finds modules, without the folder that happens to be the current one.

    An empty entry means that folder, whose files must not run as `numpy` or `pickle` of the worker.
    """
    path = [folder for folder in sys.path if folder]
    return path if HOME in path else [*path, HOME]


def _answer(process: subprocess.Popen[bytes], job: Job, stop: Stop) -> Any:
    if process.stdin is None or process.stdout is None:
        raise ExecutionError("the worker has no pipes")
    with suppress(BrokenPipeError):  # a worker that ended says why below
        send(process.stdin, job)
    while True:
        try:
            message = pickle.load(process.stdout)
        except EOFError:
            code = process.wait()
            raise ExecutionError(f"the worker that measures ended with code {code}") from None
        if isinstance(message, Returned):
            return message.value
        if isinstance(message, Failure):
            raise message.error
        stop.look(message)


def send(pipe: IO[bytes], message: object) -> None:
    """Write one message."""
    pickle.dump(message, pipe)
    pipe.flush()


PINNED = (
    "OPENBLAS_NUM_THREADS",
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)  # what libraries of matrix products read when they are loaded
PROCESSORS = Path("/proc/cpuinfo")


def this_machine(threads: int) -> Machine:
    """Return the machine; threads: what the environment allows matrix products."""
    return Machine(
        processor=_processor(),
        cores=os.cpu_count() or 1,
        threads=threads,
        library=f"numpy {np.__version__}, {_products()}",
    )


def _processor() -> str:
    """The model as the system names it, else the architecture."""
    try:
        lines = PROCESSORS.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return " ".join((named or [platform.processor() or platform.machine() or "unknown"])[0].split())


def _products() -> str:
    """The library of matrix products that numpy was built with."""
    configuration: Any = np.show_config(mode="dicts")
    found = configuration.get("Build Dependencies", {}).get("blas", {})
    return f"{found.get('name', 'unknown')} {found.get('version', '')}".strip()
