/* Offsets for buffers in one arena, and orders of least peak, with proof: searches of csdf, without Python.
 *
 *     csdf_arena_problem *problem = csdf_arena_new();
 *     csdf_arena_buffer(problem, 96, 0, 2, 16);
 *     csdf_arena_buffer(problem, 64, 1, 3, 16);
 *     int64_t offsets[2];
 *     csdf_arena_plan plan;
 *     int status = csdf_arena_solve(problem, CSDF_ARENA_LEAST, 60.0, offsets, &plan);
 *     csdf_arena_free(problem);
 *
 * Buffers need their bytes over a half-open lifetime, at every time t with start <= t < end; two buffers
 * share no byte if a time is in both lifetimes, or if they are said to conflict. No function prints,
 * reads or writes anything else than its arguments; each may run in several threads on different problems. */

#ifndef CSDF_ARENA_H
#define CSDF_ARENA_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct csdf_arena_problem csdf_arena_problem;

enum {
    CSDF_ARENA_OPTIMAL = 0,    /* no plan has a smaller peak */
    CSDF_ARENA_FEASIBLE = 1,   /* a plan, within the capacity if there is one; a smaller one may exist */
    CSDF_ARENA_INFEASIBLE = 2, /* proved: no plan is within the capacity */
    CSDF_ARENA_UNKNOWN = 3,    /* the time is over: the best plan is above the capacity, nothing is proved */
    CSDF_ARENA_WRONG = -1,     /* an argument is outside of its range; nothing was changed */
    CSDF_ARENA_TOO_LARGE = -2, /* sizes and alignments add up to 2^58, or too many pairs conflict */
    CSDF_ARENA_NO_MEMORY = -3
};

#define CSDF_ARENA_LEAST (-1) /* a capacity: look for the least peak */

typedef struct csdf_arena_plan {
    int64_t peak;        /* bytes up to the end of the highest buffer */
    int64_t lower_bound; /* bytes; no plan has a smaller peak */
} csdf_arena_plan;

/* Return an empty problem, or NULL where there is no memory. */
csdf_arena_problem *csdf_arena_new(void);

/* Add a buffer of so many bytes, at an offset that is a multiple of the alignment.
 * Return its number, from 0, or an error below 0. size >= 0, end >= start, alignment >= 1. */
int64_t csdf_arena_buffer(csdf_arena_problem *problem, int64_t size, int64_t start, int64_t end,
                          int64_t alignment);

/* Say that two buffers share no byte, though their lifetimes do not meet. Return 0 or an error. */
int csdf_arena_conflict(csdf_arena_problem *problem, int64_t one, int64_t other);

/* Write the offset of each buffer, in bytes, and what is proved; return one of the values above.
 * capacity: stop at the first plan of at most so many bytes; CSDF_ARENA_LEAST for the least peak.
 * seconds: when to stop with the best plan so far. If the answer is infeasible or an error, offsets
 * are as they were; infeasible leaves the peak 0. The problem may be solved again. */
int csdf_arena_solve(const csdf_arena_problem *problem, int64_t capacity, double seconds,
                     int64_t *offsets, csdf_arena_plan *plan);

/* Give back a problem; NULL is no problem. */
void csdf_arena_free(csdf_arena_problem *problem);

/* A graph of tensors whose steps may run in any topological order. Rows: the tensors that step s reads are
 * read[read_start[s]] to read[read_start[s + 1] - 1], each once; likewise those that it writes, each by one
 * step, and those of its inputs that its only result, of at most as many bytes, may overwrite. */
typedef struct csdf_order_graph {
    int64_t steps, tensors;
    const int64_t *size;      /* bytes of each tensor */
    const int64_t *is_output; /* whether each tensor is live until the end */
    const int64_t *scratch;   /* bytes of each step while it runs */
    const int64_t *read_start, *read, *write_start, *write, *overwrite_start, *overwrite;
} csdf_order_graph;

/* Write the steps in an order with the least peak of live bytes of all orders, and the peak and bytes that no order
 * is below. A tensor that no step writes is live from the start. work: elementary steps of the search, such as
 * 10^10 for some 20 seconds; the answer depends on them alone. The search takes up to 200 MB of memory for 500
 * steps, and 0.9 GB for 10,000. Return CSDF_ARENA_OPTIMAL, CSDF_ARENA_FEASIBLE or an error: CSDF_ARENA_WRONG also
 * for a cycle, or a number that is not of a tensor. An error may have written a part of the order. */
int csdf_order_solve(const csdf_order_graph *graph, int64_t work, int64_t *order, csdf_arena_plan *plan);

#ifdef __cplusplus
}
#endif

#endif
