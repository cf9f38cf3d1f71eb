/* Solves the problems on standard input; or with a word, all with each allocation failing in turn. */

#include <stdio.h>
#include <stdlib.h>

static long allocations_left = -1; /* below 0: none fails */

static int fails(void) { return allocations_left >= 0 && allocations_left-- == 0; }
static void *test_calloc(size_t count, size_t size) { return fails() ? NULL : calloc(count, size); }
static void *test_realloc(void *old, size_t size) { return fails() ? NULL : realloc(old, size); }

#define calloc test_calloc
#define realloc test_realloc
#include "csdf_arena.c"
#undef calloc
#undef realloc

static long long number(void)
{
    long long read = 0;
    if (scanf("%lld", &read) != 1)
        exit(9);
    return read;
}

static int solved(csdf_arena_problem *problem, long long capacity, double seconds, int64_t *offsets)
{
    csdf_arena_plan plan = {0, 0};
    int status = csdf_arena_solve(problem, capacity, seconds, offsets, &plan);
    printf("%d %lld %lld\n", status, (long long)plan.peak, (long long)plan.lower_bound);
    return status;
}

int main(int count, char **words)
{
    (void)words;
    for (long long problems = number(); problems > 0; problems--) {
        long long buffers = number(), pairs = number(), capacity = number(), milliseconds = number();
        csdf_arena_problem *problem = csdf_arena_new();
        for (long long k = 0; k < buffers; k++) {
            long long size = number(), start = number(), end = number();
            csdf_arena_buffer(problem, size, start, end, number());
        }
        for (long long k = 0; k < pairs; k++) {
            long long one = number();
            csdf_arena_conflict(problem, one, number());
        }
        int64_t *offsets = calloc((size_t)buffers + 1, sizeof *offsets);
        int status = CSDF_ARENA_NO_MEMORY;
        for (long limit = 0; count > 1 && status == CSDF_ARENA_NO_MEMORY; limit++) {
            allocations_left = limit;
            csdf_arena_plan plan;
            status = csdf_arena_solve(problem, capacity, 60, offsets, &plan);
        }
        allocations_left = -1;
        solved(problem, capacity, (double)milliseconds / 1000, offsets);
        for (long long k = 0; k < buffers; k++)
            printf("%lld ", (long long)offsets[k]);
        printf("\n");
        free(offsets);
        csdf_arena_free(problem);
    }
    return 0;
}
