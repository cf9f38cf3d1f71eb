"""Tables of LaTeX, for documents that load the package booktabs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

ESCAPES = str.maketrans(
    {sign: f"\\{sign}" for sign in "{}$&#%_"}
    | {"\\": r"\textbackslash{}", "^": r"\textasciicircum{}", "~": r"\textasciitilde{}"}
    | {"[": "{[}", "*": "{*}"}  # a command before the cell, such as a line break, would take them
    | {"<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}", '"': "''"}
)


def escaped(text: str) -> str:
    """Return a text that stands for itself in LaTeX; breaks of lines are spaces."""
    return " ".join(text.translate(ESCAPES).split())


def booktabs(
    heads: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    texts: Iterable[int] = (0,),
    remarks: Iterable[str] = (),
) -> str:
    """Return a tabular; heads and cells are LaTeX already.

    texts: the columns aligned at the left, all others at the right. remarks: comments above it.
    """
    left = set(texts)
    columns = "".join("l" if index in left else "r" for index in range(len(heads)))
    comments = [f"% {' '.join(remark.split())}" for remark in remarks]
    lines = [" & ".join(row) + r" \\" for row in (heads, *rows)]
    return "\n".join(
        [
            *comments, "% In a LaTeX document with \\usepackage{booktabs}: \\input this file.",
            rf"\begin{{tabular}}{{{columns}}}", r"\toprule", lines[0], r"\midrule", *lines[1:],
            r"\bottomrule", r"\end{tabular}", "",
        ]
    )  # fmt: skip
