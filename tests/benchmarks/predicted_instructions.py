"""Predicted instructions of model files beside the instructions that QEMU counts.

Run `python -m tests.benchmarks.predicted_instructions COUNTS [FILE ...]`; without files all models of
tflite, stateful, attention and shipped in ../shared/networks. Each model is written as C in the plans
layer by layer, row by row and least memory, where these differ, and counted on each emulated core.
COUNTS (JSON lines) keeps each count by a digest of the C as soon as it is there: an interrupted run
continues, and a second run counts only C that changed. Nothing is fitted to the files.

A model that cannot be counted is listed with the reason: an unsupported operator, a program beyond
the memory of the emulated board, or more instructions than QEMU executes in minutes. The last lines
are the shares of all figures, and of the first plans, within 10 and 15 %.
Needs what tests.benchmarks.instruction_counts needs.
"""

import argparse
from fractions import Fraction
from pathlib import Path

from cnn2csdf.platforms import NANOSECONDS, Core, core_platform
from cnn2csdf.readers.model_files import read_model
from cnn2csdf.simplify import simplified
from cnn2csdf.stored_tensors import stores_integers
from csdf.errors import CsdfError
from csdf.time_limit import Stop
from planners.code.command.work import as_computed
from planners.code.library import library
from planners.memory.fit import fit
from planners.memory.stages import StageTable
from planners.memory.times import PlanTimes
from tests.benchmarks.instruction_counts import Counts, counted
from tests.benchmarks.instruction_samples import drawn
from tests.shared_data import SHARED

PLANS = ("layer by layer", "row by row", "least")
FOLDERS = ("tflite", "stateful", "attention", "shipped")
HERTZ = 10**9
REAL_BYTES = 4
MOST_INSTRUCTIONS = 5 * 10**9  # predicted, of a frame: QEMU executes about 10**8 in a second
EFFORT = 3  # seconds of effort of each search for the plan of least memory
LIMITS = (10, 15)  # percent
BODYPIX = "float_heatmaps float_short_offsets float_mid_offsets float_long_offsets float_segments"
OPTIONS = {  # of files that leave sizes open, or end in an operator that is not supported
    "coral__bodypix_mobilenet_v1_075_512_512_16_quant_decoder": {
        "outputs": [*BODYPIX.split(), "float_part_heatmaps"]
    },
    "npm_ricky0123-vad-web__silero_vad_v5": {
        "shapes": {"input": (1, 512)},
        "constants": {"sr": 16000},
    },
    "pypi_pyopen__melspectrogram": {"shapes": {"serving_default_input:0": (1, 1280)}},
    "pypi_silero_vad__silero_vad_half": {"shapes": {"input": (1, 512)}},
}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("counts")
    parser.add_argument("files", nargs="*")
    parser.add_argument("--cores", default="m4,m55")
    parser.add_argument("--plans", default=",".join(PLANS))
    options = parser.parse_intermixed_args()
    cores, plans = options.cores.split(","), options.plans.split(",")
    counts, errors_of, skipped = Counts(options.counts), {}, []
    for file in options.files or models():
        errors, reasons = errors_of_file(file, cores, plans, counts)
        skipped += [(Path(file).stem, *reason) for reason in reasons]
        if errors:
            errors_of[file] = errors
            print(as_row(file, errors, cores), flush=True)
    print("\nNot counted:")
    for line in skipped:
        print("-", ", ".join(line))
    print()
    for line in summary(errors_of, cores):
        print(line)


def models():
    """Return the model files of FOLDERS."""
    files = (file for folder in FOLDERS for file in (SHARED / "networks" / folder).iterdir())
    return sorted(str(file) for file in files if file.suffix in (".tflite", ".onnx"))


def plans_of(network, names=PLANS):
    """Return the plans of a network of these names, each once."""
    is_searched = PLANS[2] in names
    answer = (
        fit(network, budget=Stop(effort=EFFORT), element_bytes=bytes_of(network))
        if is_searched
        else fit(network, searched=(), element_bytes=bytes_of(network))
    )
    plans = {method.name: method.plan for method in answer.methods if method.name in names}
    if answer.least.name not in PLANS and is_searched:
        plans[PLANS[2]] = answer.least.plan
    return plans


def bytes_of(network):
    """Return the bytes of an element as `csdf deploy` takes them; None for those of each layer."""
    return None if stores_integers(network) else REAL_BYTES


def errors_of_file(file, cores, names, counts):
    """Return relative errors and counts by core and plan, and (core, plan, reason) of the others."""
    errors, reasons = {}, []
    try:
        model = model_of_file(file)
        plans = plans_of(model.network, names)
        table = StageTable(model.network, element_bytes=bytes_of(model.network))
    except CsdfError as error:
        return errors, [("all", "all", str(error))]
    for name, plan in plans.items():
        try:
            made = library(model, plan, name="net", frames=[])
        except CsdfError as error:
            reasons.append(("all", name, str(error)))
            continue
        for core in cores:
            instructions = predicted(table, plan, core)
            if instructions > MOST_INSTRUCTIONS:
                reason = f"{thousands(instructions)} thousand instructions are predicted"
                reasons.append((core, name, reason))
                continue
            try:
                frame, _ = counted(made, model.network, plan, core, counts)
            except RuntimeError as error:
                reasons.append((core, name, str(error)))
                continue
            errors[core, name] = instructions / frame - 1, frame
    return errors, reasons


def predicted(table, plan, core):
    """Return the predicted instructions of a frame of a plan."""
    platform = core_platform(Core(kernels=core, hertz=HERTZ, least=Fraction(1), most=Fraction(1)))
    return PlanTimes(table, platform).of(plan) * HERTZ / NANOSECONDS


def model_of_file(file):
    """Return the model of a file as it is deployed, or of a random network: chain:77:integers."""
    if Path(file).exists():
        options = OPTIONS.get(Path(file).stem, {})
        return as_computed(simplified(read_model(file, with_weights=True, **options)))
    return drawn(file)


def summary(errors_of, cores):
    """Yield the shares of figures within LIMITS: by core, of all, and of the first plans."""
    figures = [
        (core, place == 0, abs(errors[core, name][0]))
        for errors in errors_of.values()
        for core in cores
        for place, name in enumerate([plan for plan in PLANS if (core, plan) in errors])
    ]
    rows = {core: [error for of, _, error in figures if of == core] for core in cores}
    rows["all"] = [error for *_, error in figures]
    rows["first plans"] = [error for _, is_first, error in figures if is_first]
    for title, errors in rows.items():
        shares = (
            f"{sum(error <= limit / 100 for error in errors) / max(1, len(errors)):.1%} within "
            f"{limit} %"
            for limit in LIMITS
        )
        size = f"{title}: {len(errors)} figures of {len(errors_of)} models"
        yield ", ".join((size, *shares, f"largest error {max(errors, default=0):.1%}"))


def as_row(file, errors, cores):
    """Return a row of the page: thousand instructions counted, and how far the predicted are off."""
    cells = [
        ", ".join(
            f"{thousands(count)} {100 * error:+.1f}%"
            for error, count in (errors[core, plan] for plan in PLANS if (core, plan) in errors)
        )
        for core in cores
    ]
    return f"| {' | '.join((Path(file).stem, *cells))} |"


def thousands(count):
    """Return thousand instructions as text, of small networks with a decimal."""
    return f"{count / 1000:,.0f}" if count >= 10**5 else f"{count / 1000:.1f}"


if __name__ == "__main__":
    main()
