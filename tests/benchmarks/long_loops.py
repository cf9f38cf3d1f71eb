"""Find what goes on for long without a look at the stop.

`python -m tests.benchmarks.long_loops analyze g.json` runs a command and prints where processor time
went between looks that are more than 0.3 s apart. A budget counts processor time here, and its alarm
is off, so that loops without a look show. Graphs made to be slow are in tests.adversarial.graphs.
"""

import faulthandler
import re
import signal
import sys
import tempfile
import time
from collections import Counter
from contextlib import nullcontext
from types import SimpleNamespace

from csdf import time_limit
from csdf.cli.main import main

LIMIT = 0.3  # seconds of processor time between two looks
TICK = 0.02  # between two samples of the stack, within compiled kernels too
LATE = 20.0  # seconds after which the command is ended
READING = ("importlib", "/csdf/io/")  # files of code whose time is not counted
SHOWN = 4  # innermost frames of a place


class Gaps:
    """Samples of the stack, kept where the looks around them are far apart."""

    def __init__(self):
        self.looks, self.longest = 0, 0.0
        self.places = Counter()
        self._samples = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115
        self._latest = time.process_time()
        faulthandler.register(signal.SIGPROF, self._samples, all_threads=False)
        signal.setitimer(signal.ITIMER_PROF, TICK, TICK)

    def look(self):
        gap = time.process_time() - self._latest
        if gap > TICK:
            places = list(self._places())
            if gap > LIMIT < TICK * len(places):
                self.longest = max(self.longest, gap)
                self.places.update(places)
        self.looks += 1
        self._latest = time.process_time()

    def _places(self):
        self._samples.seek(0)
        text = self._samples.read().decode(errors="replace")
        self._samples.seek(0)
        self._samples.truncate()
        for sample in text.split("Stack (most recent call first):")[1:]:
            frames = re.findall(r'File "([^"]*)", line \d+ in (\S+)', sample)
            if not any(part in file for file, _ in frames for part in READING):
                yield " < ".join(
                    f"{'/'.join(file.split('/')[-2:])}:{name}" for file, name in frames[:SHOWN]
                )


def run(words):
    """Run a command; print the places and return the longest gap, in seconds."""
    time_limit.time = SimpleNamespace(monotonic=time.process_time)
    time_limit.Stop.enforced = lambda self, **_: nullcontext()
    look, gaps = time_limit.Stop.look, Gaps()

    def recorded(self, *progress):
        gaps.look()
        look(self, *progress)

    def late(*_):
        raise KeyboardInterrupt

    time_limit.Stop.look = recorded
    signal.signal(signal.SIGVTALRM, late)
    signal.setitimer(signal.ITIMER_VIRTUAL, LATE)
    code = main(words)
    gaps.look()
    signal.setitimer(signal.ITIMER_PROF, 0)
    print(
        f"exit code {code}, {gaps.looks} looks, longest gap {gaps.longest:.1f} s", file=sys.stderr
    )
    for place, samples in gaps.places.most_common(10):
        print(f"{samples * TICK:6.2f} s  {place}", file=sys.stderr)
    return gaps.longest


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]) > LIMIT)
