/* What calls the kernels: parts of the problem, bounds, orders of buffers, and turns of the searches. */

enum { MOST_EXACT = 4000, SLICE = 1000, LONGEST_SLICE = 8000, LONGER_FIRST = 4, RESTARTS = 6 };
enum { MOST_PUSHES = 16000, PROOFS_FIRST = 8192, PATIENCE = 300000, FEW_CONFLICTS = 16, RARELY = 24, HEAT_ROOM = 32 };
enum { LENGTH, AREA, SIZE, CONFLICTS, EARLY, LATE, NEAR, CLIQUES, FEATURES, NOTHING = FEATURES };
enum { EXACT_ORDERS = 6, USUAL_ORDERS = 5, PEAK_ORDERS = 16, TRIES = 32, KEYS = 4 };
#define COMPARISONS INT64_C(100000000)
#define MOST_CONFLICTS INT64_C(80000000)
#define SAFE (INT64_C(1) << 61)

static const int EXACT[EXACT_ORDERS][2] = {
    {LENGTH, AREA}, {CLIQUES, AREA}, {AREA, NOTHING}, {SIZE, NOTHING}, {LENGTH, AREA}, {CONFLICTS, AREA}};
enum { FOLLOWED = 4, KEPT = 5 }; /* orders below the first follow the heat, then to the second keep it */
static const int USUAL[USUAL_ORDERS][2] = {
    {SIZE, EARLY}, {AREA, NOTHING}, {LENGTH, SIZE}, {CONFLICTS, SIZE}, {EARLY, SIZE}};
static const int AT_PEAK[4] = {LENGTH, SIZE, LATE, EARLY}, BESIDE[4] = {SIZE, NEAR, LENGTH, AREA};

struct csdf_arena_problem {
    int64_t *size, *start, *end, *alignment, *one, *other; /* the last two: of conflicts */
    int64_t count, room, conflicts, conflict_room;
};

typedef struct Keyed {
    double key[KEYS];
    int64_t number;
} Keyed;

typedef struct Search { /* exact, in one order */
    SearchBlocks part;
    PlacementTree tree;
} Search;

/* Blocks connected by conflicts. Sizes and offsets are in units, peaks, rooms and bounds in bytes. */
typedef struct Blocks {
    int64_t count, unit, grain, peak, bound, is_exact, is_listed, turn;
    Numbers number, size, room, alignment, heat; /* number: of each in the problem */
    Numbers best, trial, is_placed, zeros, stacked[4], current, chosen;
    Numbers window_first, window_count; /* of placed blocks by windows of time */
    int64_t window;                     /* as long as the longest lifetime */
    double *feature[FEATURES], *mixed;
    Keyed *keyed;
    Conflicts conflicts;
    Lifetimes lifetimes; /* times are numbered */
    Ground ground;
    Cliques cliques;
    Search *searches;
    int64_t target, slice, search_turn;
    Shelf *shelf;
    BlockRooms places;
    int64_t aimed, pushed, may_push, is_tight, failures;
    uint64_t random;
} Blocks;

typedef struct Solve {
    const csdf_arena_problem *problem;
    Memory memory, turns, once; /* of the call, of the exact searches, of the one in a random order */
    jmp_buf failed;
    struct timespec begin;
    double seconds;
    int64_t capacity, *offsets;
    Blocks *parts, *searched;
    int64_t parts_count;
} Solve;

static int is_over(const Solve *solve)
{
    struct timespec now;
    timespec_get(&now, TIME_UTC);
    double gone = difftime(now.tv_sec, solve->begin.tv_sec);
    return gone + (double)(now.tv_nsec - solve->begin.tv_nsec) * 1e-9 > solve->seconds;
}

static int64_t drawn(Blocks *blocks, int64_t limit)
{
    blocks->random = blocks->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (int64_t)((blocks->random >> 33) % (uint64_t)limit);
}

static int larger_first(const void *one, const void *other)
{
    const Keyed *a = one, *b = other;
    for (int k = 0; k < KEYS; k++)
        if (a->key[k] != b->key[k])
            return a->key[k] > b->key[k] ? -1 : 1;
    return (a->number > b->number) - (a->number < b->number);
}

static int upward(const void *one, const void *other)
{
    int64_t a = *(const int64_t *)one, b = *(const int64_t *)other;
    return (a > b) - (a < b);
}

static int64_t gcd_of(int64_t one, int64_t other)
{
    while (other != 0) {
        int64_t rest = one % other;
        one = other;
        other = rest;
    }
    return one;
}

/* Write the order of the keys, the largest first. */
static void order_by_keys(Blocks *blocks, Numbers order)
{
    for (int64_t k = 0; k < blocks->count; k++)
        blocks->keyed[k].number = k;
    qsort(blocks->keyed, (size_t)blocks->count, sizeof(Keyed), larger_first);
    for (int64_t k = 0; k < blocks->count; k++)
        order.at[k] = blocks->keyed[k].number;
}

