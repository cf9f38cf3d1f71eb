/* A Cortex-M without an operating system: vectors, start, and a voice through semihosting. */
#include "target.h"

extern uint32_t data_image[], data_begin[], data_end[], bss_begin[], bss_end[];
extern uint32_t stack_limit[], stack_top[];

int main(void);
void start(void);

#define PAINT 0x5AC35AC3u

static uint32_t ask_host(uint32_t operation, const void *argument)
{
    register uint32_t r0 __asm__("r0") = operation;
    register const void *r1 __asm__("r1") = argument;
    __asm__ volatile("bkpt 0xAB" : "+r"(r0) : "r"(r1) : "memory");
    return r0;
}

void say(const char *text)
{
    ask_host(0x04, text); /* SYS_WRITE0 */
}

int hear(void)
{
    static uint32_t file;
    uint32_t block[3];
    char letter;
    if (file == 0) {
        block[0] = (uint32_t)(uintptr_t)"frames.txt";
        block[1] = 0; /* to read */
        block[2] = 10;
        file = ask_host(0x01, block); /* SYS_OPEN */
    }
    block[0] = file;
    block[1] = (uint32_t)(uintptr_t)&letter;
    block[2] = 1;
    return ask_host(0x06, block) == 0 ? letter : -1; /* SYS_READ */
}

static void leave(int code)
{
    uint32_t block[2];
    block[0] = 0x20026u; /* ADP_Stopped_ApplicationExit */
    block[1] = (uint32_t)code;
    ask_host(0x20, block); /* SYS_EXIT_EXTENDED */
    for (;;) {
    }
}

static void fault(void)
{
    say("fault\n");
    leave(99);
}

#define SYSTICK_CONTROL (*(volatile uint32_t *)0xE000E010u)
#define SYSTICK_RELOAD (*(volatile uint32_t *)0xE000E014u)
#define SYSTICK_VALUE (*(volatile uint32_t *)0xE000E018u)
#define SYSTICK_MOST 0xFFFFFFu

static volatile uint32_t rounds; /* of the counter, which has 24 bits */

static void tick(void)
{
    rounds++;
}

uint64_t instructions(void)
{
    uint32_t before;
    uint32_t value;
    do {
        before = rounds;
        value = SYSTICK_MOST - SYSTICK_VALUE;
    } while (before != rounds);
    return ((uint64_t)before * (SYSTICK_MOST + 1) + value) * QUARTERS / 4;
}

uint32_t thousand_instructions(void)
{
    return (uint32_t)(instructions() / 1000);
}

uint32_t stack_bytes(void)
{
    const uint32_t *place = stack_limit;
    while (place < stack_top && *place == PAINT) {
        place++;
    }
    return (uint32_t)((const char *)stack_top - (const char *)place);
}

void start(void)
{
    volatile uint32_t *to;
    const uint32_t *from = data_image;
    const uint32_t *here;
    *(volatile uint32_t *)0xE000ED88u |= 0xFu << 20; /* allow the floating-point unit */
    __asm__ volatile("dsb\n\tisb\n\tmov %0, sp" : "=r"(here));
    for (to = data_begin; to < data_end; to++) {
        *to = *from++;
    }
    for (to = bss_begin; to < bss_end; to++) {
        *to = 0;
    }
    for (to = stack_limit; to < here; to++) {
        *to = PAINT;
    }
#ifdef COUNTED /* only then: the frame of an interrupt would count as stack */
    SYSTICK_RELOAD = SYSTICK_MOST;
    SYSTICK_VALUE = 0;
    SYSTICK_CONTROL = 7; /* on, with interrupts, by the clock of the processor */
#endif
    leave(main());
}

__attribute__((section(".vectors"), used)) static void (*const vectors[16])(void) = {
    (void (*)(void))(uintptr_t)stack_top, start, fault, fault, fault, fault, fault,
    0, 0, 0, 0, fault, fault, 0, fault, tick,
};
