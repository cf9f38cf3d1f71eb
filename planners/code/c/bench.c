/* Times every way of every layer, and every change of layout, and prints a profile. REPEATS: median
   of. On a board, compile with -DON_BOARD and define the two functions below. */
#ifndef REPEATS
#define REPEATS 5
#endif
#define HOPELESS 8 /* times as long as the fastest way of its layer: then once is enough */

#if defined(ON_BOARD)
void say(const char *text);
uint64_t nanoseconds(void);
#elif defined(ON_TARGET)
#include "target.h"

/* Of a processor that takes a nanosecond for each instruction. */
static uint64_t nanoseconds(void)
{
    return instructions();
}
#else
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#define ON_HOST

static FILE *out;

static void say(const char *text)
{
    fputs(text, out);
    fflush(out);
}

/* Of the processor, for this process. */
static uint64_t nanoseconds(void)
{
#if defined(CLOCK_PROCESS_CPUTIME_ID)
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
#else
    return (uint64_t)((double)clock() * (1e9 / CLOCKS_PER_SEC));
#endif
}
#endif

static float arena[ARENA_ELEMENTS];
#ifdef ON_HOST
static unsigned char caches[1 << 22]; /* written between runs: weights are not cached */
#endif

/* Inputs are near, as the layer before has written them; numbers that no sum makes large or tiny. */
static void refresh(const work *w)
{
    int32_t i;
#ifdef ON_HOST
    static unsigned char turn;
    memset(caches, turn++, sizeof caches);
#endif
    for (i = 0; i < w->output.offset; i++) {
        arena[i] = (float)(i % 17 - 8) * 0.125f;
    }
}

static uint64_t time_once(const work *w)
{
    uint64_t before;
    refresh(w);
    before = nanoseconds();
    work_on(w, arena);
    before = nanoseconds() - before;
    return before ? before : 1;
}

/* Write a number behind a text, and return its end. */
static char *put_number(char *to, uint64_t number)
{
    char digits[20];
    int place = 20;
    do {
        digits[--place] = (char)('0' + number % 10);
        number /= 10;
    } while (number);
    memcpy(to, digits + place, (size_t)(20 - place));
    return to + 20 - place;
}

/* The median of some times, and how far apart the quarters are. */
static void time_candidate(const candidate *c, uint64_t *best, char *found)
{
    uint64_t times[REPEATS + 1];
    uint64_t time;
    int32_t count = 0;
    int32_t i;
    time = time_once(&c->of); /* which does not count where there are others: memory is touched */
    if (*best == 0 || time < *best) {
        *best = time;
    }
    times[count++] = time;
#ifdef ON_HOST
    for (count = 0; count < (time > HOPELESS * *best ? 1 : REPEATS); count++) {
        time = time_once(&c->of);
        for (i = count; i > 0 && times[i - 1] > time; i--) {
            times[i] = times[i - 1];
        }
        times[i] = time;
    }
#else
    (void)i;
#endif
    found = put_number(found, times[count / 2]);
    *found++ = ',';
    found = put_number(found, times[count * 3 / 4] - times[count / 4]);
    found[0] = '\n';
    found[1] = 0;
}

/* Print what is not there yet, from a line on. */
static void print_from(int32_t done)
{
    int32_t number;
    int32_t row;
    int32_t layer = -1;
    uint64_t best = 0;
    char found[48];
    if (done == 0) {
        say(HEAD);
    }
    for (number = 0; number < CANDIDATES; number++) {
        const candidate *c = &candidates[number];
        if (c->first_row + c->rows <= done - HEAD_LINES) {
            continue;
        }
        best = c->layer == layer ? best : 0;
        layer = c->layer;
        time_candidate(c, &best, found);
        for (row = c->first_row; row < c->first_row + c->rows; row++) {
            if (row >= done - HEAD_LINES) {
                char line[LONGEST_ROW + sizeof found];
                strcpy(line, rows[row]);
                strcat(line, found);
                say(line);
            }
        }
    }
}

#ifdef ON_HOST
/* A profile that was interrupted goes on behind its last whole line. */
int main(int count, char **words)
{
    const char *path = count > 1 ? words[1] : NULL;
    int32_t lines = 0;
    int32_t same = 1;
    int32_t i = 0;
    int letter;
    out = path ? fopen(path, "r+") : stdout;
    while (path && out && (letter = fgetc(out)) != EOF) {
        same = same && (i >= (int32_t)sizeof HEAD - 1 || HEAD[i] == (char)letter);
        i++;
        lines += letter == '\n';
    }
    if (!same || (lines && lines < HEAD_LINES)) {
        fprintf(stderr, "%s: not a profile by this program; give another file\n", path);
        return 2;
    }
    if (path && !out) {
        out = fopen(path, "w");
    }
    if (!out) {
        fprintf(stderr, "%s: cannot be written\n", path);
        return 2;
    }
    fseek(out, 0, SEEK_END);
    for (i = 0; i < WEIGHTS; i++) {
        all_weights[i] = (float)(i % 16 * 2 - 15) * 0.0625f;
    }
    print_from(lines);
    return 0;
}
#else
int main(void)
{
    print_from(0);
    return 0;
}
#endif
