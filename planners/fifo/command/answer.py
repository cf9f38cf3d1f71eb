"""The answer of `csdf fifo finn` in words and as JSON."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from csdf.cli import answers
from csdf.cli.frame import terminal
from csdf.outcome import Status
from csdf.words import rate_in_words
from planners.fifo.cores import Core, cost
from planners.fifo.design import LEAST_DEPTH, Design
from planners.fifo.event_graph import Circuit
from planners.fifo.finn.folding_file import Folding, fifo_depths
from planners.fifo.sizing import Sizing
from planners.fifo.study import Depths, Study

SHOWN_LAYERS = 5
SHOWN_NAMES = 4  # of a deadlock, the words for those left out being one
HERTZ = 10**6  # of a megahertz


def as_text(
    found: Study,
    megahertz: Fraction,
    *,
    all_layers: bool = False,
    builder: str = "FINN",
    objective: str = "bits",
) -> str:
    """Return the answer: the rate, the depths in other ways, the depths, the layers.

    builder: whose design it is; cores and their costs are those of FINN. objective: what was to be
    small: bits, words, block RAMs or LUTs.
    """
    lines = [
        f"{found.design.name}: {_counts(found.design)}",
        f"  full rate  {_rate(found.full, megahertz)}",
        f"  slowest    {_layer(found.design, found.slowest)} needs these cycles by itself",
        *_estimate(found),
        f"  depth 2    {_in_words(found.design, found.shallow, megahertz)}",
        *_given(found, megahertz),
        *_automatic(found),
        *_repair(found),
        *_sizing(found, megahertz, builder, objective),
        *_fifos(found, builder),
        *_layers(found, all_layers=all_layers),
        *[f"  remark     {one}" for one in found.design.remarks],
        *_assumed(found.design),
    ]
    return answers.one_text(lines)


def _counts(design: Design) -> str:
    return (
        f"{answers.counted(len(design.layers), 'layer')}, "
        f"{answers.counted(len(design.fifos), 'FIFO')}, {design.events} events in a frame"
    )


def _rate(period: Fraction, megahertz: Fraction) -> str:
    speed = rate_in_words(megahertz * HERTZ / period)
    return f"{answers.number(period)} cycles/frame, {speed} frames/s at {megahertz} MHz"


def _layer(design: Design, number: int) -> str:
    layer = design.layers[number]
    return f"{layer.name} ({layer.folding})" if layer.folding else layer.name


def _estimate(found: Study) -> list[str]:
    if found.estimate is None:
        return []
    cycles, name = found.estimate
    own = found.periods[found.design.layer(name)]
    off = cycles - own
    verdict = (
        "as it needs" if not off else f"it needs {own}, {abs(off)} {'fewer' if off > 0 else 'more'}"
    )
    return [f"  estimate   FINN expects {cycles}, by {name}: {verdict}"]


def _in_words(design: Design, found: Depths, megahertz: Fraction) -> str:
    if found.circuit is None:
        return f"{found.bits} bits"
    if found.circuit.period is None:
        dead = "may DEADLOCK" if found.circuit.is_bound else "DEADLOCK"
        return f"{found.bits} bits, {dead}: {_circle(design, found.circuit)}"
    most = "at most " if found.circuit.is_bound else ""
    return f"{found.bits} bits, {most}{_rate(found.circuit.period, megahertz)}"


def _circle(design: Design, circuit: Circuit) -> str:
    """Say a deadlock; where many take part, JSON has all of them."""
    full = _few([repr(design.fifos[one].name) for one in circuit.fifos], ", ", "full")
    way = _few([design.layers[one].name for one in circuit.layers], " -> ", "waiting")
    return f"full: {full}; each waits for the next: {way}"


def _few(names: Sequence[str], joint: str, key: str) -> str:
    """The first names and the last one, how many there are between them, and where in JSON."""
    if len(names) <= SHOWN_NAMES:
        return joint.join(names)
    between = f"({len(names) - SHOWN_NAMES + 1} more: {key!r} in --json)"
    return joint.join([*names[: SHOWN_NAMES - 2], between, names[-1]])


def _given(found: Study, megahertz: Fraction) -> list[str]:
    if found.given is None:
        return []
    return [f"  as given   {_in_words(found.design, found.given, megahertz)}"]


def _automatic(found: Study) -> list[str]:
    if found.automatic is None:
        return []
    return [
        f"  automatic  {found.automatic.bits} bits by FINN's rule (the most that each FIFO holds where "
        "none is ever full, from 3 on at least 32)"
    ]


def _repair(found: Study) -> list[str]:
    if found.repair is None or not found.repair.depths:
        return []
    start = found.given or found.shallow
    more = [
        f"{fifo.name!r} from {old} to {new}"
        for fifo, old, new in zip(
            found.design.fifos, start.depths, found.repair.depths, strict=True
        )
        if new > old
    ]
    proof = (
        "the smallest change"
        if found.repair.status is Status.OPTIMAL
        else "a change that is enough"
    )
    extra = found.design.bits(found.repair.depths) - start.bits
    return [f"  no more    {proof}: {', '.join(more)}; {extra} bits more"]


def _sizing(found: Study, megahertz: Fraction, builder: str, objective: str) -> list[str]:
    sizing = found.sizing
    goal = "no deadlock" if sizing.period is None else _rate(sizing.period, megahertz)
    if sizing.status is Status.INFEASIBLE:
        return [f"  depths     none for {goal}: {_why_not(found)}"]
    if not sizing.depths:
        return [f"  depths     none found for {goal}: {sizing.reason}"]
    bits = found.design.bits(sizing.depths)
    size = f"{bits} bits"
    if objective != "bits":
        size = f"{_cost(sizing.bits, objective)} ({size}{_ties(sizing, bits)})"
    lines = [f"  depths     {size} for {goal}: {in_proof(sizing, objective)}"]
    if builder != "FINN":
        return lines
    luts, blocks, ultra = found.cost.luts, found.cost.blocks, found.cost.ultra
    lines.append(
        f"  cores      {sum(map(len, found.cores))} FIFO cores: {luts} LUTs, "
        f"{answers.counted(blocks, 'block RAM')} (18 kbit), "
        f"{answers.counted(ultra, 'UltraRAM')} by FINN's estimate"
    )
    if found.written is not None and found.written.circuit is not None:
        period = found.written.circuit.period
        does = "DEADLOCK" if period is None else f"{answers.number(period)} cycles/frame"
        lines.append(f"  written    what the cores hold: {found.written.bits} bits, {does}")
    return lines


def _ties(sizing: Sizing, bits: int) -> str:
    """Say whether other depths of the same cost could have fewer bits."""
    if sizing.least_bits is None:
        return ""
    return ", no fewer" if bits == sizing.least_bits else f", at least {sizing.least_bits}"


def _cost(amount: int, objective: str) -> str:
    """Say an objective other than bits."""
    if objective == "bram":
        return f"{answers.counted(amount, 'block RAM')} of 18 kbit"
    if objective == "words":
        return answers.counted(amount, "word")
    return f"{answers.counted(amount, 'LUT')} of shift registers"


FEWEST = {"words": "fewest words", "bram": "fewest block RAMs", "lut": "fewest LUTs"}


def _why_not(found: Study) -> str:
    circuit = found.sizing.circuit
    if circuit is None or circuit.period is None:
        return "the layers wait for one another whatever the FIFOs hold"
    return f"{_layer(found.design, circuit.layers[0])} needs {circuit.period} cycles"


def in_proof(sizing: Sizing, objective: str = "bits") -> str:
    """Say what is proved about depths, in the model of the design."""
    best = FEWEST.get(objective, "smallest")
    if sizing.status is Status.OPTIMAL:
        return f"proved the {best}"
    narrow = "no single depth can be less, " if sizing.is_narrow else ""
    return f"{narrow}{_above(sizing.gap)} above the {best} (at least {sizing.lower_bound})"


def _above(gap: Fraction) -> str:
    """Say a gap in percent, and never as nothing."""
    return "less than 0.1%" if gap < Fraction(1, 1000) else f"at most {float(gap):.1%}"


def _fifos(found: Study, builder: str) -> list[str]:
    rows = [
        (fifo.name, str(depth), f"{fifo.bits} bits", _cores(row))
        for fifo, depth, row in zip(
            found.design.fifos, found.sizing.depths, found.cores, strict=False
        )
        if depth > LEAST_DEPTH
    ]
    others = len(found.sizing.depths) - len(rows)
    if not found.sizing.depths:
        return []
    shown = [("FIFO", "depth", "word", "core"), *rows]
    lines = ["", *table([row if builder == "FINN" else row[:3] for row in shown])] if rows else []
    if others:
        lines.append(f"  {answers.counted(others, 'other FIFO')}: depth 2")
    return lines


def _cores(row: Sequence[Core]) -> str:
    return " + ".join(f"{core.depth} {'SRL' if core.style == 'rtl' else 'vendor'}" for core in row)


def _layers(found: Study, *, all_layers: bool) -> list[str]:
    order = sorted(range(len(found.periods)), key=lambda one: -found.periods[one])
    shown = order if all_layers else order[:SHOWN_LAYERS]
    rows = [("layer", "cycles", "estimate", "slack", "folding")]
    for one in shown:
        layer = found.design.layers[one]
        rows.append(
            (
                layer.name,
                str(found.periods[one]),
                "" if layer.estimate is None else str(layer.estimate),
                f"{float(1 - found.periods[one] / found.full):.0%}",
                layer.folding,
            )
        )
    lines = ["", *table(rows)]
    if len(order) > len(shown):
        lines.append(f"  {answers.counted(len(order) - len(shown), 'faster layer')}")
    return lines


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return rows as lines, the first and the last column to the left, others to the right."""
    return terminal.aligned(rows, texts=(0, len(rows[0]) - 1), indent="  ")


