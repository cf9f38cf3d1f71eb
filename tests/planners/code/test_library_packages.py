"""The folder of a library in other people's build systems."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from cnn2csdf.onnx_files.writer import onnx_bytes
from csdf.cli.project import command_of
from csdf.errors import InvalidArgument
from planners.code.library import library, write_library
from planners.code.packaging import ARDUINO, MAKE, PROJECTS, SPDX, Package
from planners.code.several import Member, combined_libraries, write_libraries
from tests.planners.code.compiling import COMPILER, FLAGS, needs_compiler
from tests.planners.code.test_networks_together import members
from tests.planners.code.test_writing_libraries import planned, small

needs_cmake = pytest.mark.skipif(not shutil.which("cmake"), reason="needs cmake and a C compiler")
# What ESP-IDF and Zephyr define before they read CMakeLists.txt of a component or module, here as
# plain libraries.
FRAMES = {
    "ESP-IDF": """set(ESP_PLATFORM 1)
function(idf_component_register)
  cmake_parse_arguments(HERE "" "" "SRCS;INCLUDE_DIRS" ${ARGN})
  add_library(firmware STATIC ${HERE_SRCS})
  target_include_directories(firmware PUBLIC ${HERE_INCLUDE_DIRS})
endfunction()
add_subdirectory(library)""",
    "Zephyr": """macro(zephyr_library_named name)
  add_library(${name} STATIC)
  set(ZEPHYR_CURRENT_LIBRARY ${name})
endmacro()
function(zephyr_library_sources)
  target_sources(${ZEPHYR_CURRENT_LIBRARY} PRIVATE ${ARGN})
endfunction()
function(zephyr_include_directories)
  target_include_directories(${ZEPHYR_CURRENT_LIBRARY} PUBLIC ${ARGN})
