/* Tokens of a buffer from the one with that number on, counted from its first. */
static port port_of(const instance *state, uint32_t channel, uint32_t from, uint32_t tokens)
{
    port found;
    const ring *r = &rings[channel];
    found.base = state->arena + r->offset;
    found.capacity = r->capacity;
    found.token_bytes = r->token_bytes;
    found.first = r->capacity ? (uint32_t)(((uint64_t)state->first[channel] + from) % r->capacity) : 0;
    found.tokens = tokens;
    found.new_tokens = tokens;
    return found;
}

/* The view of an end in a phase; an output has its position before the inputs give theirs back. */
static port view_of(instance *state, const end *e, uint32_t phase)
{
    uint32_t moved = rate_of(&e->moved, phase);
    uint32_t held = state->held[e->channel];
    uint32_t kept = state->kept[e->channel];
    port found;
    if (e->is_output) {
        if (held + moved > rings[e->channel].capacity) {
            state->faults++;
        }
        return port_of(state, e->channel, held, moved);
    }
    if (held - kept < moved) {
        state->faults++;
    }
    found = port_of(state, e->channel, 0, kept + moved);
    found.new_tokens = moved;
    return found;
}

static void move_on(instance *state, const end *e, uint32_t phase)
{
    uint32_t moved = rate_of(&e->moved, phase);
    uint32_t released;
    uint32_t *first = &state->first[e->channel];
    if (e->is_output) {
        state->held[e->channel] += moved;
        return;
    }
    released = rate_of(&e->released, phase);
    state->kept[e->channel] += moved - released;
    state->held[e->channel] -= released;
    if (rings[e->channel].capacity) {
        *first = (uint32_t)(((uint64_t)*first + released) % rings[e->channel].capacity);
    }
}

static void fire(instance *state, uint32_t number)
{
    const actor *a = &actors[number];
    const end *e = &ends[a->first_end];
    uint32_t phase = state->phase[number];
    uint32_t position;
    port ports[MOST_ENDS] = {{0, 0, 0, 0, 0, 0}};
    for (position = 0; position < a->ends; position++) {
        ports[position] = view_of(state, &e[position], phase);
    }
    a->fire(state->context, phase, ports);
    for (position = 0; position < a->ends; position++) {
        move_on(state, &e[position], phase);
    }
    state->phase[number] = phase + 1 < a->phases ? phase + 1 : 0;
}

/* An actor among others that take turns, and how often it fires. */
typedef struct {
    uint32_t actor;
    uint32_t firings;
} turn;

/* Whether a channel joins two of these actors. */
static int is_inside(const turn *turns, uint32_t count, uint32_t channel)
{
    uint32_t position;
    uint32_t found = 0;
    for (position = 0; position < count; position++) {
        found += turns[position].actor == rings[channel].producer;
        found += turns[position].actor == rings[channel].consumer;
    }
    return found == 2;
}

static int can_fire(const instance *state, const turn *turns, uint32_t count, uint32_t number)
{
    const actor *a = &actors[number];
    const end *e = &ends[a->first_end];
    uint32_t position;
    for (position = 0; position < a->ends; position++) {
        uint32_t channel = e[position].channel;
        uint32_t moved = rate_of(&e[position].moved, state->phase[number]);
        if (!is_inside(turns, count, channel)) {
            continue;
        }
        if (e[position].is_output ? rings[channel].is_bounded &&
                                     state->held[channel] + moved > rings[channel].capacity
                               : state->held[channel] - state->kept[channel] < moved) {
            return 0;
        }
    }
    return 1;
}

/* Fire the first that can, until all have fired as often as they are to. */
static void take_turns(instance *state, const turn *turns, uint32_t count)
{
    uint32_t fired[MOST_TURNS] = {0};
    uint32_t position = 0;
    while (position < count) {
        if (fired[position] < turns[position].firings &&
            can_fire(state, turns, count, turns[position].actor)) {
            fire(state, turns[position].actor);
            fired[position]++;
            position = 0;
        } else {
            position++;
        }
    }
}