static void order_by(Blocks *blocks, const int *columns, Numbers order)
{
    memset(blocks->keyed, 0, (size_t)blocks->count * sizeof(Keyed));
    for (int64_t k = 0; k < blocks->count; k++)
        for (int column = 0; column < 2; column++)
            if (columns[column] != NOTHING)
                blocks->keyed[k].key[column] = blocks->feature[columns[column]][k];
    order_by_keys(blocks, order);
}

/* First the blocks that live when most bytes are alive. */
static void order_by_peak(Blocks *blocks, int at_peak, int beside, Numbers order)
{
    for (int64_t k = 0; k < blocks->count; k++) {
        int lives = blocks->feature[NEAR][k] == 0;
        Keyed one = {{lives, blocks->feature[lives ? at_peak : beside][k], blocks->feature[SIZE][k], 0}, k};
        blocks->keyed[k] = one;
    }
    order_by_keys(blocks, order);
}

static void keep(Blocks *blocks, Numbers offset)
{
    int64_t peak = 0;
    for (int64_t k = 0; k < blocks->count; k++)
        peak = max_of(peak, offset.at[k] * blocks->unit + blocks->room.at[k]);
    if (blocks->peak >= 0 && peak >= blocks->peak)
        return;
    blocks->peak = peak;
    memcpy(blocks->best.at, offset.at, (size_t)blocks->count * sizeof(int64_t));
}

/* Place the blocks in an order; 0 if the time is over before, and there is a plan already. */
static int try_order(Solve *solve, Blocks *blocks, Numbers order, int64_t is_tight)
{
    if (blocks->is_listed) {
        Placed placed;
        memset(blocks->is_placed.at, 0, (size_t)blocks->count * sizeof(int64_t));
        Placed_begin(&placed, blocks->is_placed, blocks->trial);
        placement_lowest_fit(order, &blocks->ground, &blocks->conflicts, &placed);
    } else {
        Stack stack;
        memset(blocks->window_count.at, 0, (size_t)blocks->window_count.count * sizeof(int64_t));
        Stack_begin(&stack, blocks->stacked[0], blocks->stacked[1], blocks->stacked[2], blocks->stacked[3],
                    blocks->window_first, blocks->window_count, blocks->window);
        int64_t step = COMPARISONS / blocks->count + 1;
        for (int64_t done = 0; done < blocks->count; done += step) {
            Numbers some = {order.at + done, min_of(step, blocks->count - done)};
            if (blocks->peak >= 0 && is_over(solve))
                return 0;
            placement_fit_by_time(some, &blocks->lifetimes, &blocks->ground, &stack, blocks->trial, is_tight);
        }
    }
    keep(blocks, blocks->trial);
    return 1;
}

/* Give the next order of many blocks its turn: those of the peak, the usual ones, then moves of the best. */
static void improve(Solve *solve, Blocks *blocks)
{
    int64_t turn = blocks->turn++, before = blocks->peak, tight = turn % 2, number = turn / 2;
    Numbers order = blocks->current;
    if (number < PEAK_ORDERS)
        order_by_peak(blocks, AT_PEAK[number / 4], BESIDE[number % 4], order);
    else if (number < PEAK_ORDERS + USUAL_ORDERS)
        order_by(blocks, USUAL[number - PEAK_ORDERS], order);
    else {
        if (blocks->failures++ % TRIES == 0)
            memcpy(order.at, blocks->chosen.at, (size_t)order.count * sizeof(int64_t));
        int64_t highest = 0, place, moved, other = drawn(blocks, blocks->count);
        for (int64_t k = 1; k < blocks->count; k++)
            if (blocks->trial.at[k] + blocks->size.at[k] > blocks->trial.at[highest] + blocks->size.at[highest])
                highest = k;
        moved = highest;
        for (int64_t k = 0; k < blocks->count && drawn(blocks, 2) == 0; k++, other = (other + 1) % blocks->count)
            if (blocks->lifetimes.start.at[other] < blocks->lifetimes.end.at[highest] &&
                blocks->lifetimes.start.at[highest] < blocks->lifetimes.end.at[other]) {
                moved = other;
                break;
            }
        for (place = 0; order.at[place] != moved;)
            place++;
        int64_t target = drawn(blocks, place + 1);
        memmove(order.at + target + 1, order.at + target, (size_t)(place - target) * sizeof(int64_t));
        order.at[target] = moved;
        tight = blocks->is_tight;
    }
    if (!try_order(solve, blocks, order, tight))
        return;
    if (before < 0 || blocks->peak < before) {
        memcpy(blocks->chosen.at, order.at, (size_t)order.count * sizeof(int64_t));
        blocks->is_tight = tight;
        blocks->failures = 0;
    }
}

