"""Hooks that MkDocs calls while it builds the site: pages that are made, links, and formulas.

The first page is README.md. Files outside of `docs/` to which pages link, such as the pages of
`figures/`, become files of the site.
"""

from __future__ import annotations

import html
import posixpath
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import gallery
import reference
from latex2mathml.converter import convert
from mkdocs.structure.files import File, Files
from pygments.formatters.html import HtmlFormatter

ROOT = Path(__file__).parents[2]
SCHEMAS = ("csdf", "cnn2csdf", "planners")
LINK = re.compile(r"(\]\()([^)\s#]+)(#[^)\s]*)?(\))")
FORMULA = re.compile(r'<(span|div) class="arithmatex">(.*?)</\1>', flags=re.DOTALL)
SCHEMA_ROW = re.compile(r"^\| `([\w-]+)` \|", flags=re.MULTILINE)
REPORTS = {  # examples of pages that csdf report makes
    "reports/graph.html": ("models/graphs/h263decoder.xml",),
    "reports/network.html": (
        *("person_detection", "--element-bytes", "1", "--platform", "cortex-m7"),
        *("--total-memory", "256kB", "--time-limit", "8s"),
    ),
}


def on_files(files: Files, config) -> Files:
    """Add the pages that are made of something else."""

    def add(place: str, content: str | bytes) -> None:
        files.append(File.generated(config, place, content=content))

    add("index.md", (ROOT / "README.md").read_text())
    add("gallery.md", gallery.page(ROOT))
    for name, text in reference.pages():
        add(f"api/{name}.md", text)
    for path in sorted(_linked_from_outside(files)):
        add(path, (ROOT / path).read_bytes())
    for path in (one for name in SCHEMAS for one in (ROOT / name / "schemas").glob("*.json")):
        add(f"schemas/{path.name}", path.read_text())
    for place, words in REPORTS.items():
        add(place, _report(words))
    add("assets/site.css", (Path(__file__).with_name("site.css")).read_text())
    add("assets/code.css", _colours_of_code())
    return files


def _colours_of_code() -> str:
    """The style of highlighted code, for the two colour schemes of the theme."""
    return "\n".join(
        HtmlFormatter(style=style).get_style_defs(f"[data-bs-theme={scheme}] .highlight")
        for scheme, style in (("light", "default"), ("dark", "github-dark"))
    )


def _linked_from_outside(files: Files) -> set[str]:
    """The files outside of `docs/` that pages link to, also by way of one another."""
    found = {"CHANGELOG.md", "models/README.md", "CITATION.cff", "LICENSE"}
    waiting = [
        ROOT / "docs" / one.src_uri for one in files.documentation_pages() if not one.generated_by
    ]
    waiting = [*waiting, ROOT / "README.md", *(ROOT / one for one in found)]
    while waiting:
        page = waiting.pop()
        for path in _targets(page):
            if path not in found and not path.startswith("docs/") and path != "README.md":
                found.add(path)
                waiting.append(ROOT / path)
    return found


def _targets(page: Path) -> Iterator[str]:
    """The files of the repository that a page links to."""
    if page.suffix == ".md":
        for _, target, _, _ in LINK.findall(page.read_text()):
            path = (page.parent / target).resolve()
            if "://" not in target and path.is_file():
                yield path.relative_to(ROOT).as_posix()


def on_page_markdown(markdown: str, page, **_) -> str:
    """Let links lead to where the site has what the repository has elsewhere."""
    place = page.file.src_uri
    if place == "schemas.md":
        markdown = SCHEMA_ROW.sub(r"| [`\1`](schemas/\1.json) |", markdown)
    if page.file.generated_by is not None and place.startswith(("api/", "gallery")):
        return markdown
    home = {"index.md": "README.md"}.get(place, place)
    if not home.startswith(("figures/", "models/")) and home not in ("README.md", "CHANGELOG.md"):
        home = f"docs/{home}"

    def moved(match: re.Match[str]) -> str:
        opening, target, section, closing = match.groups()
        if "://" in target:
            return match[0]
        path = posixpath.normpath(posixpath.join(posixpath.dirname(home), target))
        path = "index.md" if path == "README.md" else path.removeprefix("docs/")
        near = posixpath.relpath(path, posixpath.dirname(place) or ".")
        return f"{opening}{near}{section or ''}{closing}"

    return LINK.sub(moved, markdown)


def on_page_content(content: str, **_) -> str:
    """Write formulas as MathML, which browsers show without a script."""

    def formula(match: re.Match[str]) -> str:
        text = html.unescape(match[2])[2:-2]  # between \( and \), or \[ and \]
        if match[1] == "div":
            return f'<div class="formula">{convert(text, display="block")}</div>'
        return convert(text)

    return FORMULA.sub(formula, content)


def _report(words: tuple[str, ...]) -> str:
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "report.html"
        command = [sys.executable, "-m", "csdf", "report", *words, "-o", str(page)]
        subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
        return page.read_text()
