"""Text and JSON output of `csdf fit`."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import islice
from typing import TYPE_CHECKING, Any

from cnn2csdf.network import Network
from cnn2csdf.platforms import STACK, Platform
from cnn2csdf.stored_tensors import stores_integers
from csdf.cli import answers
from csdf.status import Status
from csdf.units import (
    bytes_in_words,
    free_bytes_in_words,
    nanoseconds_in_words,
    needed_bytes_in_words,
    size_as_given,
    time_in_words,
)
from planners.memory.answer import (
    EXTERNAL,
    GIVEN,
    RESIDENT,
    ROWS,
    Fit,
    FitMethod,
    FitWhy,
    Hop,
)
from planners.memory.several_networks import Together
from planners.plan.plan import Kind, StreamingPlan
from planners.plan.ram import RamBeside

if TYPE_CHECKING:
    from planners.memory.command.verify import Check

OPERATIONS = 2  # of a multiply-accumulate
REAL_BYTES = 4  # of an element of a network of real numbers, in C
WHERE = {RESIDENT: "in the arena", ROWS: "row by row", EXTERNAL: "external"}


def remark_on_elements(
    command: str, path: str | None, plans: Sequence[tuple[Network, StreamingPlan]]
) -> None:
    """Print a note for each plan whose element size differs from the C code. path: of a plan file.

    `csdf deploy` rejects these plans; they show the memory of the network after quantisation.
    """
    for network, plan in plans:
        for name, counted, computed in islice(different_elements(network, plan), 1):
            print(
                f"{command}: {f'{path}: ' if path else ''}elements of {name!r} have "
                f"{answers.counted(counted, 'byte')} in the plan of {network.name}, but "
                f"{computed} in its C code; csdf deploy accepts the plan only for a model with "
                f"elements of {counted}, or plan this model with --element-bytes {computed}",
                file=sys.stderr,
            )


def different_elements(network: Network, plan: StreamingPlan) -> Iterator[tuple[str, int, int]]:
    """Yield layers with the bytes of an element in the plan and in C, where these differ."""
    is_real = not stores_integers(network)
    for layer in network.layers:
        counted = plan.element_bytes or layer.element_bytes
        computed = REAL_BYTES if is_real else layer.element_bytes
        if counted != computed:
            yield layer.name, counted, computed


LEAST_PART_OF_PLAN = 20  # a bound below this part of the smallest plan says nothing about it


def as_lines(
    all_of: Together,
    checks: Sequence[Check],
    seconds: float,
    interpreted: Sequence[Sequence[str]],
    deploy: str | None = None,
) -> list[str]:
    """Return for each network its answer in one line and its methods, then the results of runs.

    interpreted: for each network, lines about the arena of an interpreter and the operators to
    register. deploy: the command that writes the plans as C.
    """
    lines: list[str] = []
    fits = all_of.fits
    for fit, of_interpreter in zip(fits, interpreted, strict=True):
        if fit.slow is not None:
            lines += [headline(fit), *list(_in_memories(fit))[1:], f"  reason   {fit.reason}"]
            lines += _stack_in_memory(fit)
        else:
            lines += [headline(fit), *_table(fit), f"  reason   {fit.reason}"]
            if fit.beside is not None:
                method = fit.shown
                lines.append(f"  RAM      {ram_in_words(fit.beside, method)}")
            lines.append(f"  counted  {accounting(fit)}")
            if min(method.mac_ratio for method in fit.methods) < 1 and any(
                method.plan.multiply_accumulates for method in fit.methods
            ):
                lines.append("  MACs     below 1x: rows that no layer reads are not computed")
        if fit.platform is not None:
            lines.append(f"  timing   {timing(fit, fit.platform)}")
        if fit.hop is not None:
            lines.append(_hop(fit.hop))
        lines += alternatives(fit)
        lines += of_interpreter
    if len(fits) > 1:
        lines += _together(all_of)
    lines += [f"  next     {deploy}"] if deploy else []
    for fit, check in zip(fits, checks, strict=False):
        method = fit.shown
        verdict = "equal" if check.is_equal else "DIFFERENT"
        lines.append(
            f"{fit.network}: {verdict}: the run in {method.ram_bytes} bytes and the run without a "
            f"plan, largest difference {check.difference.relative:.3g} of the largest output"
            + ("" if check.slow_bytes is None else f", {check.slow_bytes} slow bytes counted")
        )
    return [*lines, answers.Detail(f"  time     {time_in_words(seconds)}")]


def timing(fit: Fit, platform: Platform) -> str:
    """Return how accurate predicted times are."""
    core = platform.core
    if core is None:
        return (
            f"not calibrated: a roofline of {_peak(platform)} and the rates of memory, which C does "
            "not reach; not comparable with cortex-*, whose instructions are counted"
        )
    guessed = f"; a guess for {', '.join(fit.uncounted)}" if fit.uncounted else ""
    fast = f", the minimum is {float(core.least / core.most):.4g}x" if fit.slow is None else ""
    return f"not calibrated: {core.in_words()}, the maximum is shown{fast}{guessed}"


def _peak(platform: Platform) -> str:
    """Return the peak multiply-accumulate rate of a platform without counted instructions."""
    most = platform.operations_per_second / OPERATIONS
    if platform.hertz is None:
        return f"{float(most / 10**9):.4g} GMAC/s"
    clock = f"{float(Fraction(platform.hertz, 10**6)):.4g} MHz"
    return f"{float(most / platform.hertz):.4g} MAC/cycle at {clock}"


def alternatives(fit: Fit) -> list[str]:
    """Return a line for each alternative that needs less RAM."""
    return [
        f"  {'' if number else 'instead':9}{alternative.options}: {alternative.ram_in_words}"
        + (", fits" if alternative.fits else "")
        for number, alternative in enumerate(fit.alternatives)
    ]


def headline(fit: Fit) -> str:
    """Return the answer about a network in one line."""
    line = next(_in_memories(fit)) if fit.slow is not None else _verdict(fit)
    return answers.cut_short(line) if fit.is_cut_short else line


def _verdict(fit: Fit) -> str:
    method = fit.shown
    figures = (
        f"{_taken_near(fit, method)}{_kept(method.plan)}, {float(method.mac_ratio):.4g}x MACs, "
        f"{needed_bytes_in_words(fit.flash_bytes)} of flash"
    )
    if fit.ram is None and fit.status == Status.FEASIBLE:
        words = "as planned" if method.name == GIVEN else "with the fewest MACs"
        return f"{fit.network}: {words}: {figures}"
    if fit.status == Status.FEASIBLE:
        spare = free_bytes_in_words((fit.ram or 0) - method.needed_ram)
        return f"{fit.network}: fits: {figures}; {spare} of RAM free"
    verdict = "does not fit" if fit.status == Status.INFEASIBLE else "unknown"
    if fit.reason.has(FitWhy.TOO_SLOW):
        return f"{fit.network}: {verdict}: {fit.reason}"
    if fit.flash is not None and fit.flash_bytes > fit.flash:
        needed = needed_bytes_in_words(fit.flash_bytes)
        limit = _limit(fit.flash, fit.flash_bytes)
        return f"{fit.network}: {verdict}: {needed} of flash needed, {limit}"
    words = "the plan takes" if method.name == GIVEN else "the smallest found is"
    limit = "" if fit.ram is None else f"; {_limit(fit.ram, method.needed_ram)}"
    return f"{fit.network}: {verdict}: {words} {figures}{limit}"


def _limit(size: int, needed: int) -> str:
    """Return a limit that a plan exceeds, with the probable limit if its unit is missing."""
    if _are_near(size, needed):
        return f"limit {size} B"
    meant = f"; did you mean {size}kB?" if size < 1000 <= needed else ""
    return f"limit {size_as_given(size)}{meant}"


def _taken_near(fit: Fit, method: FitMethod) -> str:
    """Return the bytes that a method needs: exactly, if four digits round to the limit."""
    if method.plan.memories:
        return taken(method.plan)
    needed = method.needed_ram
    if fit.ram is not None and _are_near(fit.ram, needed):
        return f"{needed} B of RAM"
    return f"{needed_bytes_in_words(needed)} of RAM"


def ram_in_words(beside: RamBeside, method: FitMethod, arena: int | None = None) -> str:
    """Return the parts of the RAM that a network needs. arena: bytes, if not those of the plan."""
    used = method.ram_bytes if arena is None else arena
    return ram_parts_in_words(beside, used, method.state_bytes, method.stage_stack_bytes)


def ram_parts_in_words(beside: RamBeside, arena: int, state: int, stage_stack: int) -> str:
    """Return the parts of the RAM: arena, execution states, stack and reserve."""
    core = f"code for {beside.core}" if beside.core else "any core"
    reserve = (
        f", reserve {needed_bytes_in_words(beside.reserve_bytes)}" if beside.reserve_bytes else ""
    )
    return (
        f"arena {needed_bytes_in_words(arena)}, state at most {state} B, stack at most "
        f"{beside.stack_bytes + stage_stack} B ({core}){reserve}"
    )


def _are_near(limit: int, needed: int) -> bool:
    """Whether two sizes may be equal in four digits."""
    return abs(limit - needed) * 1000 < needed


def _in_memories(fit: Fit) -> Iterator[str]:
    """Yield the use of each memory by a plan, and its slow-memory traffic with bounds and baselines."""
    assert fit.slow is not None
    method, traffic = fit.shown, fit.slow
    slow = " and ".join(memory.name for memory in traffic.memories if memory.is_slow)
    if method.plan.memories:
        verdict = "fits" if fit.best else str(fit.status)
        yield (
            f"{fit.network}: {verdict}: {taken(method.plan)}, {float(method.mac_ratio):.4g}x MACs, "
            f"{needed_bytes_in_words(fit.flash_bytes)} of flash"
        )
    else:
        yield f"{fit.network}: {fit.status}"
    sizes = (f"{memory.name} {bytes_in_words(memory.size)}" for memory in traffic.memories)
    yield f"  memories {', '.join(sizes)}; bytes of a frame to and from {slow}:"
    if traffic.moved is not None:
        yield f"    this plan      {bytes_in_words(traffic.moved)}{_by_memory(method.plan)}"
    if traffic.lower_bound:
        yield f"    any schedule   {bytes_in_words(traffic.lower_bound)} at least"
    for_tensors = [
        memory.name for memory in traffic.memories if memory.is_slow and not memory.is_flash
    ]
    if for_tensors:
        greedy = bytes_in_words(traffic.greedy)
        yield f"    greedy split   {greedy}, largest tensors in slow memory, layer by layer"
        yield f"    all in {for_tensors[0]:7s} {bytes_in_words(traffic.all_slow)}, layer by layer"
    if traffic.weights and traffic.moved is not None:
        yield _of_weights(method.plan, traffic.weights)
    if method.nanoseconds is not None:
        yield f"  frame    {nanoseconds_in_words(method.nanoseconds)} as predicted"


def _stack_in_memory(fit: Fit) -> list[str]:
    """Return the content of the memory that holds the stack, if a memory is declared to hold it."""
    homes = () if fit.slow is None else fit.slow.memories
    home = next((memory.name for memory in homes if STACK in memory.holds), None)
    if fit.beside is None or home is None:
        return []
    method = fit.shown
    used = sum(memory.size for memory in method.plan.memories if memory.name == home)
    return [f"  {home:8s} {ram_in_words(fit.beside, method, used)}"]


def _by_memory(plan: StreamingPlan) -> str:
    """Return the bytes from and to each slow memory, if there are several."""
    if len(plan.traffic) < 2:
        return ""
    parts = [
        f"{bytes_in_words(size)} {word} {traffic.memory}"
        for traffic in plan.traffic
        for word, size in (("from", traffic.read), ("to", traffic.written))
        if size
    ]
    return f": {', '.join(parts)}" if parts else ""


def _of_weights(plan: StreamingPlan, weights: int) -> str:
    """Return the memories of the weights that can be moved, and the bytes that a frame copies."""
    copied = sum(buffer.size for buffer in plan.buffers if buffer.kind is Kind.WEIGHTS)
    homes: dict[str, int] = {}
    for buffer in plan.buffers:
        if buffer.kind is Kind.RESIDENT and (memory := plan.memory_of(buffer)):
            homes[memory.name] = homes.get(memory.name, 0) + buffer.size
    homes[plan.flash or "flash"] = weights - sum(homes.values())
    parts = [f"{bytes_in_words(size)} in {name}" for name, size in homes.items() if size]
    more = f"; a frame copies {bytes_in_words(copied)} to fast memory" if copied else ""
    return f"  weights  {', '.join(parts)}{more}"


def taken(plan: StreamingPlan) -> str:
    """Return the bytes of RAM of a plan, or of each memory with the traffic between the memories."""
    if not plan.memories:
        return f"{needed_bytes_in_words(plan.arena_bytes)} of RAM"
    return f"{sizes_in_words(plan)}, {bytes_in_words(plan.slow_bytes)} of traffic a frame"


def sizes_in_words(plan: StreamingPlan) -> str:
    """Return the bytes of each memory of a plan."""
    return ", ".join(
        f"{needed_bytes_in_words(memory.size)} of {memory.name}" for memory in plan.memories
    )


def _hop(hop: Hop) -> str:
    """Return the cost of a hop compared with the whole window."""
    part = hop.multiply_accumulates / max(hop.window_multiply_accumulates, 1)
    return (
        f"  hop      {answers.counted(hop.rows, 'row')}: {hop.multiply_accumulates:,} "
        f"multiply-accumulates, {part:.3g} of the window's {hop.window_multiply_accumulates:,}, which "
        f"takes {needed_bytes_in_words(hop.window_ram)}; the window is full after "
        f"{answers.counted(hop.hops_before + 1, 'hop')}"
    )


def _kept(plan: StreamingPlan) -> str:
    """Return the bytes that are retained between frames, if the network has a state."""
    if not plan.kept_bytes:
        return ""
    return f", of which {bytes_in_words(plan.kept_bytes)} retained between frames"


def accounting(fit: Fit) -> str:
    """Return the content that is counted, and the lower bound of all plans if it is informative."""
    plan = fit.shown.plan
    is_bound_shown = fit.lower_bound * LEAST_PART_OF_PLAN >= fit.least.ram_bytes
    where = "memories" if plan.memories else "arena"
    least = needed_bytes_in_words(fit.lower_bound)
    bound = f"; {where} at least {least}" if is_bound_shown else ""
    if plan.memories:
        return f"tensors, accumulators, staging{bound}"
    collects = plan.collects_input
    source = WHERE[fit.input] + (", collected before the first layer" if collects else "")
    return f"tensors, accumulators, staging; input {source}, output {WHERE[fit.output]}{bound}"


def _table(fit: Fit) -> list[str]:
    memories = [memory.name for memory in fit.least.plan.memories] or ["RAM"]
    if fit.beside is not None:
        memories = ["RAM", "arena"]
    rows = [
        ("method", *memories, "MACs", "predicted"),
        *(_cells(fit, method) for method in fit.methods),
    ]
    if not any(row[-1] for row in rows[1:]):
        rows = [row[:-1] for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  "
        + "  ".join(
            cell.rjust(width) if i else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        + (" <" if method is not None and method is fit.best else "")
        for row, method in zip(rows, (None, *fit.methods), strict=True)
    ]


def _cells(fit: Fit, method: FitMethod) -> tuple[str, ...]:
    sizes = [memory.size for memory in method.plan.memories] or [method.ram_bytes]
    if fit.beside is not None:
        sizes = [method.needed_ram, method.ram_bytes]
    return (
        method.name,
        *map(needed_bytes_in_words, sizes),
        f"{float(method.mac_ratio):.4g}x",
        "" if method.nanoseconds is None else nanoseconds_in_words(method.nanoseconds),
    )


def _together(all_of: Together) -> list[str]:
    status, reason = all_of.verdict
    word = {
        Status.FEASIBLE: "fit",
        Status.INFEASIBLE: "do not fit",
        Status.UNKNOWN: "unknown",
    }[status]
    time = all_of.nanoseconds
    per_frame = "" if time is None else f", {nanoseconds_in_words(time)} for a frame of each"
    how = "partly at the same time" if all_of.is_concurrent else "sequentially"
    where, sizes = "one arena", f"{needed_bytes_in_words(all_of.needed_ram)} of RAM"
    if (best := all_of.fits[0].best) is not None and best.plan.memories:
        where = " and ".join(memory.name for memory in best.plan.memories)
        sizes = sizes_in_words(best.plan)
    return [
        f"{answers.counted(len(all_of.fits), 'network')} {how} in {where}: {word}: {sizes}, "
        f"{needed_bytes_in_words(all_of.flash_bytes)} of flash"
        f"{per_frame}",
        f"  reason   {reason}",
    ]


def as_json(all_of: Together, checks: Sequence[Check], seconds: float) -> dict[str, Any]:
    """Return the object of a single network, or an object with several networks in `networks`."""
    values = [fit.to_json() for fit in all_of.fits]
    for value, check in zip(values, checks, strict=False):
        value["verified"] = check.to_json()
    if len(values) == 1:
        return {**values[0], "seconds": round(seconds, 6)}
    status, reason = all_of.verdict
    return {
        "networks": values,
        "fits": None if status == Status.UNKNOWN else status == Status.FEASIBLE,
        "ram_bytes": all_of.ram_bytes,
        **(
            {}
            if all_of.fits[0].beside is None
            else {
                "needed_ram_bytes": all_of.needed_ram,
                "state_bytes": all_of.state_bytes,
                **all_of.fits[0].beside.to_json(all_of.stage_stack_bytes),
            }
        ),
        "flash_bytes": all_of.flash_bytes,
        "predicted_nanoseconds": all_of.nanoseconds,
        "lower_bound_bytes": all_of.lower_bound,
        "status": str(status),
        "reason": reason,
        "seconds": round(seconds, 6),
    }
