/* The searches of csdf for offsets and orders, made from its kernels by `python -m planners.arena.command.library`. */

#include "csdf_arena.h"

#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* An array; what it holds belongs to a Memory. */
typedef struct Numbers {
    int64_t *at;
    int64_t count;
} Numbers;

/* A list of all that was taken, to be given back at once. `failed` is where a lack of memory leads. */
typedef struct Memory {
    struct Taken *last;
    jmp_buf *failed;
} Memory;

typedef struct Taken {
    struct Taken *before;
    int64_t room;
} Taken;

static void *take(Memory *memory, int64_t count, size_t size)
{
    Taken *taken = NULL;
    if ((uint64_t)count < (SIZE_MAX - sizeof(Taken)) / size)
        taken = calloc(1, sizeof(Taken) + (size_t)count * size);
    if (taken == NULL)
        longjmp(*memory->failed, 1);
    taken->before = memory->last;
    memory->last = taken;
    return taken + 1;
}

static void give_back(Memory *memory)
{
    while (memory->last != NULL) {
        Taken *before = memory->last->before;
        free(memory->last);
        memory->last = before;
    }
}

static Numbers zeros(Memory *memory, int64_t count)
{
    Numbers made = {take(memory, count, sizeof(int64_t)), count};
    return made;
}

static Numbers counted(Memory *memory, int64_t count)
{
    Numbers made = zeros(memory, count);
    for (int64_t k = 0; k < count; k++)
        made.at[k] = k;
    return made;
}

static int64_t min_of(int64_t one, int64_t other) { return one < other ? one : other; }

static int64_t max_of(int64_t one, int64_t other) { return one > other ? one : other; }

static int64_t floor_of(int64_t number, int64_t divisor)
{
    int64_t quotient = number / divisor;
    return quotient - (number % divisor != 0 && (number < 0) != (divisor < 0));
}

