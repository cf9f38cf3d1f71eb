"""Random networks planned under random options, each found plan checked, each C run under sanitizers.

Of networks with C, those of every third number also take turns with the one before them: in one
arena, or in the same memories if one of both was planned in several memories.
`python -m tests.planners.code.networks_with_options FIRST END FOLDER` tries the cases of these numbers
and prints each that fails, then how many did what. A case is the same in each run.
"""

import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as hypothesis_seed

from cnn2csdf import operators as op
from cnn2csdf.builder import NetworkBuilder
from cnn2csdf.dtypes import Arithmetic, Element
from cnn2csdf.simplify import simplified
from cnn2csdf.streams import as_stream
from cnn2csdf.weights import Model, random_weights
from csdf.errors import CsdfError, InternalError
from planners.code.frames import random_frame
from planners.code.library import library
from planners.code.several import Member
from planners.memory.answer import INPUTS, OUTPUT_MEMORIES, SEARCHED
from planners.memory.fit import fit
from planners.memory.several_networks import with_states_apart
from planners.memory.shared_memories import taking_turns
from planners.plan.carried_out import require_own
from tests.cnn2csdf.execution.random_networks import models
from tests.planners.code.calibrated import real_model
from tests.planners.code.compiling import run_all, run_in_turn
from tests.planners.code.memory_cases import drawn_options
from tests.planners.code.mixed_networks import Mixing
from tests.planners.code.test_odd_libraries import networks
from tests.planners.memory.encoders import Sizes, encoder
from tests.planners.memory.gated import gated_block

BATCH = 20  # libraries in one program
TOGETHER = 3  # numbers divisible by this one take turns with an earlier network
KINDS = {
    "fixed point": (Arithmetic.FIXED_POINT, Element.INT8),
    "unsigned": (Arithmetic.UNSIGNED_FIXED_POINT, Element.UINT8),
    "single precision": (Arithmetic.SINGLE_PRECISION, Element.INT8),
    "int16": (Arithmetic.SINGLE_PRECISION, Element.INT16),
}
ELEMENT_BYTES = (1, 2, 4)  # of tensors of real numbers; C has them with 4


@dataclass
class Tally:
    """Counts of outcomes, and the numbers of failed cases with the reason."""

    counts: Counter = field(default_factory=Counter)
    failures: list = field(default_factory=list)


