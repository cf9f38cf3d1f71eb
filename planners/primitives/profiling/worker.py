"""The process that does one job, see jobs."""

from __future__ import annotations

import os
import pickle
import sys

from csdf.errors import CsdfError, GaveUp
from csdf.time_limit import Stop
from planners.primitives.profiling.jobs import Failure, Job, Returned, send


def _main() -> None:
    """Do the one job that comes in."""
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # nothing else may write between the messages

    stop = Stop(report=lambda progress: send(out, progress))
    job: Job = pickle.load(sys.stdin.buffer)
    try:
        answer: Returned | Failure = Returned(job.function(*job.values, stop))
    except CsdfError as error:
        answer = Failure(error)
    except MemoryError:
        answer = Failure(GaveUp("out of memory"))
    send(out, answer)


if __name__ == "__main__":
    _main()
