"""TensorFlow Lite Micro on emulated microcontrollers: its arena, flash, stack and instructions.

Built from folders of its sources, with its reference kernels or with those of CMSIS-NN, at the levels
of optimisation of its Makefile: -Os, kernels -O2. The program knows the operators of the file, those
of whole networks of 8 bits by their versions for 8 bits, and compares all outputs first.
"""

import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from os import cpu_count
from pathlib import Path
from typing import NamedTuple

import numpy as np

from cnn2csdf.dtypes import Element
from cnn2csdf.readers.tflite.model_file import graphs_of
from planners.code.parts import source
from tests.benchmarks.comparing.firmware import core_flags, made, number, prepare

KERNELS = REFERENCE, CMSIS_NN = "reference", "CMSIS-NN"
ARENA_BYTES = 1 << 20  # of the program, of which the interpreter says how much it used
FLAGS = (
    *("-w", "-DNDEBUG", "-DTF_LITE_STRIP_ERROR_STRINGS", "-DTF_LITE_STATIC_MEMORY"),
    *("-DTF_LITE_DISABLE_X86_NEON", "-fno-unwind-tables", "-fno-asynchronous-unwind-tables"),
)
CPP_FLAGS = ("-std=c++17", "-fno-rtti", "-fno-exceptions", "-fno-threadsafe-statics")
LITE, MICRO = "tensorflow/lite", "tensorflow/lite/micro"
CORE = (
    *("tensorflow/compiler/mlir/lite/schema/*.cc", f"{LITE}/core/api/*.cc", f"{LITE}/core/c/*.cc"),
    *(f"{LITE}/kernels/**/*.cc", f"{MICRO}/*.cc", f"{MICRO}/arena_allocator/*.cc"),
    *(f"{MICRO}/memory_planner/*.cc", f"{MICRO}/tflite_bridge/*.cc"),
)
NOT_OF_A_PROGRAM = re.compile(r"test|mock|fake|recording|hexdump|profiler")


class Sources(NamedTuple):
    """Folders of sources; cmsis_nn is None where the reference kernels are asked for alone."""

    tflite_micro: Path
    flatbuffers: Path
    gemmlowp: Path
    ruy: Path
    cmsis_nn: Path | None


def counted(path, vectors, kernels, target, sources, kept):
    """Bytes and thousand instructions, by name, that the program of a TFLite file says.

    vectors: for each frame the arrays of its inputs and of its outputs, as they lie in the file's
    tensors. kernels: REFERENCE or CMSIS_NN. kept: the folder of what was compiled before.
    """
    folder = kept / f"{path.stem}-{kernels}-{target}"
    prepare(folder)
    graph = graphs_of(path.read_bytes())[0]
    core = core_flags(folder, target)
    (folder / "vectors.S").write_text(_vectors(path, vectors, folder))
    (folder / "program.cc").write_text(_program(graph, vectors, sources, kernels))
    objects = _compiled(_files_of(graph, sources, kernels), core, sources, kept / target)
    for name in ("vectors.S", "program.cc"):
        _compile(folder / name, folder / f"{name}.o", "-O2", core, sources, cmsis_nn=kernels)
    if kernels == CMSIS_NN:
        objects.append(cmsis_nn_archive(sources.cmsis_nn, target, kept))
    tests = f"TESTS={folder}/program.cc.o {folder}/vectors.S.o"
    words = ["instructions", f"TARGET={target}", tests, f"OBJECTS={' '.join(map(str, objects))}"]
    text = made(folder, *words)
    found = {name: number(text, name) for name in ("arena", "stack", "thousand instructions")}
    return found | linked(folder / f"build/{target}-counted/target.map", f"{kept}/")


def cmsis_nn_archive(source, target, kept):
    """The archive of CMSIS-NN for integers, compiled for a target at -O2; source: its folder."""
    archive = kept / f"cmsis-nn-{target}.a"
    if not archive.exists():
        place = kept / f"cmsis-nn-{target}"
        prepare(place)
        flags = [*core_flags(place, target), "-O2", "-w", f"-I{source}/Include", "-c"]
        files = sorted(source.glob("Source/**/*.c"))
        files = [one for one in files if not re.search(r"_(f16|f32|flt)\.c$", one.name)]
        subprocess.run(["arm-none-eabi-gcc", *flags, *files], cwd=place, check=True)
        subprocess.run(["arm-none-eabi-ar", "rc", archive, *place.glob("*.o")], check=True)
    return archive


