/* Orders the graphs on standard input; or with a word, all with each allocation failing in turn. */

#include <stdio.h>
#include <stdlib.h>

static long allocations_left = -1; /* below 0: none fails */

static int fails(void) { return allocations_left >= 0 && allocations_left-- == 0; }
static void *test_calloc(size_t count, size_t size) { return fails() ? NULL : calloc(count, size); }

#define calloc test_calloc
#include "csdf_arena.c"
#undef calloc

static int64_t number(void)
{
    long long read = 0;
    if (scanf("%lld", &read) != 1)
        exit(9);
    return read;
}

static int64_t *numbers(int64_t count)
{
    int64_t *made = calloc((size_t)count + 1, sizeof *made);
    for (int64_t k = 0; k < count; k++)
        made[k] = number();
    return made;
}

int main(int count, char **words)
{
    (void)words;
    for (int64_t graphs = number(); graphs > 0; graphs--) {
        int64_t steps = number(), tensors = number(), work = number();
        int64_t *columns[] = {numbers(tensors), numbers(tensors), numbers(steps)}, *start[3], *row[3];
        for (int k = 0; k < 3; k++) {
            start[k] = numbers(steps + 1);
            row[k] = numbers(start[k][steps]);
        }
        csdf_order_graph graph = {steps,  tensors,  columns[0], columns[1], columns[2], start[0],
                                  row[0], start[1], row[1],     start[2],   row[2]};
        int64_t *order = numbers(0);
        order = realloc(order, ((size_t)steps + 1) * sizeof *order);
        csdf_arena_plan plan = {0, 0};
        int status = CSDF_ARENA_NO_MEMORY;
        for (long limit = 0; count > 1 && status == CSDF_ARENA_NO_MEMORY; limit++) {
            allocations_left = limit;
            status = csdf_order_solve(&graph, work, order, &plan);
        }
        allocations_left = -1;
        status = csdf_order_solve(&graph, work, order, &plan);
        printf("%d %lld %lld", status, (long long)plan.peak, (long long)plan.lower_bound);
        for (int64_t k = 0; k < steps && status >= 0; k++)
            printf(" %lld", (long long)order[k]);
        printf("\n");
        free(order);
        for (int k = 0; k < 3; k++) {
            free(columns[k]);
            free(start[k]);
            free(row[k]);
        }
    }
    return 0;
}
