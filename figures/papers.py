"""docs/papers.md: the five papers, each printed figure beside ours, read from the pages of this folder.

Run `python -m figures.papers` behind the other scripts: writes the page. What is printed is in
figures/published; every figure of ours is read from a page that a script has made.
"""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from figures.published.mafat import TABLE_4_1
from figures.published.taso import VARIABLES
from figures.published.todaes import TABLE_6_6
from figures.reading import Row, number, row, table

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "papers.md"
TEMPLATE = HERE / "papers_template.md"
APPLICATIONS = range(1, 7)
FIGURE_6 = ("network", "memory", "A")
FIGURE_10 = ("network", "memory", "largest")
CLAIM = ("claim of the paper",)


def percents(values: Iterable[float]) -> str:
    """Return the least and the largest share in percent."""
    shares = [round(100 * value) for value in values]
    return f"{min(shares)} to {max(shares)}%"


def samos() -> Iterator[tuple[str, str]]:
    """Yield what SAMOS 2020 claims, here."""
    sizes = table("samos2020_table3", "network", "whole: ours")
    speeds = table("samos2020_table3", "network", "whole: printed")
    yield "samos_saved", percents(1 - number(one[3]) / number(one[1]) for one in sizes)
    rows = sorted((1 - number(one[8]) / number(one[1]), one[0]) for one in sizes)
    yield "samos_rows", ", ".join(f"{name} {share:.0%}" for share, name in (rows[0], *rows[-2:]))
    yield "samos_arena", percents(1 - number(one[10]) / number(one[9]) for one in sizes)
    yield "samos_slower", percents(1 - number(one[4]) / number(one[1]) for one in speeds)
    yield "samos_model", percents(1 - number(one[9]) / number(one[8]) for one in speeds)
    each = sorted(number(one[3]) for one in speeds)
    yield "samos_phase", f"{each[0]:.1f} to {each[-1]:.1f} us"
    lines = table("samos2020_algorithm_1", "network", "by line 9, MB")
    yield "samos_line_9", ", ".join(one[1] for one in lines)
    steps = [one for one in table("samos2020_algorithm_1", "", "bytes") if one[6]]
    yield "samos_steps", " to ".join(sorted(one[6].split()[0] for one in steps)[:: len(steps) - 1])


def todaes() -> Iterator[tuple[str, str]]:
    """Yield what TODAES 2022 claims, here."""
    claims = table("todaes2022_algorithm_9", "application", "none / least: paper")
    times = [number(one[2]) for one in claims]
    yield "todaes_times", f"{min(times)} to {max(times)} times"
    below = [number(one[4]) for one in claims]
    yield "todaes_below", f"{min(below):.0f} to {max(below):.0f}%"
    pairs = [
        (row("todaes2022_table_6_6", ("application", "weights"), str(number_)), own(number_))
        for number_ in APPLICATIONS
    ]
    yield (
        "todaes_own_times",
        ends([number(one[2]) / number(ours[3]) for one, ours in pairs], "{:.1f}"),
    )
    yield (
        "todaes_own_below",
        ends(
            [1 - number(ours[3]) / min(number(one[4]), number(one[6])) for one, ours in pairs],
            "{:.0%}",
        ),
    )
    sixth = own(6)
    yield "six_whole", sixth[2]
    yield "six_offsets", sixth[3]
    yield "six_bound", sixth[5]
    printed = row("todaes2022_table_6_6", ("application", "weights"), "6")
    yield "six_published", printed[8]
    yield "six_published_bound", printed[10]
    yield "none_2", row("todaes2022_table_6_6", ("application", "weights"), "2")[2]
    yield "applications", "\n".join(map(application_line, APPLICATIONS))


def own(application: int) -> Row:
    """Return the row of an application with rates that can run."""
    return row(
        "todaes2022_table_6_6",
        ("application", "paper", "smallest, whole buffers"),
        str(application),
    )


def ends(values: list[float], form: str) -> str:
    """Return the least and the largest value, each with its application."""
    each = sorted(zip(values, APPLICATIONS, strict=True))
    return " to ".join(
        f"{form.format(value)} (application {place})" for value, place in (each[0], each[-1])
    )


