"""FINN's RTL in Verilator, where both are installed: a top of many instances, and who shook hands when.

    FINN_ROOT   the folder of FINN's sources, with finn-rtllib in it

Verilator is looked for on the path. Nothing of FINN is part of this repository: its files are read
where they lie, and changed only in the folder of a test.
"""

import os
import random
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.planners.fifo.recurrences import fetched_words

ROOT = Path(os.environ.get("FINN_ROOT", "nowhere"), "finn-rtllib")
VERILATOR = shutil.which("verilator")
needs_finn_rtl = pytest.mark.skipif(
    VERILATOR is None or not ROOT.is_dir(),
    reason="needs verilator on the path, and FINN's sources at FINN_ROOT",
)
SOURCES = (
    "fifo/hdl/Q_srl.v", "dwc/hdl/dwc.sv", "fmpadding/hdl/fmpadding.sv",
    "thresholding/hdl/thresholding.sv", "swg/swg_pkg.sv", "swg/swg_common.sv",
)  # fmt: skip
SECONDS = 400  # to compile
HARNESS = """\
#include "Vtop.h"
#include "verilated.h"
#include <cstdio>
int main(int, char** names) {
    Vtop top;
    std::FILE* cycles = std::fopen(names[1], "r");
    unsigned long long valid, ready;
    top.rst = 1;
    top.ivld = 0;
    top.ordy = 0;
    for (int i = 0; i < 20; ++i) { top.clk = i & 1; top.eval(); }
    top.clk = 0;
    top.rst = 0;
    while (std::fscanf(cycles, "%llu %llu", &valid, &ready) == 2) {
        top.ivld = valid;
        top.ordy = ready;
        top.eval();
        std::printf("%llu %llu\\n", (unsigned long long)(valid & top.irdy),
                    (unsigned long long)(ready & top.ovld));
        top.clk = 1;
        top.eval();
        top.clk = 0;
        top.eval();
    }
}
"""
PORTS = ".irdy(irdy[{0}]), .ivld(ivld[{0}]), .idat('0), .ordy(ordy[{0}]), .ovld(ovld[{0}]), .odat()"
AXI = (
    ".s_axis_tready(irdy[{0}]), .s_axis_tvalid(ivld[{0}]), .s_axis_tdata('0), "
    ".m_axis_tready(ordy[{0}]), .m_axis_tvalid(ovld[{0}]), .m_axis_tdata()"
)


