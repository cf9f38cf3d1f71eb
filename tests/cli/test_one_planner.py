"""Answers of all commands to the same question about memory: none contradicts another.

`csdf fit` looks at all plans, the others at some of them, and report and deploy say what it says.
With parts, an input comes row by row and a result goes out, as with `csdf fit --input rows
--output-memory external`; elsewhere both lie in the arena.
"""

import os

import pytest

from cnn2csdf.catalogue.networks import CATALOGUE
from tests.shared_data import SHARED, each

SHARES = (45, 105)  # percent of the RAM that whole layers need
QUICK = ("samos_example",)
SMALL = ("keyword_spotting", "resnet8")
ALL = [name for name in CATALOGUE if name not in QUICK]
SLOW = ALL if os.environ.get("CSDF_CATALOGUE") else SMALL  # all take half an hour
TFLITE = SHARED / "networks" / "tflite"
ONNX = SHARED / "networks" / "onnx-small"
FILES = [
    *(TFLITE / f"{name}.tflite" for name in ("ic_resnet8_int8", "kws_int8", "micro_speech_int8")),
    *(ONNX / f"{name}.onnx" for name in ("chain1", "chain2")),
]
SMALL_SEARCH = ("--generations", 1, "--population", 4)
BUDGET = ("--time-limit", "2s")
MOST_WRITTEN = 2**20  # bytes of parameters that are written as C
FITS = {0: True, 1: False, 3: None}  # by exit code


class Answers:
    """The answers of all commands about a network within some RAM."""

    def __init__(self, answer, run, folder, network, share):
        def ask(*words):
            return answer(*words, *BUDGET)[1]

        self.arena = ask("plan", "arena", network)["problems"][0]["peak"]
        self.ram = self.arena * share // 100
        limit = ("--ram", self.ram)  # of the arena; of fit, deploy and report with state and stack
        unlimited = ask("fit", network)
        beside = max(way["needed_ram_bytes"] - way["ram_bytes"] for way in unlimited["methods"])
        every_part = ("--ram", self.ram + beside)
        self.fit = ask("fit", network, *every_part)
        ends = ("--input", "rows", "--output-memory", "external")
        self.streamed = ask("fit", network, *every_part, *ends)
        self.memory = ask("cnn", "memory", network)["networks"][0]
        self.fusion = ask("plan", "fusion", network, *limit)
        self.reuse = ask("plan", "reuse", network, *limit, *SMALL_SEARCH)
        self.capacity = ask("plan", "arena", network, "--capacity", self.ram)
        self.page = run("report", network, *every_part, *BUDGET, "-o", folder / "page.html")[:2]
        is_written = self.fit["flash_bytes"] <= MOST_WRITTEN
        words = ("deploy", network, *every_part, *BUDGET, "-o", folder / "c")
        self.deploy = run(*words)[0] if is_written else None


def require_one_answer(said):
    """Fail where two of the answers contradict each other."""
    whole = next(way for way in said.fit["methods"] if way["name"] == "layer by layer")
    arenas = {said.memory["layer_by_layer"]["arena_bytes"], whole["ram_bytes"]}
    assert said.arena <= min(arenas)  # others end their search for offsets after some steps

    plan = said.fusion["plan"]
    fitting = {  # a plan of whose kind each command found within the RAM
        "fit": plan is not None or said.arena <= said.ram or said.capacity["problems"][0]["peak"],
        "streamed": said.reuse["arena_bytes"] is not None
        or said.memory["min"]["buffer_bytes"] <= said.ram
        or said.fit["fits"],
    }
    for name, is_found in fitting.items():
        assert not is_found or getattr(said, name)["fits"] is not False, name

    if plan is not None:
        assert said.fit["lower_bound_bytes"] <= plan["arena_bytes"] <= said.ram
    else:
        assert "these modes" in said.fusion["reason"]  # "infeasible" is said of its groups
    assert said.streamed["lower_bound_bytes"] <= said.memory["min"]["buffer_bytes"]

    beside = {"fit": (said.fusion, said.capacity), "streamed": (said.reuse,)}
    for name, others in beside.items():
        known = [one["fit"]["fits"] for one in others if one["fit"] is not None]
        verdicts = {getattr(said, name)["fits"], *known} - {None}  # time ended before it was known
        assert len(verdicts) <= 1, name

    code, text = said.page
    assert (code == 0) == (": fits: " in text or "It fits" in text)
    assert said.deploy is None or FITS[said.deploy] in (said.fit["fits"], None)


def require_what_fit_finds(said):
    """Fail where an answer has not what csdf fit finds, though all searches had their time."""
    assert said.arena == said.memory["layer_by_layer"]["arena_bytes"]
    assert said.memory["fit"]["ram_bytes"] <= said.memory["min"]["buffer_bytes"]
    assert said.fusion["fit"]["ram_bytes"] == said.fit["ram_bytes"]
    assert said.reuse["fit"]["ram_bytes"] == said.streamed["ram_bytes"]
    assert (said.page[0] == 0) == (said.fit["fits"] is True)


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("network", QUICK)
def test_commands_agree_on_what_fits(answer, run, tmp_path, network, share):
    said = Answers(answer, run, tmp_path, network, share)
    require_one_answer(said)
    require_what_fit_finds(said)


@pytest.mark.slow
@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("network", SLOW)
def test_commands_agree_on_what_fits_for_the_catalogue(answer, run, tmp_path, network, share):
    require_one_answer(Answers(answer, run, tmp_path, network, share))


@pytest.mark.slow
@each("path", [path for path in FILES if path.exists()])
def test_commands_agree_on_what_fits_for_files(answer, run, tmp_path, path):
    share = SHARES[FILES.index(path) % len(SHARES)]
    require_one_answer(Answers(answer, run, tmp_path, path, share))
