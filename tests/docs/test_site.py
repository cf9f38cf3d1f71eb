"""The site that MkDocs makes of the pages: built without a warning, and whole in itself."""

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

import cnn2csdf
import csdf
import planners

pytest.importorskip("mkdocs", reason="needs the extra docs: pip install '.[docs]'")
pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]


class Links(HTMLParser):
    """The names and links of a page. loaded: what a browser loads with it."""

    def __init__(self, text):
        super().__init__()
        self.names, self.links, self.loaded = set(), [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.names |= {attributes[key] for key in ("id", "name") if attributes.get(key)}
        self.links += [attributes[key] for key in ("href", "src") if attributes.get(key)]
        if tag in ("script", "img", "iframe") or attributes.get("rel") in ("stylesheet", "preload"):
            self.loaded += [attributes[key] for key in ("href", "src") if attributes.get(key)]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet"]
    built = subprocess.run(
        [*command, "-f", "docs/site/mkdocs.yml", "-d", str(folder)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert (built.returncode, built.stdout + built.stderr) == (0, "")
    return folder


@pytest.fixture(scope="module")
def pages(site):
    return {path: Links(path.read_text()) for path in site.rglob("*.html")}


def test_every_link_of_the_site_leads_somewhere(site, pages):
    broken = []
    for path, page in pages.items():
        for link in page.links:
            target = urlsplit(link)
            if target.scheme or target.netloc or path.name == "404.html":
                continue
            other = (path.parent / unquote(target.path)).resolve() if target.path else path
            if not other.exists():
                broken.append((path.name, link))
            elif target.fragment and other in pages:
                names = pages[other].names
                if unquote(target.fragment) not in names:
                    broken.append((path.name, link))
    assert broken == []
    assert len(pages) > 40


def test_a_page_loads_nothing_from_elsewhere(pages):
    foreign = {
        link for page in pages.values() for link in page.loaded if "://" in link or link[:2] == "//"
    }
    assert foreign == set()


@pytest.mark.parametrize("package", [csdf, cnn2csdf, planners])
def test_the_reference_has_every_public_name(package, site, pages):
    names = pages[site / "api" / f"{package.__name__}.html"].names
    assert [name for name in package.__all__ if f"{package.__name__}.{name}" not in names] == []


def test_formulas_are_shown_without_a_script(site):
    text = (site / "theory-throughput.html").read_text()
    assert "<math" in text
    assert "arithmatex" not in text


def test_lists_of_pages_are_lists(site):
    """A list after a line of text needs an empty line between; without it, the marks are text."""
    texts = {path: path.read_text() for path in site.rglob("*.html") if path.parent.name != "api"}
    marks = re.compile(r"<p>[^<]*(?:<(?!/p>)[^<]*)*\n(?:[-*]|\d+\.) ")
    assert [path.name for path, text in texts.items() if marks.search(text)] == []


def test_the_gallery_shows_every_picture_of_the_documentation(site):
    text = (site / "gallery.html").read_text()
    for picture in (ROOT / "docs" / "pictures").iterdir():
        assert f'src="pictures/{picture.name}"' in text