def application_line(application: int) -> str:
    """Return the least memory of an application: printed, by Algorithm 9, by our searches."""
    evolved = row("todaes2022_algorithm_9", ("application", "limit MB"), str(application), "min")
    searched = row("todaes2022_table_6_6", ("application", "weights"), str(application))
    least = TABLE_6_6[f"application {application}"].ours[-1][1]
    printed = f"{least:.2f}" if least != round(least) else str(round(least))
    other = " (other networks)" if application == 5 else ""
    cells = (f"{application}{other}", printed, evolved[4], searched[8], own(application)[3])
    return f"| {' | '.join(cells)} |"


def taso() -> Iterator[tuple[str, str]]:
    """Yield what TASO claims, here."""
    for network in ("googlenet", "alexnet"):
        for memory in ("published", "own"):
            greedy = row("taso_published", FIGURE_10, network, memory)
            yield f"greedy_{network}_{memory}", greedy[2]
            yield f"less_{network}_{memory}", row("taso_published", FIGURE_6, network, memory)[5]
    sixth = row("taso_published", FIGURE_6, "googlenet", "published")
    yield "b_minus_a", sixth[4]
    yield "im2col_googlenet", sixth[6]
    largest = row("taso_published", ("network", "direct"), "vgg16")
    yield "largest_direct", largest[1]
    yield "largest_im2col", largest[3]
    workspace = row("taso_published", ("network", "A"), "googlenet")
    yield "workspace_saved", workspace[3]
    yield "workspace_step", f"{number(workspace[5]):.2f}"
    steps = [number(one[5]) for one in table("taso_published", "network", "A")]
    yield "workspace_steps", f"{max(steps):.2f}"
    solved = [row("taso_table1", ("network",), name) for name in VARIABLES]
    yield "solve_seconds", ", ".join(one[4] for one in solved)
    fronts = sorted(number(one[7]) for one in table("taso_table1", "network"))
    yield "front_seconds", f"{fronts[0]:.3f} to {fronts[-1]:.3f}"
    counted = [row("taso_published", ("network", "paper"), name) for name in VARIABLES]
    yield "variables", ", ".join(one[6] for one in counted)
    yield "printed_variables", ", ".join(str(count) for count, _ in VARIABLES.values())
    yield "printed_seconds", ", ".join(f"{seconds:g}" for _, seconds in VARIABLES.values())


def mafat() -> Iterator[tuple[str, str]]:
    """Yield what MAFAT claims, here."""
    for limit in (64, 16):
        faster = row("mafat_table4_1", CLAIM, f"faster than Darknet at {limit} MB")
        yield f"faster_{limit}_published", faster[3]
        yield f"faster_{limit}_own", faster[4]
    memory = row("mafat_table4_1", CLAIM, "memory of Darknet's")
    yield "memory_published", memory[3]
    yield "memory_own", memory[4]
    near = row("mafat_table4_1", CLAIM, "Algorithm 3 within of the best")
    yield "near_best", near[2]
    yield "near_best_own", near[4]
    smallest = row("mafat_table4_1", CLAIM, "smallest memory, 5x5/8/2x2")
    yield "smallest_published", smallest[3]
    yield "smallest_own", smallest[4]
    choices = table("mafat_table4_1", "limit MB", "best")
    yield "as_printed", str(sum(one[3] == one[6] for one in choices))
    yield "as_fitted", str(sum(one[3] == one[8] for one in choices))
    yield "choices", "\n".join(map(choice_line, choices))


def choice_line(cells: Row) -> str:
    """Return a limit with the printed choices and times, and ours by both predictors."""
    printed = TABLE_4_1[int(cells[0])]
    named = (
        cells[0],
        f"{printed.best}, {printed.best_ms}",
        f"{printed.chosen}, {printed.chosen_ms}",
        cells[6],
        cells[8],
    )
    return f"| {' | '.join(named)} |"


def liao() -> Iterator[tuple[str, str]]:
    """Yield what there is of the slides, here."""
    slides = row("liao_published", ("traffic in bytes",), "the schedule of the slides")
    yield "slides_published", slides[1]
    yield "slides_own", slides[2]
    best = [one for one in table("liao_pair", "schedule") if one[0].startswith("best")]
    yield "pair_best", best[0][6]


PAPERS: tuple[Callable[[], Iterator[tuple[str, str]]], ...] = (samos, todaes, taso, mafat, liao)


def page() -> str:
    """Return the page."""
    return TEMPLATE.read_text().format(**{name: text for paper in PAPERS for name, text in paper()})


if __name__ == "__main__":
    PAGE.write_text(page())
