"""Commands that are asked about the memory of a network give one number to one question.

Each figure is read from the answers of all commands that give it. They are equal, or the answers of
those that differ say in words what they count.
"""

import json
import re
from html import unescape

import pytest

from csdf.units import needed_bytes_in_words
from tests.cli.running import answer, run
from tests.shared_data import SHARED, each

__all__ = ["answer", "run"]

TFLITE = SHARED / "networks" / "tflite"
NETWORKS = ["keyword_spotting"]  # of the catalogue, in single precision
NETWORKS += [
    path for name in ("kws_int8", "ic_resnet8_int8") if (path := TFLITE / f"{name}.tflite").exists()
]
SEARCH = ("--generations", "1", "--population", "20")
RING = "each tensor has a ring of rows of its own, and the input comes by rows"
AS_C = "of flash as C stores them (csdf fit)"


class Asked:
    """The answers of all commands about a network: as JSON, and in words."""

    def __init__(self, run, network, folder):
        self._run, page = run, folder / "page.html"
        budget = ("--time-limit", "20s")
        self.show, self.show_text = self._both("cnn", "show", network)
        memory, self.memory_text = self._both("cnn", "memory", network, *budget)
        (self.memory,) = memory["networks"]
        self.reuse, self.reuse_text = self._both("plan", "reuse", network, *SEARCH)
        self.fusion, self.fusion_text = self._both("plan", "fusion", network, "--ram", "1MB")
        self.arena, self.arena_text = self._both("plan", "arena", network)
        self.fit, self.fit_text = self._both("fit", network)
        code, text, _ = run("deploy", network, "--json", "-o", folder / "firmware")
        assert code == 0
        self.deploy = json.loads(text)
        code, _, _ = run("report", network, *budget, "-o", page)
        assert code == 0
        self.page = page.read_text()
        self.report_text = unescape(re.sub(r"<[^>]+>", "", self.page))

    def _both(self, *words):
        texts = []
        for form in (("--json",), ("--explain",)):
            code, text, _ = self._run(*words, *form)
            assert code == 0, words
            texts.append(text)
        return json.loads(texts[0]), texts[1]

    def way(self, name):
        """Bytes of a way of csdf fit."""
        return next(one["ram_bytes"] for one in self.fit["methods"] if one["name"] == name)

    def arenas_of_report(self):
        """Bytes of the arenas on the page, of whole layers and by parts."""
        found = re.findall(r'"title": ?"([^"]+, one arena)", ?"peak": ?(\d+)', self.page)
        return {title: int(size) for title, size in found}


@pytest.fixture(params=NETWORKS, ids=lambda one: getattr(one, "stem", one), scope="module")
def network(request):
    return request.param


@pytest.fixture
def asked(network, run, tmp_path):
    return Asked(run, network, tmp_path)


@pytest.mark.slow
def test_all_commands_give_one_number_or_name_the_difference(asked):
    require_one_whole_arena(asked)
    require_one_arena_row_by_row(asked)
    require_one_count_of_parameters(asked)
    require_one_flash(asked)
    require_one_plan_of_fit_and_deploy(asked)


def require_one_whole_arena(asked):
    whole = {
        "cnn memory": asked.memory["layer_by_layer"]["arena_bytes"],
        "plan arena": asked.arena["problems"][0]["peak"],
        "plan reuse": asked.reuse["whole_arena_bytes"],
        "fit": asked.way("layer by layer"),
        "report": asked.arenas_of_report()["layer by layer, one arena"],
    }
    assert len(set(whole.values())) == 1, whole
    assert "input and tensors between groups whole" in asked.fusion_text


def require_one_arena_row_by_row(asked):
    rows = asked.memory["row_by_row"]["arena_bytes"]
    assert asked.arenas_of_report()["row by row, one arena"] == rows
    for text in (asked.memory_text, asked.report_text):
        assert "as csdf fit --input rows" in text or "as in csdf fit --input rows" in text


