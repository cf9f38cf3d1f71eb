"""Reports of C synthesis by Vitis HLS: loops with their initiation intervals and depths.

A report is csynth.xml of the whole design, or a file <module>_csynth.xml for each module in one folder;
each may be packed by gzip. The tag of a loop is its flattened nest, label after label: loop10_loop11.

A schedule of Vitis HLS contains the pipeline stage of each read of a lane. The skew is the
difference in stages between the first and the last read of the lanes of one array of streams. A
solution has a file <module>.verbose.sched.rpt for each module, in .autopilot/db. It lists the
states of each pipeline, `Pipeline-0 : II = 1, D = 12, States = { 2 3 4 }`, and the operations of
each state, `ST_3 : Operation 40 [1/1] (1.2ns) ---> "%v = read i32 @_ssdm_op_Read.ap_fifo..., i32
%v7_1" [..]`.
"""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Container, Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from xml.etree import ElementTree

from csdf.errors import InvalidGraph, UnreadableFile
from csdf.io.files import read_text

END = ".verbose.sched.rpt"
PIPELINE = re.compile(r"Pipeline-\d+ : II = \d+, D = \d+, States = \{([\d\s]+)\}")
READING = re.compile(
    r'^ST_(\d+) : Operation .*"[^"]*_ssdm_op_Read\.ap_fifo[^"]*%(\w+?)"', re.MULTILINE
)
WHOLE = "csynth.xml"
ENDS = ("_csynth.xml", "_csynth.xml.gz")  # of the report of one module
MOST_BYTES = 1 << 30  # of an unpacked report: a limit against archives that expand without end
NATURAL = r"\d{1,15}"
PERIOD = re.compile(r"\s*\d{1,9}(\.\d{1,9})?\s*")  # of a clock, in nanoseconds
INDICES = re.compile(r"(?=(?:_\d+)*$)")  # each position from which a name consists of indices