def _assumed(design: Design) -> list[str]:
    """Return what the model does not say, layers with the same words together."""
    groups: dict[str, list[str]] = {}
    for layer in design.layers:
        for remark in layer.cluster.assumed:
            groups.setdefault(remark, []).append(layer.name)
    if not groups:
        return ["  assumed    nothing: every layer is timed from its RTL"]
    return ["", "assumed, for the model does not say it:"] + [
        f"  {remark}: {', '.join(names)}" for remark, names in sorted(groups.items(), key=by_number)
    ]


def by_number(group: tuple[str, list[str]]) -> list[tuple[bool, int, str]]:
    """The order of remarks: numbers in them by their size."""
    parts = re.split(r"(\d+)", group[0])
    return [(one.isdecimal(), int(one) if one.isdecimal() else 0, one) for one in parts]


SHORT = {"bram": "block RAMs", "lut": "LUTs"}  # the others are named as they are chosen


def front_text(
    design: Design, points: Sequence[Sizing], megahertz: Fraction, objective: str = "bits"
) -> str:
    """Return the trade-off between the objective and the rate as a table, with the bits."""
    costs = () if objective == "bits" else (SHORT.get(objective, objective),)
    rows = [(*costs, "bits", "cycles/frame", "frames/s", "proved")]
    for point in points:
        period = point.period or Fraction(1)
        speed = rate_in_words(megahertz * HERTZ / period)
        own = (str(point.bits),) if costs else ()
        bits = str(design.bits(point.depths))
        rows.append((*own, bits, answers.number(period), speed, in_proof(point, objective)))
    return answers.one_text([f"{design.name}: {_counts(design)}", *table(rows)])


