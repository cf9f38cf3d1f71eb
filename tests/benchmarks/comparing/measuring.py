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
    megabytes: float  # at most at a time, and never below those of the process that measures


def processor_seconds(command, limit, *, gives=lambda output: True):
    """Seconds of user and system time from the start of a process to its end.

    None where it does not end within `limit` seconds of the clock, ends by an exit code other than
    0, or what it printed is no answer. The processes that it started and waited for count. It runs
    in a folder of its own.
    """
    used = resources(command, limit)
    return used.seconds if used is not None and gives(used.output) else None


def resources(command, limit, *, processor_limit=None):
    """The resources of a process that ends by 0 within both limits in seconds; None for others."""

    def prepare():
        if processor_limit is not None:
            resource.setrlimit(resource.RLIMIT_CPU, (processor_limit, processor_limit + 1))

    surroundings = {**os.environ, "PYTHONPATH": str(ROOT)}
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            [str(word) for word in command],
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=folder,
            env=surroundings,
            start_new_session=True,
            preexec_fn=prepare,
        )
        end = time.monotonic() + limit
        while True:
            ended, status, used = os.wait4(process.pid, os.WNOHANG)
            if ended:
                break
            if time.monotonic() > end:
                os.killpg(process.pid, signal.SIGKILL)
                os.wait4(process.pid, 0)
                process.returncode = -signal.SIGKILL
                return None
            time.sleep(0.002)
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        text = output.read().decode(errors="replace")
    if process.returncode:
        return None
    return Resources(text, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)


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
