
/* Orders of least peak: simple orders, a minimum cut for each step, and bounded searches by bisection. */

enum { WORD_BITS = 62, PARENT_LINKS = 4, POOLED = 4, STATES_A_RUN = 100, CAPACITIES = 4, SIMPLE_ORDERS = 3 };
static const int64_t CAPACITY[CAPACITIES] = {1 << 10, 1 << 14, 1 << 17, 1 << 19};

typedef struct Order {
    const csdf_order_graph *graph;
    Memory memory, once; /* of the call, of one bounded search */
    jmp_buf failed;
    Tensors tensors;
    Walk walk;
    FlowNetwork cut;
    Numbers mark, ancestors, counts, topological, costs, trial, keys, word, power, universe; /* ancestors: bits by step */
    int64_t words, peak, bound, work, spent;
    int64_t *best;
} Order;

static Numbers copied(Memory *memory, const int64_t *from, int64_t count)
{
    Numbers made = zeros(memory, count);
    if (count > 0)
        memcpy(made.at, from, (size_t)count * sizeof(int64_t));
    return made;
}

/* Whether rows begin at 0, do not descend, and hold numbers of tensors, each once in a row. */
static int are_rows(Order *order, const int64_t *start, const int64_t *row)
{
    Numbers seen = zeros(&order->memory, order->graph->tensors);
    if (start[0] != 0)
        return 0;
    /* All starts first: the last is the count of the entries, and none may be read beyond it. */
    for (int64_t step = 0; step < order->graph->steps; step++)
        if (start[step + 1] < start[step])
            return 0;
    for (int64_t step = 0; step < order->graph->steps; step++)
        for (int64_t entry = start[step]; entry < start[step + 1]; entry++) {
            if (row[entry] < 0 || row[entry] >= order->graph->tensors || seen.at[row[entry]] == step + 1)
                return 0;
            seen.at[row[entry]] = step + 1;
        }
    return 1;
}

static int reads(const csdf_order_graph *graph, int64_t step, int64_t tensor)
{
    for (int64_t entry = graph->read_start[step]; entry < graph->read_start[step + 1]; entry++)
        if (graph->read[entry] == tensor)
            return 1;
    return 0;
}

/* Whether each tensor has one writer, and overwritten tensors are read, and no smaller than the result. */
static int is_sound(Order *order, Numbers producer)
{
    const csdf_order_graph *graph = order->graph;
    int64_t left = order_states_ENDLESS / 4;
    for (int64_t tensor = 0; tensor < graph->tensors; tensor++) {
        if (graph->size[tensor] < 0 || graph->size[tensor] >= left)
            return 0;
        left -= graph->size[tensor];
    }
    for (int64_t step = 0; step < graph->steps; step++) {
        if (graph->scratch[step] < 0 || graph->scratch[step] >= left)
            return 0;
        left -= graph->scratch[step];
        for (int64_t entry = graph->write_start[step]; entry < graph->write_start[step + 1]; entry++) {
            if (producer.at[graph->write[entry]] >= 0)
                return 0;
            producer.at[graph->write[entry]] = step;
        }
        for (int64_t entry = graph->overwrite_start[step]; entry < graph->overwrite_start[step + 1]; entry++)
            if (graph->write_start[step + 1] - graph->write_start[step] != 1 || !reads(graph, step, graph->overwrite[entry]) ||
                graph->size[graph->overwrite[entry]] < graph->size[graph->write[graph->write_start[step]]])
                return 0;
    }
    return 1;
}

/* Write a topological order and the ancestors of each step; 0 if there is a cycle. */
static int sort_steps(Order *order)
{
    const csdf_order_graph *graph = order->graph;
    int64_t first = 0, last = 0;
    Walk_load(&order->walk, order->mark); /* all marks are 1: no step is done */
    for (int64_t step = 0; step < graph->steps; step++)
        if (order->walk.waiting.at[step] == 0)
            order->topological.at[last++] = step;
    for (; first < last; first++) {
        int64_t step = order->topological.at[first], words = order->words;
        Walk_run(&order->walk, step);
        for (int64_t entry = graph->write_start[step]; entry < graph->write_start[step + 1]; entry++) {
            int64_t tensor = graph->write[entry];
            for (int64_t k = order->tensors.reader_start.at[tensor]; k < order->tensors.reader_start.at[tensor + 1]; k++) {
                int64_t reader = order->tensors.reader.at[k];
                for (int64_t word = 0; word < words; word++)
                    order->ancestors.at[reader * words + word] |= order->ancestors.at[step * words + word];
                order->ancestors.at[reader * words + order->word.at[step]] |= order->power.at[step];
                /* The last tensor that a step waits for puts it in the queue, once. */
                if (order->walk.waiting.at[reader] == 0) {
                    order->walk.waiting.at[reader] = -1;
                    order->topological.at[last++] = reader;
                }
            }
        }
    }
    for (int64_t step = 0; step < graph->steps; step++)
        for (int64_t word = 0; word < order->words; word++)
            for (int64_t bits = order->ancestors.at[step * order->words + word]; bits != 0; bits &= bits - 1)
                order->counts.at[step]++;
    return last == graph->steps;
}