@dataclass
class Top:
    """Instances side by side, with the files that they need."""

    instances: list[str] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)
    wires: list[str] = field(default_factory=list)  # of chains

    def chain(self, depth):
        """The chain of `documented_chain`: padding, a FIFO, 1 of 2, a FIFO, a sliding window."""
        number = len(self.instances)
        parts = Top()
        parts.padding((5, 5), (1, 1, 1, 1), 2)
        parts.fifo(depth)
        parts.converter(8, 16)
        parts.fifo(depth)
        parts.window((7, 7), (3, 3), (1, 1), 1, name=f"chained{number}")
        self.files |= parts.files
        last = len(parts.instances)
        for place, text in enumerate(parts.instances):
            wires = {
                f"irdy[{place}]": f"r{number}[{place}]", f"ivld[{place}]": f"v{number}[{place}]",
                f"ordy[{place}]": f"r{number}[{place + 1}]",
                f"ovld[{place}]": f"v{number}[{place + 1}]", f" u{place} (": f" c{number}_{place} (",
            }  # fmt: skip
            for name, wire in wires.items():
                text = text.replace(name, wire)
            self.wires.append(text)
        self.wires.append(
            f"assign v{number}[0] = ivld[{number}]; assign irdy[{number}] = r{number}[0];\n"
            f"assign ovld[{number}] = v{number}[{last}]; assign r{number}[{last}] = ordy[{number}];"
        )
        self.instances.append(f"wire [{last}:0] v{number}, r{number};")

    def _add(self, module, parameters, ports):
        number = len(self.instances)
        named = ", ".join(f".{name}({value})" for name, value in parameters.items())
        self.instances.append(f"{module} #({named}) u{number} ({ports.format(number)});")

    def fifo(self, depth):
        """Q_srl, the FIFO in LUTs."""
        ports = (
            ".clock(clk), .reset(rst), .i_d('0), .i_v(ivld[{0}]), .i_r(irdy[{0}]), .o_d(), "
            ".o_v(ovld[{0}]), .o_r(ordy[{0}]), .count(), .maxcount()"
        )
        self._add("Q_srl", {"depth": depth, "width": 8}, ports)

    def converter(self, bits_in, bits_out):
        """The width converter."""
        parameters = {"IBITS": bits_in, "OBITS": bits_out}
        self._add("dwc", parameters, ".clk(clk), .rst(rst), " + PORTS)

    def thresholding(self, bits, folds, deep):
        """Thresholds of 2**bits - 1 steps."""
        parameters = {
            "N": bits, "K": 8, "C": folds, "PE": 1, "SIGNED": 0, "USE_CONFIG": 0,
            "DEEP_PIPELINE": deep,
        }  # fmt: skip
        idle = ".cfg_en(1'b0), .cfg_we(1'b0), .cfg_a('0), .cfg_d('0), .cfg_rack(), .cfg_q(), "
        self._add("thresholding", parameters, ".clk(clk), .rst(rst), " + idle + PORTS)

    def padding(self, image, edges, folds):
        """FMPadding, in the sizes that it begins with."""
        (height, width), (top, left, bottom, right) = image, edges
        parameters = {
            "XCOUNTER_BITS": 8, "YCOUNTER_BITS": 8, "NUM_CHANNELS": folds, "SIMD": 1,
            "ELEM_BITS": 8, "INIT_XON": left, "INIT_XOFF": left + width,
            "INIT_XEND": left + width + right - 1, "INIT_YON": top, "INIT_YOFF": top + height,
            "INIT_YEND": top + height + bottom - 1,
        }  # fmt: skip
        idle = ".ap_clk(clk), .ap_rst_n(!rst), .we(1'b0), .wa('0), .wd('0), "
        self._add("fmpadding", parameters, idle + AXI)

    def window(self, image, kernel, stride, folds, name=None):
        """A sliding window in the default style: the steps of its addresses from the words fetched."""
        cur, _, room, read, made = fetched_words(
            image, kernel, stride, (1, 1), folds, depthwise=False
        )
        row, size = kernel[1] * folds, kernel[0] * kernel[1] * folds
        ends = {"SIMD": 1, "KW": folds, "KH": row, "W": size, "H": size * made[1]}
        steps = {
            name: cur[end] - cur[end - 1] if end < len(cur) else 0 for name, end in ends.items()
        }
        span = cur[size - 1] - cur[0] + 1
        loops = {"H": made[0], "W": made[1], "KH": kernel[0], "KW": kernel[1], "SIMD": folds}
        innermost = "SIMD" if folds > 1 else "KW" if kernel[1] > 1 else "KH"
        loops[innermost] -= 1  # the state it begins in
        values = {
            "TOP_MODULE_NAME": name or f"window{len(self.instances)}", "RAM_STYLE": '"auto"',
            "LAST_READ_ELEM": read - 1, "LAST_WRITE_ELEM": max(cur), "BUF_ELEM_TOTAL": room,
            "ELEM_PER_WINDOW": size, "IS_DEPTHWISE": 0,
            "INCR_BITWIDTH": 2 + (room + read).bit_length(),
            "INNERMOST_STATE": f"STATE_LOOP_{innermost}", "TAIL_INCR_LAST": span - 1,
            "TAIL_INCR_W": steps["W"] + span - 1, "TAIL_INCR_H": steps["H"] + span - 1,
            **{f"LOOP_{name}_ITERATIONS": count - 2 for name, count in loops.items()},
            **{f"HEAD_INCR_{name}": step for name, step in steps.items()},
        }  # fmt: skip
        text = (ROOT / "swg/swg_template_default.sv").read_text()
        for key, value in values.items():
            text = text.replace(f"${key}$", str(value))
        module = f"{values['TOP_MODULE_NAME']}_impl"
        self.files[f"{module}.sv"] = text
        ports = (
            ".ap_clk(clk), .ap_rst_n(!rst), .in0_V_V_TVALID(ivld[{0}]), "
            ".in0_V_V_TREADY(irdy[{0}]), .in0_V_V_TDATA('0), .out_V_V_TVALID(ovld[{0}]), "
            ".out_V_V_TREADY(ordy[{0}]), .out_V_V_TDATA()"
        )
        self._add(module, {"BIT_WIDTH": 8, "SIMD": 1, "MMV_IN": 1, "MMV_OUT": 1}, ports)

    def built(self, folder):
        """Compile the instances; return the program."""
        last = len(self.instances) - 1
        top = (
            "module top (input clk, input rst, "
            f"input [{last}:0] ivld, output [{last}:0] irdy, "
            f"input [{last}:0] ordy, output [{last}:0] ovld);\n"
            + "\n".join([*self.instances, *self.wires])
        )
        files = {name.split("/")[-1]: (ROOT / name).read_text() for name in SOURCES}
        # Verilator 5.006 makes C++ of this that does not compile.
        key = "fmpadding.sv"
        files[key] = files[key].replace("typedef struct {", "typedef struct packed {")
        files |= self.files | {"top.sv": top + "\nendmodule\n", "main.cpp": HARNESS}
        for name, text in files.items():
            (folder / name).write_text(text)
        verilog = sorted(
            (one for one in files if one != "main.cpp"), key=lambda one: one != "swg_pkg.sv"
        )
        ran = subprocess.run(
            [VERILATOR, "--cc", "--exe", "--build", "-Wno-fatal", "-Wno-lint", "--top-module",
             "top", *verilog, "main.cpp"],
            cwd=folder, capture_output=True, text=True, timeout=SECONDS, check=False,
        )  # fmt: skip
        assert ran.returncode == 0, ran.stderr[-3000:]
        return folder / "obj_dir" / "Vtop"


def refusals(seed, cycles, rates):
    """Cycles in which an input and an output do nothing, so many percent of them."""
    drawn = random.Random(seed)
    taken = {cycle for cycle in range(cycles) if drawn.randrange(100) < rates[0]}
    given = {cycle for cycle in range(cycles) if drawn.randrange(100) < rates[1]}
    return taken, given


def handshakes(program, folder, masks, cycles):
    """For each instance the cycles in which a word went in, and in which one came out."""
    lines = []
    for cycle in range(cycles):
        words = [
            sum(1 << number for number, one in enumerate(masks) if cycle not in one[side])
            for side in range(2)
        ]
        lines.append(f"{words[0]} {words[1]}")
    (folder / "cycles.txt").write_text("\n".join(lines))
    ran = subprocess.run(
        [str(program), str(folder / "cycles.txt")], capture_output=True, text=True, check=True,
        timeout=SECONDS,
    )  # fmt: skip
    found = [([], []) for _ in masks]
    for cycle, line in enumerate(ran.stdout.splitlines()):
        for side, word in enumerate(map(int, line.split())):
            for number in range(len(masks)):
                if word >> number & 1:
                    found[number][side].append(cycle)
    return found
