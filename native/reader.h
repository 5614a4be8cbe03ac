/* The native reader: consistent figures out of live cache files.
 *
 * It knows no layout and no version: every offset comes in a table (hc_layout) that Python makes from a layout
 * file and layout.c approves. It never writes into a mapping (store.c's hc_store32, used by the feedback loop
 * alone, is the exception) and it survives a file that is cut while it is mapped (guard.c).
 *
 *   layout.c   may this table of offsets be used?      slot.h     the protocol for one slot
 *   map.c      mapping, and whether the file is there  table.c    the slot table: who counts, did it change
 *   guard.c    surviving SIGBUS                        figures.c  sums of many containers
 *   store.c    small reads and the one store           copy.c     a private copy of one region
 */
#ifndef HC_READER_H
#define HC_READER_H

#include <stddef.h>
#include <stdint.h>

#include "abi.h"

/* What fits on the stack of a thread: today's layouts have 16 devices and 1024 slots. */
enum { HC_MAX_DEVICES = 64, HC_MAX_SLOTS = 4096 };

enum { STATUS_READ, STATUS_GONE, STATUS_NOT_INITIALISED, STATUS_UNSETTLED };
enum { VERDICT_NONE, VERDICT_STABLE, VERDICT_TORN, VERDICT_STUCK, VERDICT_UNPROTECTED, VERDICT_UNBALANCED };

/* Words read for each device: the figure columns that come out of a slot. */
enum { HC_TOTAL, HC_CONTEXT, HC_MODULE, HC_DATA, HC_SM, HC_WORDS };

/* Columns that come out of the header, behind the words. */
enum { HC_LIMIT = HC_WORDS, HC_SM_LIMIT, HC_COLUMNS };

/* Loads are single aligned accesses: the writer is another process, and one word is never torn. */
static inline uint64_t hc_load64(const uint8_t *place)
{
    return __atomic_load_n((const uint64_t *)(const void *)place, __ATOMIC_RELAXED);
}

static inline int32_t hc_load32(const uint8_t *place)
{
    return __atomic_load_n((const int32_t *)(const void *)place, __ATOMIC_RELAXED);
}

static inline int32_t hc_load32_acquire(const uint8_t *place)
{
    return __atomic_load_n((const int32_t *)(const void *)place, __ATOMIC_ACQUIRE);
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

/* Waiting for the writers of one container, all its slots together. */
typedef struct {
    uint64_t budget;     /* ns */
    uint64_t deadline;   /* 0 until the first wait: most passes never ask for the time */
} hc_wait;

/* Whether the time is up; the first question starts it. */
int hc_time_is_up(hc_wait *wait);

/* Let the writer run: a few spins first, then yield the core. */
void hc_pause(unsigned round);

/* What one container may wait for when a call has `count` of them. */
uint64_t hc_fair_share(hc_bounds bounds, size_t count);

/* guard.c: run `work` so that a SIGBUS inside [start, start + length) makes it return 0 instead of killing us. */
typedef void (*hc_work)(void *argument);
int hc_guarded(hc_work work, void *argument, const void *start, size_t length);

/* Be the one who gets SIGBUS: called for every mapping and pass, since others (faulthandler) install theirs too. */
void hc_install_guard(void);

/* map.c: mapped, long enough, and the file behind it still has a name and its length. */
int hc_usable(const hc_source *source);

/* ---- table.c: the slot table as a pass saw it ------------------------------------------------------------ */

typedef struct {
    unsigned slots;                  /* below proc_num, clamped */
    unsigned count;                  /* of `chosen` */
    uint64_t owner;                  /* who held the region's lock when the names were read; 0: nobody */
    int32_t names[HC_MAX_SLOTS];     /* whose slot it is: see name_of */
    uint16_t chosen[HC_MAX_SLOTS];   /* the slots that count */
} hc_table;

/* Read the header's numbers into the report; STATUS_READ or STATUS_NOT_INITIALISED. */
int hc_read_header(const hc_source *source, hc_report *report);

/* Read whose the slots are, and choose which below proc_num count: status not 0, not left out, each pid once. */
void hc_read_table(const hc_source *source, hc_report *report, hc_table *table);

typedef enum { TABLE_SAME, TABLE_HELD, TABLE_CHANGED } hc_table_state;

/* What became of the table since hc_read_table. HELD: the same processes, but its lock is or was held (then `owner` says
 * by whom), so that a slot may have been half moved. */
hc_table_state hc_table_now(const hc_source *source, hc_table *table);

/* Whether another pass is due, and if not, with what status and `locked` this one ends. */
int hc_pass_again(hc_table_state state, unsigned round, hc_wait *wait, hc_report *report);

/* Counts of the report start over with every pass; its retries do not. */
void hc_clear_counts(hc_report *report);
void hc_count_verdict(hc_report *report, int verdict);

/* How many devices and slots a layout's tables have, and are really there. */
unsigned hc_clamp(uint64_t number, int64_t most);

#endif