static int is_ancestor(const Order *order, int64_t step, int64_t of)
{
    return (order->ancestors.at[of * order->words + order->word.at[step]] & order->power.at[step]) != 0;
}

/* Return the peak of an order, and write the bytes of each step. */
static int64_t peak_of(Order *order, Numbers steps)
{
    int64_t peak = order->bound;
    for (int64_t step = 0; step < steps.count; step++)
        order->mark.at[step] = 1;
    Walk_load(&order->walk, order->mark);
    for (int64_t k = 0; k < steps.count; k++) {
        order->costs.at[steps.at[k]] = Walk_cost(&order->walk, steps.at[k]);
        peak = max_of(peak, order->costs.at[steps.at[k]]);
        Walk_run(&order->walk, steps.at[k]);
    }
    return peak;
}

static void offer(Order *order, Numbers steps)
{
    int64_t peak = peak_of(order, steps);
    if (order->peak >= 0 && peak >= order->peak)
        return;
    order->peak = peak;
    if (steps.count > 0)
        memcpy(order->best, steps.at, (size_t)steps.count * sizeof(int64_t));
}

/* Write the order in which a depth-first search from each step, or from the last ones, leaves the steps. */
static void post_order(Order *order, int from_last, int is_reversed)
{
    const csdf_order_graph *graph = order->graph;
    Numbers is_met = zeros(&order->memory, graph->steps), stack = zeros(&order->memory, graph->steps);
    Numbers entry = zeros(&order->memory, graph->steps);
    int64_t left = 0;
    for (int64_t root = 0; root < graph->steps; root++) {
        int is_last = 1;
        for (int64_t k = graph->write_start[root]; k < graph->write_start[root + 1]; k++)
            is_last &= order->tensors.reader_start.at[graph->write[k]] == order->tensors.reader_start.at[graph->write[k] + 1];
        if (is_met.at[root] || (from_last && !is_last))
            continue;
        int64_t depth = 1;
        stack.at[0] = root;
        is_met.at[root] = 1;
        while (depth > 0) {
            int64_t step = stack.at[depth - 1], count = graph->read_start[step + 1] - graph->read_start[step];
            if (entry.at[step] == count) {
                order->trial.at[left++] = step;
                depth--;
                continue;
            }
            int64_t k = entry.at[step]++;
            int64_t source = order->tensors.producer.at[graph->read[graph->read_start[step] + (is_reversed ? count - 1 - k : k)]];
            if (source >= 0 && !is_met.at[source]) {
                is_met.at[source] = 1;
                stack.at[depth++] = source;
            }
        }
    }
}

/* Return the least live bytes of a down-set that holds the marks 0 and none of the marks 2. */
static int64_t least_live(Order *order)
{
    FlowNetwork_least_between(&order->cut, order->mark);
    Walk_load(&order->walk, order->mark);
    return order->walk.live;
}

/* Mark the steps before a step with 0; it and those after it with 2. */
static void mark_around(Order *order, int64_t step)
{
    for (int64_t k = 0; k < order->graph->steps; k++)
        order->mark.at[k] = is_ancestor(order, k, step) ? 0 : k == step || is_ancestor(order, step, k) ? 2 : 1;
}

/* Return bytes that each order has when a step runs: the cuts of planners/order/search.py, cut_bound. */
static int64_t bound_of(Order *order, int64_t step)
{
    const csdf_order_graph *graph = order->graph;
    mark_around(order, step);
    int64_t minimum = least_live(order) + order->tensors.result_bytes.at[step];
    for (int64_t entry = graph->overwrite_start[step]; entry < graph->overwrite_start[step + 1]; entry++) {
        int64_t tensor = graph->overwrite[entry], is_possible = !graph->is_output[tensor];
        mark_around(order, step);
        for (int64_t k = order->tensors.reader_start.at[tensor]; k < order->tensors.reader_start.at[tensor + 1]; k++) {
            int64_t reader = order->tensors.reader.at[k];
            order->spent += graph->steps;
            for (int64_t before = 0; before < graph->steps && reader != step; before++)
                if (before == reader || is_ancestor(order, before, reader)) {
                    is_possible &= order->mark.at[before] != 2;
                    order->mark.at[before] = 0;
                }
        }
        if (is_possible)
            minimum = min_of(minimum, least_live(order) + graph->scratch[step]);
    }
    return minimum;
}