static Numbers highest_of(const Blocks *blocks, Memory *memory, int64_t capacity)
{
    Numbers highest = zeros(memory, blocks->count);
    for (int64_t k = 0; k < blocks->count; k++)
        highest.at[k] = floor_of(capacity - blocks->room.at[k], blocks->unit);
    return highest;
}

/* Begin an exact search: the order stands in `current`. mode: below FOLLOWED, below KEPT, or without heat. */
static void begin_search(Blocks *blocks, Memory *memory, Search *search, int64_t mode)
{
    int64_t count = blocks->count;
    Numbers rank = zeros(memory, count), heat = zeros(memory, count);
    Numbers trail = zeros(memory, blocks->conflicts.neighbour.count + (2 + HEAT_ROOM) * count);
    for (int64_t k = 0; k < count; k++)
        rank.at[blocks->current.at[k]] = k;
    if (mode < KEPT)
        memcpy(heat.at, blocks->heat.at, (size_t)count * sizeof(int64_t));
    SearchBlocks_begin(&search->part, blocks->size, blocks->alignment, highest_of(blocks, memory, blocks->target), rank,
               (blocks->target + blocks->grain - 1) / blocks->unit);
    PlacementTree_begin(&search->tree, zeros(memory, count), heat, trail, mode < FOLLOWED, memory);
}

/* Write into `current` an order that mixes the features in random parts, with noise. */
static void draw_order(Blocks *blocks)
{
    static const int64_t NOISES[] = {0, 5, 20, 50};
    static const int MIXED[] = {LENGTH, AREA, SIZE, CONFLICTS, CLIQUES};
    int64_t count = blocks->count, noise = NOISES[drawn(blocks, 4)] * count + 1;
    memset(blocks->mixed, 0, (size_t)count * sizeof(double));
    for (int feature = 0; feature < 5; feature++) {
        int columns[] = {MIXED[feature], NOTHING};
        int64_t part = drawn(blocks, 11);
        part = drawn(blocks, 3) == 0 ? 0 : part * part;
        order_by(blocks, columns, blocks->current);
        for (int64_t k = 0; k < count; k++)
            blocks->mixed[blocks->current.at[k]] -= (double)(part * k);
    }
    memset(blocks->keyed, 0, (size_t)count * sizeof(Keyed));
    for (int64_t k = 0; k < count; k++)
        blocks->keyed[k].key[0] = blocks->mixed[k] - (double)drawn(blocks, noise);
    order_by_keys(blocks, blocks->current);
}

/* Look a while for a plan of at most so many bytes, exactly. */
static void search_exactly(Solve *solve, Blocks *blocks, int64_t target)
{
    if (solve->searched != blocks || blocks->target != target) {
        give_back(&solve->turns);
        solve->searched = blocks;
        blocks->target = target;
        blocks->search_turn = 0;
        blocks->slice = SLICE;
        blocks->searches = take(&solve->turns, EXACT_ORDERS, sizeof(Search));
        for (int k = 0; k < EXACT_ORDERS; k++) {
            order_by(blocks, EXACT[k], blocks->current);
            begin_search(blocks, &solve->turns, &blocks->searches[k], k);
        }
    }
    int64_t turn = blocks->search_turn++, limit = SLICE;
    Search drawn_search, *search = &drawn_search;
    if (turn < EXACT_ORDERS) {
        search = &blocks->searches[turn];
        limit = blocks->slice * (turn == 0 ? LONGER_FIRST : 1);
    } else {
        if (turn == EXACT_ORDERS + RESTARTS * blocks->slice / SLICE - 1) {
            blocks->search_turn = 0;
            blocks->slice = min_of(2 * blocks->slice, LONGEST_SLICE);
        }
        give_back(&solve->once);
        draw_order(blocks);
        begin_search(blocks, &solve->once, search, FOLLOWED - 1 + drawn(blocks, 3));
    }
    int64_t outcome = placement_search_search(&search->part, &blocks->conflicts, &blocks->cliques,
                                              &search->tree, limit);
    if (outcome == placement_search_FOUND)
        keep(blocks, search->tree.low);
    if (outcome == placement_search_NONE) { /* some block ends at the least peak, and begins at a whole unit */
        int64_t above = target + 1, least = INT64_MAX;
        for (int64_t k = 0; k < blocks->count; k++)
            least = min_of(least, above + (((blocks->room.at[k] - above) % blocks->unit) + blocks->unit) % blocks->unit);
        blocks->bound = least;
    }
}

