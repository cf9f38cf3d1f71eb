"""Instructions of networks as C libraries on emulated microcontrollers, beside CMSIS-NN.

Run `python tests/benchmarks/bench_firmware_kernels.py [--whole] FILE [FILE ...]`: quantised files.
For each the plan of whole layers, each computed once, and that of the least memory: thousand
instructions of a frame on a Cortex-M4 and on a Cortex-M55, counted by QEMU after the outputs were
compared, and code and tables on the Cortex-M4 in bytes. Then the geometric means beside CMSIS_NN.
Needs Debian's make, gcc-arm-none-eabi, libnewlib-arm-none-eabi, qemu-system-arm.
"""

import argparse
import re
from math import prod
from pathlib import Path
from tempfile import TemporaryDirectory

from cnn2csdf.readers.model_files import read_model
from cnn2csdf.simplify import simplified
from planners.code.library import write_library
from planners.memory.fit import fit
from tests.benchmarks.bench_firmware import made, sizes_of

TARGETS = ("m4", "m55")
CMSIS_NN = {  # thousand instructions of the same layers as its calls, -O2; on the M4, on the M55
    "kws_int8": (7_696, 1_812),
    "ic_resnet8_int8": (29_860, 4_909),
    "person_detect_int8": (22_921, 6_499),
    "ad01_int8": (580, 283),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--whole", action="store_true", help="only whole layers")
    parser.add_argument("files", nargs="+")
    options = parser.parse_args()
    ratios = {target: [] for target in TARGETS}
    print("| network | plan | M4 | beside CMSIS-NN | M55 | beside CMSIS-NN | code and tables |")
    print("|---|---|---|---|---|---|---|")
    for file in options.files:
        name, model = Path(file).stem, simplified(read_model(file, with_weights=True))
        found = fit(model.network)
        whole = next(way.plan for way in found.methods if way.name == "layer by layer")
        plans = {"whole layers": whole} | ({} if options.whole else {"least": found.least.plan})
        for kind, plan in plans.items():
            cells, code = counted(model, plan)
            for place, target in enumerate(TARGETS):
                ratio = "-"
                if name in CMSIS_NN:
                    ratio = f"{cells[place] / CMSIS_NN[name][place]:.2f}"
                    if kind == "whole layers":
                        ratios[target].append(cells[place] / CMSIS_NN[name][place])
                cells[place] = f"{cells[place]:,} | {ratio}"
            print(f"| {name} | {kind} | {' | '.join(cells)} | {code:,} |", flush=True)
    for target, each in ratios.items():
        if each:
            print(f"\n{target}: {prod(each) ** (1 / len(each)):.2f} times CMSIS-NN")


def counted(model, plan):
    """Thousand instructions of a frame on each target, and bytes of code and tables."""
    with TemporaryDirectory() as folder:
        write_library(model, plan, folder, name="net")
        counts = []
        for target in TARGETS:
            said = made(folder, "instructions", f"TARGET={target}")
            counts.append(int(re.search(r"instructions of a frame: (\d+)", said)[1]))
        return counts, sizes_of(folder)[0][0]


if __name__ == "__main__":
    main()
