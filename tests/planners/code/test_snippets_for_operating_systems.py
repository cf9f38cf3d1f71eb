"""Programs of docs/firmware.md for FreeRTOS, Zephyr and two cores, with stand-ins for the systems."""

import re
import subprocess
from pathlib import Path

import pytest

from cnn2csdf.catalogue.networks import from_catalogue
from planners.code.library import library
from planners.code.packaging import Package
from planners.memory.fit import fit
from tests.planners.code.calibrated import integer_model
from tests.planners.code.compiling import COMPILER, needs_compiler

PAGE = Path(__file__).parents[3] / "docs" / "firmware.md"
APPLICATION = """
#ifndef APPLICATION_H
#define APPLICATION_H
#include <stdbool.h>
#include <stdint.h>
bool next_frame(int8_t *frame);
void take_scores(const int8_t *scores);
#endif
"""
FREERTOS = """
#ifndef FREERTOS_H
#define FREERTOS_H
#include <stdint.h>
#include <stdlib.h>
typedef long BaseType_t;
typedef uint32_t StackType_t;
typedef void *TaskHandle_t;
typedef void (*TaskFunction_t)(void *);
#define pvPortMalloc malloc
#define vPortFree free
#define vTaskDelete(task) ((void)(task))
static inline BaseType_t xTaskCreate(TaskFunction_t run, const char *name, size_t words,
                                     void *arguments, unsigned priority, TaskHandle_t *task)
{
    (void)name;
    (void)priority;
    (void)task;
    if (words * sizeof(StackType_t) < 1240U) {
        return 0;
    }
    run(arguments);
    return 1;
}
#endif
"""
ZEPHYR = """
#ifndef KERNEL_H
#define KERNEL_H
#include <stdlib.h>
struct k_heap {
    size_t size;
};
typedef int k_timeout_t;
#define K_NO_WAIT 0
#define K_HEAP_DEFINE(name, bytes) struct k_heap name = {bytes}
#define K_PRIO_PREEMPT(priority) (priority)
#define K_THREAD_DEFINE(name, stack, run, a, b, c, priority, options, delay) \\
    void start_thread(void);                                                 \\
    void start_thread(void)                                                  \\
    {                                                                        \\
        if ((stack) >= 1240) {                                               \\
            run(a, b, c);                                                    \\
        }                                                                    \\
    }                                                                        \\
    struct k_heap kws_heap
static inline void *k_heap_alloc(struct k_heap *heap, size_t bytes, k_timeout_t wait)
{
    (void)wait;
    return (bytes + 64 <= heap->size) ? malloc(bytes) : NULL;
}
static inline void k_heap_free(struct k_heap *heap, void *memory)
{
    (void)heap;
    free(memory);
}
#endif
"""
MAIN = """
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include "application.h"
#include "kws_int8.h"
#define FRAMES 20
static int told;
static int8_t expected[FRAMES][KWS_INT8_IDENTITY_OUTPUT_ELEMENTS];
static void fill(int8_t *frame, int number)
{
    int i;
    for (i = 0; i < KWS_INT8_INPUT_1_ELEMENTS; i++) {
        frame[i] = (int8_t)((i * 37 + number * 101) %% 256 - 128);
    }
}
bool next_frame(int8_t *frame)
{
    static int number;
    if (number == FRAMES) {
        return false;
    }
    fill(frame, number++);
    return true;
}
void take_scores(const int8_t *scores)
{
    told += memcmp(scores, expected[told], sizeof expected[0]) == 0;
}
%(declared)s
static void expect(void)
{
    static kws_int8_element arena[KWS_INT8_ARENA_ELEMENTS];
    static kws_int8_state state;
    static int8_t frame[KWS_INT8_INPUT_1_ELEMENTS];
    int number;
    (void)kws_int8_init(&state, arena, sizeof arena);
    for (number = 0; number < FRAMES; number++) {
        fill(frame, number);
        (void)kws_int8_run(&state, frame, expected[number]);
    }
}
int main(void)
{
    expect();
    if (memcmp(expected[0], expected[1], sizeof expected[0]) == 0) {
        return 2;
    }
%(run)s
    return told != FRAMES;
}
"""
SYSTEMS = {
    "FreeRTOS.h": ("BaseType_t start_recognition(void);", "    (void)start_recognition();"),
    "zephyr/kernel.h": ("void start_thread(void);", "    start_thread();"),
    "stdatomic.h": (
        """void record_on_first_core(void);
void compute_on_second_core(void);
static void *other_core(void *nothing)
{
    compute_on_second_core();
    return nothing;
}""",
        """    pthread_t core;
    if (pthread_create(&core, NULL, other_core, NULL) != 0) {
        return 3;
    }
    record_on_first_core();
    (void)pthread_join(core, NULL);""",
    ),
}


def programs():
    """The programs of the page, by the first header that they include."""
    section = PAGE.read_text().partition("## Memory under an operating system")[2]
    blocks = re.findall(r"^```text\n(.*?)^```$", section.partition("\n## ")[0], re.M | re.S)
    return {re.search(r'#include [<"](.+?)[>"]', block)[1]: block for block in blocks}


def test_each_system_of_the_page_is_tried():
    assert set(programs()) == set(SYSTEMS)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A library that has the names of the page, and the headers of the stand-ins."""
    target = tmp_path_factory.mktemp("systems")
    model = integer_model(from_catalogue("keyword_spotting:rows=10"), 0)
    (first,), (last,) = model.network.inputs, model.network.outputs
    package = Package(renamed=((first.name, "input_1"), (last.name, "identity_output")))
    plan = fit(model.network, budget=1).least.plan
    files = {
        **library(model, plan, name="kws_int8", frames=[], package=package).files,
        "include/application.h": APPLICATION,
        "include/FreeRTOS.h": FREERTOS,
        "include/task.h": '#include "FreeRTOS.h"\n',
        "include/zephyr/kernel.h": ZEPHYR,
    }
    for path, text in files.items():
        (target / path).parent.mkdir(parents=True, exist_ok=True)
        (target / path).write_text(text)
    return target


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize("system", SYSTEMS)
def test_a_program_of_the_page_has_the_outputs_of_static_arrays(folder, system):
    declared, run = SYSTEMS[system]
    head = '#include "FreeRTOS.h"\n' if system == "FreeRTOS.h" else ""
    main = MAIN % {"declared": head + declared, "run": run}
    (folder / "main.c").write_text(main)
    (folder / "program.c").write_text(programs()[system])
    flags = ["-std=c11", "-O1", "-Wall", "-Wextra", "-Wconversion", "-Werror", "-pthread"]
    sources = ["main.c", "program.c", "src/kws_int8.c", "src/kws_int8_weights.c"]
    words = [COMPILER, *flags, "-fsanitize=address,undefined", "-Iinclude", *sources, "-lm"]
    built = subprocess.run([*words, "-o", "all"], cwd=folder, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr[:3000]
    ran = subprocess.run(["./all"], cwd=folder, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr[:2000]
