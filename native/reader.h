/* The native reader: consistent figures out of live cache files.
 *
 * It knows no layout and no version: every offset comes in a table (hc_layout) that Python makes from a layout
 * file. It never writes into a mapping (store.c, which does, is used by the feedback loop alone) and it survives
 * a file that is cut while it is mapped (guard.c).
 */
#ifndef HC_READER_H
#define HC_READER_H

#include <stddef.h>
#include <stdint.h>

#include "abi.h"

/* Words read for each device: the figure columns that come out of a slot. */
enum { HC_TOTAL, HC_CONTEXT, HC_MODULE, HC_DATA, HC_OFFSET, HC_SM, HC_MONITOR, HC_WORDS };

/* Columns that come out of the header, behind the words. */
enum { HC_LIMIT = HC_WORDS, HC_SM_LIMIT };

/* Loads are single aligned accesses: the writer is another process, and one word is never torn. */
static inline uint64_t hc_load64(const uint8_t *place)
{
    return __atomic_load_n((const uint64_t *)(const void *)place, __ATOMIC_RELAXED);
}

static inline int32_t hc_load32(const uint8_t *place)
{
    return __atomic_load_n((const int32_t *)(const void *)place, __ATOMIC_RELAXED);
}

static inline uint64_t hc_load64_acquire(const uint8_t *place)
{
    return __atomic_load_n((const uint64_t *)(const void *)place, __ATOMIC_ACQUIRE);
}

/* Order all loads before it ahead of all loads behind it: the closing half of a seqlock read. */
static inline void hc_read_barrier(void)
{
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
}

/* One slot attempt: 1 when the words were read between two equal even counters and balance. */
int hc_slot_balances(const uint64_t *words, unsigned devices);

/* guard.c: run `work` so that a SIGBUS inside [start, end) makes it return 0 instead of killing us. */
typedef void (*hc_work)(void *argument);
int hc_guarded(hc_work work, void *argument, const void *start, size_t length);

/* Nanoseconds of the monotonic clock. */
uint64_t hc_now(void);

/* A pause that lets the writer run: a few spins first, then yield the core. */
void hc_pause(unsigned round);

#endif
