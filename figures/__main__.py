"""Make the pages of figures/ again: `python -m figures [NAME ..] [--table TABLE] [--measure]`.

Without names all scripts run, each in a process of its own, and each is named with what became of it.
Pages of measurements are made from the tables beside them; --measure takes these again first, on this
machine. --table is the file of applications that is public with the networks of TODAES 2022; without
it the two scripts that need it are left out, which is said.
"""

import argparse
import subprocess
import sys
from collections.abc import Sequence

MEASURING = ("mafat_measure", "taso_profiles", "taso_table1", "taso_measured")
NEED_TABLE = ("todaes2022_algorithm_9", "todaes2022_table_6_6")
SCRIPTS = (
    "board_times",
    "fit_networks",
    "liao_pair",
    "liao_published",
    "liao_resnet34",
    "mafat_sweep",
    "mafat_table2_1",
    "mafat_table4_1",
    "msf_cnn",
    "tiles_beside_strips",
    "samos2020_algorithm_1",
    "samos2020_fig1_table2",
    "samos2020_table3",
    "taso_fronts",
    "taso_pictures",
    "taso_published",
    "todaes2022_fig_6_3",
    "todaes2022_tables_6_1_to_6_3",
    *NEED_TABLE,
    "papers",  # of all others
)


def left_out(name: str, table: str | None) -> str:
    """Return why a script does not run; empty if it does."""
    if name in NEED_TABLE and table is None:
        return "left out: give --table"
    return ""


def made(name: str, table: str | None) -> str:
    """Run a script; return what became of it."""
    why = left_out(name, table)
    if why:
        return why
    words = [table] if table is not None and name in NEED_TABLE else []
    found = subprocess.run(
        [sys.executable, "-m", f"figures.{name}", *words], capture_output=True, text=True
    )
    if found.returncode == 0:
        return "made"
    lines = found.stderr.strip().splitlines() or [f"exit code {found.returncode}"]
    return f"FAILED: {lines[-1]}"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the scripts; return 1 if one failed."""
    parser = argparse.ArgumentParser(prog="python -m figures", description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*SCRIPTS, *MEASURING, []], metavar="NAME")
    parser.add_argument("--table", metavar="FILE", help="of published applications")
    parser.add_argument(
        "--measure", action="store_true", help="measure again before, on this machine"
    )
    options = parser.parse_args(argv)
    names = options.names or [*(MEASURING if options.measure else ()), *SCRIPTS]
    has_failed = False
    for name in names:
        what = made(name, options.table)
        has_failed |= what.startswith("FAILED")
        sys.stdout.write(f"{name:<32} {what}\n")
        sys.stdout.flush()
    return int(has_failed)


if __name__ == "__main__":
    sys.exit(main())
