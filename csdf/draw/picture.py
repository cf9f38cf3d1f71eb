"""A figure in the format that a file's suffix asks for, with every text in it as it is written."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterable
from html import escape
from typing import NamedTuple

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backend_bases import RendererBase
from matplotlib.backends.backend_pgf import RendererPgf
from matplotlib.figure import Figure
from matplotlib.text import Text

from csdf.draw.column import chosen_width
from csdf.errors import UnwritableFile
from csdf.names import quoted, quoted_lines

TEXT_FORMATS = ("svg", "html", "pgf", "tex")
BINARY_FORMATS = ("png", "pdf")
NARROW = 4  # an axis up to this ratio of its ends has room for a number at each minor tick
PGF_FORMATS = ("pgf", "tex")
# Light and dark are exchanged, hues stay, where a reader of an .svg asks for dark pages.
DARK = (
    b'<style type="text/css">@media (prefers-color-scheme: dark) '
    b"{svg.csdf {filter: invert(0.9) hue-rotate(180deg)}}\n"
)
IN_LATEX = str.maketrans(
    {sign: f"\\{sign}" for sign in "{}$&#%_"}
    | {"\\": r"\textbackslash{}", "^": r"\textasciicircum{}", "~": r"\textasciitilde{}"}
    | {"<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}", '"': r"\char34{}"}
)


class AxisUnit(NamedTuple):
    """A unit of bytes along an axis."""

    bytes: int
    name: str

    def __str__(self) -> str:
        return f"{self.name} = {self.bytes:,} bytes"


def axis_unit(largest: int) -> AxisUnit:
    """Return kB for an axis that ends below a megabyte, else MB."""
    return AxisUnit(10**6, "MB") if largest >= 10**6 else AxisUnit(10**3, "kB")


def log_across(axes: Axes) -> None:
    """Make the horizontal axis logarithmic, with numbers at powers of ten and at 2 and 5 times these.

    A short axis has numbers at all minor ticks.
    """
    axes.set_xscale("log")
    low, high = axes.get_xlim()
    labelled = "123456789" if high < NARROW * low else "25"  # first digits of the numbers
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.xaxis.set_minor_formatter(
        lambda value, _: f"{value:g}" if f"{value:e}"[0] in labelled else ""
    )


def rendered(figure: Figure, title: str, suffix: str) -> str | bytes:
    r"""Return the picture in the format of that suffix: png, pdf, svg, or a page that holds it.

    pgf and tex are macros of PGF, for \input in a LaTeX document that loads the package pgf.
    Texts are names out of files: a `$` in them begins no formula, LaTeX sees none of them though
    settings of Matplotlib (in the current folder, perhaps) ask for it, and what acts instead of being
    seen is quoted. A letter that the font lacks is a box. Raises UnwritableFile for another format.
    """
    if suffix not in TEXT_FORMATS + BINARY_FORMATS:
        raise UnwritableFile(f"cannot draw {suffix!r}; expected png, pdf, svg, html, pgf or tex")
    _take_texts_as_written(figure)
    for axes in figure.axes:
        # Matplotlib measures a line to wrap as a formula, which a name is not.
        axes.title.set_wrap("$" not in axes.title.get_text())
    _fit_column(figure)
    # The salt makes one text of one figure.
    with rc_context({"svg.hashsalt": "csdf", "text.usetex": False}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"Glyph .* missing from|constrained_layout not applied")
        if suffix in PGF_FORMATS:
            return _in_pgf(figure)
        content = _saved(figure, suffix)
    if suffix in BINARY_FORMATS:
        return content
    text = content.decode()
    return text if suffix == "svg" else _page(quoted(title), text)


def named_ticks(names: Iterable[str]) -> list[str]:
    """Return names as labels of an axis, which makes its texts anew whenever it is drawn."""
    return [quoted_lines(name) for name in names]


def _take_texts_as_written(figure: Figure) -> None:
    for text in figure.findobj(Text):
        if isinstance(text, Text):
            text.set_parse_math(False)
            text.set_usetex(False)
            text.set_text(quoted_lines(text.get_text()))


POINTS = 7.0  # of texts in a column of a paper


def _fit_column(figure: Figure) -> None:
    """Scale a picture to the chosen width of a column, if any, with texts of at most POINTS.

    A picture that becomes narrower is at most as high as wide.
    """
    width = chosen_width()
    if width is None:
        return
    previous_width, previous_height = figure.get_size_inches()
    aspect = previous_width / previous_height
    if width < previous_width:
        aspect = max(1.0, aspect)
    figure.set_size_inches(width, width / aspect)
    for text in figure.findobj(Text):
        if isinstance(text, Text):
            text.set_fontsize(min(float(text.get_fontsize()), POINTS))


def _saved(figure: Figure, suffix: str) -> bytes:
    buffer = io.BytesIO()
    if suffix in BINARY_FORMATS:
        figure.savefig(buffer, format=suffix, dpi=150)
        return buffer.getvalue()
    figure.savefig(buffer, format="svg", metadata={"Date": None})
    picture = buffer.getvalue().replace(b"<svg ", b'<svg class="csdf" ', 1)
    return picture.replace(b'<style type="text/css">', DARK, 1)


class _TextsAsWritten(RendererPgf):
    """Macros of PGF whose texts mean themselves in LaTeX, made where no LaTeX is installed."""

    def draw_text(self, gc, x, y, s, *rest, **more):  # type: ignore[no-untyped-def]
        text = s.translate(IN_LATEX)
        super().draw_text(gc, x, y, text, *rest, **more)  # type: ignore[no-untyped-call]

    def get_text_width_height_descent(self, s, prop, ismath):  # type: ignore[no-untyped-def]
        """Measure texts by the fonts of other formats; LaTeX would be asked otherwise."""
        return RendererBase.get_text_width_height_descent(self, s, prop, ismath)


def _in_pgf(figure: Figure) -> str:
    text = io.StringIO()
    width, height = figure.get_size_inches()
    text.write(
        "% In a LaTeX document with \\usepackage{pgf}: \\input this file.\n"
        "\\begingroup\n\\makeatletter\n\\begin{pgfpicture}\n"
        f"\\pgfpathrectangle{{\\pgfpointorigin}}{{\\pgfqpoint{{{width:f}in}}{{{height:f}in}}}}\n"
        "\\pgfusepath{use as bounding box, clip}\n"
    )
    figure.draw(_TextsAsWritten(figure, text))  # type: ignore[no-untyped-call]
    text.write("\\end{pgfpicture}\n\\makeatother\n\\endgroup\n")
    return text.getvalue()


def _page(title: str, picture: str) -> str:
    drawing = picture[picture.index("<svg") :]
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="color-scheme" content="light dark">'
        f"<title>{escape(title)}</title>"
        "<style>body{margin:1em}svg{max-width:100%;height:auto}</style>"
        f"</head><body>{drawing}</body></html>\n"
    )
