#ifndef ON_TARGET
static int hear(void)
{
    return getchar();
}
#endif

/* The next decimal number of what is heard, as -12.5, between spaces, line ends or commas. */
static int read_number(float *value)
{
    float size = 1, digits = 0, unit = 1;
    int count = 0, is_fraction = 0, letter = hear();
    while (letter == ' ' || letter == '\n' || letter == '\r' || letter == '\t' || letter == ',') {
        letter = hear();
    }
    for (; letter > ' ' && letter != ','; letter = hear()) {
        if (letter == '-') {
            size = -1;
        } else if (letter == '.') {
            is_fraction = 1;
        } else if (letter >= '0' && letter <= '9') {
            digits = 10 * digits + (float)(letter - '0');
            unit *= is_fraction ? 10 : 1;
            count++;
        } else {
            return 0;
        }
    }
    *value = size * digits / unit;
    return count > 0;
}

/* A number with four digits behind the point. */
static void say_value(float value)
{
    uint64_t parts, unit;
    if (value < 0) {
        say("-");
        value = -value;
    }
    if (!(value < 1e12f)) {
        say(value > 0 ? "large" : "nan");
        return;
    }
    parts = (uint64_t)(value * 10000 + 0.5f);
    say_number(parts / 10000);
    say(".");
    for (unit = 1000; unit; unit /= 10) {
        say_number(parts / unit % 10);
    }
}
