"""Whole processes of ours beside those of other tools; writes the table of docs/benchmarks.md.

    python -m tests.benchmarks.compare [--kiter PROGRAM] [--sdf3 FOLDER] [--minimalloc PROGRAM]
        [--mms-ga FOLDER] [--shared FOLDER] [--write] [--history]

Kiter, SDF3, MiniMalloc and mms_ga are looked for in these options, in KITER_BIN, SDF3_BIN,
MINIMALLOC_BIN and MMS_GA, and on the path; what is not there is left out. All programs of a row run
one after the other, several times; a figure is the least processor time of a whole process, with its
start. Graphs lie in the folder --shared, or in models/graphs of the checkout; rows whose graph is in
neither are left out, and counted. --write puts the table into docs/benchmarks.md, --history adds the
figures of this commit to tests/benchmarks/history.jsonl as ratios to a fixed loop in plain Python, so
that machines compare.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from math import exp, log
from pathlib import Path

from tests.benchmarks.comparing import peers
from tests.benchmarks.comparing.measuring import (
    ROOT,
    bare_start,
    interleaved,
    loop_seconds,
)

PAGE = ROOT / "docs" / "benchmarks.md"
HISTORY = ROOT / "tests" / "benchmarks" / "history.jsonl"
BEGIN, END = "<!-- compare: begin -->", "<!-- compare: end -->"
SHARED = ROOT.parent / "shared"
MODELS = ROOT / "models" / "graphs"
LONG = 0.05  # seconds of the faster peer, for the mean
COLUMNS = ("here", "Kiter", "SDF3", "MiniMalloc", "mms_ga")
PERIODS = (
    "csdf-ib5/BlackScholes_sized", "csdf-ib5/Echo_sized", "csdf-ib5/JPEG2000_sized",
    "csdf-agb5/autogen1", "cnn/densenet121_fused_rows_bounded_c1_macs",
    "cnn/resnet18v1_fused_rows_bounded_c1_macs", "sdf3/modem",
)  # fmt: skip
FRONTS = (
    "csdf-ib5/BlackScholes", "sdf3/h263decoder", "sdf3/mp3decoder_granule_parallelism",
    "small/simpler_benchmark", "cnn/vgg19_fused_rows_c1", "sdf3/samplerate",
)  # fmt: skip


def main():
    options = parsed_options()
    known = peers.found_peers(options)
    for peer in known.values():
        print(f"{peer.name}: {'not found' if peer.place is None else 'found'}", file=sys.stderr)
    commit = commit_name() if options.history else None
    figures = {}
    with tempfile.TemporaryDirectory() as folder:
        found = rows(options, known, Path(folder))
        if left_out := len(missing(options.shared)):
            print(f"{left_out} graphs not found: --shared FOLDER says where", file=sys.stderr)
        for name, commands in found.items():
            if options.only in name:
                figures[name] = interleaved(commands, options.limit, options.rounds)
                print(line(name, figures[name]), file=sys.stderr, flush=True)
    if commit is not None:
        add_to_history(HISTORY, commit, figures)
    if options.write:
        replace_table(PAGE, table(figures))
    else:
        print(table(figures))


def parsed_options(words=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kiter", metavar="PROGRAM")
    parser.add_argument("--sdf3", metavar="FOLDER", help="of sdf3analysis-sdf and -csdf")
    parser.add_argument("--minimalloc", metavar="PROGRAM")
    parser.add_argument("--mms-ga", metavar="FOLDER", help="of run_mms_ga.py")
    parser.add_argument("--shared", type=Path, default=SHARED, help="folder of graphs and alloc")
    parser.add_argument("--only", default="", help="rows with this in their name")
    parser.add_argument("--limit", type=float, default=60, help="seconds for one run; default 60")
    parser.add_argument("--rounds", type=int, default=3, help="default 3")
    parser.add_argument("--write", action="store_true", help="put the table into the page")
    parser.add_argument("--history", action="store_true", help="keep the figures of this commit")
    options = parser.parse_args(words)
    if options.write and options.only:
        parser.error("--write puts all rows into the page; leave out --only")
    return options


def rows(options, known, folder):
    """The commands of each row, by its name: ours, and those of the peers that are there."""
    found = {"python -c pass": {"here": (bare_start(), always)}}
    found["csdf --version"] = {"here": (ours("--version"), always)}
    example = MODELS / "csdf_example.xml"
    found["analyze models/graphs/csdf_example.xml"] = {"here": (ours("analyze", example), always)}
    for name in PERIODS:
        add(found, "analyze", name, options.shared, lambda path: peers.of_throughput(known, path))
    for name in FRONTS:
        add(found, "pareto", name, options.shared, lambda path: peers.of_front(known, path))
    for path in sorted((options.shared / "alloc" / "minimalloc").glob("*.csv")):
        words = ("plan", "arena", path, "--capacity", str(peers.CAPACITY))
        found[f"plan arena {path.stem}"] = {
            "here": (ours(*words), always),
            **there(peers.of_offsets(known, path)),
        }
    if known["mms_ga"].place is not None:
        generations, population = peers.EVALUATIONS
        network = known["mms_ga"].place / "data" / "json_dnn" / "mobilenetv2.json"
        words = ("--repair", "--method", "nsga2", "--generations", str(generations))
        asked = ours("plan", "reuse", network, *words, "--population", str(population))
        found[f"plan reuse mobilenetv2, {generations} generations of {population}"] = {
            "here": (asked, always),
            **there(peers.of_reuse(known, folder)),
        }
    return found


def add(found, command, name, shared, asked):
    path = place(shared, name)
    if path is not None:
        title = f"{command} {Path(name).name}"
        found[title] = {"here": (ours(command, path), complete), **there(asked(path))}


def place(shared, name):
    """The file of a graph, among those of the peers or those of the checkout; None for neither."""
    places = (shared / "graphs" / f"{name}.xml", MODELS / f"{Path(name).name}.xml")
    return next((path.resolve() for path in places if path.exists()), None)


def missing(shared):
    """The graphs of rows that are nowhere."""
    return [name for name in (*PERIODS, *FRONTS) if place(shared, name) is None]


def there(asked):
    """The questions to programs that are there."""
    return {
        name: one for name, one in asked.items() if one[0] is not None and one[0][0] is not None
    }


def ours(*words):
    return [sys.executable, "-m", "csdf", *words]


def always(text):
    return True


def complete(text):
    return "INCOMPLETE" not in text


def line(name, figures):
    cells = " ".join(f"{peer} {shown(figures[peer])}" for peer in figures)
    return f"{name:48} {cells}"


def shown(seconds):
    return "-" if seconds is None else f"{seconds:.2f}"


def ratio(figures):
    """Ours divided by the faster peer; None where one of them has no figure."""
    theirs = [value for name, value in figures.items() if name != "here" and value is not None]
    mine = figures["here"]
    return None if mine is None or not theirs else mine / max(min(theirs), 0.001)


def table(figures):
    """The figures as a table of a page, and the mean of the ratios that count."""
    columns = [name for name in COLUMNS if any(name in row for row in figures.values())]
    lines = [
        f"| command | {' | '.join(columns)} | here / faster peer |",
        "|---" * (len(columns) + 2) + "|",
    ]
    for name, row in figures.items():
        cells = [shown(row[column]) if column in row else "" for column in columns]
        cells.append("" if ratio(row) is None else f"{ratio(row):.2f}")
        lines.append(f"| `{name}` | {' | '.join(cells)} |")
    counted = [ratio(row) for row in figures.values() if counts(row)]
    if counted:
        mean = exp(sum(map(log, counted)) / len(counted))
        lines += [
            "",
            f"Geometric mean of the {len(counted)} ratios to a peer of over {LONG} s: {mean:.2f}.",
        ]
    return "\n".join(lines)


def counts(row):
    theirs = [value for name, value in row.items() if name != "here" and value is not None]
    return bool(theirs) and min(theirs) > LONG and row["here"] is not None


def replace_table(page, text):
    """Put the table between the two marks of the page."""
    before, _, rest = page.read_text().partition(BEGIN)
    _, mark, after = rest.partition(END)
    if not mark:
        raise SystemExit(f"{page.name}: expected a line {BEGIN} and a line {END}")
    page.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}")


def commit_name():
    """The commit of the checkout, asked before anything is measured."""
    command = ["git", "-C", ROOT, "describe", "--always", "--dirty"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        raise SystemExit(
            "--history needs git, and a checkout: a figure belongs to a commit"
        ) from None


def add_to_history(path, commit, figures):
    """Append a line: the commit, and our processor time in units of the fixed loop."""
    loop = min(loop_seconds() for _ in range(5))
    ratios = {
        name: round(row["here"] / loop, 3)
        for name, row in figures.items()
        if row["here"] is not None
    }
    with path.open("a") as file:
        file.write(json.dumps({"commit": commit, "ratios": ratios}) + "\n")


if __name__ == "__main__":
    main()
