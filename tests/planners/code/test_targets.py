"""Libraries for one target: no code of other machines, no warning there, and the same outputs."""

import re
import shutil
import subprocess
from collections import Counter
from functools import cache

import pytest

from cnn2csdf.catalogue.networks import from_catalogue
from cnn2csdf.readers.model_files import read_model
from cnn2csdf.simplify import simplified
from csdf.errors import InvalidArgument
from planners.code.library import library
from planners.code.machines import (
    CORTEX_M0PLUS,
    CORTEX_M4,
    CORTEX_M55,
    HOST,
    PORTABLE,
    TARGETS,
    WORDS,
    simplified_condition,
    specialised,
    target_of_platform,
)
from planners.code.prologue import without_unused_macros
from planners.code.several import Member, write_libraries
from planners.memory.fit import fit
from tests.cli.running import run
from tests.planners.code.calibrated import integer_model, real_model
from tests.planners.code.compiling import COMPILER, needs_compiler, run_all
from tests.shared_data import SHARED

__all__ = ["run"]

WAKE_WORD = SHARED / "networks" / "stateful" / "mww_v2_hey_jarvis.tflite"
STRICT = (
    *("-std=c99", "-O2", "-Wall", "-Wextra", "-Wpedantic"),
    *("-Wconversion", "-Wmissing-prototypes", "-Werror"),
)
ARM = "arm-none-eabi-gcc"
CORES = {  # as their compilers are asked for them
    CORTEX_M0PLUS: ["-mcpu=cortex-m0plus", "-mthumb"],
    CORTEX_M4: ["-mcpu=cortex-m4", "-mthumb", "-mfloat-abi=hard", "-mfpu=fpv4-sp-d16"],
    CORTEX_M55: ["-mcpu=cortex-m55", "-mthumb", "-mfloat-abi=hard"],
}
FOREIGN = {  # instructions of the machines that have some of their own
    CORTEX_M4: r"WORDS_MEET|__ARM_FEATURE_SIMD32|smlad",
    CORTEX_M55: r"HELIUM|__ARM_FEATURE_MVE|FOLDED|_folded|vldrb|arm_mve",
    HOST: r"__SSE2__|__AVX2__|_mm_|_mm256_|mmintrin",
}
FUNCTION = r"^(?!typedef)\w[\w *]*?\b(\w+)\([^;{]*\)\n\{"


@cache
def cases():
    """An int8 network with convolutions, the same of real numbers, and a streaming wake word."""
    models = {
        "int8": integer_model(from_catalogue("resnet8:resolution=16"), 0),
        "float": real_model(from_catalogue("resnet8:resolution=16")),
    }
    if WAKE_WORD.exists():
        models["streaming"] = simplified(read_model(str(WAKE_WORD), with_weights=True))
    return {
        name: (model, fit(model.network, budget=1).least.plan) for name, model in models.items()
    }


@cache
def library_for(target, name):
    return library(*cases()[name], name="net", target=target)


def c_of(files):
    return "\n".join(text for path, text in files.items() if path.startswith(("src/", "include/")))


def requires_case(name):
    if name not in cases():
        pytest.skip(f"the wake word is not at {WAKE_WORD}")


def test_conditions_of_other_machines_are_decided_and_all_others_stay():
    possible = frozenset({"HELIUM"})
    small = "defined(HELIUM) && FACTORS_ARE_SMALL"
    assert simplified_condition(small, possible) == small
    assert simplified_condition(small, frozenset()) == "0"
    assert simplified_condition(small, frozenset(), possible) == "FACTORS_ARE_SMALL"
    either = f"({small}) || (defined(WORDS_MEET) && NARROW)"
    assert simplified_condition(either, possible) == small
    assert simplified_condition("!defined(__AVX2__)", possible) == "1"
    assert simplified_condition("A && !(B || !defined(__AVX2__))", possible) == "0"


def test_a_branch_of_another_machine_leaves_the_text():
    text = (
        "#if defined(HELIUM)\na\n#elif defined(__SSE2__) /* b */\nb\n#if C\nc\n#endif\n"
        "#else\nd\n#endif"
    )
    assert specialised(text, frozenset()) == "d"
    assert specialised(text, frozenset(), frozenset({"HELIUM"})) == "a"
    assert specialised(text, frozenset(), frozenset({"__SSE2__"})) == "b\n#if C\nc\n#endif"
    helium = "#if defined(HELIUM)\na\n#else\nd\n#endif"
    assert specialised(text, frozenset({"HELIUM"})) == helium
    assert specialised(text, WORDS) == text