def _files_of(graph, sources, kernels):
    """The sources that the operators of a graph need, beside those of every program."""
    root = sources.tflite_micro
    files = [path for pattern in CORE for path in sorted(root.glob(pattern))]
    files = [path for path in files if not NOT_OF_A_PROGRAM.search(str(path.relative_to(root)))]
    folder = root / MICRO / "kernels"
    texts = {path: path.read_text() for path in folder.glob("*.cc") if "test" not in path.name}
    files += [folder / name for name in ("kernel_util.cc", "conv_common.cc")]  # used by others
    for kind in sorted({node.kind for node in graph.nodes}):
        pattern = re.compile(rf"TFLMRegistration\*? Register_{kind}\(\)")
        (path,) = (one for one, text in texts.items() if pattern.search(text))
        common = path.with_name(f"{path.stem}_common.cc")
        special = folder / "cmsis_nn" / path.name
        files.append(special if kernels == CMSIS_NN and special.exists() else path)
        files += [common] if common.exists() else []
    return list(dict.fromkeys(files))


def _compiled(files, core, sources, kept):
    """The objects of files, those that are not there compiled now."""
    kept.mkdir(parents=True, exist_ok=True)
    objects = []
    with ThreadPoolExecutor(cpu_count()) as pool:
        for path in files:
            name = str(path.relative_to(sources.tflite_micro)).replace("/", "-")
            objects.append(kept / f"{name}.o")
            if not objects[-1].exists():
                kernels = CMSIS_NN if path.parent.name == "cmsis_nn" else REFERENCE
                level = "-O2" if "kernels" in path.parts else "-Os"
                pool.submit(_compile, path, objects[-1], level, core, sources, cmsis_nn=kernels)
    missing = [str(one) for one in objects if not one.exists()]
    if missing:
        raise SystemExit(f"TensorFlow Lite Micro: not compiled: {', '.join(missing)}")
    return objects


def _compile(path, target, level, core, sources, *, cmsis_nn):
    folders = [sources.tflite_micro, sources.flatbuffers / "include", sources.gemmlowp, sources.ruy]
    more = []
    if cmsis_nn == CMSIS_NN:
        folders += [sources.cmsis_nn, sources.cmsis_nn / "Include"]
        more = ["-DCMSIS_NN"]
    included = [f"-I{folder}" for folder in (*folders, target.parent / "target")]
    language = CPP_FLAGS if path.suffix == ".cc" else ()
    words = ["arm-none-eabi-g++", *core, level, *FLAGS, *language, *more, *included]
    subprocess.run([*words, "-c", path, "-o", target], check=True)


def _vectors(path, vectors, folder):
    """Assembly with the model and the frames, in a section of their own."""
    lines = ['.section .rodata.vectors, "a"']
    arrays = {"model": np.frombuffer(path.read_bytes(), np.uint8)}
    for frame, ports in enumerate(vectors):
        for kind, each in zip(("given", "wanted"), ports, strict=True):
            arrays |= {f"{kind}_{frame}_{port}": array for port, array in enumerate(each)}
    for name, array in arrays.items():
        (folder / f"{name}.bin").write_bytes(array.tobytes())
        lines += [".balign 16", f".global {name}", f"{name}:", f'.incbin "{folder}/{name}.bin"']
    return "\n".join(lines) + "\n"


def _program(graph, vectors, sources, kernels):
    text = (sources.tflite_micro / MICRO / "micro_mutable_op_resolver.h").read_text()
    headers = "".join(
        one.read_text() for one in sorted((sources.tflite_micro / MICRO / "kernels").glob("*.h"))
    )
    in_bytes = all(
        graph.tensors[port].element is Element.INT8 for port in (*graph.inputs, *graph.outputs)
    )
    kinds = sorted({node.kind for node in graph.nodes})
    added = []
    for kind in kinds:
        verb = re.search(rf"Status (Add\w+)\((?:(?!Status).)*BuiltinOperator_{kind},", text, re.S)[
            1
        ]
        short = in_bytes and f" Register_{kind}_INT8()" in headers
        takes = re.search(rf"{verb}\(\s*const TFLMRegistration& reg", text) is not None
        added.append(
            f"resolver.{verb}({f'tflite::Register_{kind}_INT8()' if short and takes else ''});"
        )
    frames, (given, wanted) = range(len(vectors)), vectors[0]
    declared = [
        f"extern const uint8_t {name}[];"
        for name in (
            "model",
            *(f"given_{frame}_{port}" for frame in frames for port in range(len(given))),
            *(f"wanted_{frame}_{port}" for frame in frames for port in range(len(wanted))),
        )
    ]
    tables = [
        f"static const uint8_t *const {kind}[][{len(ports)}] = {{"
        + ", ".join(
            "{" + ", ".join(f"{kind}_{frame}_{port}" for port in range(len(ports))) + "}"
            for frame in frames
        )
        + "};"
        for kind, ports in (("given", given), ("wanted", wanted))
    ]
    return PROGRAM % {
        "declared": "\n".join(declared),
        "tables": "\n".join(tables),
        "kinds": len(kinds),
        "added": "\n    ".join(added),
        "headers": "\n".join(
            f'#include "{MICRO}/kernels/{name}.h"'
            for name in ("pad", "transpose", "maximum_minimum")
        ),
        "arena": ARENA_BYTES,
        "frames": len(vectors),
        "inputs": len(given),
        "outputs": len(wanted),
        "say": source("say.c"),
    }


