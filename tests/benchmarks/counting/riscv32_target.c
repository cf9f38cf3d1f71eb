/* A RISC-V core of 32 bits in QEMU without an operating system, as target.c of a library. */
#include "target.h"

extern char bss_begin[], bss_end[], stack_top[];

int main(void);

static long ask_host(long operation, const void *argument)
{
    register long a0 __asm__("a0") = operation;
    register const void *a1 __asm__("a1") = argument;
    __asm__ volatile(".option push\n\t.option norvc\n\t.balign 16\n\tslli x0, x0, 0x1f\n\tebreak\n\t"
                     "srai x0, x0, 7\n\t.option pop" : "+r"(a0) : "r"(a1) : "memory");
    return a0;
}

void say(const char *text)
{
    ask_host(0x04, text); /* SYS_WRITE0 */
}

uint64_t instructions(void)
{
    uint32_t low, high, again;
    do {
        __asm__ volatile(".option push\n\t.option arch, +zicsr\n\tcsrr %0, minstreth\n\t"
                         "csrr %1, minstret\n\tcsrr %2, minstreth\n\t.option pop"
                         : "=r"(high), "=r"(low), "=r"(again));
    } while (high != again);
    return ((uint64_t)high << 32) | low;
}

__attribute__((used)) static void begin(void)
{
    uint32_t block[2];
    char *to;
    for (to = bss_begin; to < bss_end; to++) {
        *to = 0;
    }
    block[0] = 0x20026u; /* ADP_Stopped_ApplicationExit */
    block[1] = (uint32_t)main();
    ask_host(0x20, block); /* SYS_EXIT_EXTENDED */
}

__attribute__((section(".start"), naked, used)) void start(void)
{
    __asm__ volatile("la sp, stack_top\n\tj begin");
}
