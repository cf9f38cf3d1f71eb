"""A figure in the format that a file's suffix asks for."""

from __future__ import annotations

import io
from html import escape

from matplotlib import rc_context
from matplotlib.figure import Figure

from csdf.errors import UnwritableFile

TEXT_FORMATS = ("svg", "html")
BINARY_FORMATS = ("png", "pdf")


def rendered(figure: Figure, title: str, suffix: str) -> str | bytes:
    """Return the picture in the format of that suffix: png, pdf, svg, or a page that holds it.

    Raises UnwritableFile for another format.
    """
    if suffix not in TEXT_FORMATS + BINARY_FORMATS:
        raise UnwritableFile(f"cannot draw {suffix!r}; expected png, pdf, svg or html")
    buffer = io.BytesIO()
    if suffix in BINARY_FORMATS:
        figure.savefig(buffer, format=suffix, dpi=150)
        return buffer.getvalue()
    with rc_context({"svg.hashsalt": "csdf"}):  # one figure gives one text
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    text = buffer.getvalue().decode()
    return text if suffix == "svg" else _page(title, text)


def _page(title: str, picture: str) -> str:
    drawing = picture[picture.index("<svg") :]
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f"<title>{escape(title)}</title>"
        "<style>body{font-family:sans-serif;margin:1em}svg{max-width:100%;height:auto}</style>"
        f"</head><body>{drawing}</body></html>\n"
    )