PROGRAM = """
#include <cmath>
#include <cstdint>
#include <cstring>
#include <new>

#include "tensorflow/lite/micro/micro_interpreter.h"
#include "tensorflow/lite/micro/micro_mutable_op_resolver.h"
#include "tensorflow/lite/schema/schema_generated.h"
%(headers)s

#define ON_TARGET
extern "C" {
%(say)s
%(declared)s
}
%(tables)s

using Resolver = tflite::MicroMutableOpResolver<%(kinds)d>;
alignas(16) static uint8_t tensor_arena[%(arena)d];
alignas(16) static uint8_t of_resolver[sizeof(Resolver)];
alignas(16) static uint8_t of_interpreter[sizeof(tflite::MicroInterpreter)];

extern "C" void abort()
{
    __builtin_trap();
}

static void run(tflite::MicroInterpreter &interpreter, int frame)
{
    for (int port = 0; port < %(inputs)d; port++) {
        TfLiteTensor *input = interpreter.input(port);
        std::memcpy(input->data.raw, given[frame][port], input->bytes);
    }
    interpreter.Invoke();
}

static bool equal(TfLiteTensor *output, const uint8_t *bytes)
{
    if (output->type != kTfLiteFloat32) {
        return std::memcmp(output->data.raw, bytes, output->bytes) == 0;
    }
    for (size_t place = 0; place < output->bytes / 4; place++) {
        float number;
        std::memcpy(&number, bytes + 4 * place, 4);
        if (!(std::fabs(output->data.f[place] - number) <= 1e-4f * (1 + std::fabs(number)))) {
            return false;
        }
    }
    return true;
}

int main()
{
    Resolver &resolver = *new (of_resolver) Resolver; /* never destroyed: no atexit() */
    %(added)s
    tflite::MicroInterpreter &interpreter = *new (of_interpreter) tflite::MicroInterpreter(
        tflite::GetModel(model), resolver, tensor_arena, sizeof tensor_arena);
    bool failed = interpreter.AllocateTensors() != kTfLiteOk;
    for (int frame = 0; frame < %(frames)d && !failed; frame++) {
        run(interpreter, frame);
        for (int port = 0; port < %(outputs)d; port++) {
            failed |= !equal(interpreter.output(port), wanted[frame][port]);
        }
    }
    say(failed ? "outputs differ" : "outputs equal");
    say("\\narena: ");
    say_number(interpreter.arena_used_bytes());
    say("\\nstack: ");
    say_number(stack_bytes());
    uint64_t before = instructions();
    run(interpreter, 0);
    say("\\nthousand instructions: ");
    say_number((instructions() - before) / 1000);
    say("\\n");
    return failed;
}
"""
SECTION = re.compile(r"^ (\.\S+)\s+0x[0-9a-f]+\s+0x([0-9a-f]+) (\S+)$", re.MULTILINE)
CODE, STATIC = (".text", ".rodata", ".ARM.exidx", ".data"), (".data", ".bss")


def linked(path, place):
    """Bytes of code and tables, and of static memory, that a program has of files in a place.

    path: of the linker's map. Of TensorFlow Lite Micro without the model, the frames and the arena.
    """
    mapped = Path(path).read_text().split("Linker script and memory map")[1]
    if re.search(r"\.init_array\S*\s+0x[0-9a-f]+\s+0x0*[1-9a-f]", mapped):
        raise SystemExit(f"{path}: constructors, which the start of the target does not call")
    code = static = 0
    for section, size, file in SECTION.findall(mapped):
        if place in file and "vectors" not in section and not section.endswith("tensor_arena"):
            code += int(size, 16) if section.startswith(CODE) else 0
            static += int(size, 16) if section.startswith(STATIC) else 0
    return {"code": code, "static": static}