endfunction()
add_subdirectory(library)
add_library(firmware ALIAS small)""",
    "CMake": "add_subdirectory(library)\nadd_library(firmware ALIAS small)",
}
PROJECT_OF = {"ESP-IDF": "esp-idf", "Zephyr": "zephyr", "CMake": "cmake"}
ALL = Package(
    version="1.2.0", author="A. Person", url="https://example.org/small", projects=PROJECTS
)
CALLER = """#include <small.h>
static small_element arena[SMALL_ARENA_ELEMENTS];
static small_state state;
int main(void) { return small_init(&state, arena, sizeof arena) != SMALL_OK; }
"""


def test_several_networks_and_one_have_the_same_folders():
    model = small()
    one = Member(model=model, plan=planned(model), name="one")
    folders = [
        {path.partition("/")[0] for path in made.files}
        for made in (combined_libraries([one, one]), library(model, planned(model)))
    ]
    assert folders[0] | {"examples"} == folders[1]


@pytest.mark.slow
@needs_compiler
def test_each_source_compiles_alone(tmp_path):
    found = write_libraries(members(), tmp_path)
    sources = [path for path in found.files if re.fullmatch(r"src/.*\.c", path)]
    assert len(sources) == 2 * len(found.members)
    subprocess.run([COMPILER, *FLAGS, "-c", *sources, "-Iinclude"], cwd=tmp_path, check=True)


@needs_compiler
def test_arduino_finds_the_header_in_src(tmp_path):
    # Arduino's compilers look in src/ of a library, and in no other folder of it.
    write_library(small(), planned(small()), tmp_path, package=ALL)
    (tmp_path / "sketch.c").write_text(CALLER)
    words = [COMPILER, *FLAGS, "-Isrc", "sketch.c", "src/small.c", "src/small_weights.c", "-lm"]
    subprocess.run(words, cwd=tmp_path, check=True)


@pytest.mark.slow
@needs_cmake
@pytest.mark.parametrize("frame", FRAMES)
def test_a_build_system_takes_the_folder(tmp_path, frame):
    package = Package(projects=(PROJECT_OF[frame],))
    write_library(small(), planned(small()), tmp_path / "library", package=package)
    (tmp_path / "main.c").write_text(CALLER)
    (tmp_path / "CMakeLists.txt").write_text(
        f"cmake_minimum_required(VERSION 3.13)\nproject(product C)\n{FRAMES[frame]}\n"
        "add_executable(product main.c)\ntarget_link_libraries(product firmware m)\n"
    )
    for words in (["-S", ".", "-B", "build"], ["--build", "build"]):
        subprocess.run(["cmake", *words], cwd=tmp_path, check=True, capture_output=True)
    assert subprocess.run([tmp_path / "build" / "product"]).returncode == 0


def test_what_describes_a_library_has_what_its_tools_ask_for():
    files = library(small(), planned(small()), package=ALL).files
    described = json.loads(files["library.json"])
    # PlatformIO asks for name and version; Arduino for these lines, none of them empty.
    assert described["name"] == "small"
    assert described["headers"] == ["small.h"]
    properties = files["library.properties"].splitlines()
    lines = dict(line.split("=", 1) for line in properties if line[0] != "#")
    wanted = "name version author maintainer sentence paragraph category url architectures"
    assert all(lines[one] for one in wanted.split())
    assert lines["category"] in ("Data Processing", "Other")
    assert lines["version"] == described["version"]
    assert lines["author"] == lines["maintainer"] == described["authors"][0]["name"] == "A. Person"
    assert f'version: "{lines["version"]}"\n' in files["idf_component.yml"]
    assert "cmake: .\n" in files["zephyr/module.yml"]
    files = library(small(), planned(small()), package=replace(ALL, author="\U0001f600")).files
    assert 'maintainers: ["\U0001f600"]\n' in files["idf_component.yml"]


def test_files_of_build_systems_come_only_where_they_are_asked_for():
    model = small()
    own = {
        "cmake": {"CMakeLists.txt"},
        "make": {"Makefile"},
        "platformio": {"library.json"},
        "esp-idf": {"CMakeLists.txt", "idf_component.yml"},
        "zephyr": {"CMakeLists.txt", "zephyr/module.yml"},
        "arduino": {"library.properties", "src/small.h"},
    }
    every = set().union(*own.values())
    assert every & set(library(model, planned(model)).files) == own["cmake"] | own["make"]
    for project, names in own.items():
        package = Package(projects=(project,), author="A", url="https://example.org")
        assert every & set(library(model, planned(model), package=package).files) == names
    several = combined_libraries(
        [Member(model=model, plan=planned(model))], package=Package(projects=(MAKE,))
    )
    assert every & set(several.files) == own["make"]


def test_no_author_is_made_up_for_arduino():
    with pytest.raises(InvalidArgument, match="needs an author and an address"):
        Package(projects=(ARDUINO,), author="A. Person")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("version", "1.2"),
        ("version", "v1.2.3"),
        ("author", "two\nlines"),
        ("url", "example.org"),
        ("date", "2026-02-30"),
        ("model_license", "MIT, mostly"),
        *(("model_license", text) for text in ("((MIT", "MIT)", "MIT MIT", "MIT OR", "OR", "A(B)")),
        ("projects", ("scons",)),
    ],
)
def test_what_a_package_cannot_say_is_refused_with_the_value(field, value):
    with pytest.raises(InvalidArgument) as refused:
        Package(**{field: value})
    assert str(value if isinstance(value, str) else value[0]) in str(refused.value).replace(
        "\\n", "\n"
    )


def test_each_file_with_comments_names_its_licence():
    files = library(small(), planned(small()), package=ALL).files
    with_model = f"({SPDX.partition(': ')[2]}) AND LicenseRef-model"
    terms = {
        path: text.split("\n", 1)[0].partition("Identifier: ")[2] for path, text in files.items()
    }
    assert terms["src/small_weights.c"] == "LicenseRef-model"
    assert terms["src/small.c"] == with_model
    assert json.loads(files["library.json"])["license"] == with_model
    assert "LicenseRef-model" in files["LICENSE"]
    for path in ("src/small_weights.c", "src/small.c"):
        files[path] = files[path].replace(terms[path], SPDX.partition(": ")[2], 1)
    for line in (SPDX, "Generated by csdf ", "Author: A. Person\n"):
        unnamed = {path for path, text in files.items() if line not in text[:600]}
        assert unnamed - {"LICENSE"} == {"library.json"}
    assert SPDX in files["LICENSE"]
    assert '#define SMALL_VERSION "1.2.0"\n' in files["include/small.h"]
    assert " * Author: A. Person\n" in files["src/small_weights.c"]


@pytest.mark.parametrize(
    "text",
    ["MIT", "GPL-2.0+", "((MIT))", "(MIT OR (A-1.0 AND B)) AND C", "GPL-2.0 WITH Or-exception"],
)
def test_spdx_expressions_are_licences_of_models(text):
    assert Package(model_license=text).whole_license.count(text) == 1


def test_weights_name_the_licence_of_their_model():
    package = Package(model_license="MIT OR CC-BY-4.0")
    files = library(small(), planned(small()), name="x_weights", package=package).files
    assert files["src/x_weights_weights.c"].startswith(
        "/* SPDX-License-Identifier: MIT OR CC-BY-4.0\n"
    )
    assert ") AND (MIT OR CC-BY-4.0)\n" in files["src/x_weights.c"][:120]
    assert files["src/x_weights_weights.h"].startswith(f"/* {SPDX}\n")
    assert "MIT OR CC-BY-4.0" in files["LICENSE"]


@pytest.mark.slow
@needs_compiler
def test_a_unity_build_is_refused_with_a_reason(tmp_path):
    for name in ("a", "b"):
        write_library(small(), planned(small()), tmp_path / name, name=name)
    assert "UNITY_BUILD OFF" in (tmp_path / "a/CMakeLists.txt").read_text()
    for sources, error in ((("a",), ""), (("a", "b"), "no unity build")):
        lines = "".join(f'#include "{name}/src/{name}.c"\n' for name in sources)
        (tmp_path / "unity.c").write_text(lines)
        words = [COMPILER, "-std=c99", "-fsyntax-only", "-Ia/include", "-Ib/include", "unity.c"]
        ran = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)
        assert error in ran.stderr
        assert bool(ran.returncode) == bool(error)


def test_the_command_in_a_banner_has_no_folders(tmp_path):
    (tmp_path / "plan.json").write_text("{}")
    words = ["resnet8", "--plan", f"{tmp_path}/plan.json", f"--platform={tmp_path}/plan.json"]
    words += ["-o", f"{tmp_path}/out", "--json", f"--output={tmp_path}/out", "--durations"]
    words += [f"{tmp_path}/"]
    expected = (
        f"csdf deploy resnet8 --plan plan.json --platform=plan.json --durations {tmp_path.name}"
    )
    assert command_of("csdf deploy", words) == expected


def _deployed(folder, hash_seed, zone, mask):
    """The files that `csdf deploy` writes in a process of its own, by their paths."""
    folder.mkdir()
    source = folder / "model" / "net.onnx"
    source.parent.mkdir()
    source.write_bytes(onnx_bytes(small()))
    seed = int(hash_seed)
    os.utime(source, (seed, seed))
    words = ["-m", "csdf", "deploy", str(source), "--library-version", "2.0.0", "-o", "out"]
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "TZ": zone}
    root = str(Path(__file__).parents[3])
    environment["PYTHONPATH"] = root
    subprocess.run([sys.executable, *words], cwd=folder, env=environment, check=True, umask=mask)
    out = folder / "out"
    return {
        path.relative_to(out).as_posix(): path.read_bytes()
        for path in sorted(out.rglob("*"))
        if path.is_file()
    }


@pytest.mark.slow
def test_two_machines_write_the_same_bytes(tmp_path):
    # Other folders, times of files, orders of sets, time zones and permissions.
    first = _deployed(tmp_path / "a", "1", "UTC", 0o022)
    second = _deployed(tmp_path / "b", "77", "Pacific/Kiritimati", 0o077)
    assert first == second
    banner = first["include/net.h"].decode()
    assert "Command: csdf deploy net.onnx --library-version 2.0.0\n" in banner
    digest = hashlib.sha256((tmp_path / "a" / "model" / "net.onnx").read_bytes()).hexdigest()
    assert f"Model: net.onnx, SHA-256 {digest}\n" in banner
    assert str(tmp_path).encode() not in b"".join(first.values())


@pytest.mark.slow
@needs_cmake
def test_a_build_of_cmake_without_a_type_is_optimised(tmp_path):
    write_library(small(), planned(small()), tmp_path)
    for build_type, expected in (("", "-O2"), ("Debug", "-g")):
        words = ["cmake", "-S", ".", "-B", f"build{build_type}", f"-DCMAKE_BUILD_TYPE={build_type}"]
        words += ["-DCMAKE_EXPORT_COMPILE_COMMANDS=ON"]
        subprocess.run(words, cwd=tmp_path, check=True, capture_output=True)
        commands = json.loads((tmp_path / f"build{build_type}/compile_commands.json").read_text())
        flags = {
            flag
            for one in commands
            if "/src/" in one["file"]
            for flag in one["command"].split()
            if flag.startswith(("-O", "-g"))
        }
        assert flags == {expected}
