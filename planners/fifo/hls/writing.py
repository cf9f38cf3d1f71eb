"""Depths written back: pragmas in the C++ source, Tcl directives."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from csdf.errors import InvalidGraph
from planners.fifo.hls.trace import TracedFifo

PRAGMA = re.compile(r"^\s*#\s*pragma\s+HLS\s+STREAM\b", re.IGNORECASE)


def with_pragmas(
    text: str, file: str, depths: Iterable[tuple[TracedFifo, int]], storage: str = ""
) -> str:
    """Return a source with a STREAM pragma of the depth for each array of streams.

    depths: of one FIFO of each array. An existing pragma is changed; else one is put
    behind the declaration. storage: of BIND_STORAGE, if it is to be fixed.
    """
    lines = text.splitlines(keepends=True)
    for fifo, depth in sorted(depths, key=lambda depth: -depth[0].line):
        name = fifo.group
        start = fifo.line - 1
        if not 0 <= start < len(lines) or not re.search(rf"\b{re.escape(name)}\b", lines[start]):
            raise InvalidGraph(
                f"{file}:{fifo.line}: no declaration of {name!r} in this line, so its depth cannot "
                "be written; was the file changed since it was read?"
            )
        while ";" not in lines[start] and start + 1 < len(lines):
            start += 1
        line = _pragma(lines, start, name)
        indent = re.match(r"\s*", lines[fifo.line - 1])
        space = indent[0] if indent else ""
        if line is None:
            end = "\r\n" if lines[start].endswith("\r\n") else "\n"
            if not lines[start].endswith("\n"):
                lines[start] += end
            lines.insert(start + 1, f"{space}#pragma HLS STREAM variable={name} depth={depth}{end}")
            line = start + 1
        elif re.search(r"\bdepth\s*=", lines[line], re.IGNORECASE):
            lines[line] = re.sub(
                r"\bdepth(\s*)=(\s*)[^\s/]+", rf"depth\1=\g<2>{depth}", lines[line], count=1,
                flags=re.IGNORECASE,
            )  # fmt: skip
        else:
            lines[line] = re.sub(
                rf"(\bvariable\s*=\s*{re.escape(name)}\b)", rf"\1 depth={depth}", lines[line], count=1,
                flags=re.IGNORECASE,
            )  # fmt: skip
        if storage:
            lines.insert(
                line + 1,
                f"{space}#pragma HLS BIND_STORAGE variable={name} type=fifo impl={storage}\n",
            )
    return "".join(lines)


def _pragma(lines: list[str], start: int, name: str) -> int | None:
    """The line of the STREAM pragma of a variable, in its function, after its declaration."""
    level = 0
    for number in range(start, len(lines)):
        line = lines[number]
        if number > start:
            level += line.count("{") - line.count("}")
            if level < 0:
                return None
        variable = re.search(r"\bvariable\s*=\s*(\w+)", line, re.IGNORECASE)
        if PRAGMA.match(line) and variable and variable[1] == name:
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
