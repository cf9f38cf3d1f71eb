"""Schedules of Vitis HLS: by how many stages the lanes of an array of streams are read apart.

A solution has a file <module>.verbose.sched.rpt for each module, in .autopilot/db. It lists the states
of each pipeline, `Pipeline-0 : II = 1, D = 12, States = { 2 3 4 }`, and the operations of each state,
`ST_3 : Operation 40 [1/1] (1.2ns) ---> "%v = read i32 @_ssdm_op_Read.ap_fifo..., i32 %v7_1" [..]`.
"""

from __future__ import annotations

import re
from pathlib import Path

from csdf.errors import UnreadableFile
from csdf.io.files import read_text

END = ".verbose.sched.rpt"
PIPELINE = re.compile(r"Pipeline-\d+ : II = \d+, D = \d+, States = \{([\d\s]+)\}")
READING = re.compile(
    r'^ST_(\d+) : Operation .*"[^"]*_ssdm_op_Read\.ap_fifo[^"]*%(\w+?)"', re.MULTILINE
)


def read_skews(folder: Path) -> dict[str, int]:
    """Return by module how many stages the reads of the lanes of one array are apart, at most.

    Raises UnreadableFile for a folder without such files.
    """
    files = sorted(folder.glob(f"*{END}")) if folder.is_dir() else []
    if not files:
        raise UnreadableFile(
            f"{folder}: no file <module>{END} in it; Vitis HLS writes them to "
            "solution1/.autopilot/db"
        )
    found = {}
    for file in files:
        text = read_text(file)
        stage: dict[str, int] = {}
        for number, pipeline in enumerate(PIPELINE.finditer(text)):
            for place, state in enumerate(pipeline[1].split()):
                stage.setdefault(state, place + number * 10**6)  # pipelines are kept apart
        lanes: dict[tuple[str, int], list[int]] = {}
        for reading in READING.finditer(text):
            if (place := stage.get(reading[1], -1)) < 0:
                continue
            array = re.sub(r"(_\d+)+$", "", reading[2])
            lanes.setdefault((array, place // 10**6), []).append(place)
        if stage:
            module = file.name.removesuffix(END)
            found[module] = max((max(one) - min(one) for one in lanes.values()), default=0)
    return found
