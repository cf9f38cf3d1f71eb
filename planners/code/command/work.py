"""The function of `csdf deploy`: plans networks, and writes them as a C library."""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

from cnn2csdf.commands.cnn import chosen
from cnn2csdf.commands.cnn.chosen import with_weights
from cnn2csdf.dtypes import Element
from cnn2csdf.granularity import require_few_parts
from cnn2csdf.network import Network
from cnn2csdf.platforms import BoardMemory, platform_named
from cnn2csdf.stored_tensors import stored_at_run_time, stores_integers
from cnn2csdf.streams import as_stream
from cnn2csdf.weights import Model
from csdf.cli import answers
from csdf.cli.frame.long_work import stop_after
from csdf.cli.frame.output import remark
from csdf.cli.project import command_of
from csdf.errors import CsdfError, InvalidPlan, UnsupportedOperator, UnwritableFile
from csdf.io.files import STANDARD_INPUT, require_writable, write_texts
from csdf.status import Status
from csdf.units import needed_bytes_in_words
from planners.code.calls.cmsis_nn import TARGET_OF, ScratchLimit
from planners.code.library import Library, c_files_in, replaced_origin, write_folder
from planners.code.library import library as library_of
from planners.code.machines import HOST, TARGETS, target_of_platform
from planners.code.misra import deviations_in, record, require_cppcheck, summary
from planners.code.packaging import MAKE, Package, source_of
from planners.code.parts import OWN
from planners.code.primitives.bench import bench
from planners.code.several import Libraries, Member, combined_libraries
from planners.code.sources import Written, cmsis_nn_of
from planners.code.supported import require_c
from planners.memory.alternatives import answer_with_alternatives
from planners.memory.answer import RESIDENT, SEARCHED, Fit, FitMethod
from planners.memory.command.answer import alternatives, ram_parts_in_words, taken
from planners.memory.command.main import memories_of_options
from planners.memory.loaded_plan import fit_of
from planners.memory.request import fit_request
from planners.memory.shared_memories import taking_turns
from planners.plan.carried_out import require_own
from planners.plan.plan import StreamingPlan
from planners.plan.ram import CMSIS_STACK_BYTES, RamBeside, ram_beside
from planners.plan.stack import known_core
from planners.plan.text import plans_for, worked_part

REAL_BYTES = 4  # bytes of an element in C, if no tensor of the network is quantised


class Planned(NamedTuple):
    """A model, the answer of its search, and the method whose plan the library executes."""

    model: Model
    fit: Fit
    method: FitMethod


def work(options: argparse.Namespace) -> int:
    """Write the library; return the exit code: 1 where no plan fits, 3 if unknown."""
    if options.bench:
        return _bench(options)
    _package(options)  # rejects invalid options before the search
    if options.misra is not None:
        _require_record(options.misra, options.output)
        require_cppcheck()
    try:
        planned = _planned(options)
        with answers.working(f"writing {options.output}"):
            answer = _written(planned, options)
    except _NoLibrary as reason:
        print(f"csdf deploy: {reason}", file=sys.stderr)
        return reason.exit_code
    if options.misra is not None:
        answer = _with_misra(answer, options)
    answers.show(answer.as_json, answer.lines, options)
    return answers.ANSWERED


class _NoLibrary(Exception):
    """The reason why no library is written, as lines, and the exit code."""

    def __init__(self, text: str, exit_code: int = answers.NO) -> None:
        super().__init__(text)
        self.exit_code = exit_code


