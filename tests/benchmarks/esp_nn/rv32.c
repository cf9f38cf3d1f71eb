
/* Runs the test program of a library, and prints the thousand instructions of a frame. */
int net_test(void);

int main(void)
{
    uint64_t before = instructions();
    int differs = net_test();
    uint64_t after = instructions();
    say(differs ? "differs " : "equal ");
    say_number((after - before) / 1000);
    say("\n");
    return 0;
}
