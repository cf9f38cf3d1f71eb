"""Text and JSON of the answers of `csdf fifo`."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

from csdf.cli import answers
from csdf.cli.frame import terminal
from csdf.model import shown
from csdf.status import Status
from csdf.units import rate_in_words
from planners.fifo.cores import CoreCost, cost, split_cores, total_cost
from planners.fifo.design import LEAST_DEPTH, Design
from planners.fifo.event_graph import EventCycle
from planners.fifo.finn.reading import Folding, fifo_depths
from planners.fifo.hls.depths import CallSizing
from planners.fifo.sizing import Sizing
from planners.fifo.study import Study, TimedDepths

SHOWN_LAYERS = 5
SHOWN_NAMES = 4  # entries of a deadlock; the last may be the count of omitted entries
HERTZ = 10**6  # in a megahertz
FEWEST = {"elements": "fewest elements", "bram": "fewest block RAMs", "lut": "fewest LUTs"}
HEADS = {"bram": "BRAM_18K", "lut": "LUTs"}  # the other objectives are named as they are chosen


def as_text(
    found: Study,
    megahertz: Fraction,
    *,
    all_layers: bool = False,
    builder: str = "FINN",
    objective: str = "bits",
    effort: float | None = None,
) -> list[str]:
    """Return the answer in lines: the smallest depths, depths to compare, the layers.

    builder: whose design it is; cores and their costs are those of FINN. objective: what was to be
    small: bits, elements, block RAMs or LUTs. effort: of a search, in seconds.
    """
    design, depths = found.design, found.sizing.depths
    cut_short = f"{answers.CUT_SHORT}: " if found.sizing.is_cut_short else ""
    lines = [f"{design.name}: {cut_short}{verdict(found, megahertz, objective)}"]
    if depths:
        rows = [("FIFO", "depth", "width", "impl_style")]
        for fifo, depth, row in zip(design.fifos, depths, found.cores, strict=True):
            if depth > LEAST_DEPTH:
                cores = " + ".join(f"{core.depth} {core.style}" for core in row)
                rows.append((fifo.name, str(depth), f"{fifo.bits} bits", cores))
        unlisted = len(depths) - len(rows) + 1
        if len(rows) > 1:
            lines += table([row if builder == "FINN" else row[:3] for row in rows])
        if unlisted:
            lines.append(f"  {others_in_words(unlisted, len(depths))}: depth 2")
    size = [("design", _size(design))]
    lines += answers.table("", _facts(found, megahertz, builder, effort), size)[
        0 if depths else 1 :
    ]
    order = sorted(range(len(found.periods)), key=lambda number: -found.periods[number])
    listed = order if all_layers else order[:SHOWN_LAYERS]
    layers: list[tuple[str, ...]] = [("layer", "cycles", "estimate", "slack", "folding")]
    for number in listed:
        layer, period = design.layers[number], found.periods[number]
        estimate = "" if layer.estimate is None else str(layer.estimate)
        slack = f"{float(1 - period / found.least_period):.0%}"
        layers.append((layer.name, str(period), estimate, slack, layer.folding))
    if found.estimate is None:
        layers = [row[:2] + row[3:] for row in layers]
    lines += ["", *table(layers)]
    if len(order) > len(listed):
        lines.append(f"  {answers.counted(len(order) - len(listed), 'faster layer')}")
    lines += [f"  remark     {remark}" for remark in design.remarks]
    groups: dict[str, list[str]] = {}
    for layer in design.layers:
        for remark in layer.cluster.assumed:
            groups.setdefault(remark, []).append(layer.name)
    if groups:
        lines += ["", "assumed (not in the model):"]
        lines += [f"  {what}: {', '.join(groups[what])}" for what in sorted(groups, key=by_number)]
    else:
        lines.append("  assumed    nothing: every layer is timed from its RTL")
    return lines


def exit_code(sizing: Sizing | CallSizing, *, is_best_effort: bool) -> int:
    """Return 0 for depths, 1 if no depths reach the goal, 3 if the search ended too early to know."""
    if sizing.status is Status.INFEASIBLE:
        return answers.NO
    is_open = sizing.is_cut_short and not is_best_effort
    return answers.UNKNOWN if sizing.status is Status.UNKNOWN or is_open else answers.ANSWERED


def others_in_words(others: int, fifos: int) -> str:
    """Name the FIFOs that a table leaves out: all of them, or the others."""
    if others < fifos:
        return answers.counted(others, "other FIFO")
    return f"all {fifos} FIFOs" if fifos > 1 else "the FIFO"


def _size(design: Design) -> str:
    return (
        f"{answers.counted(len(design.layers), 'layer')}, "
        f"{answers.counted(len(design.fifos), 'FIFO')}, {design.events} events/frame"
    )


def verdict(found: Study, megahertz: Fraction, objective: str) -> str:
    """Return the smallest depths, for which rate, and what is proved of them; or why there are none."""
    design, sizing = found.design, found.sizing
    goal = "freedom from deadlock" if sizing.period is None else _rate(sizing.period, megahertz)
    if not design.fifos and sizing.status is not Status.INFEASIBLE:
        return f"no FIFOs; {_rate(found.least_period, megahertz)}"
    if not sizing.depths:
        is_refused = sizing.status is Status.INFEASIBLE
        why = _why_not(found) if is_refused else sizing.reason
        return f"no depths{'' if is_refused else ' found'} for {goal}: {why}"
    bits = design.bits(sizing.depths)
    size = f"{bits} bits"
    if objective != "bits":
        # Other depths of the same cost could have fewer bits.
        ties = "" if sizing.least_bits is None else f", at least {sizing.least_bits}"
        ties = ", no fewer" if sizing.least_bits == bits else ties
        unit = {"elements": "element", "bram": "BRAM_18K", "lut": "LUT"}[objective]
        cost = f"{sizing.cost} {unit}" if unit == "BRAM_18K" else answers.counted(sizing.cost, unit)
        size = f"{cost} ({size}{ties})"
    shallow_cycle = found.at_depth_2.cycle
    is_deadlock = (
        shallow_cycle is not None and shallow_cycle.period is None and not shallow_cycle.is_bound
    )
    remarks = "; depth 2 would deadlock" if is_deadlock else ""
    if max(sizing.depths) == LEAST_DEPTH:
        remarks = "; depth 2 is enough"
    cycle = None if found.written is None else found.written.cycle
    if cycle is not None and (
        cycle.period is None or (sizing.period is not None and cycle.period > sizing.period)
    ):
        remarks += (
            f"; chains of cores {'may be' if cycle.is_bound else 'are'} slower: see 'written'"
        )
    return f"FIFOs of {size} for {goal}: {in_proof(sizing, objective)}{remarks}"


def _facts(
    found: Study, megahertz: Fraction, builder: str, effort: float | None
) -> Iterator[tuple[str, str]]:
    design, sizing = found.design, found.sizing
    yield "max rate", _rate(found.least_period, megahertz)
    yield "bottleneck", _layer(design, found.bottleneck)
    if found.estimate is not None:
        cycles, layer = found.estimate
        off = cycles - found.periods[layer]
        error = answers.counted(abs(off), "cycle")
        verdict = f"{error} too {'many' if off > 0 else 'few'}" if off else "exact"
        yield "estimate", f"FINN {cycles}, by {design.layers[layer].name}: {verdict}"
    yield "depth 2", _compared(design, found.at_depth_2, megahertz)
    if found.as_given is not None:
        yield "as given", _compared(design, found.as_given, megahertz)
    if found.fix is not None and found.fix.depths:
        start = found.as_given or found.at_depth_2
        more = [
            f"{fifo.name!r} from {old} to {new}"
            for fifo, old, new in zip(design.fifos, start.depths, found.fix.depths, strict=True)
            if new > old
        ]
        proof = "" if found.fix.status is Status.OPTIMAL else "; less may do"
        extra = design.bits(found.fix.depths) - start.bits
        yield "min fix", f"{', '.join(more)}: {extra} bits more{proof}"
    if found.automatic is not None:
        yield (
            "automatic",
            f"{found.automatic.bits} bits by largefifo_rtlsim (max. occupancy in unbounded FIFOs; "
            "if above 2, at least 32)",
        )
    if sizing.status is Status.INFEASIBLE and sizing.period is not None:
        slow = sum(period > sizing.period for period in found.periods)
        where = design.layers[found.bottleneck].name
        if slow > 1:
            goal = answers.number(sizing.period)
            where = f"{slow} layers slower than {goal} cycles (--layers lists them)"
        yield "next", f"more parallelism in {where}, or --period {found.least_period}"
    if sizing.status is Status.FEASIBLE and effort is not None:
        longer = 60 if effort < 60 else 10 * effort
        yield "next", f"--effort {longer:g}s: to prove this size, or to find a smaller one"
    if sizing.depths and builder == "FINN":
        total, chains = found.cost, total_cost(design, [*map(split_cores, sizing.depths)])
        fewer = f"; {chains.blocks} with --split" if chains.blocks < total.blocks else ""
        yield (
            "cores",
            f"{sum(map(len, found.cores))} FIFO cores: {total.luts} LUTs, {total.blocks} BRAM_18K "
            f"by FINN's estimate{fewer}",
        )
        if found.written is not None and found.written.cycle is not None:
            period = found.written.cycle.period
            prefix = "at most " if found.written.cycle.is_bound else ""
            speed = (
                "DEADLOCK" if period is None else f"{prefix}{answers.number(period)} cycles/frame"
            )
            yield "written", f"rounded up to the cores: {found.written.bits} bits, {speed}"


def _rate(period: Fraction, megahertz: Fraction, *, is_bound: bool = False) -> str:
    """The cycles of a frame and the rate; is_bound: the hardware may be faster."""
    at_most, at_least = ("at most ", "at least ") if is_bound else ("", "")
    speed = rate_in_words(megahertz * HERTZ / period)
    cycles = f"{at_most}{answers.number(period)} cycles/frame"
    return f"{cycles}, {at_least}{speed} frames/s at {megahertz} MHz"


def _layer(design: Design, number: int) -> str:
    layer = design.layers[number]
    return f"{layer.name} ({layer.folding})" if layer.folding else layer.name


def _compared(design: Design, found: TimedDepths, megahertz: Fraction) -> str:
    cycle, bits = found.cycle, f"{found.bits} bits"
    if cycle is None:
        return bits
    if cycle.period is not None:
        return f"{bits}, {_rate(cycle.period, megahertz, is_bound=cycle.is_bound)}"
    full = _few([repr(design.fifos[fifo].name) for fifo in cycle.fifos], ", ", "full_fifos")
    path = _few([design.layers[layer].name for layer in cycle.layers], " -> ", "waiting")
    dead = "may DEADLOCK" if cycle.is_bound else "DEADLOCK"
    return f"{bits}, {dead}: full: {full}; each waits for the next: {path}"


def _few(names: Sequence[str], joint: str, key: str) -> str:
    """The first names and the last one, how many there are between them, and where in JSON."""
    if len(names) <= SHOWN_NAMES:
        return joint.join(names)
    between = f"({len(names) - SHOWN_NAMES + 1} more: {key!r} in --json)"
    return joint.join([*names[: SHOWN_NAMES - 2], between, names[-1]])


def _why_not(found: Study) -> str:
    cycle: EventCycle | None = found.sizing.cycle
    if cycle is None or cycle.period is None:
        return "the layers wait for one another whatever the FIFOs hold"
    return f"{_layer(found.design, cycle.layers[0])} needs {cycle.period} cycles"


def in_proof(sizing: Sizing, objective: str = "bits") -> str:
    """Say what is proved about depths, in the model of the design; no gap is said as nothing."""
    best = FEWEST.get(objective, "smallest")
    if sizing.status is Status.OPTIMAL:
        return f"proved the {best}"
    remark = "; no FIFO alone can be shallower" if sizing.is_minimal else ""
    gap = sizing.gap
    if gap is None:
        return f"lower bound 0{remark}"
    above = "less than 0.1%" if gap < Fraction(1, 1000) else f"at most {float(gap):.1%}"
    unit = "bits " if objective == "bits" else ""
    return f"{above} above the {best} ({sizing.lower_bound} {unit}or more){remark}"


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return rows as lines, the first and the last column to the left, others to the right."""
    return terminal.aligned(rows, texts=(0, len(rows[0]) - 1), indent="  ")