def example(strategy, number):
    """Return a random value of a strategy, the same for the same number."""
    drawn = []

    @hypothesis_seed(number)
    @settings(
        max_examples=2,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def draw(value):
        drawn.append(value)

    draw()
    return drawn[-1]


def sliding(source):
    """Return a network over a window of rows, as a stream of hops; None where a hop is no number."""
    builder = NetworkBuilder("hop")
    dims = source.randint(1, 3), source.randint(6, 14), source.randint(1, 5)
    last = first = builder.input(dims)
    stride, rows = source.choice((1, 1, 2)), source.randint(1, 4)
    padding = source.choice((0, rows - 1)), 0, source.choice((0, rows // 2)), 0
    window = op.Window(kernel=(rows, 1), stride=(stride, 1), padding=padding)
    last = builder.add(op.Convolution(filters=source.randint(1, 4), window=window), first)
    if source.random() < 0.5:
        last = builder.add(op.Activation(function="relu"), last)
    if source.random() < 0.5 and builder.shape(last).rows > 2:
        window = op.Window(kernel=(source.randint(1, 2), 1))
        last = builder.add(op.Convolution(filters=source.randint(1, 4), window=window), last)
    if source.random() < 0.5:
        last = builder.add(op.GlobalPooling(function="average"), last)
        last = builder.add(op.FullyConnected(units=3), last)
    builder.output(last)
    return as_stream(real_model(builder.network(), source.randrange(99)), stride)


def drawn_model(number, source):
    """Return a random model: of real numbers, of integers, of both, with several ends, with hops."""
    kind = source.random()
    if kind < 0.1:
        return sliding(source)
    if kind < 0.15:
        sizes = Sizes(tokens=source.randint(3, 6), width=4, heads=2, hidden=source.randint(3, 6))
        return simplified(encoder(sizes))
    if kind < 0.2:
        network = gated_block(2, source.choice((2, 4)), source.randint(3, 6))
        model = Model(network=network, weights=random_weights(network, number % 99))
    elif kind < 0.45:
        network = example(networks(), number)
        model = Model(network=network, weights=random_weights(network, number % 99))
    else:
        model = example(models(), number)
    match source.choice(("real", "simplified", *KINDS)):
        case "simplified":
            return simplified(model)
        case kind if kind in KINDS:
            return Mixing(number, *KINDS[kind]).mixed(model.network)
    return model


def answers(model, number, source):
    """Return what `fit` finds for a model under random options."""
    if not model.network.keeps_state and source.random() < 0.4:
        has_flash = source.random() < 0.6
        return fit(model, **drawn_options(model, number, has_flash=has_flash))
    options = {
        "input": source.choice(INPUTS if len(model.network.inputs) == 1 else INPUTS[::2]),
        "output": source.choice(OUTPUT_MEMORIES),
        "searched": source.choice((SEARCHED, SEARCHED[:1], SEARCHED[1:])),
    }
    is_real = all(layer.quantization is None for layer in model.network.layers)
    if is_real:
        options["element_bytes"] = source.choice((*ELEMENT_BYTES, 4, 4, 4))
    return fit(model, **options)


def drawn_case(number):
    """Return the source of further choices, a model, and what `fit` answers under random options.

    Raises CsdfError where the options are refused.
    """
    source = Random(number)
    model = drawn_model(number, source)
    answer = answers(model, number, source)
    return source, model, answer


def required(model, answer):
    """Require that the checker accepts each plan that was found."""
    for method in answer.methods:
        require_own([(model.network, method.plan)])


def of_c(number, source, model, answer):
    """Return the library of one of the found plans, for three frames of which the last comes twice."""
    method = answer.best if answer.best and source.random() < 0.5 else source.choice(answer.methods)
    first, second, third = (random_frame(model.network, number + draw) for draw in range(3))
    frames = [first, second, third, third]
    return library(model, method.plan, name=f"net{number}", frames=frames)


def in_one_arena(cases):
    """Return the plans of models with these answers in one arena, the state of each in its own bytes.

    Raises CsdfError where they cannot share an arena.
    """
    fits = with_states_apart([answer for _, answer in cases])
    return [(one.best or one.least).plan for one in fits]


def in_the_same_memories(number, models):
    """Return the plans of models in the same random memories; none where a model does not fit."""
    largest = max(models, key=lambda model: max(one.shape.elements for one in model.network.layers))
    options = drawn_options(largest, number, has_flash=Random(number).random() < 0.6)

    def again(place, changes):
        return fit(models[place], **{**options, **changes})

    fits = taking_turns([fit(model, **options) for model in models], again)
    return [one.best.plan for one in fits if one.best is not None]


def turns_differ(number, models, plans, folder):
    """Return the message of a program in which networks take turns; None where outputs are equal.

    Raises InternalError where the checker refuses one of the plans.
    """
    require_own([(model.network, plan) for model, plan in zip(models, plans, strict=True)])
    members = []
    for place, (model, plan) in enumerate(zip(models, plans, strict=True)):
        frames = [random_frame(model.network, number + draw) for draw in range(3)]
        members.append(Member(model=model, plan=plan, name=f"n{place}", frames=frames))
    return run_in_turn(members, folder)


def try_turns(number, cases, folder, tally):
    """Count what became of networks that take turns in one arena, or in the same memories."""
    models, in_memories = [model for model, _ in cases], any(fit.slow for _, fit in cases)
    kind = "turns in memories" if in_memories else "turns"
    try:
        plans = in_the_same_memories(number, models) if in_memories else in_one_arena(cases)
        if len(plans) < len(models):
            tally.counts[f"no {kind}: no plan"] += 1
            return
        message = turns_differ(number, models, plans, folder / f"turns{number}")
    except InternalError as error:
        message = str(error)
    except CsdfError as error:
        tally.counts[f"no {kind}: {type(error).__name__}"] += 1
        return
    tally.counts[kind] += 1
    if message is not None:
        tally.failures.append((f"turns {number}", message))


def try_cases(numbers, folder):
    """Return what became of random cases: those whose own plan was refused or whose C differs."""
    tally, made, before = Tally(), [], None
    for number in numbers:
        try:
            source, model, answer = drawn_case(number)
        except InternalError:
            raise
        except CsdfError as error:
            tally.counts[f"options refused: {type(error).__name__}"] += 1
            continue
        tally.counts["networks"] += 1
        tally.counts["plans"] += len(answer.methods)
        try:
            required(model, answer)
        except InternalError as error:
            tally.failures.append((number, str(error)))
            continue
        if not answer.methods:
            tally.counts["without a plan"] += 1
            continue
        try:
            made.append(of_c(number, source, model, answer))
        except CsdfError as error:
            tally.counts[f"no C: {type(error).__name__}"] += 1
            continue
        tally.counts["C"] += 1
        if before is not None and number % TOGETHER == 0:
            try_turns(number, [before, (model, answer)], folder, tally)
        before = model, answer
        if len(made) == BATCH:
            ran(made, folder, tally)
            made = []
    if made:
        ran(made, folder, tally)
    return tally


def ran(made, folder, tally):
    """Run libraries in one program, and one by one where that ends early."""
    try:
        differing = run_all(made, emptied(folder))
    except AssertionError as error:
        if len(made) == 1:
            tally.failures.append((made[0].name, str(error)))
            return
        for one in made:
            ran([one], folder, tally)
        return
    tally.failures += [(name, "C differs") for name in differing]


def emptied(folder):
    """Return the folder without the files of earlier programs."""
    for path in folder.iterdir():
        if path.is_file():
            path.unlink()
    return folder


def main(first, end, folder):
    """Try the cases from the first to before the end; print those that fail, and what became of all."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    counts, has_failed = Counter(), False
    for begin in range(int(first), int(end), BATCH):
        tally = try_cases(range(begin, min(begin + BATCH, int(end))), folder)
        for number, reason in tally.failures:
            print(number, reason, flush=True)
        has_failed |= bool(tally.failures)
        counts += tally.counts
        print(f"up to {begin + BATCH}: {dict(counts)}", flush=True)
    return has_failed


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
