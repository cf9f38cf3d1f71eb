"""Bytes that compiled C moves in each memory and direction, beside those of its plan.

`python -m tests.benchmarks.bench_counted_accesses [COUNT] [FLAGS]`: 200 random networks in two
memories, as many in three, and networks of the catalogue, with further flags of the compiler. Prints a
line for each library that moves other bytes than its plan says, and the totals.
"""

import sys
import tempfile
from collections import Counter
from pathlib import Path

from cnn2csdf.catalogue.networks import from_catalogue
from csdf.errors import InvalidPlan
from planners.memory.fit import fit
from tests.planners.code.calibrated import integer_model, real_model
from tests.planners.code.counted_accesses import INSTRUMENTED, counted_traffic, planned_traffic
from tests.planners.code.memory_cases import planned_cases

SLOW, FLASH = "psram=8MB:slow", "flash=16MB:slow:holds=weights"
CATALOGUE = (  # of integers, or not, in so much fast memory
    ("keyword_spotting:rows=25", True, "2kB"),
    ("keyword_spotting:rows=25", False, "6kB"),
    ("resnet8:resolution=16", True, "3kB"),
    ("resnet8:resolution=16", False, "12kB"),
    ("mobilenet_v2:width=1/4,resolution=32,classes=10", True, "3kB"),
    ("squeezenet1_1:resolution=39,classes=4", True, "12kB"),
    ("person_detection:channels=3", True, "16kB"),
    ("mobilenet_v1:width=1/4,resolution=32,classes=4", True, "4kB"),
)


def catalogue_cases():
    """Yield models of the catalogue with plans in two and in three memories."""
    for name, is_integer, fast in CATALOGUE:
        model = (integer_model if is_integer else real_model)(from_catalogue(name))
        for further in ((SLOW,), (SLOW, FLASH)):
            chosen = fit(model, memories=(f"sram={fast}", *further)).best
            if chosen is not None and chosen.plan.slow_bytes:
                yield model, chosen.plan


def compared(cases, flags):
    """Return how many libraries move the bytes of their plans; print those that do not."""
    found = Counter()
    for model, plan in cases:
        with tempfile.TemporaryDirectory() as folder:
            try:
                counted = counted_traffic(model, plan, Path(folder), flags)
            except InvalidPlan as error:
                found["refused"] += 1
                print(f"{model.network.name}: {error}")
                continue
            except AssertionError as error:
                found["failed"] += 1
                print(f"{model.network.name}: {error}")
                continue
        wanted = planned_traffic(plan)
        is_equal = all(counted[name] == moved for name, moved in wanted.items())
        found["equal" if is_equal else "different"] += 1
        found["bytes"] += plan.slow_bytes
        if not is_equal:
            print(f"{model.network.name}: planned {wanted}, counted {counted}")
    return dict(found)


def main(count=200, *flags):
    """Print the comparison of all cases."""
    wanted = (*INSTRUMENTED, *flags)
    print("catalogue:", compared(catalogue_cases(), wanted), flush=True)
    for has_flash, named in ((False, "two memories"), (True, "three memories")):
        cases = planned_cases(int(count), has_flash=has_flash)
        print(f"{named}:", compared(cases, wanted), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
