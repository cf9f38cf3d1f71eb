"""Depths written back: STREAM pragmas in the C++ source, or directives in Tcl.

A STREAM pragma of the variable gets the depth. Without a pragma, a line follows the declaration. For a
depth of 8 of `hls::stream<int> lane;` it is:

    #pragma HLS STREAM variable=lane depth=8
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from csdf.errors import InvalidGraph
from planners.fifo.hls.trace import TracedFifo

PRAGMA = re.compile(r"^\s*#\s*pragma\s+HLS\s+(\w+)", re.IGNORECASE)


def with_pragmas(
    text: str, file: str, depths: Iterable[tuple[TracedFifo, int]], storage: str = ""
) -> str:
    """Return a source with a STREAM pragma of the depth for each array of streams.

    depths: of one FIFO of each array. storage: of BIND_STORAGE, if it is to be fixed.
    """
    lines = text.splitlines(keepends=True)
    newline = "\r\n" if "\r\n" in text else "\n"
    is_ended = not lines or lines[-1].endswith("\n")
    if not is_ended:
        lines[-1] += newline
    # The last declaration first, so that the numbers of earlier lines stay.
    for fifo, depth in sorted(depths, key=lambda depth: -depth[0].line):
        name, end = fifo.group, fifo.line - 1
        if not 0 <= end < len(lines) or not re.search(rf"\b{re.escape(name)}\b", lines[end]):
            raise InvalidGraph(
                f"{file}:{fifo.line}: no declaration of {name!r} in this line, so its depth cannot "
                "be written; was the file changed since it was read?"
            )
        indent = lines[end][: len(lines[end]) - len(lines[end].lstrip())]
        while ";" not in lines[end] and end + 1 < len(lines):
            end += 1
        line = _pragma(lines, end, name, "STREAM")
        if line is None:
            line = end + 1
            pragma = f"#pragma HLS STREAM variable={name} depth={depth}"
            lines.insert(line, f"{indent}{pragma}{newline}")
        else:
            lines[line] = _with_depth(lines[line], name, depth)
        if storage:
            pragma = f"#pragma HLS BIND_STORAGE variable={name} type=fifo impl={storage}"
            bound = _pragma(lines, end, name, "BIND_STORAGE")
            begin = stop = line + 1
            if bound is not None:
                begin, stop = bound, bound + 1
                while stop < len(lines) and lines[stop - 1].rstrip("\r\n").endswith("\\"):
                    stop += 1  # the pragma continues
            lines[begin:stop] = [f"{indent}{pragma}{newline}"]
    written = "".join(lines)
    return written if is_ended else written.removesuffix(newline)


def _with_depth(pragma: str, name: str, depth: int) -> str:
    """Return a STREAM pragma with another depth, or with a depth after its variable."""
    stated = r"\b(depth\s*=\s*)[^\s/]+"
    if re.search(stated, pragma, re.IGNORECASE):
        return re.sub(stated, rf"\g<1>{depth}", pragma, count=1, flags=re.IGNORECASE)
    variable = rf"\bvariable\s*=\s*{re.escape(name)}\b"
    return re.sub(variable, rf"\g<0> depth={depth}", pragma, count=1, flags=re.IGNORECASE)


def _pragma(lines: list[str], start: int, name: str, kind: str) -> int | None:
    """Return the index of the pragma of a variable, from a line on to the end of its block."""
    level = 0
    for number in range(start, len(lines)):
        line = lines[number]
        if number > start:
            level += line.count("{") - line.count("}")
            if level < 0:
                return None
        variable = re.search(r"\bvariable\s*=\s*(\w+)", line, re.IGNORECASE)
        match = PRAGMA.match(line)
        if match and match[1].upper() == kind and variable and variable[1] == name:
            return number
    return None


def tcl_directives(top: str, depths: Mapping[str, int], storage: str = "") -> str:
    """Return the directives of a Tcl script of Vitis HLS."""
    lines = []
    for name, depth in depths.items():
        lines.append(f'set_directive_stream -depth {depth} -type fifo "{top}" {name}')
        if storage:
            lines.append(f'set_directive_bind_storage -type fifo -impl {storage} "{top}" {name}')
    return "\n".join(lines) + "\n"
