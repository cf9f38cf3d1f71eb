"""The bytes on the page about firmware are those of a search and of the counted flash today."""

import pytest

from cnn2csdf.fixed_point.flash import flash_bytes
from cnn2csdf.readers.model_files import read_model
from cnn2csdf.simplify import simplified
from planners.streaming.fit import fit
from tests.docs.pages import ROOT
from tests.shared_data import SHARED, each

FOLDER = SHARED / "networks" / "tflite"
SHORT = {"ad_toycar": "ad_toycar_floatio"}  # names of the page: others of files
LINES = (ROOT / "docs" / "firmware.md").read_text().splitlines()


def rows_of(head):
    """The cells of the lines of a table that begins so; a name left out is that of the line above."""
    begin = next(n for n, line in enumerate(LINES) if line.startswith(head)) + 2
    found, name = [], ""
    for line in LINES[begin:]:
        if not line.startswith("|"):
            return found
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        name = cells[0] or name
        found.append([name, *cells[1:]])
    return found


def path_of(name):
    names = (SHORT.get(name, name), f"{name}_int8")
    return next(FOLDER / f"{one}.tflite" for one in names if (FOLDER / f"{one}.tflite").exists())


def number(cell):
    return int(cell.replace(",", ""))


MEASURED = rows_of("| model | input | arena |")
HERE = [(row[0], row[1]) for row in rows_of("| network | here | TensorFlow Lite Micro | TinyTS |")]
FILES = dict.fromkeys(row[0] for row in MEASURED) if FOLDER.exists() else {}


@each("name", FILES)
def test_the_flash_of_a_model_is_that_of_the_page(name):
    counted = flash_bytes(simplified(read_model(path_of(name))).network)
    assert [number(row[6]) for row in MEASURED if row[0] == name] == [counted, counted]


@pytest.mark.slow
@each("name", FILES)
def test_the_arena_of_a_model_is_that_of_the_page(name):
    network = simplified(read_model(path_of(name))).network
    shown = {row[1]: number(row[2]) for row in MEASURED if row[0] == name}
    assert {input_: fit(network, input=input_).least.ram_bytes for input_ in shown} == shown


def test_the_arenas_beside_others_are_those_of_the_table_above():
    arenas = {(row[0], row[1]): row[2] for row in MEASURED}
    files = [row for row in HERE if row[0].endswith(", int8")]
    assert len(files) == 4
    for name, here in files:
        name = name.removesuffix(", int8")
        assert here == f"{arenas[name, 'rows']} / {arenas[name, 'resident']}"
