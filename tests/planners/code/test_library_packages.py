"""The folder of a library in other people's build systems."""

import json
import re
import shutil
import subprocess

import pytest

from planners.code.library import library, write_library
from planners.code.several import Member, together, write_libraries
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
CALLER = """#include <small.h>
static small_element arena[SMALL_ARENA_ELEMENTS];
static small_state state;
int main(void) { small_init(&state, arena); return 0; }
"""


def test_several_networks_and_one_have_the_same_folders():
    model = small()
    one = Member(model=model, plan=planned(model), name="one")
    folders = [
        {path.partition("/")[0] for path in made.files}
        for made in (together([one, one]), library(model, planned(model)))
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
    write_library(small(), planned(small()), tmp_path)
    (tmp_path / "sketch.c").write_text(CALLER)
    words = [COMPILER, *FLAGS, "-Isrc", "sketch.c", "src/small.c", "src/small_weights.c", "-lm"]
    subprocess.run(words, cwd=tmp_path, check=True)


@pytest.mark.slow
@needs_cmake
@pytest.mark.parametrize("frame", FRAMES)
def test_a_build_system_takes_the_folder(tmp_path, frame):
    write_library(small(), planned(small()), tmp_path / "library")
    (tmp_path / "main.c").write_text(CALLER)
    (tmp_path / "CMakeLists.txt").write_text(
        f"cmake_minimum_required(VERSION 3.13)\nproject(product C)\n{FRAMES[frame]}\n"
        "add_executable(product main.c)\ntarget_link_libraries(product firmware m)\n"
    )
    for words in (["-S", ".", "-B", "build"], ["--build", "build"]):
        subprocess.run(["cmake", *words], cwd=tmp_path, check=True, capture_output=True)
    assert subprocess.run([tmp_path / "build" / "product"]).returncode == 0


def test_what_describes_a_library_has_what_its_tools_ask_for():
    files = library(small(), planned(small())).files
    described = json.loads(files["library.json"])
    # PlatformIO asks for name and version; Arduino for these lines, none of them empty.
    assert described["name"] == "small"
    assert described["headers"] == ["small.h"]
    lines = dict(line.split("=", 1) for line in files["library.properties"].splitlines())
    wanted = "name version author maintainer sentence paragraph category url architectures"
    assert all(lines[one] for one in wanted.split())
    assert lines["category"] in ("Data Processing", "Other")
    assert lines["version"] == described["version"]
    assert f"version: {lines['version']}\n" in files["idf_component.yml"]
    assert "cmake: .\n" in files["zephyr/module.yml"]