/* Search for an order within a bound; offer it, or raise the lower bound. 0 if more states are needed. */
static int64_t search_within(Order *order, int64_t bound, int64_t capacity)
{
    Memory *memory = &order->once;
    int64_t steps = order->graph->steps, table = 1;
    while (table <= 2 * capacity)
        table *= 2;
    StateTree tree;
    Numbers column[9], links[5];
    Numbers bits = zeros(memory, capacity * order->words);
    for (int k = 0; k < 9; k++)
        column[k] = zeros(memory, capacity);
    for (int k = 0; k < 5; k++)
        links[k] = zeros(memory, PARENT_LINKS * capacity);
    StateTree_begin(&tree, bits, column[0], column[1], column[2], column[3], column[4], column[5], column[6], column[7],
                    column[8], zeros(memory, table), zeros(memory, capacity + 1),
                    zeros(memory, POOLED * capacity + steps), links[0], links[1], links[2], links[3], links[4]);
    OrderSearch search;
    Numbers prefix = zeros(memory, steps + 1);
    OrderSearch_begin(&search, order->universe, order->counts, order->word, order->power, order->keys, prefix,
                      zeros(memory, order->words), zeros(memory, steps + 1), zeros(memory, steps + 1),
                      zeros(memory, steps + 1), bound, order_states_ENDLESS);
    for (int64_t step = 0; step < steps; step++)
        order->mark.at[step] = 1;
    Walk_load(&order->walk, order->mark);
    order_search_begin_search(&order->walk, &tree, &search);
    int64_t outcome = order_search_UNDECIDED, before = order->cut.work;
    while (outcome == order_search_UNDECIDED && order->spent + search.work + order->cut.work - before < order->work)
        outcome = order_search_search_order(&order->walk, &order->cut, &tree, &search, STATES_A_RUN);
    order->spent += search.work + order->cut.work - before;
    if (outcome == order_search_FOUND) {
        prefix.count = steps;
        offer(order, prefix);
    } else if (outcome == order_search_NONE) {
        order->bound = max_of(order->bound, min_of(search.blocked, order->peak));
    }
    give_back(memory);
    return outcome == order_search_FOUND || outcome == order_search_NONE;
}

