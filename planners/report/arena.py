"""What a report says about the arenas of a network: every buffer in one block of bytes, over time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from cnn2csdf.commands.cnn import options as shared
from cnn2csdf.granularity import WHOLE, Granularity
from cnn2csdf.network import Network
from csdf.cli.reporting.budget import Budget
from csdf.cli.reporting.subject import Subject
from csdf.draw.report.markup import Html, element, joined
from csdf.draw.report.sections import Contribution, Need, Section, left_out
from csdf.draw.report.words import byte_count, percent
from csdf.errors import CsdfError, GaveUp
from planners.arena.allocation import Progress, plan_arena
from planners.plan import MemoryPlan
from planners.reuse.applications.application import Application, undivided
from planners.reuse.evaluation import Costs, Evaluator
from planners.reuse.offset_problem import offset_problem

PATIENCE = 60  # steps of the search for an arena; the same plan on every machine
WAYS = ("whole layers", "by parts")


class Arena(NamedTuple):
    """A plan for all buffers of a network. order: the layer that fires in each step."""

    title: str
    plan: MemoryPlan
    order: tuple[str, ...]
    prefix: str = ""  # of the names of buffers, in the plan


def contribution(subject: Subject, budget: Budget) -> Contribution | None:
    """Return the arenas of a network: as a whole, and by parts."""
    if not isinstance(subject.value, Network):
        return None
    arenas: list[Arena] = []
    reason = ""
    try:
        for arena in _arenas(subject.value, subject, budget):
            arenas.append(arena)  # those before a refusal are kept
    except CsdfError as refusal:
        reason = str(refusal)
    return arena_contribution(arenas, reason)


def arena_contribution(arenas: list[Arena], reason: str = "") -> Contribution:
    """Return what arenas add to a page; reason: why some of them are left out."""
    bounds = [arena.plan.lower_bound for arena in arenas]
    return Contribution(
        sections=(Section("arena", "Arena over time", _section(arenas, reason)),),
        needs=tuple(Need(f"{arena.title}, one arena", arena.plan.peak) for arena in arenas),
        lower_bound=min(bounds) if len(bounds) == len(WAYS) else None,
        facts=tuple(f"{arena.title.capitalize()}, {in_words(arena.plan)}" for arena in arenas),
        data={"arenas": [data_of(arena) for arena in arenas]},
    )


def _arenas(network: Network, subject: Subject, budget: Budget) -> Iterator[Arena]:
    """One arena for the network as a whole, and one by parts."""
    options = subject.options
    costs = Costs(
        element_bytes=options.element_bytes,
        parameter_bytes=options.element_bytes,
        platform=shared.platform_of(options),
    )
    application = Application(name=network.name, members=(undivided(network),))
    evaluator = Evaluator(application, costs)
    for title, chosen in zip(WAYS, (WHOLE, shared.granularity_of(options)), strict=True):
        with budget.limited(0.3):
            arena = _arena(evaluator, title, chosen, budget)
        yield arena


def _arena(evaluator: Evaluator, title: str, granularity: Granularity, budget: Budget) -> Arena:
    layers = [layer for _, layer in evaluator.application.layers]
    plan = evaluator.plan(tuple(granularity.layers.get(one, granularity.rows) for one in layers))
    names = [layer.name for layer in evaluator.models[0].table.layers]
    return Arena(
        title,
        plan_arena(offset_problem(evaluator, plan), watch=_patient_watch(title, budget)),
        tuple(names[number] for number in plan.orders[0]),
        f"{evaluator.application.members[0].name}: ",
    )


def _patient_watch(title: str, budget: Budget) -> Callable[[Progress], None]:
    """A watch that ends the search in time, and after so many steps everywhere."""
    look = budget.watch(
        0.2, lambda one: f"arena, {title}: {one.peak} bytes, at least {one.lower_bound}"
    )
    steps = iter(range(PATIENCE))

    def watch(progress: Progress) -> None:
        look(progress)
        if next(steps, None) is None:
            raise GaveUp(f"{PATIENCE} steps found no smaller arena")

    return watch


def in_words(plan: MemoryPlan) -> str:
    """Return the size of an arena with what is proved of it."""
    size = byte_count(plan.peak)
    if plan.peak == plan.lower_bound:
        return (
            f"one arena of {size} ({plan.peak} bytes) holds these buffers; no arena smaller does."
        )
    return (
        f"one arena of {size} ({plan.peak} bytes) holds these buffers; none is below "
        f"{byte_count(plan.lower_bound)} ({plan.lower_bound} bytes), a gap of "
        f"{percent(plan.gap)}."
    )


def _section(arenas: list[Arena], reason: str) -> Html:
    if not arenas:
        return left_out(reason)
    said = [
        element("li", f"{arena.title.capitalize()}: {in_words(arena.plan)}") for arena in arenas
    ]
    return joined(
        [
            element(
                "p",
                "Every buffer in its place: steps of the schedule on one processor across, bytes up. "
                "Arrow keys go from buffer to buffer.",
            ),
            element("ul", *said),
            *([left_out(reason)] if reason else []),
            element("div", class_="tools", id="arena-tools"),
            element("div", class_="chart", id="arena-chart"),
            element("p", class_="detail", id="arena-detail", role="status"),
        ]
    )


def data_of(arena: Arena) -> dict[str, Any]:
    """Return an arena for the scripts: boxes, and which layer fires in each step."""
    plan = arena.plan
    names = list(dict.fromkeys(arena.order))
    number = {name: index for index, name in enumerate(names)}
    return {
        "title": arena.title,
        "peak": plan.peak,
        "bound": plan.lower_bound,
        "steps": len(arena.order),
        "layers": names,
        "order": _runs([number[name] for name in arena.order]),
        "boxes": [
            [
                one.name.removeprefix(arena.prefix), one.start, one.end,
                plan.offsets[one.name], one.size,
            ]
            for one in plan.problem.buffers
            if one.takes_room
        ],
    }  # fmt: skip


def _runs(values: list[int]) -> list[int]:
    """Equal neighbours as a value and how many there are."""
    found: list[int] = []
    for value in values:
        if found and found[-2] == value:
            found[-1] += 1
        else:
            found += [value, 1]
    return found
