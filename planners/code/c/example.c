#ifndef ON_TARGET
static int hear(void)
{
    return getchar();
}
#endif

enum { IS_NUMBER, IS_END, IS_WRONG };

/* The next decimal number of the input, such as -12.5 or 1e-3, between spaces, line ends or commas. */
static int read_number(float *value)
{
    double size = 1;
    double digits = 0;
    double unit = 1;
    int count = 0;
    int is_fraction = 0;
    int power = 0;
    int sign = 1;
    int letter = hear();
    while (letter == ' ' || letter == '\n' || letter == '\r' || letter == '\t' || letter == ',') {
        letter = hear();
    }
    if (letter < 0) {
        return IS_END;
    }
    if (letter == '-' || letter == '+') {
        size = letter == '-' ? -1 : 1;
        letter = hear();
    }
    for (; letter == '.' || (letter >= '0' && letter <= '9'); letter = hear()) {
        if (letter == '.') {
            is_fraction++;
        } else {
            digits = 10 * digits + (letter - '0');
            unit *= is_fraction ? 10 : 1;
            count++;
        }
    }
    if (letter == 'e' || letter == 'E') {
        letter = hear();
        if (letter == '-' || letter == '+') {
            sign = letter == '-' ? -1 : 1;
            letter = hear();
        }
        for (count = 0; letter >= '0' && letter <= '9'; letter = hear()) {
            power = power < 1000 ? 10 * power + letter - '0' : power;
            count++;
        }
    }
    if (count == 0 || is_fraction > 1 || (letter > ' ' && letter != ',')) {
        return IS_WRONG;
    }
    for (; power; power--) {
        digits *= sign > 0 ? 10 : 1;
        unit *= sign < 0 ? 10 : 1;
    }
    *value = (float)(size * digits / unit);
    return IS_NUMBER;
}

/* Print a number with four decimal places. */
static void say_value(float value)
{
    uint64_t parts;
    uint64_t unit;
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

/* The exit status without a further frame; an incomplete frame or another word is an error. */
static int ended(int32_t frame, int found)
{
    if (found == IS_WRONG) {
        say("frame ");
        say_number((uint64_t)frame);
        say(" ends early, or has a word that is no number\n");
    }
    return found == IS_WRONG;
}
