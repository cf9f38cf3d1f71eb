"""Files that an earlier version wrote are still read, as docs/stability.md promises.

The files were written by 0.11.0: `csdf convert`, `csdf map`, `csdf fit`, `csdf plan reuse` with
`--checkpoint`. A new version of a format gets a new folder; files of the last major version stay.
"""

import shutil
from pathlib import Path

import pytest

MODELS = Path(__file__).parents[2] / "models"
STORED = Path(__file__).with_name("files_of_0_11")
EXAMPLE = MODELS / "graphs" / "csdf_example.xml"
PLATFORM = MODELS / "platforms" / "two_with_a_bus.json"
REUSE = ("plan", "reuse", "samos_example", "--element-bytes", "1", "--method", "nsga2")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("analyze", STORED / "graph.json"), "period 12 time units"),
        (
            ("map", EXAMPLE, "--platform", PLATFORM, "--mapping", STORED / "mapping.json"),
            "period 13",
        ),
        (
            ("fit", "samos_example", "--plan", STORED / "fit_plan.json"),
            "as planned: 2.626 kB of RAM",
        ),
        (("fit", "samos_example", "--plan", STORED / "reuse_plan.json"), "as planned: 2.274 kB"),
    ],
)
def test_a_file_of_an_earlier_version_is_read(run, words, said):
    code, printed, _ = run(*words)
    assert (code, said in printed) == (0, True)


def test_a_search_goes_on_from_a_checkpoint_of_an_earlier_version(run, tmp_path):
    checkpoint = tmp_path / "checkpoint.json"
    shutil.copy(STORED / "checkpoint.json", checkpoint)
    search = ("--generations", "1", "--population", "4", "--seed", "1", "--checkpoint", checkpoint)
    code, printed, _ = run(*REUSE, *search)
    assert (code, "2.537 kB with weights" in printed) == (0, True)
    # All four chromosomes of this search were scored before.
    assert checkpoint.read_text() == (STORED / "checkpoint.json").read_text()