def test_conditions_on_macros_of_networks_are_decided():
    switches = frozenset({("HALVES", False), ("NARROW", True)})
    text = "#if HALVES\na\n#elif NARROW && defined(HELIUM)\nb\n#else\nc\n#endif"
    assert specialised(text, WORDS, switches=switches) == (
        "#if defined(HELIUM)\nb\n#else\nc\n#endif"
    )
    assert specialised(text, frozenset(), switches=switches) == "c"
    assert specialised(text, WORDS) == text


def test_macros_that_nothing_uses_are_left_out():
    text = (
        "#define A 1\n#define B(x) (x) + \\\n    A\n#define C 2\n"
        "#ifdef P\n#define D 1\n#else\n#define D 0\n#endif\n#define E C\n"
    )
    assert without_unused_macros(text, {"E"}) == "#define C 2\n#define E C\n"
    assert without_unused_macros(text, {"B", "D", "E"}) == text
    nested = "#if X\n#if Y\n#define A 1\n#endif\n#endif\nint z;\n"
    assert without_unused_macros(nested, set()) == "int z;\n"


def test_a_plan_without_tiles_or_state_has_no_code_for_them():
    model, _ = cases()["int8"]
    plan = fit(model.network, searched=()).methods[0].plan
    text = library(model, plan, target=CORTEX_M4).written.whole_source
    functions = r"\b(compute_tiles|copy_to_duplicates|update_variables|copy_weights|save_kept)\b"
    switches = r"\b(HAS_TILES|HAS_COPIES|HAS_VARIABLES|MOVES_WEIGHTS|CAN_STAGE)\b"
    assert re.findall(f"{functions}|{switches}", text) == []


def test_a_target_is_the_core_of_a_platform():
    assert target_of_platform("cortex-m7") == CORTEX_M4
    assert target_of_platform("cortex-m55") == CORTEX_M55
    assert target_of_platform("hazard3") == "rv32"
    assert target_of_platform("esp32-s3") == HOST  # which has no core whose kernels are known


def test_an_unknown_target_is_refused_by_name():
    model, plan = cases()["float"]
    with pytest.raises(InvalidArgument, match="target 'avr'; expected one of cortex-m4"):
        library(model, plan, target="avr")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["int8", "streaming"])
@pytest.mark.parametrize("target", TARGETS)
def test_the_c_for_a_target_has_no_code_of_another_machine(target, name):
    requires_case(name)
    text = c_of(library_for(target, name).files)
    others = [words for machine, words in FOREIGN.items() if machine != target]
    assert re.findall("|".join(others), text) == []
    own = FOREIGN.get(target)
    assert (own is not None and re.search(own, text) is not None) == (target in FOREIGN)


@pytest.mark.slow
@pytest.mark.parametrize("target", [CORTEX_M4, CORTEX_M55, HOST])
def test_instructions_of_a_machine_are_in_files_of_their_own(target):
    files = library_for(target, "int8").files
    named = {"csdf_int8_cortex_m4.h", "csdf_int8_cortex_m55.h"}
    named |= {"csdf_int8_sse2.h", "csdf_int8_avx2.h"}
    instructions = r"__asm__|_mm_\w|_mm256_\w|\bv\w+q_\w*[su](8|16|32)\b"
    library_files = {path: text for path, text in files.items() if path.startswith("src/")}
    found = {path for path, text in library_files.items() if re.search(instructions, text)}
    assert found
    assert found <= {f"src/{name}" for name in named}
    # What the compiler takes without these instructions has none of their conditions.
    conditions = re.findall(r"^#if.*", files["src/csdf_int8_portable.h"], re.MULTILINE)
    assert [line for line in conditions if "__" in line or "defined" in line] == []


@pytest.mark.slow
@needs_compiler
def test_networks_share_one_copy_of_the_kernels_that_they_use(tmp_path):
    words = integer_model(from_catalogue("keyword_spotting:rows=25"), 0)
    networks = {**cases(), "words": (words, fit(words.network, budget=1).least.plan)}
    names = ("int8", "float", "words")
    members = [Member(model=networks[name][0], plan=networks[name][1], name=name) for name in names]
    made = write_libraries(members, tmp_path, target=CORTEX_M4)
    headers = {path: text for path, text in made.files.items() if path.startswith("src/csdf_")}
    defined = [
        name
        for path, text in headers.items()
        if path not in ("src/csdf_int8_portable.h", "src/csdf_int8_cortex_m4.h")
        for name in re.findall(FUNCTION, text, re.MULTILINE)
    ]
    assert len(defined) > 40
    by_elements = Counter(defined)
    assert max(by_elements.values()) <= 2  # once for integers, once for real numbers
    own = "".join(made.files[f"src/{member.name}.c"] for member in made.members)
    assert not set(re.findall(FUNCTION, own, re.MULTILINE)) & set(by_elements)
    sources = [path for path in made.files if re.fullmatch(r"(src|test)/.*\.c", path)]
    words = [COMPILER, *STRICT, "-Iinclude", *sources, "-lm", "-o", "all"]
    ran = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr[:3000]
    assert subprocess.run(["./all"], cwd=tmp_path, capture_output=True).returncode == 0


