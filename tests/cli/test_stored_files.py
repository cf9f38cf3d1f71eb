"""Files that an earlier version wrote are still read, as docs/stability.md promises.

The files were written by 0.11.0: `csdf convert`, `csdf map`, `csdf fit`, `csdf plan reuse` with
`--checkpoint`, `csdf plan primitives --save-profile`. A release with a new form of a file gets a folder
of its own; files of the last major version stay.
"""

import json
import shutil
from pathlib import Path

import pytest

from csdf.cli.about.schema import schema, schema_names
from planners import read_plan
from planners.plan.text import VERSION
from planners.reuse.executors import FORMAT

MODELS = Path(__file__).parents[2] / "models"
STORED = Path(__file__).with_name("files_of_0_11")
EXAMPLE = MODELS / "graphs" / "csdf_example.xml"
PLATFORM = STORED / "platform.json"
CUT = "checkpoint"  # one object a line
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
            "as planned: 2.744 kB of RAM",
        ),
        (("fit", "samos_example", "--plan", STORED / "reuse_plan.json"), "as planned: 2.396 kB"),
        (
            ("fit", "samos_example", "samos_example", "--plan", STORED / "two_plans.json"),
            "in one arena: fit: 3.478 kB of RAM",
        ),
        (("scenarios", STORED / "scenarios.json"), "worst-case period 140"),
        (
            ("plan", "primitives", "samos_example", "--profile", STORED / "profile.csv"),
            "samos_example: 2.795 ms, 45.73 kB",
        ),
    ],
)
def test_a_file_of_an_earlier_version_is_read(run, words, said):
    code, printed, _ = run(*words)
    assert (code, said in printed) == (0, True)


def test_a_search_goes_on_from_a_checkpoint_of_an_earlier_version(run, tmp_path):
    checkpoint = tmp_path / "checkpoint.json"
    shutil.copy(STORED / "checkpoint.json", checkpoint)
    search = ("--generations", "1", "--population", "4", "--seed", "1", "--checkpoint", checkpoint)
    search += ("--platform", "jetson-tx2")  # its times do not follow the kernels of C
    code, printed, _ = run(*REUSE, *search)
    assert (code, "2.537 kB with weights" in printed) == (0, True)
    # All four chromosomes of this search were scored before.
    assert checkpoint.read_text() == (STORED / "checkpoint.json").read_text()


def test_a_plan_of_an_earlier_version_in_two_memories_is_read():
    plan = read_plan(STORED / "memories_plan.json")
    assert [(memory.name, memory.size) for memory in plan.memories] == [("tcm", 886), ("ram", 1024)]


def test_each_form_of_a_file_is_stored_in_every_version():
    """A form with a new version: store files of that release, and go on reading the old ones."""
    documents = [json.loads(path.read_text()) for path in STORED.glob("*.json") if path.stem != CUT]
    stored = {
        (document.get("format", "fit-plan"), document["version"])
        for entry in documents
        for document in (entry if isinstance(entry, list) else [entry])
    }
    versions = {
        name: schema(name).get("properties", {}).get("version", {}) for name in schema_names()
    }
    read = {(name, version["const"]) for name, version in versions.items() if "const" in version}
    assert stored == read
    assert ("fit-plan", VERSION) in stored
    assert json.loads((STORED / f"{CUT}.json").read_text().splitlines()[0])["format"] == FORMAT