/* Make the arrays of the kernels; 0 if the graph is wrong. */
static int prepare(Order *order)
{
    const csdf_order_graph *graph = order->graph;
    Memory *memory = &order->memory;
    int64_t steps = graph->steps, tensors = graph->tensors;
    if (!are_rows(order, graph->read_start, graph->read) || !are_rows(order, graph->write_start, graph->write) ||
        !are_rows(order, graph->overwrite_start, graph->overwrite))
        return 0;
    Numbers producer = zeros(memory, tensors), made = zeros(memory, steps), kept = zeros(memory, steps);
    for (int64_t tensor = 0; tensor < tensors; tensor++)
        producer.at[tensor] = -1;
    if (!is_sound(order, producer))
        return 0;
    int64_t read_count = graph->read_start[steps];
    Numbers reader_start = zeros(memory, tensors + 1), reader = zeros(memory, read_count), next = zeros(memory, tensors);
    for (int64_t entry = 0; entry < read_count; entry++)
        reader_start.at[graph->read[entry] + 1]++;
    for (int64_t tensor = 0; tensor < tensors; tensor++) {
        reader_start.at[tensor + 1] += reader_start.at[tensor];
        next.at[tensor] = reader_start.at[tensor];
    }
    for (int64_t step = 0; step < steps; step++)
        for (int64_t entry = graph->read_start[step]; entry < graph->read_start[step + 1]; entry++)
            reader.at[next.at[graph->read[entry]]++] = step;
    Numbers is_output = zeros(memory, tensors);
    int64_t inputs = 0, outputs = 0;
    for (int64_t tensor = 0; tensor < tensors; tensor++) {
        int is_read = reader_start.at[tensor] < reader_start.at[tensor + 1];
        is_output.at[tensor] = graph->is_output[tensor] != 0 || (producer.at[tensor] < 0 && !is_read);
        inputs += producer.at[tensor] < 0 ? graph->size[tensor] : 0;
        outputs += is_output.at[tensor] ? graph->size[tensor] : 0;
        if (producer.at[tensor] >= 0) {
            made.at[producer.at[tensor]] += graph->size[tensor];
            kept.at[producer.at[tensor]] += is_read || is_output.at[tensor] ? graph->size[tensor] : 0;
        }
    }
    order->bound = max_of(inputs, outputs);
    for (int64_t step = 0; step < steps; step++)
        made.at[step] += graph->scratch[step];
    Tensors_begin(&order->tensors, copied(memory, graph->write_start, steps + 1),
                  copied(memory, graph->write, graph->write_start[steps]), copied(memory, graph->read_start, steps + 1),
                  copied(memory, graph->read, read_count), copied(memory, graph->overwrite_start, steps + 1),
                  copied(memory, graph->overwrite, graph->overwrite_start[steps]), reader_start, reader,
                  copied(memory, graph->size, tensors), producer, is_output, made, kept,
                  copied(memory, graph->scratch, steps));
    Walk_begin(&order->walk, &order->tensors, zeros(memory, steps), zeros(memory, steps), zeros(memory, tensors));
    int64_t nodes = 2 + steps + tensors, edges = 2 * (tensors + 2 * read_count);
    FlowNetwork_begin(&order->cut, &order->tensors, zeros(memory, nodes), zeros(memory, nodes), zeros(memory, nodes),
                      zeros(memory, nodes), zeros(memory, nodes), zeros(memory, edges), zeros(memory, edges), zeros(memory, edges),
                      zeros(memory, steps), zeros(memory, tensors));
    Numbers *columns[] = {&order->mark,  &order->counts, &order->topological, &order->costs,
                          &order->trial, &order->keys,   &order->word,        &order->power};
    for (size_t k = 0; k < sizeof columns / sizeof *columns; k++)
        *columns[k] = zeros(memory, steps);
    order->words = steps / WORD_BITS + 1;
    order->ancestors = zeros(memory, steps * order->words);
    order->universe = counted(memory, steps);
    Blocks random = {.random = (uint64_t)steps};
    for (int64_t step = 0; step < steps; step++) {
        order->mark.at[step] = 1;
        order->word.at[step] = step / WORD_BITS;
        order->power.at[step] = INT64_C(1) << step % WORD_BITS;
        int64_t high = drawn(&random, INT64_C(1) << 31);
        order->keys.at[step] = high << 31 | drawn(&random, INT64_C(1) << 31);
    }
    return sort_steps(order);
}

static int ordered(Order *order)
{
    if (setjmp(order->failed) != 0)
        return CSDF_ARENA_NO_MEMORY;
    if (!prepare(order))
        return CSDF_ARENA_WRONG;
    offer(order, order->topological);
    for (int k = 0; k < SIMPLE_ORDERS; k++) {
        post_order(order, k > 0, k > 1);
        offer(order, order->trial);
    }
    for (int64_t step = 0; step < order->graph->steps; step++) {
        int64_t before = order->cut.work;
        if (order->spent >= order->work)
            break;
        order->bound = max_of(order->bound, bound_of(order, step));
        order->spent += order->cut.work - before;
    }
    /* With few states by bisection; with more only below the best order, as in planners/order/search.py. */
    for (int k = 0; k < CAPACITIES; k++) {
        int64_t low = order->bound;
        while (low < order->peak) {
            int64_t bound = k > 0 ? order->peak - 1 : low + (order->peak - 1 - low) / 2;
            if (order->spent >= order->work)
                return CSDF_ARENA_FEASIBLE; /* the bound is below the peak, as low is not below the bound */
            low = search_within(order, bound, CAPACITY[k]) ? max_of(low, order->bound) : bound + 1;
        }
    }
    return order->bound >= order->peak ? CSDF_ARENA_OPTIMAL : CSDF_ARENA_FEASIBLE;
}

int csdf_order_solve(const csdf_order_graph *graph, int64_t work, int64_t *order, csdf_arena_plan *plan)
{
    if (graph == NULL || order == NULL || plan == NULL || work < 0 || graph->steps < 0 || graph->tensors < 0)
        return CSDF_ARENA_WRONG;
    Order search = {0};
    search.graph = graph;
    search.work = work;
    search.best = order;
    search.peak = -1;
    search.memory.failed = search.once.failed = &search.failed;
    int status = ordered(&search);
    give_back(&search.once);
    give_back(&search.memory);
    if (status >= 0) {
        plan->peak = search.peak;
        plan->lower_bound = min_of(search.bound, search.peak);
    }
    return status;
}