def _planned(options: argparse.Namespace) -> list[Planned]:
    """Return the networks with checked plans. Raises _NoLibrary if a network has none that fits."""
    memories, plans = memories_of_options(options), _plans(options)
    planned: list[Planned] = []
    for number, source in enumerate(options.models):
        model = _model(source, options)
        if plans:
            model = worked_part(model, plans[number])
            fit = _checked(model, plans[number], options)
        else:
            require_c(model)  # before the search, which may take minutes
            fit = _fitted(model, options, memories=memories, ram=options.ram)
        fit = _with_cmsis_nn(model, fit, options)
        planned.append(Planned(model, fit, _best_method(fit, options)))
    if not plans:

        def again(number: int, changes: Mapping[str, Any]) -> Fit:
            """Plan a network again, within other limits that all networks together need."""
            model = planned[number].model
            limits = {"memories": memories, "ram": options.ram, **changes}
            return _with_cmsis_nn(model, _fitted(model, options, **limits), options)

        for number, fit in enumerate(taking_turns([member.fit for member in planned], again)):
            if fit.best is None:
                raise _NoLibrary(f"{fit.network}: {fit.reason}")
            planned[number] = Planned(planned[number].model, fit, fit.best)
    stored = sum(member.fit.flash_bytes for member in planned)
    if options.flash is not None and stored > options.flash:
        raise _NoLibrary(
            f"{Status.INFEASIBLE}: the parameters of {answers.counted(len(planned), 'network')} "
            f"take {stored} bytes; the flash has {options.flash}"
        )
    if not plans:
        with answers.working("checking plans"):
            require_own([(member.model.network, member.method.plan) for member in planned])
    return planned


def _best_method(fit: Fit, options: argparse.Namespace) -> FitMethod:
    """Return the best method of an answer. Raises _NoLibrary without a plan that fits."""
    if fit.best is not None and fit.is_cut_short and not options.best_effort:
        words = f"{answers.CUT_SHORT}: {fit.reason}; give more time, or --best-effort"
        raise _NoLibrary(f"{fit.network}: {words}", answers.UNKNOWN)
    if fit.best is None or fit.status != Status.FEASIBLE:
        lines = [f"{fit.network}: {fit.status}: {fit.reason}", *alternatives(fit)]
        is_unknown = fit.status == Status.UNKNOWN
        raise _NoLibrary("\n".join(lines), answers.UNKNOWN if is_unknown else answers.NO)
    return fit.best


def _require_record(path: str, folder: str) -> None:
    """Raise UnwritableFile for a record that cannot be written, or is in the folder of the library.

    That folder holds files of the library alone: with another, the next csdf deploy refuses it.
    """
    if path == STANDARD_INPUT:
        raise UnwritableFile("--misra -: expected a file, such as misra.csv or /dev/stdout")
    if os.path.exists(os.path.dirname(path) or os.curdir):  # a missing folder is created
        require_writable(path)
    if Path(path).resolve().is_relative_to(Path(folder).resolve()):
        raise UnwritableFile(f"{path}: is in the folder of the library; write it beside {folder}")


def _with_misra(answer: Answer, options: argparse.Namespace) -> Answer:
    """Write the record of deviations from MISRA C:2012; add it to the answer."""
    sources = c_files_in(answer.as_json["files"], "src")
    with answers.working("running cppcheck"):
        deviations = deviations_in(Path(options.output), sources)
    write_texts({options.misra: record(deviations)})
    rules = dict(Counter(deviation.rule for deviation in deviations))
    line = f"  misra    {summary(deviations)}, in {options.misra}"
    return Answer({**answer.as_json, "misra": rules}, [*answer.lines[:-1], line, answer.lines[-1]])


def _bench(options: argparse.Namespace) -> int:
    """Write a program that times primitives."""
    model = _model(options.models[0], options)
    benchmark = bench(
        model, name=options.name, ram=options.ram, flash=options.flash, package=_package(options)
    )
    write_folder(options.output, benchmark.files)
    answer = {
        "network": model.network.name,
        "library": benchmark.name,
        "ways": benchmark.ways,
        "ram_bytes": benchmark.arena_bytes,
        "flash_bytes": benchmark.weight_bytes,
        "files": list(benchmark.files),
    }
    lines = [
        f"{model.network.name}: {benchmark.ways} ways to compute {benchmark.layers} "
        "layers, to be timed in "
        f"{needed_bytes_in_words(benchmark.arena_bytes)} of RAM, "
        f"{needed_bytes_in_words(benchmark.weight_bytes)} of flash for parameters",
        *answers.written(list(benchmark.files), options.output),
        f"  next     make -C {options.output} profile",
    ]
    answers.show(answer, lines, options)
    return answers.ANSWERED


def _require_flash(weight_bytes: int, options: argparse.Namespace) -> None:
    """Raise _NoLibrary if the tables of parameters exceed the flash; no file is written yet."""
    if options.flash is not None and weight_bytes > options.flash:
        raise _NoLibrary(
            f"{Status.INFEASIBLE}: the tables of parameters take {weight_bytes} bytes; the flash has "
            f"{options.flash}"
        )