/* Look a while for smaller plans by pushing blocks out. */
static void push(Solve *solve, Blocks *blocks)
{
    int64_t count = blocks->count, turn = blocks->turn;
    if (blocks->shelf == NULL) {
        Numbers price = zeros(&solve->memory, count);
        int64_t is_sparse = FEW_CONFLICTS * blocks->conflicts.neighbour.count < count * count;
        for (int64_t k = 0; k < count; k++)
            price.at[k] = placement_ejection_FULL;
        blocks->shelf = take(&solve->memory, 1, sizeof(Shelf));
        BlockRooms_begin(&blocks->places, blocks->alignment, zeros(&solve->memory, count), blocks->zeros);
        Shelf_begin(blocks->shelf, zeros(&solve->memory, count), zeros(&solve->memory, count), price,
                    zeros(&solve->memory, count), 1, is_sparse, &solve->memory);
        for (int64_t k = 0; k < count; k++)
            placement_ejection_put(blocks->size, blocks->shelf, k, blocks->best.at[k]);
    }
    int64_t steps = turn < 2000 ? turn * turn * turn / PROOFS_FIRST : MOST_PUSHES;
    int64_t end = blocks->shelf->tried + min_of(1 + steps, MOST_PUSHES);
    while (blocks->shelf->tried < end && blocks->peak > max_of(blocks->bound, solve->capacity)) {
        int64_t goal = solve->capacity < 0 ? blocks->peak - 1 : solve->capacity;
        if (goal != blocks->aimed) {
            blocks->aimed = goal;
            for (int64_t k = 0; k < count; k++)
                blocks->places.highest.at[k] = floor_of(goal - blocks->room.at[k], blocks->unit);
            placement_ejection_eject_above_highest(&blocks->places, blocks->shelf);
        }
        if (placement_ejection_search(&blocks->places, &blocks->conflicts, blocks->size, blocks->shelf,
                                      end - blocks->shelf->tried) == placement_ejection_FOUND) {
            keep(blocks, blocks->shelf->begin);
            blocks->pushed = blocks->shelf->tried;
        }
    }
    blocks->may_push = blocks->shelf->tried < PATIENCE + 2 * blocks->pushed;
}

static void step(Solve *solve, Blocks *blocks)
{
    if (!blocks->is_exact)
        improve(solve, blocks);
    else if (++blocks->turn % 3 == 2 && (blocks->may_push || blocks->turn % RARELY == 2))
        push(solve, blocks);
    else
        search_exactly(solve, blocks, solve->capacity < 0 ? blocks->bound : solve->capacity);
}

/* The unit and the grain of offsets: see _Scale in planners/arena/blocks.py. */
static void scale(Blocks *blocks, Numbers alignment)
{
    int64_t grain = 0, unit = 0, largest;
    for (int64_t k = 0; k < blocks->count; k++)
        grain = gcd_of(alignment.at[k], grain);
    for (int64_t k = 0; k < blocks->count; k++)
        unit = gcd_of((blocks->room.at[k] + grain - 1) / grain * grain, unit);
    do {
        largest = 0;
        for (int64_t k = 0; k < blocks->count && largest == 0; k++)
            if (unit % alignment.at[k] != 0 && alignment.at[k] % unit != 0)
                largest = alignment.at[k];
        unit = gcd_of(unit, largest);
    } while (largest != 0);
    blocks->grain = grain;
    blocks->unit = unit;
    for (int64_t k = 0; k < blocks->count; k++) {
        blocks->size.at[k] = (blocks->room.at[k] + grain - 1) / grain * grain / unit;
        blocks->alignment.at[k] = max_of(1, alignment.at[k] / unit);
    }
}

/* Make the cliques: what lives at each time at which a block ends and one began since the last. */
static void make_cliques(Blocks *blocks, Memory *memory, Numbers by_start, Numbers by_end)
{
    int64_t count = blocks->count, cliques = 0, begun = 0, has_grown = 0;
    Numbers first = zeros(memory, count), last = zeros(memory, count), start = zeros(memory, count + 1);
    for (int64_t ended = 0; ended < count; ended++) {
        int64_t block = by_end.at[ended];
        for (; begun < count && blocks->lifetimes.start.at[by_start.at[begun]] < blocks->lifetimes.end.at[block]; begun++) {
            first.at[by_start.at[begun]] = cliques;
            has_grown = 1;
        }
        cliques += has_grown;
        has_grown = 0;
        last.at[block] = cliques; /* it lives in the cliques from first to before last */
    }
    for (int64_t k = 0; k < count; k++) {
        start.at[k + 1] = start.at[k] + last.at[k] - first.at[k];
        blocks->feature[CLIQUES][k] = (double)(last.at[k] - first.at[k]);
    }
    Numbers clique = zeros(memory, start.at[count]), weight = zeros(memory, start.at[count]);
    Numbers total = zeros(memory, cliques), slack = zeros(memory, cliques);
    for (int64_t k = 0; k < count; k++) {
        int64_t rounded = blocks->size.at[k] * blocks->unit - blocks->room.at[k];
        for (int64_t one = first.at[k]; one < last.at[k]; one++) {
            int64_t entry = start.at[k] + one - first.at[k];
            clique.at[entry] = one;
            weight.at[entry] = blocks->size.at[k];
            total.at[one] += blocks->size.at[k];
            slack.at[one] = max_of(slack.at[one], rounded);
        }
    }
    for (int64_t one = 0; one < cliques; one++) /* only the highest block need not be rounded up */
        blocks->bound = max_of(blocks->bound, total.at[one] * blocks->unit - slack.at[one]);
    blocks->heat = zeros(memory, count);
    for (int64_t k = 0; k < count; k++)
        for (int64_t one = first.at[k]; one < last.at[k]; one++)
            blocks->heat.at[k] = max_of(blocks->heat.at[k], total.at[one]);
    Cliques_begin(&blocks->cliques, start, clique, weight, zeros(memory, cliques));
}

