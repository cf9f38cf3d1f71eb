/* Runs the test program of a library on QEMU's RISC-V board without an operating system, and prints the
   instructions of a frame. */
#include <stdint.h>

int net_test(void);

__attribute__((naked, section(".begin"))) void _start(void)
{
    __asm__ volatile("la sp, stack_end\n j begin");
}

static void say(const char *text)
{
    while (*text) {
        *(volatile uint8_t *)0x10000000 = (uint8_t)*text++;
    }
}

static void say_number(uint32_t number)
{
    char digits[11];
    int place = 10;
    digits[place] = 0;
    do {
        digits[--place] = (char)('0' + number % 10);
        number /= 10;
    } while (number);
    say(digits + place);
}

static uint32_t instructions(void)
{
    uint32_t found;
    __asm__ volatile("csrr %0, minstret" : "=r"(found));
    return found;
}

void begin(void)
{
    uint32_t before = instructions();
    int differs = net_test();
    uint32_t after = instructions();
    say(differs ? "differs " : "equal ");
    say_number((after - before) / 1000);
    say("\n");
    *(volatile uint32_t *)0x100000 = 0x5555; /* ends the emulation */
}