def front_json(design: Design, points: Sequence[Sizing], objective: str = "bits") -> dict[str, Any]:
    """Return the trade-off as a JSON value."""
    return {
        "design": design.name,
        "objective": objective,
        "front": [_sizing_json(design, point) for point in points],
    }


def as_json(found: Study, megahertz: Fraction) -> dict[str, Any]:
    """Return the answer as a JSON value; fractions as texts."""
    design = found.design
    estimate = found.estimate
    return {
        "design": design.name,
        "clock_mhz": str(megahertz),
        "full_rate": {"period": str(found.full), "layer": design.layers[found.slowest].name},
        "estimate": None if estimate is None else {"period": estimate[0], "layer": estimate[1]},
        "shallow": _depths_json(design, found.shallow),
        "given": _depths_json(design, found.given),
        "automatic": _depths_json(design, found.automatic),
        "smallest": _sizing_json(design, found.sizing),
        "repair": None if found.repair is None else _sizing_json(design, found.repair),
        "written": _depths_json(design, found.written),
        "cost": {
            "luts": found.cost.luts,
            "bram18": found.cost.blocks,
            "uram": found.cost.ultra,
        },
        "fifos": [
            {
                "name": fifo.name,
                "bits": fifo.bits,
                "words_a_frame": fifo.words,
                "depth": depth,
                "cores": [{"style": core.style, "depth": core.depth} for core in row],
                "luts": sum(cost(core, fifo.bits).luts for core in row),
                "bram18": sum(cost(core, fifo.bits).blocks for core in row),
            }
            for fifo, depth, row in zip(
                design.fifos, found.sizing.depths, found.cores, strict=False
            )
        ],
        "layers": [
            {
                "name": layer.name,
                "operator": layer.kind,
                "period": str(period),
                "estimate": layer.estimate,
                "slack": str(found.full - period),
                "assumed": list(layer.cluster.assumed),
            }
            for layer, period in zip(design.layers, found.periods, strict=True)
        ],
        "remarks": list(design.remarks),
    }