def by_number(remark: str) -> list[tuple[bool, int, str]]:
    """The order of remarks: numbers in them by their size."""
    parts = re.split(r"(\d+)", remark)
    return [(part.isdecimal(), int(part) if part.isdecimal() else 0, part) for part in parts]


def front_text(
    design: Design, points: Sequence[Sizing], megahertz: Fraction, objective: str = "bits"
) -> list[str]:
    """Return the trade-off between the objective and the rate as a table, with the bits."""
    cost_head = () if objective == "bits" else (HEADS.get(objective, objective),)
    rows = [(*cost_head, "bits", "cycles/frame", "frames/s", "proved")]
    for point in points:
        period = point.period or Fraction(1)
        speed = rate_in_words(megahertz * HERTZ / period)
        cost = (str(point.cost),) if cost_head else ()
        bits = str(design.bits(point.depths))
        rows.append((*cost, bits, answers.number(period), speed, in_proof(point, objective)))
    ends = dict.fromkeys(f"{row[-4]} bits at {row[-2]} frames/s" for row in (rows[1], rows[-1]))
    title = f"{design.name}: {answers.counted(len(points), 'Pareto point')}; {' to '.join(ends)}"
    return [title, *table(rows), answers.Detail(f"  design     {_size(design)}")]


def front_json(design: Design, points: Sequence[Sizing], objective: str = "bits") -> Any:
    """Return the trade-off as a JSON value."""
    front = [_sizing_json(design, point) for point in points]
    return shown.as_json({"design": design.name, "objective": objective, "front": front})


