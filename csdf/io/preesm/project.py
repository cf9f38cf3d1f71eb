"""Files of a PREESM project by the paths that its files have for one another."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

MOST_ABOVE = 6  # folders between a file and that of its project


def found_file(url: str, beside: str) -> str | None:
    """Return where a .pi file of the project is, or None.

    Its path begins in the project's folder, or with the name of that folder, which is one of those
    around the file beside which it is looked for.
    """
    parts = [part for part in PurePosixPath(url).parts if part != "/"]
    if not parts or ".." in parts or not parts[-1].lower().endswith(".pi"):
        return None
    for folder in list(Path(beside).absolute().parents)[:MOST_ABOVE]:
        for kept in (parts, parts[1:]):
            path = folder.joinpath(*kept)
            try:
                if kept and path.is_file():
                    return str(path)
            except (OSError, ValueError):  # no file has such a name
                return None
    return None
