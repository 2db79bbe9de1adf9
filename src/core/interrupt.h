/* interrupt.h: did an interrupt come in between? The flag that stops loops is cleared by the first
 * kernel that returns with it, while loops of other threads were cut short by it too: they tell by
 * the number of interrupts. */
#ifndef SFT_INTERRUPT_H
#define SFT_INTERRUPT_H

/* Calls of sft_interrupt() so far. */
unsigned sft_interrupt_count(void);

#endif