class Answer(NamedTuple):
    """The answer of the command, as a JSON value and as lines."""

    as_json: dict[str, Any]
    lines: list[str]


def _model(source: str, options: argparse.Namespace) -> Model:
    """The network of an argument with weights, in the types in which C computes it."""
    model = chosen.read_source(source, options, with_weights=True, knows_state=True)
    if options.hop is not None:
        model = as_stream(model, options.hop)
    if model.weights is None and any(
        layer.quantization is not None for layer in model.network.layers
    ):
        raise CsdfError(f"{source}: a quantised network without weights cannot be deployed")
    require_few_parts(model.network)
    _require_elements(source, model.network, options.expected_bytes)
    return with_weights("csdf deploy", as_computed(model), options.seed)


def _require_elements(source: str, network: Network, expected: int | None) -> None:
    """Refuse a size of elements in which the library does not compute this network."""
    is_integer = stores_integers(network)
    sizes = {layer.element_bytes for layer in network.layers} if is_integer else {REAL_BYTES}
    if expected is not None and expected not in sizes:
        computed = " or ".join(map(str, sorted(sizes)))
        hint = "" if is_integer else "; for 1 byte deploy an int8 .tflite or .onnx file of it"
        raise CsdfError(
            f"{source}: --element-bytes {expected}, but the library computes in the elements of the "
            f"file, of {computed} bytes; leave out --element-bytes{hint}"
        )


def as_computed(model: Model) -> Model:
    """The model with all tensors except integers in single precision, as C computes them."""
    network = model.network
    if not stores_integers(network):
        return model
    runtime_layers = stored_at_run_time(network)
    layers = tuple(
        layer
        if layer.quantization is not None or layer.name in runtime_layers
        else replace(layer, element=Element.FLOAT32)
        for layer in network.layers
    )
    return replace(model, network=replace(network, layers=layers))


def _plans(options: argparse.Namespace) -> tuple[StreamingPlan, ...]:
    """The plans of the file of --plan, one for each model; empty without a file."""
    if options.plan is None:
        return ()
    for name in ("input", "output-memory"):
        if getattr(options, name.replace("-", "_")) is not None:
            raise CsdfError(f"--{name}: the plan says where it is; leave out --{name} or --plan")
    return plans_for(options.plan, len(options.models))


def _checked(model: Model, plan: StreamingPlan, options: argparse.Namespace) -> Fit:
    """The answer for the plan of a file: whether it fits. Raises InvalidPlan, with the file."""
    try:
        with answers.working(f"checking the plan of {plan.network}"):
            return fit_of(
                model.network,
                plan,
                ram=options.ram,
                flash=options.flash,
                beside=_beside(model.network, options),
            )
    except InvalidPlan as error:
        raise InvalidPlan(f"{options.plan}: {error}") from None


def _with_cmsis_nn(model: Model, fit: Fit, options: argparse.Namespace) -> Fit:
    """Return the answer with the plan in which CMSIS-NN computes the most MACs.

    Ties are broken by all MACs, then by kernel calls. The scratch of CMSIS-NN has to fit the RAM that
    the plan leaves.
    """
    if fit.best is None or options.kernels == OWN:
        return fit
    methods = (fit.best,) if options.plan is not None else fit.methods
    ranked: list[tuple[int, Fraction, int, int]] = []  # MACs of own kernels, all MACs, calls, index
    for index, method in enumerate(methods):
        with suppress(UnsupportedOperator):
            share = cmsis_nn_of(model, method.plan, _scratch(method, options))
            ranked.append((share.own_work, method.mac_ratio, share.firings, index))
    if not ranked:
        # Raises UnsupportedOperator again, with the reason for the best plan.
        cmsis_nn_of(model, fit.best.plan, _scratch(fit.best, options))
    return replace(fit, best=methods[min(ranked)[-1]])


def _beside(network: Network, options: argparse.Namespace) -> RamBeside:
    """The RAM in addition to the arena: stack of the kernels, and reserve of the application."""
    if options.kernels != OWN:
        return RamBeside(stack_bytes=CMSIS_STACK_BYTES, reserve_bytes=options.reserve)
    return ram_beside(network, _target(options), reserve_bytes=options.reserve)


