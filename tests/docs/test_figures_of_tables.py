"""The bytes in tables of pages, which no command there prints, are those of today."""

import json

import pytest

from cnn2csdf.fixed_point.flash import flash_bytes
from cnn2csdf.readers.model_files import read_model
from cnn2csdf.simplify import simplified
from csdf.cli.main import main
from planners.memory.fit import fit
from tests.docs.pages import ROOT
from tests.shared_data import SHARED, each

FOLDER = SHARED / "networks" / "tflite"
SHORT = {"ad_toycar": "ad_toycar_floatio"}  # names of the page: others of files


def rows_of(page, head):
    """The cells of the lines of a table that begins so; a name left out is that of the line above."""
    lines = (ROOT / "docs" / page).read_text().splitlines()
    begin = next(n for n, line in enumerate(lines) if line.startswith(head)) + 2
    found, name = [], ""
    for line in lines[begin:]:
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


MEASURED = rows_of("firmware-measured.md", "| model | arena, by row |")
BESIDE = rows_of("firmware-measured.md", "| network | here | TensorFlow Lite Micro | TinyTS |")
RANDOM = rows_of("firmware-measured.md", "| network | elements | arena, by row |")
READ = {row[0].strip("`"): row for row in rows_of("networks.md", "| file | parameters |")}
FILES = dict.fromkeys(row[0] for row in MEASURED) if FOLDER.exists() else {}


@each("name", FILES)
def test_the_flash_of_a_model_is_that_of_the_page(name):
    counted = flash_bytes(simplified(read_model(path_of(name))).network)
    assert [number(row[3]) for row in MEASURED if row[0] == name] == [counted]


@pytest.mark.slow
@each("name", FILES)
def test_the_arena_of_a_model_is_that_of_the_page(name):
    network = simplified(read_model(path_of(name))).network
    (shown,) = (row[1:3] for row in MEASURED if row[0] == name)
    arenas = [fit(network, input=input_).least.ram_bytes for input_ in ("rows", "resident")]
    assert arenas == [number(cell) for cell in shown]


def test_the_arenas_beside_others_are_those_of_the_other_tables():
    arenas = {row[0]: row[1:3] for row in MEASURED}
    arenas |= {name: found[:2] for name, element, *found in RANDOM if element == "float"}
    assert len(BESIDE) == 7
    for title, here, *_ in BESIDE:
        name = title.partition(",")[0]
        assert here == " / ".join(arenas[name])


SEARCHED = [row for row in RANDOM if not row[0].startswith("mobilenet_v2")][::2]  # 6 s each


@pytest.mark.slow
@pytest.mark.parametrize("row", SEARCHED, ids=lambda row: f"{row[0]}-{row[1]}")
def test_the_arena_of_a_network_of_the_catalogue_is_that_of_the_page(row):
    size = {"float": 4, "int8": 1}[row[1]]
    network = simplified(read_model(row[0])).network
    arenas = [fit(network, input=one, element_bytes=size).least for one in ("rows", "resident")]
    assert [way.ram_bytes for way in arenas] == [number(cell) for cell in row[2:4]]


@each("name", READ if FOLDER.exists() else {})
def test_the_memory_of_a_file_is_that_of_the_page(name, capsys):
    path = str(FOLDER / f"{name}.tflite")
    assert main(["cnn", "memory", "--time-limit", "5s", "--json", path]) == 0
    (found,) = json.loads(capsys.readouterr().out)["networks"]
    arenas = [found[one]["arena_bytes"] for one in ("layer_by_layer", "row_by_row")]
    parameters = found["parameter_bytes"]
    assert [parameters, *arenas] == [number(cell) for cell in READ[name][1:]]