/* Find when most bytes are alive, the bound of that, and how far from then each block lives. */
static void find_peak(Blocks *blocks, Numbers by_start, Numbers by_end)
{
    int64_t load = 0, most = 0, peak = 0, ended = 0, count = blocks->count, slack = 0;
    const int64_t *start = blocks->lifetimes.start.at, *end = blocks->lifetimes.end.at;
    for (int64_t k = 0; k < count; k++) {
        int64_t block = by_start.at[k];
        for (; end[by_end.at[ended]] <= start[block]; ended++)
            load -= blocks->size.at[by_end.at[ended]];
        load += blocks->size.at[block];
        if (load > most) {
            most = load;
            peak = start[block];
        }
    }
    for (int64_t k = 0; k < count; k++) {
        int64_t away = max_of(max_of(start[k] - peak, peak + 1 - end[k]), 0);
        blocks->feature[NEAR][k] = away == 0 ? 0 : -(double)away;
        if (away == 0)
            slack = max_of(slack, blocks->size.at[k] * blocks->unit - blocks->room.at[k]);
    }
    blocks->bound = max_of(blocks->bound, most * blocks->unit - slack);
}

/* List the conflicts of lifetimes that meet, and those that were added; pairs: so many, of blocks. */
static int list_conflicts(Blocks *blocks, Memory *memory, Numbers by_start, const int64_t *pairs, int64_t count)
{
    const int64_t *start = blocks->lifetimes.start.at, *end = blocks->lifetimes.end.at;
    Numbers first = zeros(memory, blocks->count + 1), fill = zeros(memory, blocks->count);
    for (int64_t k = 0; k < blocks->count; k++)
        first.at[k + 1] = (int64_t)blocks->feature[CONFLICTS][k];
    for (int64_t k = 0; k < 2 * count; k++)
        first.at[pairs[k] + 1]++;
    for (int64_t k = 0; k < blocks->count; k++) {
        blocks->feature[CONFLICTS][k] = (double)first.at[k + 1];
        first.at[k + 1] += first.at[k];
        fill.at[k] = first.at[k];
    }
    int64_t entries = first.at[blocks->count];
    if (entries > MOST_CONFLICTS)
        return CSDF_ARENA_TOO_LARGE;
    Conflicts_begin(&blocks->conflicts, first, zeros(memory, entries), zeros(memory, entries), zeros(memory, entries));
    placement_overlaps(&blocks->lifetimes, by_start, zeros(memory, blocks->count), fill, &blocks->conflicts);
    for (int64_t k = 0; k < count; k++) {
        int64_t one = pairs[2 * k], other = pairs[2 * k + 1];
        if (start[one] < end[other] && start[other] < end[one])
            return CSDF_ARENA_WRONG; /* such pairs were left out before */
        placement_write_conflict(&blocks->conflicts, fill, one, other, &blocks->lifetimes);
        placement_write_conflict(&blocks->conflicts, fill, other, one, &blocks->lifetimes);
    }
    return 0;
}