def as_json(found: Study, megahertz: Fraction) -> Any:
    """Return the answer as a JSON value; fractions as texts, names as FINN has them."""
    design, estimate = found.design, None
    names = [layer.name for layer in design.layers]
    if found.estimate is not None:
        cycles, number = found.estimate
        estimate = {"max_cycles": cycles, "layer": names[number]}
    fifos = [
        {
            "name": fifo.name,
            "width": fifo.bits,
            "elements_per_frame": fifo.words,
            "depth": depth,
            "cores": [
                {"impl_style": core.style, "depth": core.depth, **_resources(cost(core, fifo.bits))}
                for core in row
            ],
        }
        for fifo, depth, row in zip(design.fifos, found.sizing.depths, found.cores, strict=False)
    ]
    layers = [
        {
            "name": layer.name,
            "operator": layer.kind,
            "period": period,
            "cycles_estimate": layer.estimate,
            "slack": found.least_period - period,
            "assumed": layer.cluster.assumed,
        }
        for layer, period in zip(design.layers, found.periods, strict=True)
    ]
    value = {
        "design": design.name,
        "clock_mhz": megahertz,
        "bottleneck": {"period": found.least_period, "layer": names[found.bottleneck]},
        "estimate": estimate,
        "depth_2": _depths_json(design, found.at_depth_2),
        "given": _depths_json(design, found.as_given),
        "largefifo_rtlsim": _depths_json(design, found.automatic),
        "smallest": _sizing_json(design, found.sizing),
        "deadlock_fix": None if found.fix is None else _sizing_json(design, found.fix),
        "written": _depths_json(design, found.written),
        "resources": _resources(found.cost),
        "fifos": fifos,
        "layers": layers,
        "remarks": design.remarks,
    }
    return shown.as_json(value)