@pytest.mark.slow
def test_real_numbers_have_the_same_c_for_each_target():
    texts = {
        c_of(library_for(target, "float").files).replace(f" * Target: {target}\n", "")
        for target in TARGETS
    }
    assert len(texts) == 1
    assert re.findall("|".join(FOREIGN.values()), texts.pop()) == []


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize("name", ["int8", "float", "streaming"])
def test_each_target_compiles_without_a_warning_here_and_on_its_core(name, tmp_path):
    requires_case(name)
    for target in TARGETS if name != "float" else (PORTABLE,):
        folder = tmp_path / target
        files = library_for(target, name).files
        for path, text in files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text)
        core = [ARM, *CORES.get(target, CORES[CORTEX_M4])]
        hooks = re.findall(r"^#ifdef (NET_\w+)", files["include/net.h"], re.MULTILINE)
        macros = [*hooks, "NET_UNCHECKED"] if name == "int8" else []
        assert name != "int8" or len(macros) > 2
        # The library for all machines compiles under each macro alone, too (test_macros_in_c).
        for words in [[COMPILER], core, [*core, *(f"-D{macro}" for macro in macros)]]:
            if shutil.which(words[0]) is None:
                continue
            sources = [path for path in files if re.fullmatch(r"src/.*\.c", path)]
            ran = subprocess.run(
                [*words, *STRICT, "-fsyntax-only", "-Iinclude", *sources],
                cwd=folder,
                capture_output=True,
                text=True,
            )
            assert ran.returncode == 0, f"{target} {words}: {ran.stderr[:2000]}"


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize("name", ["int8", "streaming"])
def test_each_target_has_the_outputs_of_the_network_here(name, tmp_path):
    requires_case(name)
    made = [
        library(*cases()[name], name=f"net{number}", target=target)
        for number, target in enumerate((CORTEX_M4, CORTEX_M55, PORTABLE))
    ]
    assert run_all(made, tmp_path) == []


@pytest.mark.slow
@pytest.mark.skipif(
    not all(map(shutil.which, ("make", ARM, "qemu-system-arm"))),
    reason=f"needs make, {ARM} and qemu-system-arm",
)
@pytest.mark.parametrize("target", [CORTEX_M4, CORTEX_M55])
def test_a_library_for_a_core_has_equal_outputs_in_fewer_instructions_there(target, tmp_path):
    counts = {}
    for chosen in (target, PORTABLE):
        folder = tmp_path / chosen
        for path, text in library_for(chosen, "int8").files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text)
        words = ["make", "-s", "-C", str(folder), "instructions"]
        words += [f"TARGET={'m55' if target == CORTEX_M55 else 'm4'}"]
        ran = subprocess.run(words, capture_output=True, text=True)
        said = ran.stdout + ran.stderr
        assert ran.returncode == 0, said
        assert "net: outputs equal" in said
        counts[chosen] = int(re.search(r"instructions of a frame: (\d+)", said)[1])
    assert counts[target] < counts[PORTABLE] * 2 / 3


@pytest.mark.parametrize(
    ("words", "has_words"),
    [((), False), (("--platform", "cortex-m4"), True), (("--target", "cortex-m4"), True)],
)
def test_deploy_takes_the_core_of_the_platform_for_the_target(run, tmp_path, words, has_words):
    file = SHARED / "networks" / "tflite" / "hello_world_int8.tflite"
    if not file.exists():
        pytest.skip(f"the network is not at {file}")
    code, _, remarks = run("deploy", file, *words, "-o", tmp_path / "c")
    assert code == 0, remarks
    text = "".join(path.read_text() for path in sorted((tmp_path / "c" / "src").iterdir()))
    assert ("__ARM_FEATURE_SIMD32" in text) == has_words
    assert ("__SSE2__" in text) != has_words
    assert "__ARM_FEATURE_MVE" not in text
