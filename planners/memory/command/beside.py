"""The answer of `csdf fit` as a comparison in the output of other commands.

`csdf cnn memory`, `csdf plan arena`, `fusion` and `reuse`, and the HTML report search only some of the
plans that `csdf fit` searches. If `csdf fit` finds a better plan, they print it as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from cnn2csdf.network import Network
from cnn2csdf.platforms import PLATFORMS, USUAL_PLATFORM, Platform
from csdf.cli import answers
from csdf.cli.frame.long_work import stop_after
from csdf.errors import GaveUp, InvalidNetwork, InvalidPlan
from csdf.status import Status
from csdf.time_limit import Stop
from csdf.units import nanoseconds_in_words, needed_bytes_in_words
from planners.memory.answer import EXTERNAL, RESIDENT, ROWS, SEARCHED, Fit
from planners.memory.command.main import EFFORT
from planners.memory.fit import fit
from planners.memory.labels import WIDTHS
from planners.memory.loaded_plan import fit_of
from planners.memory.several_networks import Together
from planners.plan.plan import StreamingPlan

PLACES = {RESIDENT: "input in the arena", ROWS: "--input rows"}
ENDS = {RESIDENT: "", EXTERNAL: " --output-memory external"}


def fit_beside(
    networks: Sequence[Network],
    stop: Stop,
    *,
    ram: int | None = None,
    element_bytes: int | None = None,
    parameter_bytes: int | None = None,
    is_streamed: bool = False,
    platform: Platform = PLATFORMS[USUAL_PLATFORM],
) -> Together | None:
    """Return the answer of `csdf fit` for networks executed sequentially, with its own effort for all.

    With `ram` within this RAM; without it, as `fit` weighs RAM and time. The answer is of a single
    arena, as the plans it is compared with, even if the platform is a board with several memories.
    is_streamed: whether inputs arrive row by row, if they can, and results leave the arena, as in
    plans by row blocks. None if the stop has ended, or no plan was found.
    """
    if stop.is_over():
        return None
    try:
        limit = stop_after(None, effort=EFFORT)
        fits = []
        for network in networks:
            network_fit = fit(
                network,
                ram=None if ram is None else max(0, ram),
                element_bytes=element_bytes,
                parameter_bytes=parameter_bytes,
                input=ROWS if is_streamed else RESIDENT,
                output=EXTERNAL if is_streamed else RESIDENT,
                searched=() if ram is None else SEARCHED,
                labels=WIDTHS[:1] if ram is None else WIDTHS,
                platform=replace(platform, memories=()),
                budget=limit,
            )
            for ended in (limit, stop):
                ended.interrupt_after(network_fit.reason)
            fits.append(network_fit)
    except (GaveUp, InvalidNetwork):
        return None
    return Together(fits=tuple(fits), flash=None, longest=None)


def checked_fit(path: str, network: Network, plan: StreamingPlan, **terms: Any) -> Fit:
    """Return whether a network fits with the plan of a file, which may not be a valid plan for it.

    terms: of `fit_of`. Raises InvalidPlan with the name of the file.
    """
    try:
        with answers.working(f"checking the plan of {plan.network}"):
            return fit_of(network, plan, **terms)
    except InvalidPlan as error:
        raise InvalidPlan(f"{path}: {error}") from None


def in_words(together: Together) -> str:
    """Return the answer in one line, in the terms of `csdf fit`."""
    status, _ = together.verdict
    shown = [fit.shown for fit in together.fits]
    mac_ratio = max(method.mac_ratio for method in shown)
    names = dict.fromkeys(method.name for method in shown)
    places = dict.fromkeys(PLACES[fit.input] + ENDS[fit.output] for fit in together.fits)
    time = "" if together.nanoseconds is None else f", {nanoseconds_in_words(together.nanoseconds)}"
    per_network = "" if len(shown) == 1 else f" for {answers.counted(len(shown), 'network')}"
    figures = (
        f"{needed_bytes_in_words(together.ram_bytes)} of arena{per_network}, {float(mac_ratio):.4g}x "
        f"MACs{time} ({', '.join(names)}; {' or '.join(places)})"
    )
    limits = {fit.ram for fit in together.fits}
    if status == Status.FEASIBLE:
        return figures if limits == {None} else f"fits: {figures}"
    verdict = "does not fit" if status == Status.INFEASIBLE else "unknown"
    return f"{verdict}: the smallest found is {figures}"


def as_json(together: Together | None) -> dict[str, Any] | None:
    """Return the answer as a JSON value; null if there is no answer."""
    if together is None:
        return None
    status, reason = together.verdict
    limits = {fit.ram for fit in together.fits}
    fits = {Status.FEASIBLE: True, Status.INFEASIBLE: False}.get(status)
    return {
        "fits": None if limits == {None} else fits,
        "ram_bytes": together.ram_bytes,
        "predicted_nanoseconds": together.nanoseconds,
        "status": str(status),
        "reason": str(together.fits[0].reason if len(together.fits) == 1 else reason),
        "networks": [
            {
                "network": fit.network,
                "input": fit.input,
                "output_memory": fit.output,
                "method": method.name,
                "ram_bytes": method.ram_bytes,
                "mac_ratio": str(method.mac_ratio),
            }
            for fit in together.fits
            for method in (fit.shown,)
        ],
    }
