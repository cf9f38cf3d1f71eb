"""Processor seconds of whole processes, and of a loop that says how fast this machine is."""

import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

LOOP = 2_000_000  # steps of the fixed loop
ROOT = Path(__file__).parents[3]


class Resources(NamedTuple):
    """The use of a process from its start to its end: its output, user and system time, memory."""

    output: str
    seconds: float
    megabytes: float  # at most at a time, and never below the launcher's, some 10


def processor_seconds(command, limit, *, gives=lambda output: True):
    """Seconds of user and system time from the start of a process to its end.

    None where it does not end within `limit` seconds of the clock, ends by an exit code other than
    0, or what it printed is no answer. The processes that it started and waited for count. It runs
    in a folder of its own.
    """
    used = resources(command, limit)
    return used.seconds if used is not None and gives(used.output) else None


# A process counts the memory of the process that forks it, until it begins its own program: the
# measured one is forked by a small one, which writes what it took.
LAUNCHER = """
import resource, subprocess, sys
ended = subprocess.run(sys.argv[2:]).returncode
used = resource.getrusage(resource.RUSAGE_CHILDREN)
with open(sys.argv[1], "w") as file:
    print(used.ru_utime + used.ru_stime, used.ru_maxrss, file=file)
sys.exit(ended != 0)
"""


def resources(command, limit, *, processor_limit=None):
    """The resources of a process that ends by 0 within both limits in seconds; None for others."""

    def prepare():
        if processor_limit is not None:
            resource.setrlimit(resource.RLIMIT_CPU, (processor_limit, processor_limit + 1))

    surroundings = {**os.environ, "PYTHONPATH": str(ROOT)}
    with tempfile.TemporaryDirectory() as folder, tempfile.NamedTemporaryFile("r") as taken:
        with tempfile.TemporaryFile() as output:
            process = subprocess.Popen(
                [sys.executable, "-c", LAUNCHER, taken.name, *map(str, command)],
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=folder,
                env=surroundings,
                start_new_session=True,
                preexec_fn=prepare,
            )
            try:
                process.wait(limit)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            if process.returncode:
                return None
            output.seek(0)
            text = output.read().decode(errors="replace")
        seconds, kilobytes = taken.read().split()
    return Resources(text, float(seconds), int(kilobytes) / 1024)


def interleaved(commands, limit, rounds):
    """The least processor seconds of each command, one after the other in every round.

    commands: by name, each a command and a test of what it prints. One that gave no answer is not
    asked again, nor are all where one takes more than a tenth of the limit.
    """
    least = dict.fromkeys(commands)
    left = dict(commands)
    for _ in range(rounds):
        begin = time.monotonic()
        for name, (command, gives) in list(left.items()):
            seconds = processor_seconds(command, limit, gives=gives)
            if seconds is None:
                del left[name]
            else:
                least[name] = min(seconds, least[name] or seconds)
        if time.monotonic() - begin > limit / 10:
            break
    return least


def loop_seconds():
    """Processor seconds of a fixed loop in plain Python: figures in it compare between machines."""
    begin = time.process_time()
    total = 0
    for number in range(LOOP):
        total = (total * 31 + number) % 1_000_003
    if total < 0:
        raise SystemExit("the loop is wrong")
    return time.process_time() - begin


def bare_start():
    """The command that does nothing but start and end Python."""
    return [sys.executable, "-c", "pass"]
