"""Run readers on mutants, each in a process of its own: `run_reader.py SEED CASES FOLDER [READER ...]`.

By default all readers run, two at a time; their answers are files of the folder, `answer_of`. The
processes are forked from this one, which has loaded all libraries: that takes longer than the mutants.
A mutant is read or refused by a CsdfError with a one-line message that begins with the file. Nothing
else may come out of a reader, in five seconds and the given memory. What does is written as JSON.
"""

import faulthandler
import json
import os
import resource
import signal
import sys
import time
from pathlib import Path
from random import Random

from csdf.errors import CsdfError
from tests.fuzz.readers import readers

PATIENCE = 5  # seconds of computing for one mutant, however busy the machine is
MEMORY = 2 * 2**30  # bytes beside the libraries
MOST = 20  # faults, after which the run ends
SIDE_BY_SIDE = 2  # processes


class TooLong(BaseException):
    """A reader that did not end in time."""


def answer_of(folder, name):
    """The file with the answer of a reader, in JSON."""
    return folder / f"{name}.answer.json"


def main(seed, cases, folder, *names):
    """Run these readers, or all; return how many of their processes failed."""
    folder = Path(folder)
    waiting, running, failed = list(names or readers(folder)), {}, 0
    while waiting or running:
        while waiting and len(running) < SIDE_BY_SIDE:
            name = waiting.pop(0)
            child = os.fork()
            if child == 0:
                run(name, int(seed), int(cases), folder)
                sys.stderr.flush()
                os._exit(0)
            running[child] = name
        child, status = os.wait()
        name, code = running.pop(child), os.waitstatus_to_exitcode(status)
        if code:
            failed += 1
            answer_of(folder, name).write_text(json.dumps({"code": code}))
    return failed


def run(name, seed, cases, folder):
    """Run one reader, and write its answer."""
    reader = readers(folder)[name]
    seeds = list(reader.seeds())
    path = str(folder / f"case of {name}{reader.suffix}")
    limit = _used_address_space() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    signal.signal(signal.SIGPROF, _give_up)
    begin, faults, values = time.process_time(), [], 0
    for case in range(seed, seed + cases):
        random = Random(case)
        content, other = random.choice(seeds), random.choice(seeds)
        content = random.choice(reader.changes)(content, other, random)
        Path(path).write_bytes(content)
        if case % 100 == 0:  # for what no signal ends
            faulthandler.dump_traceback_later(300, exit=True)
        fault = _fault(reader, path, random)
        values += fault == ""
        if fault:
            faults.append({"case": case, "fault": fault})
            (folder / f"fault {case} of {name}{reader.suffix}").write_bytes(content)
        if len(faults) >= MOST:
            break
    faulthandler.cancel_dump_traceback_later()
    found = {
        "code": 0,
        "cases": cases,
        "values": values,
        "faults": faults,
        "seconds": round(time.process_time() - begin, 1),
        "mebibytes": _most_kibibytes() // 1024,
    }
    answer_of(folder, name).write_text(json.dumps(found))


def _fault(reader, path, random):
    """The fault of the answer; None for a refusal, empty for a value."""
    signal.setitimer(signal.ITIMER_PROF, PATIENCE)
    try:
        reader.read(path, random)
    except CsdfError as error:
        message = str(error)
        if len(message.splitlines()) != 1 or "\x1b" in message:
            return f"not one line: {message[:300]!r}"
        if not message.startswith(path):
            return f"names no file: {message[:300]!r}"
        return None
    except TooLong:
        return f"took more than {PATIENCE} s"
    except (Exception, RecursionError) as error:  # noqa: BLE001
        return f"{type(error).__name__}: {str(error)[:300]} {_place(error)}"
    else:
        return ""
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def _place(error):
    """The last line of ours, or the first of a library, that the error passed."""
    trace = error.__traceback__
    while trace.tb_next is not None and "site-packages" not in _file(trace.tb_next):
        trace = trace.tb_next
    return f"at {_file(trace)}:{trace.tb_lineno}"


def _file(trace):
    return trace.tb_frame.f_code.co_filename


def _give_up(signum, frame):
    raise TooLong


def _used_address_space():
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


def _most_kibibytes():
    """The most memory of this process; what getrusage says begins with that of its parent."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM:")).split()[1])


if __name__ == "__main__":
    sys.exit(min(1, main(*sys.argv[1:])))
