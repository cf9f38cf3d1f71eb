"""Alternatives to a negative answer of `fit`: options that fit, or need less RAM, flash or time."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from itertools import product
from typing import Any

from cnn2csdf.network import Network
from cnn2csdf.platforms import NANOSECONDS
from cnn2csdf.weights import Model
from csdf.arguments import public
from csdf.errors import InvalidNetwork
from csdf.status import Ended
from csdf.time_limit import Budget, stop_of
from planners.memory.answer import EXTERNAL, ROWS, SEARCHED_FIRST, Alternative, Fit, FitWhy
from planners.memory.fit import answer
from planners.memory.labels import WIDTHS
from planners.memory.request import FitRequest, fit_request
from planners.plan.stack import stack_bytes_of

OWN_SHARE = 0.75  # of the time, for the request itself; the rest is for the alternatives
NEARBY_SHARE = 0.25  # of the effort of the request itself, for the alternatives


@public
def fit_with_alternatives(network: Network | Model, *, budget: Budget = None, **terms: Any) -> Fit:
    """Return the answer of `fit`; if it is negative, with options that would fit or need less.

    If RAM is short, these are other memories for input and output, and int8. If flash is short, these
    are int8 and the flash that is needed. If time is short, it is the frame rate that is reached.

    The alternatives are the lines that `csdf fit` prints as `instead`. terms: of `fit`. budget: of all
    searches. Questions with fewer changes come first. A question with more changes is listed only if
    it needs less RAM than each of these, and is skipped if one of these fits.
    """
    return answer_with_alternatives(fit_request(network, **terms), budget)


def answer_with_alternatives(request: FitRequest, budget: Budget = None) -> Fit:
    """Return the answer of `fit_with_alternatives` to a request."""
    stop, network = stop_of(budget), request.network
    limits = (request.ram, request.flash, request.nanoseconds)
    if limits == (None, None, None) or request.memories:
        return answer(request, stop)
    fit_found = answer(request, stop if stop.has_effort else stop.part(share=OWN_SHARE))
    is_short = fit_found.is_short_of_ram
    if fit_found.best is not None or fit_found.reason.has(Ended.INTERRUPTED):
        return fit_found
    questions = (_questions if is_short else _other_limits)(
        network, fit_found, request.element_bytes
    )
    nearby: dict[frozenset[str], Alternative] = {}
    remaining = stop.question(NEARBY_SHARE if stop.has_effort else 1.0)
    for number, (options, changes) in enumerate(questions):
        smaller = [alternative for words, alternative in nearby.items() if words < options]
        if any(alternative.fits for alternative in smaller):
            continue
        changed = replace(request, **changes, labels=WIDTHS[:1], searched=SEARCHED_FIRST)
        if "element_bytes" in changes and changed.beside is not None:
            stack = stack_bytes_of(network, changed.beside.core, changed.element_bytes)
            changed = replace(changed, beside=replace(changed.beside, stack_bytes=stack))
        with suppress(InvalidNetwork):
            candidate = answer(changed, remaining.part(share=1 / (len(questions) - number)))
            needed = candidate.shown.needed_ram
            least = min(
                (alternative.ram_bytes for alternative in smaller),
                default=fit_found.least.needed_ram,
            )
            is_nearer = needed < least if is_short else candidate.best is not None
            if candidate.input == changes.get("input", fit_found.input) and is_nearer:
                nearby[options] = Alternative(
                    " ".join(sorted(options)),
                    needed,
                    fits=candidate.best is not None,
                    is_complete=candidate.best is not None
                    or candidate.reason.values.get("end") is None,
                )
    alternatives = sorted(
        nearby.values(), key=lambda alternative: (not alternative.fits, alternative.ram_bytes)
    )
    return replace(fit_found, alternatives=tuple(alternatives))


def _other_limits(
    network: Network, found: Fit, element_bytes: int | None
) -> list[tuple[frozenset[str], dict[str, Any]]]:
    """Options that may fit if flash or time is short, as they are written and as terms of `fit`."""
    if found.reason.kind is FitWhy.FLASH:
        needed = {"flash": found.flash_bytes}
        asked = [(f"--flash {found.flash_bytes}", needed)]
        return [
            (frozenset([words]), terms)
            for words, terms in (*_as_int8(network, element_bytes), *asked)
        ]
    if found.reason.kind is FitWhy.TOO_SLOW:
        frames = NANOSECONDS / Fraction(found.reason.values["nanoseconds"])
        text = str(int(frames)) if frames >= 10 else f"{int(100 * frames) / 100:g}"
        if text != "0":
            return [(frozenset([f"--fps {text}"]), {"nanoseconds": NANOSECONDS / Fraction(text)})]
    return []


def _as_int8(network: Network, element_bytes: int | None) -> list[tuple[str, dict[str, Any]]]:
    """The option of one-byte elements, for a floating-point network."""
    if element_bytes is None and not any(layer.quantization for layer in network.layers):
        return [("--element-bytes 1 (as int8)", {"element_bytes": 1})]
    return []


def _questions(
    network: Network, found: Fit, element_bytes: int | None
) -> list[tuple[frozenset[str], dict[str, Any]]]:
    """Options that may need less RAM, as written and as terms of `fit`; fewest changes first."""
    inputs = [
        (f"--input {kind}", {"input": kind}) for kind in (ROWS, EXTERNAL) if kind != found.input
    ]
    outputs = [("--output-memory external", {"output": EXTERNAL})]
    if found.output == EXTERNAL:
        outputs = []
    questions = [
        (frozenset([option]), terms)
        for option, terms in (*_as_int8(network, element_bytes), *inputs, *outputs)
    ]
    for (input_option, terms), (output_option, more) in product(inputs, outputs):
        questions.append((frozenset([input_option, output_option]), {**terms, **more}))
    return questions