def _depths_json(design: Design, found: Depths | None) -> dict[str, Any] | None:
    if found is None:
        return None
    circuit = found.circuit
    value: dict[str, Any] = {"bits": found.bits}
    if circuit is not None:
        value["deadlock"] = circuit.period is None
        value["period"] = None if circuit.period is None else str(circuit.period)
        value["is_bound"] = circuit.is_bound
        value["full"] = [design.fifos[one].name for one in circuit.fifos if one < len(design.fifos)]
        value["waiting"] = [
            design.layers[one].name for one in circuit.layers if one < len(design.layers)
        ]
    if len(found.depths) == len(design.fifos):
        value["depths"] = dict(design.named(found.depths))
    return value


def _sizing_json(design: Design, sizing: Sizing) -> dict[str, Any]:
    return {
        "status": sizing.status,
        "reason": str(sizing.reason),
        "period": None if sizing.period is None else str(sizing.period),
        "bits": design.bits(sizing.depths) if sizing.depths else sizing.bits,
        "cost": sizing.bits,  # what was to be small; lower_bound is of it
        "lower_bound": sizing.lower_bound,
        "depths": dict(design.named(sizing.depths)) if sizing.depths else {},
        "evaluations": sizing.evaluations,
    }


def config_text(path: str, folding: Folding) -> str:
    """Return what a folding file alone says about its FIFOs."""
    nodes = fifo_depths(folding)
    words, largest = sum(nodes.values()), max(nodes.values(), default=0)
    by_operator: dict[str, int] = {}
    for name in folding:
        operator = name.rpartition("_")[0]
        if name != "Defaults":
            by_operator[operator] = by_operator.get(operator, 0) + 1
    lines = [
        f"{path}: a folding file, no model",
        f"  FIFO nodes  {len(nodes)}, {answers.counted(words, 'word')}, the largest {largest}",
        f"  layers      {', '.join(f'{count} {name}' for name, count in sorted(by_operator.items()))}",
        "  not known   shapes, streams and widths: they are in the ONNX model. So neither bits nor "
        "smallest depths follow from this file; give the model, and this file as --folding",
    ]
    return answers.one_text(lines)