def read_skews(folder: Path, identifiers: Container[str]) -> dict[str, int]:
    """Return the skew of each module in pipeline stages: the maximum over its arrays of streams.

    identifiers: in the sources of the design. Raises UnreadableFile for a folder without such files.
    """
    files = sorted(folder.glob(f"*{END}")) if folder.is_dir() else []
    if not files:
        raise UnreadableFile(
            f"{folder}: no file <module>{END} in it; Vitis HLS writes them to "
            "solution1/.autopilot/db"
        )
    skews = {}
    for file in files:
        text = read_text(file)
        stages: dict[str, int] = {}
        for number, pipeline in enumerate(PIPELINE.finditer(text)):
            for index, state in enumerate(pipeline[1].split()):
                # Pipeline n has the stages from n * 10^6 on, so the pipelines share no stage.
                stages.setdefault(state, index + number * 10**6)
        lanes: dict[tuple[str, int], list[int]] = {}
        for reading in READING.finditer(text):
            if (index := stages.get(reading[1], -1)) < 0:
                continue
            array = _array(reading[2], identifiers)
            lanes.setdefault((array, index // 10**6), []).append(index)
        if stages:
            module = file.name.removesuffix(END)
            skews[module] = max(
                (max(lane_times) - min(lane_times) for lane_times in lanes.values()), default=0
            )
    return skews


def _array(lane: str, identifiers: Container[str]) -> str:
    """Return the array of a lane: `layer_2` for `layer_2_0_1` if the source declares `layer_2[4][2]`.

    It is the shortest identifier of the source that has only indices after it. Without one it is the
    shortest prefix, so that a skew is rather too large: depths for a larger skew suffice, too.
    """
    prefixes = [lane[: indices.start()] for indices in INDICES.finditer(lane)]
    return next((prefix for prefix in prefixes if prefix in identifiers), prefixes[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedLoop:
    """A loop of a module: initiation interval, depth in stages, iterations where they are fixed.

    A loop that is not pipelined has the latency of an iteration as interval and depth.
    """

    module: str
    tag: str
    interval: int
    depth: int
    trips: int | None
    is_pipelined: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class SynthesisReport:
    """Loops and latencies by module, and the clock."""

    file: Path
    top: str
    loops: dict[str, tuple[ReportedLoop, ...]]
    latencies: dict[str, int]
    clock_ns: Fraction | None


def read_report(path: Path) -> SynthesisReport:
    """Return the report in a file, or in a folder: the whole one, or those of all modules.

    A folder may be the folder of the solution: its reports are in syn/report. Raises UnreadableFile.
    """
    files = _files(path)
    loops: dict[str, tuple[ReportedLoop, ...]] = {}
    latencies: dict[str, int] = {}
    top, clock = "", None
    for file in files:
        root = _parsed(file)
        name = root.findtext("UserAssignments/TopModelName") or ""
        modules = root.findall("ModuleInformation/Module")
        if modules or len(files) == 1:
            top = name
        period = root.findtext("UserAssignments/TargetClockPeriod")
        if period:
            if not PERIOD.fullmatch(period):
                raise UnreadableFile(
                    f"{file}: the TargetClockPeriod {period!r} is not a number of nanoseconds"
                )
            clock = Fraction(period)
        for module in modules or [root]:
            module_name = module.findtext("Name") or name
            loop_latency = module.find("PerformanceEstimates/SummaryOfLoopLatency")
            loops[module_name] = (
                () if loop_latency is None else tuple(_loops(module_name, loop_latency, file))
            )
            latency = module.findtext(
                "PerformanceEstimates/SummaryOfOverallLatency/Worst-caseLatency"
            )
            if latency and re.fullmatch(NATURAL, latency):
                latencies[module_name] = int(latency)
    if not any(loops.values()):
        raise UnreadableFile(
            f"{path}: no loop with a latency in it; give csynth.xml of a Vitis HLS synthesis, or the "
            "folder with <module>_csynth.xml of all modules"
        )
    return SynthesisReport(file=path, top=top, loops=loops, latencies=latencies, clock_ns=clock)


def _files(path: Path) -> list[Path]:
    if not path.exists():
        raise UnreadableFile(f"{path}: there is no such file or folder; --report names csynth.xml")
    if path.is_file():
        return [path]
    for folder in (path, path / "syn" / "report", path / "report"):
        for name in (WHOLE, f"{WHOLE}.gz"):
            if (folder / name).is_file():
                return [folder / name]
        reports = sorted(path for path in folder.glob("*") if path.name.endswith(ENDS))
        if reports:
            return reports
    raise UnreadableFile(
        f"{path}: neither {WHOLE} nor <module>_csynth.xml in this folder (packed by gzip or not); "
        "they are in syn/report of the solution"
    )


def _parsed(file: Path) -> ElementTree.Element:
    try:
        raw = file.read_bytes()
        if raw[:2] == b"\x1f\x8b":
            unpacker = zlib.decompressobj(wbits=31)
            raw = unpacker.decompress(raw, MOST_BYTES)
            if unpacker.unconsumed_tail:
                raise UnreadableFile(f"{file}: more than {MOST_BYTES} bytes when unpacked")
        if b"<!ENTITY" in raw:
            raise UnreadableFile(f"{file}: it defines entities, which no report of Vitis HLS does")
        root = ElementTree.fromstring(raw)
    except (OSError, zlib.error, gzip.BadGzipFile, ElementTree.ParseError) as error:
        raise UnreadableFile(f"{file}: not a synthesis report: {error}") from error
    if root.tag != "profile":
        raise UnreadableFile(
            f"{file}: its root is <{root.tag}>; the root of a synthesis report is <profile>"
        )
    return root


def _loops(module: str, parent: ElementTree.Element, file: Path) -> Iterator[ReportedLoop]:
    """All loops below an element; outer loops are not pipelined, and are left out."""
    for loop in parent:
        inner = list(_loops(module, loop, file))
        yield from inner
        if inner or (loop.find("TripCount") is None and loop.find("PipelineII") is None):
            continue
        name = loop.findtext("Name") or loop.tag
        interval = _number(loop, ("PipelineII", "IterationLatency"))
        depth = _number(loop, ("PipelineDepth", "IterationLatency"))
        if interval is None or depth is None:
            continue
        if interval < 1 or depth < 1:
            raise InvalidGraph(
                f"{file}: loop {name!r} of {module!r} has interval {interval} and depth {depth}; "
                "both are 1 at least"
            )
        is_varying = loop.find("TripCount/range") is not None
        trips = None if is_varying else _number(loop, ("TripCount",))
        yield ReportedLoop(
            module=module, tag=name, interval=interval, depth=depth, trips=trips,
            is_pipelined=loop.find("PipelineII") is not None,
        )  # fmt: skip


def _number(loop: ElementTree.Element, names: tuple[str, ...]) -> int | None:
    """The first of these numbers that is known, or the maximum of its range; None if none is."""
    for name in names:
        element = loop.find(name)
        if element is None:
            continue
        text = (element.findtext("range/max") or element.text or "").strip()
        if re.fullmatch(NATURAL, text):
            return int(text)
    return None
