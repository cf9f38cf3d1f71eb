static uint64_t spent[STAGES], begun;
static uint32_t drawn = 1;

void NET_profile_begin(int stage)
{
    (void)stage;
    begun = instructions();
}

void NET_profile_end(int stage)
{
    spent[stage] += instructions() - begun;
}

static uint32_t draw(void)
{
    drawn = drawn * 1664525u + 1013904223u;
    return drawn >> 16;
}

static void say_line(uint64_t number)
{
    say_number(number);
    say("\n");
}

int main(void)
{
    uint64_t before;
    int i, turn;
    INIT;
    FILL;
    for (turn = 0; turn < 2; turn++) { /* once before, as the counter of a Cortex-M begins late */
        spent[0] = 0;
        before = instructions();
        for (i = 0; i < 1000; i++) {
            NET_profile_begin(0);
            NET_profile_end(0);
        }
        before = instructions() - before;
    }
    say_line(before);
    say_line(spent[0]);
    spent[0] = 0;
    before = instructions();
    for (i = 0; i < FRAMES; i++) {
        CALL;
    }
    say_line(instructions() - before);
    for (i = 0; i < STAGES; i++) {
        say_line(spent[i]);
    }
    return 0;
}