def _scratch(method: FitMethod, options: argparse.Namespace) -> ScratchLimit:
    """The RAM that a plan leaves for the scratch of CMSIS-NN, and the target if one is stated."""
    core = platform_named(options.platform).core
    target = None
    if core is not None and getattr(options, "is_platform_given", False):
        target = TARGET_OF.get(core.kernels, "plain")
    if options.ram is None:
        return ScratchLimit(None, target)
    left = options.ram - method.with_state - CMSIS_STACK_BYTES - options.reserve
    # The state is padded to multiples of 8 bytes.
    return ScratchLimit(max(0, left) // len(options.models) // 8 * 8, target)


def _fitted(
    model: Model, options: argparse.Namespace, *, memories: Sequence[BoardMemory], ram: int | None
) -> Fit:
    """The answer of the search for plans of a network. ram: limit in bytes, None: none."""
    what = f"{model.network.name}: line buffers and strips"
    stop = stop_after(options.time_limit, what, effort=options.effort)
    request = fit_request(
        model.network,
        element_bytes=None if stores_integers(model.network) else REAL_BYTES,
        ram=ram,
        flash=options.flash,
        input=options.input or RESIDENT,
        output=options.output_memory or RESIDENT,
        searched=SEARCHED,
        platform=platform_named(options.platform),
        memories=memories,
        beside=_beside(model.network, options),
        order=options.order,
    )
    return answer_with_alternatives(request, stop)


def _written(planned: Sequence[Planned], options: argparse.Namespace) -> Answer:
    """Write the library of a network, or those of several, which share an arena and kernels."""
    library, members = _libraries(planned, options)
    _require_flash(sum(member.weight_bytes for member in members), options)
    _store(library, options)
    pairs = list(zip(planned, members, strict=True))
    described = [_planned_json(member, written, options) for member, written in pairs]
    lines = [_planned_line(member, written, options) for member, written in pairs]
    common = {"library": library.name, "target": _target(options)}
    if isinstance(library, Library):
        document = {**described[0], **common}
        kernels = [f"  kernels  {', '.join(library.written.kernels)}"]
    else:
        document = {**common, "ram_bytes": library.arena_bytes, "networks": described}
        kernels = []
        lines = [
            f"{len(planned)} networks, one at a time, in "
            f"{needed_bytes_in_words(sum(_ram(planned, members)) + options.reserve)} of RAM (arena "
            f"{library.arena_bytes} bytes), {needed_bytes_in_words(library.weight_bytes)} of flash "
            "for parameters",
            *(f"  {line}" for line in lines),
        ]
    document["files"] = list(library.files)
    lines += [_ram_line(planned, members, options), *kernels, _target_line(options)]
    lines += [
        f"  cmsis-nn {member.cmsis_nn.in_words()}"
        for member in members
        if member.cmsis_nn is not None
    ]
    return Answer(document, [*lines, *_ends(library.files, options)])


def _libraries(
    planned: Sequence[Planned], options: argparse.Namespace
) -> tuple[Library | Libraries, tuple[Written, ...]]:
    """Return the library of a network, or of several, and the C of each network."""
    target, package = _target(options), _package(options)
    largest = max((member.method for member in planned), key=lambda method: method.ram_bytes)
    scratch = _scratch(largest, options)
    if len(planned) == 1:
        library = library_of(
            planned[0].model,
            planned[0].method.plan,
            name=options.name,
            kernels=options.kernels,
            scratch=scratch,
            target=target,
            package=package,
        )
        return library, (library.written,)
    libraries = combined_libraries(
        [
            Member(model=member.model, plan=member.method.plan, scratch=scratch)
            for member in planned
        ],
        name=options.name or "networks",
        kernels=options.kernels,
        target=target,
        package=package,
    )
    return libraries, libraries.members


def _store(library: Library | Libraries, options: argparse.Namespace) -> None:
    """Write the files of a library; say what its test cannot show, and which library it replaces."""
    replaced = replaced_origin(options.output, library.files)
    write_folder(options.output, library.files)
    if replaced is not None:
        remark(
            "csdf deploy",
            f"{options.output}: replaced a library of another model or target ({replaced})",
        )
    for output in library.constant_outputs:
        remark(
            "csdf deploy",
            f"output {output!r}: equal, or at the limits of its type, in all frames of the test, "
            "which may miss wrong weights",
        )


def _target(options: argparse.Namespace) -> str:
    """Return the target of the kernels: of --target, or the core of --platform, or the host."""
    if options.target is not None:
        return str(options.target)
    return target_of_platform(options.platform) if "is_platform_given" in options else HOST


def _target_line(options: argparse.Namespace) -> str:
    """Return a line on the instructions that the kernels use."""
    target = _target(options)
    instructions = [machine.instructions for machine in TARGETS[target]]
    words = " and ".join(["portable C", *instructions[:1]])
    if target == HOST:
        words = "portable C, and SSE2 or AVX2 here; --target NAME for a core"
    return f"  target   {target}: {words}"


def _package(options: argparse.Namespace) -> Package:
    """Return the description of the library: its models, the command, version, author, address."""
    return Package(
        version=options.library_version,
        author=options.author,
        url=options.url,
        model_license=options.model_license,
        projects=options.project,
        sources=tuple(source_of(path) for path in options.models),
        command=command_of("csdf deploy", options.words),
        date=options.date,
        renamed=tuple(options.rename),
    )


class _Ram(NamedTuple):
    """RAM in bytes of networks that execute sequentially: one arena, one stack, all states."""

    arena: int
    states: int
    stack: int


def _ram(planned: Sequence[Planned], written: Sequence[Written]) -> _Ram:
    return _Ram(
        arena=max(member.method.ram_bytes for member in planned),
        states=sum(member.state_bytes for member in written),
        stack=max(member.stack_bytes for member in written),
    )


def _ram_line(
    planned: Sequence[Planned], written: Sequence[Written], options: argparse.Namespace
) -> str:
    """Return a line on the parts of the RAM."""
    ram = _ram(planned, written)
    if planned[0].method.plan.memories:
        return (
            f"  RAM      in addition to the memories: state at most {ram.states} B, stack at most "
            f"{ram.stack} B"
        )
    core = known_core(_target(options))
    beside = RamBeside(stack_bytes=ram.stack, reserve_bytes=options.reserve, core=core)
    return f"  RAM      {ram_parts_in_words(beside, ram.arena, ram.states, 0)}"


def _planned_line(planned: Planned, written: Written, options: argparse.Namespace) -> str:
    method = planned.method
    needed = needed_bytes_in_words(sum(_ram([planned], [written])) + options.reserve)
    sizes = taken(method.plan) if method.plan.memories else f"{needed} of RAM"
    return (
        f"{planned.fit.network}: {method.name}: {sizes} "
        f"(arena {method.ram_bytes} bytes), {float(method.mac_ratio):.4g}x MACs, "
        f"{needed_bytes_in_words(written.weight_bytes)} of flash for parameters"
    )


def _planned_json(
    planned: Planned, written: Written, options: argparse.Namespace
) -> dict[str, Any]:
    return {
        **planned.fit.to_json(),
        "needed_ram_bytes": sum(_ram([planned], [written])) + options.reserve,
        "stack_bytes": written.stack_bytes,
        "reserve_bytes": options.reserve,
        "flash_bytes": written.weight_bytes,
        "method": planned.method.name,
        "library": written.name,
        "state_bytes": written.state_bytes,
        "weight_bytes": written.weight_bytes,
        **({} if written.cmsis_nn is None else {"kernels": written.cmsis_nn.to_json()}),
        "inputs": [port.to_json() for port in written.inputs],
        "outputs": [output.to_json() for output in written.outputs],
    }


def _ends(files: Iterable[str], options: argparse.Namespace) -> list[str]:
    """Return the last lines: the files written, and the command that tests them."""
    folder = options.output
    if MAKE not in options.project:
        return answers.written(list(files), folder)
    then = f"make -C {folder} test"
    if options.kernels != OWN:
        then = f"make -C {folder} CMSIS_NN=FOLDER test, FOLDER with CMSIS-NN (README.md says which)"
    return [*answers.written(list(files), folder), f"  next     {then}"]
