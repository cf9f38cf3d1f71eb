/* A circular buffer: where it lies in the arena, its size, and the actors at its ends. is_bounded:
   whether its capacity was given, so that a producer waits for space. */
typedef struct {
    uint32_t offset;
    uint32_t capacity;
    uint32_t token_bytes;
    uint32_t initial_tokens;
    uint32_t producer;
    uint32_t consumer;
    uint32_t is_bounded;
} ring;

/* Rates of the phases in turn; `length` of them, after which they repeat. */
typedef struct {
    const uint32_t *values;
    uint32_t length;
} rates;

/* An end of a channel at an actor: what a firing takes and gives back, or what it puts. */
typedef struct {
    uint32_t channel;
    uint32_t is_output;
    rates moved;
    rates released;
} end;

typedef struct {
    firing_function fire;
    uint32_t phases;
    uint32_t first_end;
    uint32_t ends;
} actor;

static uint32_t rate_of(const rates *r, uint32_t phase)
{
    return r->values[phase % r->length];
}