def _resources(of: CoreCost) -> dict[str, int]:
    return {"LUT": of.luts, "BRAM_18K": of.blocks}


def _depths_json(design: Design, found: TimedDepths | None) -> dict[str, Any] | None:
    if found is None:
        return None
    value: dict[str, Any] = {"bits": found.bits}
    if (cycle := found.cycle) is not None:
        # A chain of cores adds layers and FIFOs that the design does not have.
        fifos = [fifo.name for fifo in design.fifos]
        layers = [layer.name for layer in design.layers]
        value |= {
            "deadlock": cycle.period is None,
            "period": cycle.period,
            "is_bound": cycle.is_bound,
            "full_fifos": [fifos[fifo] for fifo in cycle.fifos if fifo < len(fifos)],
            "waiting": [layers[layer] for layer in cycle.layers if layer < len(layers)],
        }
    if len(found.depths) == len(design.fifos):
        value["depths"] = design.named(found.depths)
    return value


def _sizing_json(design: Design, sizing: Sizing) -> dict[str, Any]:
    return {
        "status": sizing.status,
        "reason": sizing.reason,
        "period": sizing.period,
        "bits": design.bits(sizing.depths) if sizing.depths else sizing.cost,
        "cost": sizing.cost,  # what was to be small; lower_bound is of it
        "lower_bound": sizing.lower_bound,
        "depths": design.named(sizing.depths) if sizing.depths else {},
        "evaluations": sizing.evaluations,
    }


def config_text(path: str, folding: Folding) -> list[str]:
    """Return the FIFO depths of a folding file alone."""
    nodes = fifo_depths(folding)
    operators = Counter(name.rpartition("_")[0] for name in folding if name != "Defaults")
    listed = ", ".join(f"{count} {name}" for name, count in sorted(operators.items()))
    total, largest = sum(nodes.values()), max(nodes.values(), default=0)
    return [
        f"{path}: {len(nodes)} FIFOs, total depth {total}, max. depth {largest}; no model",
        f"  layers      {listed}",
        "  not known   shapes, streams and widths: they are in the ONNX model. So neither bits nor "
        "smallest depths follow from this file; give the model, and this file as --folding",
    ]
