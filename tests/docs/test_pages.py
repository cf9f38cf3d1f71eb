"""Everything README and docs show is what happens."""

import re
import tomllib

import matplotlib
import pytest

from csdf.cli.frame import commands
from tests.docs.pages import (
    PAGES,
    PICTURES,
    ROOT,
    Reader,
    blocks_of,
    installed,
    pictures_of,
    prose_of,
    without_measurements,
)

TEXTS = {page: page.read_text() for page in PAGES}
BLOCKS = [
    pytest.param(page, number, id=f"{page.stem}-{number}-{block.kind}")
    for page in PAGES
    for number, block in enumerate(blocks_of(page))
    if block.kind in ("console", "python")
]
STEPS = [
    step
    for page in PAGES
    for block in blocks_of(page)
    if block.kind == "console"
    for step in block.steps
]
ILLUSTRATED = [page for page in PAGES if pictures_of(page)]
LINKS = [
    pytest.param(page, link, id=f"{page.stem}-{link}")
    for page in PAGES
    for link in re.findall(r"\]\(([^)]+)\)", prose_of(page))
    if "://" not in link
]


def name_of(page):
    return str(page.relative_to(ROOT))


@pytest.fixture(scope="module")
def readers(tmp_path_factory):
    """A reader for each page, who goes on where the last test ended."""
    return {page: Reader(page, tmp_path_factory.mktemp(page.stem)) for page in PAGES}


@pytest.mark.slow
@pytest.mark.parametrize(("page", "number"), BLOCKS)
def test_a_block_gives_what_it_shows(page, number, readers):
    for shown, found in readers[page].read_to(number):
        assert without_measurements(found) == without_measurements(shown)


def test_only_measurements_may_differ():
    taken = "  method  periodic, {} ms\ncsdf: 2 s, searching\n  largest difference  {} ({} of it)\n"
    assert without_measurements(taken.format(1, 2e-7, 3e-7)) == without_measurements(
        taken.format(0.25, 0, 0)
    )
    for text in (
        "predicted time      0.3561 ms",
        "  time   0.1 ms, of it 0.02 ms",
        "peak 28448  optimal",
        "57.97 frames/s",
    ):
        assert without_measurements(text) == text


@pytest.mark.slow
@pytest.mark.parametrize("page", ILLUSTRATED, ids=name_of)
def test_the_pictures_of_a_page_are_those_that_its_commands_draw(page, readers):
    readers[page].read_to(len(blocks_of(page)) - 1)
    for picture in pictures_of(page):
        drawn = (readers[page].folder / picture.name).read_text()
        assert labels_of(drawn) == labels_of(picture.read_text())
        if f"Matplotlib v{matplotlib.__version__}" in picture.read_text():
            assert drawn == picture.read_text()


def labels_of(picture):
    """All that is written in a picture; letters are drawn, each text is a comment beside them."""
    return re.findall(r"<!-- (.+?) -->", picture)


def test_every_picture_is_shown():
    shown = {path for page in PAGES for path in pictures_of(page)}
    assert shown == set(PICTURES.iterdir())


@pytest.mark.parametrize(("page", "link"), LINKS)
def test_a_link_leads_somewhere(page, link):
    path, _, section = link.partition("#")
    target = page.parent / path if path else page
    assert target.exists()
    if section:
        assert section in sections_of(target)


def sections_of(page):
    """The names under which the headings of a page can be linked to."""
    headings = re.findall(r"^#+ (.*)$", prose_of(page), flags=re.MULTILINE)
    return [re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_a_page_names_files_that_exist(page):
    folders = "cnn2csdf|csdf|docs|figures|models|planners|tests"
    for path in re.findall(rf"`((?:{folders})/[\w./]+)`", TEXTS[page]):
        assert (ROOT / path).exists(), path


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_code_block_of_a_page_is_tested(page):
    for block in blocks_of(page):
        if block.kind == "console":
            assert block.body.startswith("$ ")
        elif block.kind == "python":
            assert any(said for _, said in block.values), block.body
        else:
            assert block.file or block.kind == "text", block.body
    assert TEXTS[page].count("\n```") == 2 * len(blocks_of(page))


def test_the_main_job_and_the_tests_are_a_command_each():
    commands = [command for command, _ in STEPS]
    assert commands[0] == "pip install '.[cnn]' && python models/networks/make_int8.py model.onnx"
    assert commands[1] == "csdf fit model.onnx --ram 8kB --platform cortex-m4"
    assert "pip install -e '.[test]' && pytest" in commands
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    for command, _ in STEPS:
        if installation := installed(command):
            form = r"pip install (?:-e )?(?:\.|'\.\[([\w,]+)\]')"
            asked = re.fullmatch(form, installation)[1] or ""
            assert set(filter(None, asked.split(","))) <= set(extras)


def test_every_command_is_shown():
    words = [
        command.removeprefix(installed(command)).removeprefix(" && ").split()
        for command, _ in STEPS
    ]
    assert {one[1] for one in words if one[:1] == ["csdf"]} == set(commands.below(""))
    for family in ("cnn", "plan"):
        shown = {one[2] for one in words if one[:2] == ["csdf", family]}
        assert shown == set(commands.below(family))


@pytest.mark.parametrize("package", ["csdf", "cnn2csdf", "planners"])
def test_every_public_name_is_explained(package):
    names = __import__(package).__all__
    said = "\n".join(TEXTS.values())
    assert [name for name in names if not re.search(rf"\b{name}\b", said)] == []
