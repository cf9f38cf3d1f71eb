/* Actors of a processor that fire one after the other: which, and how often. */
typedef struct {
    uint32_t actor;
    uint32_t firings;
} turn;

/* What a processor carries out: turns, from place `again` on for ever. */
typedef struct {
    const turn *turns;
    uint32_t count;
    uint32_t again;
} order;

/* Tokens and kept tokens of a channel. The producer counts what it put, the consumer what it gave
   back; either sees the other's count late at worst, and then waits. */
static uint32_t tokens_in(const instance *state, uint32_t channel)
{
    return state->put[channel] - state->taken[channel];
}

static int can_fire(const instance *state, uint32_t number)
{
    const actor *a = &actors[number];
    uint32_t place;
    for (place = 0; place < a->ends; place++) {
        const end *e = &ends[a->first_end + place];
        uint32_t moved = rate_of(&e->moved, state->phase[number]);
        uint32_t held = tokens_in(state, e->channel);
        if (e->is_output ? rings[e->channel].capacity - held < moved
                         : held - state->kept[e->channel] < moved) {
            return 0;
        }
    }
    return 1;
}

/* The view of an end in a phase. */
static port view_of(instance *state, const end *e, uint32_t phase)
{
    const ring *r = &rings[e->channel];
    port found;
    found.base = state->arena + r->offset;
    found.capacity = r->capacity;
    found.token_bytes = r->token_bytes;
    found.new_tokens = rate_of(&e->moved, phase);
    found.tokens = found.new_tokens + (e->is_output ? 0 : state->kept[e->channel]);
    found.first = e->is_output ? state->next[e->channel] : state->first[e->channel];
    return found;
}

static uint32_t beyond(uint32_t place, uint32_t tokens, uint32_t capacity)
{
    return capacity ? (uint32_t)(((uint64_t)place + tokens) % capacity) : 0;
}

static void move_on(instance *state, const end *e, uint32_t phase)
{
    uint32_t channel = e->channel;
    uint32_t moved = rate_of(&e->moved, phase);
    uint32_t released;
    uint32_t capacity = rings[channel].capacity;
    if (e->is_output) {
        state->next[channel] = beyond(state->next[channel], moved, capacity);
        state->put[channel] += moved;
        return;
    }
    released = rate_of(&e->released, phase);
    state->kept[channel] += moved - released;
    state->first[channel] = beyond(state->first[channel], released, capacity);
    state->taken[channel] += released;
}

static void fire(instance *state, uint32_t number)
{
    const actor *a = &actors[number];
    const end *e = &ends[a->first_end];
    uint32_t phase = state->phase[number];
    uint32_t place;
    port ports[MOST_ENDS] = {{0, 0, 0, 0, 0, 0}};
    for (place = 0; place < a->ends; place++) {
        ports[place] = view_of(state, &e[place], phase);
    }
    a->fire(state->context, phase, ports);
    FENCE(); /* tokens are there before they are counted, and read before their place is free */
    for (place = 0; place < a->ends; place++) {
        move_on(state, &e[place], phase);
    }
    state->phase[number] = phase + 1 < a->phases ? phase + 1 : 0;
}

/* Fire what is next on a processor, if tokens and space for it are there. */
static int step(instance *state, uint32_t core)
{
    const order *o = &orders[core];
    const turn *t = &o->turns[state->turn[core]];
    if (!can_fire(state, t->actor)) {
        return 0;
    }
    FENCE(); /* counts are read before tokens */
    fire(state, t->actor);
    if (++state->fired[core] == t->firings) {
        state->fired[core] = 0;
        state->turn[core] = state->turn[core] + 1 < o->count ? state->turn[core] + 1 : o->again;
    }
    return 1;
}

static void run(instance *state, uint32_t core, uint32_t firings)
{
    while (firings > 0) {
        if (step(state, core)) {
            firings--;
        } else {
            WAIT();
        }
    }
}

/* The initial tokens of a channel, which are counted as put. */
static port starting(instance *state, uint32_t channel, uint32_t tokens)
{
    port found;
    found.base = state->arena + rings[channel].offset;
    found.capacity = rings[channel].capacity;
    found.token_bytes = rings[channel].token_bytes;
    found.first = 0;
    found.tokens = found.new_tokens = tokens;
    state->put[channel] = tokens;
    state->next[channel] = beyond(0, tokens, found.capacity);
    return found;
}
