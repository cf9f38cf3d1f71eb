"""How time grows with the graph: chains of actors with self-loops, as SDF3 files.

    python -m tests.benchmarks.bench_growth [--kiter PROGRAM] [--actors N ...]

For each chain the seconds of the processor that lxml takes to parse the text of the file, and that our
reader takes to make a graph of it, each in fresh processes, the least of three; and those of whole
processes, the least of two: `csdf analyze`, and Kiter where it is found.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from csdf.io.graph_files import write_graph
from tests.adversarial.graphs import chain
from tests.benchmarks.compare import always, ours, shown
from tests.benchmarks.comparing import peers
from tests.benchmarks.comparing.measuring import ROOT, interleaved

LARGEST = 200_000_000  # bytes of a file
ROUNDS = 3
TIMED = """
import sys, time
{}
content = open(sys.argv[1], "rb").read()
begin = time.process_time()
found = {}
print(time.process_time() - begin)
"""
READERS = {  # what each imports, and how it reads
    "lxml": (
        "from lxml import etree",
        "etree.fromstring(content, etree.XMLParser(resolve_entities=False, no_network=True))",
    ),
    "ours": (
        "from csdf.io.sdf3.reader import parse_sdf3",
        f"parse_sdf3(content, most={LARGEST})",
    ),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kiter", metavar="PROGRAM")
    parser.add_argument("--actors", type=int, nargs="*", default=[100, 1000, 10_000, 100_000])
    parser.add_argument("--limit", type=float, default=60, help="seconds for one run; default 60")
    options = parser.parse_args()
    options.sdf3 = options.minimalloc = options.mms_ga = None
    known = peers.found_peers(options)
    print("| actors | file, MB | lxml | reading | reading / lxml | `csdf analyze` | Kiter |")
    print("|---" * 7 + "|")
    with tempfile.TemporaryDirectory() as folder:
        for actors in options.actors:
            path = Path(folder, f"chain{actors}.xml")
            write_graph(path, chain(actors))
            print(row(actors, path, known, options.limit), flush=True)


def row(actors, path, known, limit):
    parsed, read = reading_seconds(path)
    asked = {"here": (ours("analyze", "--file-limit", str(LARGEST), path), always)}
    if known["kiter"].place is not None:
        asked["Kiter"] = peers.of_throughput(known, path)["Kiter"]
    whole = interleaved(asked, limit, 2)
    return (
        f"| {actors:,} | {path.stat().st_size / 10**6:.2f} | {parsed:.4f} | {read:.4f} | "
        f"{read / parsed:.1f} | {shown(whole['here'])} | {shown(whole.get('Kiter'))} |"
    )


def reading_seconds(path):
    """The least seconds of lxml and of ours, each in a process of its own that reads once."""
    seconds = {name: [] for name in READERS}
    for _ in range(ROUNDS):
        for name, code in READERS.items():
            command = [sys.executable, "-c", TIMED.format(*code), path]
            ran = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
            seconds[name].append(float(ran.stdout))
    return min(seconds["lxml"]), min(seconds["ours"])


if __name__ == "__main__":
    main()