/* The place of a number in an ascending array: how many are smaller. */
static int64_t place_in(Numbers sorted, int64_t number)
{
    int64_t low = 0, high = sorted.count;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (sorted.at[middle] < number)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static Numbers sorted_by(Blocks *blocks, Memory *memory, Numbers column)
{
    Numbers order = zeros(memory, blocks->count);
    memset(blocks->keyed, 0, (size_t)blocks->count * sizeof(Keyed));
    for (int64_t k = 0; k < blocks->count; k++)
        blocks->keyed[k].key[0] = -(double)column.at[k];
    order_by_keys(blocks, order);
    return order;
}

/* Make the windows of time in which placed blocks are kept; a block is in at most two. */
static void make_windows(Blocks *blocks, Memory *memory)
{
    const int64_t *start = blocks->lifetimes.start.at, *end = blocks->lifetimes.end.at;
    int64_t last = 0;
    blocks->window = 1;
    for (int64_t k = 0; k < blocks->count; k++) {
        blocks->window = max_of(blocks->window, end[k] - start[k]);
        last = max_of(last, end[k]);
    }
    int64_t windows = last / blocks->window + 1;
    blocks->window_count = zeros(memory, windows);
    blocks->window_first = zeros(memory, windows + 1);
    for (int64_t k = 0; k < blocks->count; k++)
        for (int64_t at = start[k] / blocks->window; at <= (end[k] - 1) / blocks->window; at++)
            blocks->window_first.at[at + 1]++;
    for (int64_t at = 0; at < windows; at++)
        blocks->window_first.at[at + 1] += blocks->window_first.at[at];
    for (int k = 0; k < 4; k++)
        blocks->stacked[k] = zeros(memory, blocks->window_first.at[windows]);
}

/* Make all of a part but its first plan. times: of the whole problem; pairs: of blocks of the part. */
static int make_part(Solve *solve, Blocks *blocks, Numbers times, const int64_t *pairs, int64_t pairs_count)
{
    const csdf_arena_problem *problem = solve->problem;
    Memory *memory = &solve->memory;
    int64_t count = blocks->count;
    Numbers *columns[] = {&blocks->size, &blocks->room, &blocks->alignment, &blocks->best, &blocks->trial,
                          &blocks->is_placed, &blocks->zeros, &blocks->current, &blocks->chosen};
    for (size_t k = 0; k < sizeof columns / sizeof *columns; k++)
        *columns[k] = zeros(memory, count);
    for (int k = 0; k < FEATURES; k++)
        blocks->feature[k] = take(memory, count, sizeof(double));
    blocks->mixed = take(memory, count, sizeof(double));
    blocks->keyed = take(memory, count, sizeof(Keyed));
    Numbers alignment = zeros(memory, count), start = zeros(memory, count), end = zeros(memory, count);
    blocks->peak = blocks->aimed = blocks->target = -1;
    blocks->may_push = 1;
    blocks->is_exact = count <= MOST_EXACT;
    blocks->is_listed = blocks->is_exact || pairs_count > 0;
    for (int64_t k = 0; k < count; k++) {
        int64_t number = blocks->number.at[k];
        blocks->room.at[k] = problem->size[number];
        blocks->bound = max_of(blocks->bound, blocks->room.at[k]);
        alignment.at[k] = problem->alignment[number];
        start.at[k] = place_in(times, problem->start[number]);
        end.at[k] = place_in(times, problem->end[number]);
        blocks->feature[LENGTH][k] = blocks->is_exact
                                         ? (double)problem->end[number] - (double)problem->start[number]
                                         : (double)(end.at[k] - start.at[k]);
    }
    scale(blocks, alignment);
    Lifetimes_begin(&blocks->lifetimes, start, end, blocks->size);
    if (!blocks->is_listed)
        make_windows(blocks, memory);
    Numbers by_start = sorted_by(blocks, memory, start), by_end = sorted_by(blocks, memory, end);
    Numbers begun = zeros(memory, count), ended = zeros(memory, count);
    for (int64_t k = 0; k < count; k++) {
        begun.at[k] = start.at[by_start.at[k]];
        ended.at[k] = end.at[by_end.at[k]];
    }
    for (int64_t k = 0; k < count; k++) {
        blocks->feature[SIZE][k] = (double)blocks->size.at[k];
        blocks->feature[AREA][k] = blocks->feature[LENGTH][k] * (double)blocks->size.at[k];
        blocks->feature[EARLY][k] = -(double)start.at[k];
        blocks->feature[LATE][k] = (double)end.at[k];
        blocks->feature[CONFLICTS][k] = (double)(place_in(begun, end.at[k]) - place_in(ended, start.at[k] + 1) - 1);
    }
    find_peak(blocks, by_start, by_end);
    if (blocks->is_listed) {
        int error = list_conflicts(blocks, memory, by_start, pairs, pairs_count);
        if (error)
            return error;
    }
    int64_t most = 0;
    for (int64_t k = 0; k < count && blocks->is_listed; k++)
        most = max_of(most, (int64_t)blocks->feature[CONFLICTS][k]);
    Ground_begin(&blocks->ground, blocks->alignment, blocks->zeros, zeros(memory, most), zeros(memory, most));
    if (blocks->is_exact)
        make_cliques(blocks, memory, by_start, by_end);
    return 0;
}

static int64_t root_of(Numbers parent, int64_t one)
{
    while (parent.at[one] != one)
        one = parent.at[one] = parent.at[parent.at[one]];
    return one;
}

/* Divide the buffers that take bytes into the parts that no conflict connects, and make them. */
static int make_parts(Solve *solve)
{
    const csdf_arena_problem *problem = solve->problem;
    Memory *memory = &solve->memory;
    Blocks all = {0};
    all.number = zeros(memory, problem->count);
    for (int64_t k = 0; k < problem->count; k++)
        if (problem->size[k] > 0 && problem->end[k] > problem->start[k])
            all.number.at[all.count++] = k;
    Numbers times = zeros(memory, 2 * all.count), start = zeros(memory, all.count);
    Numbers parent = counted(memory, all.count), place = zeros(memory, problem->count);
    all.keyed = take(memory, all.count, sizeof(Keyed));
    for (int64_t k = 0; k < all.count; k++) {
        times.at[2 * k] = problem->start[all.number.at[k]];
        times.at[2 * k + 1] = problem->end[all.number.at[k]];
        place.at[all.number.at[k]] = k + 1;
    }
    qsort(times.at, (size_t)times.count, sizeof(int64_t), upward);
    int64_t different = 0;
    for (int64_t k = 0; k < times.count; k++)
        if (k == 0 || times.at[k] != times.at[k - 1])
            times.at[different++] = times.at[k];
    times.count = different;
    for (int64_t k = 0; k < all.count; k++)
        start.at[k] = place_in(times, problem->start[all.number.at[k]]);
    Numbers order = sorted_by(&all, memory, start);
    for (int64_t k = 1, latest = all.count ? order.at[0] : 0; k < all.count; k++) {
        int64_t block = order.at[k];
        if (problem->start[all.number.at[block]] < problem->end[all.number.at[latest]])
            parent.at[root_of(parent, block)] = root_of(parent, latest);
        if (problem->end[all.number.at[block]] > problem->end[all.number.at[latest]])
            latest = block;
    }
    Numbers pairs = zeros(memory, 2 * problem->conflicts);
    int64_t found = 0;
    for (int64_t k = 0; k < problem->conflicts; k++) {
        int64_t one = problem->one[k], other = problem->other[k];
        int meet = problem->start[one] < problem->end[other] && problem->start[other] < problem->end[one];
        if (meet || place.at[one] == 0 || place.at[other] == 0)
            continue;
        pairs.at[found++] = (min_of(place.at[one], place.at[other]) - 1) * all.count + max_of(place.at[one], place.at[other]) - 1;
        parent.at[root_of(parent, place.at[one] - 1)] = root_of(parent, place.at[other] - 1);
    }
    qsort(pairs.at, (size_t)found, sizeof(int64_t), upward);
    Numbers part_of = zeros(memory, all.count), count = zeros(memory, all.count);
    for (int64_t k = 0; k < all.count; k++)
        if (root_of(parent, k) == k)
            part_of.at[k] = solve->parts_count++;
    for (int64_t k = 0; k < all.count; k++)
        count.at[part_of.at[k] = part_of.at[root_of(parent, k)]]++;
    solve->parts = take(memory, solve->parts_count, sizeof(Blocks));
    for (int64_t k = 0; k < solve->parts_count; k++)
        solve->parts[k].number = zeros(memory, count.at[k]);
    for (int64_t k = 0; k < all.count; k++) {
        Blocks *part = &solve->parts[part_of.at[k]];
        part->number.at[part->count] = all.number.at[k];
        place.at[all.number.at[k]] = part->count++;
    }
    Numbers some = zeros(memory, 2 * found);
    for (int64_t one = 0; one < solve->parts_count; one++) {
        int64_t kept = 0;
        for (int64_t k = 0; k < found; k++) {
            int64_t low = pairs.at[k] / all.count, high = pairs.at[k] % all.count;
            if (part_of.at[low] != one || (k > 0 && pairs.at[k] == pairs.at[k - 1]))
                continue;
            some.at[2 * kept] = place.at[all.number.at[low]];
            some.at[2 * kept++ + 1] = place.at[all.number.at[high]];
        }
        int error = make_part(solve, &solve->parts[one], times, some.at, kept);
        if (error)
            return error;
    }
    return 0;
}

/* Find a first plan of a part: that of the best usual order, or of the first where there are many blocks. */
static void begin_part(Solve *solve, Blocks *blocks)
{
    if (!blocks->is_exact) {
        improve(solve, blocks);
        return;
    }
    for (int k = 0; k < USUAL_ORDERS && (k == 0 || (blocks->peak > blocks->bound && blocks->peak > solve->capacity)); k++) {
        order_by(blocks, USUAL[k], blocks->current);
        try_order(solve, blocks, blocks->current, 0);
    }
}

/* Search until the answer is proved or the time is over; return the status. */
static int searched(Solve *solve, csdf_arena_plan *plan)
{
    int error = make_parts(solve);
    if (error)
        return error;
    for (int64_t k = 0; k < solve->parts_count; k++)
        begin_part(solve, &solve->parts[k]);
    for (;;) {
        Blocks *highest = NULL;
        plan->peak = plan->lower_bound = 0;
        for (int64_t k = 0; k < solve->parts_count; k++) {
            Blocks *part = &solve->parts[k];
            plan->lower_bound = max_of(plan->lower_bound, part->bound);
            if (highest == NULL || part->peak > highest->peak)
                highest = part;
        }
        plan->peak = highest == NULL ? 0 : highest->peak;
        if (solve->capacity >= 0 && plan->lower_bound > solve->capacity) {
            plan->peak = 0;
            return CSDF_ARENA_INFEASIBLE;
        }
        int fits = plan->peak <= solve->capacity, is_least = plan->peak <= plan->lower_bound;
        if (fits || is_least || is_over(solve)) {
            for (int64_t k = 0; k < solve->parts_count; k++)
                for (int64_t block = 0; block < solve->parts[k].count; block++)
                    solve->offsets[solve->parts[k].number.at[block]] = solve->parts[k].best.at[block] * solve->parts[k].unit;
            return is_least ? CSDF_ARENA_OPTIMAL : fits || solve->capacity < 0 ? CSDF_ARENA_FEASIBLE : CSDF_ARENA_UNKNOWN;
        }
        step(solve, highest);
    }
}

static int guarded(Solve *solve, csdf_arena_plan *plan)
{
    if (setjmp(solve->failed) != 0)
        return CSDF_ARENA_NO_MEMORY;
    return searched(solve, plan);
}

int csdf_arena_solve(const csdf_arena_problem *problem, int64_t capacity, double seconds, int64_t *offsets,
                     csdf_arena_plan *plan)
{
    if (problem == NULL || plan == NULL || (offsets == NULL && problem->count > 0) || capacity < CSDF_ARENA_LEAST ||
        !(seconds >= 0))
        return CSDF_ARENA_WRONG;
    int64_t total = 2;
    for (int64_t k = 0; k < problem->count; k++) { /* of the kernels: see planners/kernels/ranges.py */
        if (problem->size[k] > SAFE / 8 - total || problem->alignment[k] > SAFE / 8 - total)
            return CSDF_ARENA_TOO_LARGE;
        total += problem->size[k] + problem->alignment[k];
        if (total > SAFE / 8)
            return CSDF_ARENA_TOO_LARGE;
    }
    Solve solve = {0};
    solve.problem = problem;
    solve.memory.failed = solve.turns.failed = solve.once.failed = &solve.failed;
    solve.seconds = seconds;
    solve.offsets = offsets;
    solve.capacity = min_of(capacity, total); /* all buffers upon one another fit into that */
    timespec_get(&solve.begin, TIME_UTC);
    csdf_arena_plan found = {0, 0};
    int status = guarded(&solve, &found);
    give_back(&solve.once);
    give_back(&solve.turns);
    give_back(&solve.memory);
    if (status >= 0) {
        *plan = found;
        for (int64_t k = 0; k < problem->count && status != CSDF_ARENA_INFEASIBLE; k++)
            if (problem->size[k] == 0 || problem->end[k] == problem->start[k])
                offsets[k] = 0;
    }
    return status;
}

/* Make room for one number more in each column; 0 if there is no memory. */
static int grow(int64_t **columns[], int number, int64_t count, int64_t *room)
{
    if (count < *room)
        return 1;
    int64_t more = *room ? 2 * *room : 64;
    for (int k = 0; k < number; k++) {
        int64_t *grown = realloc(*columns[k], (size_t)more * sizeof(int64_t));
        if (grown == NULL)
            return 0;
        *columns[k] = grown;
    }
    *room = more;
    return 1;
}

csdf_arena_problem *csdf_arena_new(void) { return calloc(1, sizeof(csdf_arena_problem)); }

int64_t csdf_arena_buffer(csdf_arena_problem *problem, int64_t size, int64_t start, int64_t end, int64_t alignment)
{
    if (problem == NULL || size < 0 || end < start || alignment < 1)
        return CSDF_ARENA_WRONG;
    int64_t **columns[] = {&problem->size, &problem->start, &problem->end, &problem->alignment};
    if (!grow(columns, 4, problem->count, &problem->room))
        return CSDF_ARENA_NO_MEMORY;
    problem->size[problem->count] = size;
    problem->start[problem->count] = start;
    problem->end[problem->count] = end;
    problem->alignment[problem->count] = alignment;
    return problem->count++;
}

int csdf_arena_conflict(csdf_arena_problem *problem, int64_t one, int64_t other)
{
    if (problem == NULL || one < 0 || other < 0 || one == other || one >= problem->count || other >= problem->count)
        return CSDF_ARENA_WRONG;
    int64_t **columns[] = {&problem->one, &problem->other};
    if (!grow(columns, 2, problem->conflicts, &problem->conflict_room))
        return CSDF_ARENA_NO_MEMORY;
    problem->one[problem->conflicts] = one;
    problem->other[problem->conflicts++] = other;
    return 0;
}

void csdf_arena_free(csdf_arena_problem *problem)
{
    if (problem == NULL)
        return;
    int64_t *columns[] = {problem->size, problem->start, problem->end, problem->alignment, problem->one, problem->other};
    for (size_t k = 0; k < sizeof columns / sizeof *columns; k++)
        free(columns[k]);
    free(problem);
}