def require_one_count_of_parameters(asked):
    trained = {
        "cnn show": asked.show["parameter_bytes"],
        "cnn memory": asked.memory["parameter_bytes"],
        "plan reuse": asked.reuse["weight_bytes"],
        "plan fusion": asked.fusion["plan"]["parameter_bytes"],
    }
    assert len(set(trained.values())) == 1, trained
    if asked.fit["flash_bytes"] == trained["cnn show"]:
        return
    for name in ("show", "memory", "reuse", "fusion"):
        assert AS_C in getattr(asked, f"{name}_text"), name
    assert f"{needed_bytes_in_words(asked.fit['flash_bytes'])} of flash" in asked.report_text


def require_one_flash(asked):
    flash = {
        "fit": asked.fit["flash_bytes"],
        "deploy": asked.deploy["flash_bytes"],
        "cnn show": asked.show["flash_bytes"],
        "cnn memory": asked.memory["flash_bytes"],
        "plan reuse": asked.reuse["flash_bytes"],
    }
    assert len(set(flash.values())) == 1, flash


def require_one_plan_of_fit_and_deploy(asked):
    for name in ("needed_ram_bytes", "state_bytes", "stack_bytes"):
        assert asked.deploy[name] == asked.fit[name]
    parts = (asked.fit[name] for name in ("ram_bytes", "state_bytes", "stack_bytes"))
    assert asked.fit["needed_ram_bytes"] == sum(parts)
    ram = f"{needed_bytes_in_words(asked.fit['needed_ram_bytes'])} of RAM"
    for text in (asked.fit_text, asked.report_text):
        assert ram in text
    assert asked.deploy["ram_bytes"] == asked.fit["ram_bytes"]
    assert asked.deploy["mac_ratio"] == asked.fit["mac_ratio"]


KWS = TFLITE / "kws_int8.tflite"


@each("path", [KWS] if KWS.exists() else [])
def test_flash_of_a_platform_counts_the_arrays_of_its_kernels(path, run, tmp_path):
    page = tmp_path / "page.html"
    on_board = ("--platform", "cortex-m55")
    _, text, _ = run("fit", path, *on_board, "--json")
    flash_bytes = json.loads(text)["flash_bytes"]
    _, text, _ = run("cnn", "memory", path, *on_board, "--json")
    assert json.loads(text)["networks"][0]["flash_bytes"] == flash_bytes
    flash = needed_bytes_in_words(flash_bytes)
    assert run("report", path, *on_board, "-o", page)[0] == 0
    for words in (run("cnn", "memory", path, *on_board)[1], page.read_text()):
        assert f"{flash} of flash" in words
    assert f"{flash} of flash" not in run("cnn", "memory", path)[1]
    _, table = page.read_text().split('id="layers"')
    head, rows, *_ = table.split("</thead>")
    column = re.findall(r">([^<]+)</button>", head).index("flash (bytes)")
    cells = [re.findall(r"<t[hd][^>]*>([^<]*)</", row) for row in rows.split("</tr>")[:-1]]
    by_layer = [int(row[column].replace(",", "")) for row in cells if len(row) > column]
    assert sum(by_layer) == flash_bytes


PERSON = TFLITE / "person_detect_int8.tflite"


@each("path", [PERSON] if PERSON.exists() else [])
@pytest.mark.parametrize("command", [("plan", "reuse", *SEARCH), ("report",)])
def test_flash_as_a_limit_holds_what_c_stores(command, path, run, tmp_path):
    # 218,920 bytes of parameters; with multipliers, exponents and tables 232,610 (docs/fit.md).
    page = ("-o", tmp_path / "page.html") if command == ("report",) else ()
    assert run(*command, path, *page, "--flash", "232610")[0] == 0
    code, output, _ = run(*command, path, *page, "--flash", "232609")
    assert code == 1
    assert ("alone are 232.7 kB of flash" if page else f"219 kB; 232.7 kB {AS_C}") in output
    if page:
        assert "1 B of flash too little for the parameters" in page[1].read_text()
        assert "219 kB;" not in output
