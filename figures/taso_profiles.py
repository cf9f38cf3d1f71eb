"""Measure what every primitive takes in every layer of TASO's networks, on this machine.

Run `python -m figures.taso_profiles [FOLDER [NAME ...]]` on a quiet machine (some minutes a network):
writes a table for each network, by default into taso_profiles/ beside this script, from which
taso_fronts.py makes pages and pictures.
"""

import sys
from pathlib import Path

from figures.published.taso import NETWORKS, network_of
from planners.primitives.profile import write_profile
from planners.primitives.profiling import Effort, profile_network

PROFILES = Path(__file__).with_name("taso_profiles")


def measure(name: str, folder: Path) -> None:
    """Write the table of one network."""
    profile = profile_network(network_of(name), effort=Effort())
    folder.mkdir(parents=True, exist_ok=True)
    write_profile(folder / f"{name}.csv", profile)


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else PROFILES
    for one in sys.argv[2:] or NETWORKS:
        measure(one, target)
