"""Pictures of `csdf fit`: the buffers of a plan over time, and the trade-off of RAM and MACs."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import accumulate, starmap

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from cnn2csdf.network import Network
from cnn2csdf.weights import Model
from csdf.arguments import public
from csdf.draw.picture import log_across, rendered
from csdf.units import bytes_in_words
from planners.arena.command.picture import DrawnBuffer, arena_picture, draw_arena, draw_boxes
from planners.memory.answer import Fit, SlowTraffic
from planners.memory.command.lifetimes import firings_and_lives
from planners.plan.carried_out import require_carried_out
from planners.plan.plan import StreamingPlan

# A panel of a memory is this many times lower than the picture of an arena, with the same letters.
LOWER = 1.8
LEAST_SPAN = Fraction(1, 10)  # of the axis of work, so that 1 alone is no magnified axis
COLOURS = ("#357", "#c63", "#585", "#85a", "#999", "#a33")


def plan_picture(networks: Sequence[Network], fits: Sequence[Fit], suffix: str) -> str | bytes:
    """Return the plans of answers over time: the bytes of each buffer, while firings use it.

    A frame of each network is drawn, sequentially; a plan in several memories has a panel for each
    memory. Raises UnwritableFile if the suffix is not a picture format.
    """
    methods = [fit.shown for fit in fits]
    if len(fits) == 1 and methods[0].plan.memories:
        return memories_picture(networks[0], methods[0].plan, suffix)
    boxes: list[DrawnBuffer] = []
    for network, method in zip(networks, methods, strict=True):
        begin = max((box.end for box in boxes), default=0)
        for box in starmap(DrawnBuffer, firings_and_lives(network, method.plan)[1]):
            boxes.append(box._replace(start=begin + box.start, end=begin + box.end))
    arena = max(method.plan.arena_bytes for method in methods)
    names = ", ".join(fit.network for fit in fits)
    about = f"{names}, {methods[0].name}" if len(fits) == 1 else names
    title = f"{about}: arena of {bytes_in_words(arena)}"
    limits = [
        fit.ram - method.needed_ram + method.plan.arena_bytes
        for fit, method in zip(fits, methods, strict=True)
        if fit.ram is not None
    ]
    return arena_picture(
        title,
        boxes,
        bound=max(fit.lower_bound for fit in fits),
        capacity=min(limits, default=None),
        suffix=suffix,
        across="firings of a frame",
    )


@public
def plot_plan(axes: Axes, network: Network | Model, plan: StreamingPlan) -> None:
    """Draw a plan on Matplotlib axes: the bytes of each buffer while firings of a frame use it.

    network: the network of the plan. Several memories of a plan are drawn one above the other.
    """
    network = network.network if isinstance(network, Model) else network
    require_carried_out(network, plan)
    draw_arena(axes, list(starmap(DrawnBuffer, firings_and_lives(network, plan)[1])))
    axes.set_xlabel("firings of a frame")


def memories_picture(network: Network, plan: StreamingPlan, suffix: str) -> str | bytes:
    """Return the buffers of each memory over the firings of a frame, with a panel for each memory."""
    buffers = list(starmap(DrawnBuffer, firings_and_lives(network, plan)[1]))
    last = max((buffer.end for buffer in buffers), default=1)
    placed = [(memory, begin) for memory, begin in plan.placed_memories if memory.size]
    figure = Figure(figsize=(5.4, 2.6 * len(placed) + 0.4), layout="constrained")
    panels = figure.subplots(len(placed), 1, sharex=True, squeeze=False)[::-1, 0]
    for axes, (memory, begin) in zip(panels, placed, strict=True):
        inside = range(begin, begin + memory.size)
        boxes = [
            buffer._replace(offset=buffer.offset - begin)
            for buffer in buffers
            if buffer.offset in inside
        ]
        axes.set_xlim(0, last)
        axes.set_ylim(0, memory.size)
        draw_boxes(axes, boxes, last, memory.size * LOWER)
        axes.yaxis.set_major_formatter(lambda value, _: f"{value / 1000:g}")
        speed = "slow" if memory.is_slow else "fast"
        axes.set_ylabel(f"{memory.name}, {speed} (kB)")
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].set_xlabel("firings of a frame")
    title = f"{plan.network}: {bytes_in_words(plan.slow_bytes)} to and from slow memory in a frame"
    figure.suptitle(title, fontsize=10)
    return rendered(figure, title, suffix)


def traffic_picture(network: str, front: Sequence[SlowTraffic], suffix: str) -> str | bytes:
    """Return slow-memory traffic over the size of the first memory, with greedy splits and bounds.

    If times are known, the picture shows time over this size instead.
    """
    is_timed = any(point.nanoseconds is not None for point in front)
    unit = 10**6 if is_timed else 1000  # milliseconds, or kB
    figure = Figure(figsize=(5.4, 4.2), layout="constrained")
    axes = figure.add_subplot()
    lines: list[tuple[str, str, list[int | None]]] = [
        ("plan", "o-", [point.nanoseconds if is_timed else point.moved for point in front]),
        ("greedy split", "s:", [point.greedy for point in front]),
        ("at least", "_--", [point.lower_bound for point in front]),
    ]
    for word, style, values in lines[:1] if is_timed else lines:
        points = [
            (point.memories[0].size / 1000, value / unit)
            for point, value in zip(front, values, strict=True)
            if value is not None
        ]
        across, up = [size for size, _ in points], [value for _, value in points]
        axes.plot(across, up, style, color=COLOURS[0], markersize=4, linewidth=1.1)
        axes.lines[-1].set_label(f"{network}: {word}")
    log_across(axes)
    if not is_timed:
        axes.set_yscale("symlog", linthresh=1)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.set_ylim(bottom=0)
    axes.set_xlabel("fast memory (kB = 1,000 bytes, log scale)")
    axes.set_ylabel(
        "time of a frame (ms)" if is_timed else "slow bytes in a frame (kB, log from 1 on)"
    )
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=9)
    title = "time of a frame" if is_timed else "slow bytes"
    return rendered(figure, f"{title} over fast memory", suffix)


def work_axis(works: Sequence[Fraction]) -> tuple[float, float]:
    """Return the ends of the MACs axis, which begins with the minimum.

    The minimum is 1, the network without recomputation, or 0 if it has no MACs.
    """
    least, most = min(Fraction(1), *works), max(works)
    return float(least), float(max(most + (most - least) / 20, least + LEAST_SPAN))


def fit_picture(fits: Sequence[Fit], suffix: str) -> str | bytes:
    """Return the picture: a line of trade-offs for each network, with its limit.

    Raises UnwritableFile if the suffix is not a picture format.
    """
    figure = Figure(figsize=(5.4, 4.2), layout="constrained")
    axes = figure.add_subplot()
    _draw_fits(axes, fits)
    axes.legend(frameon=False, fontsize=9)
    return rendered(figure, "RAM against MACs", suffix)


@public
def plot_fit(axes: Axes, found: Fit) -> None:
    """Draw the methods of an answer on Matplotlib axes: RAM to the right, MACs upwards."""
    _draw_fits(axes, [found])


def _draw_fits(axes: Axes, fits: Sequence[Fit]) -> None:
    """Draw the plans of each network as dots, the minimum of MACs that fits as steps, and the limit."""
    for number, fit in enumerate(fits):
        colour = COLOURS[number % len(COLOURS)]
        methods = sorted(fit.methods, key=lambda method: method.needed_ram)
        sizes = [method.needed_ram / 1000 for method in methods]
        works = [float(method.mac_ratio) for method in methods]
        axes.plot(sizes, works, "o", color=colour, markersize=4, label=fit.network, clip_on=False)
        fewest_macs = list(accumulate(works, min))
        axes.step(sizes, fewest_macs, where="post", color=colour, linewidth=1.2)
    limits = [fit.ram for fit in fits if fit.ram is not None]
    if limits:  # one option: the same for all
        label = f"--ram: {bytes_in_words(limits[0])}"
        axes.axvline(limits[0] / 1000, color="#777", linewidth=1.1, linestyle="--", label=label)
    axes.set_ylim(*work_axis([method.mac_ratio for fit in fits for method in fit.methods]))
    log_across(axes)
    axes.set_xlabel("RAM (kB = 1,000 bytes, log scale)")
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:.4g}x")
    axes.set_ylabel("MACs (1x: no recomputation)")
    axes.spines[["top", "right"]].set_visible(False)
