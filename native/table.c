/* The slot table: which slots count, and whether it is still the one that was read.
 *
 * Slots move: a process that exits (up to v1-seqlock) or one that registers (since) moves the last slot into a
 * free one, under the region's lock. Seen half way, one process stands twice or nowhere, and nothing in the slots
 * tells: memcpy stores the pid last. So a pass reads whose the slots are, then asks for the lock's owner, reads the
 * slots, their status included, and asks again in the opposite order. A move that was under way at either question
 * shows as an owner; one that began and ended between them has changed proc_num or whose a slot is.
 */
#include <string.h>

#include "reader.h"

enum {
    DUPLICATE_PASSES = 8,   /* a pid that stands twice may be on its way: look again, but not for ever */
    LAST_PASSES = 2,        /* when the time is up: the waiting was for slots, the table gets one more chance */
    PAIRWISE = 32,          /* so few pids are compared with each other, more are hashed */
    BUCKETS = 2 * HC_MAX_SLOTS
};

unsigned hc_clamp(uint64_t number, int64_t most)
{
    return (unsigned)(number < (uint64_t)most ? number : (uint64_t)most);
}

int hc_read_header(const hc_source *source, hc_report *report)
{
    const hc_layout *lo = source->layout;
    const uint8_t *base = source->base;
    if (hc_load32(base + lo->magic_offset) != (int32_t)lo->magic)
        return STATUS_NOT_INITIALISED;
    report->device_num = hc_load64(base + lo->device_num);
    report->utilization_switch = hc_load32(base + lo->utilization_switch);
    report->recent_kernel = hc_load32(base + lo->recent_kernel);
    report->priority = hc_load32(base + lo->priority);
    report->last_kernel_time = lo->last_kernel_time < 0 ? 0 : hc_load64(base + lo->last_kernel_time);
    return STATUS_READ;
}

static uint64_t owner(const hc_source *source)
{
    return source->layout->owner_pid < 0 ? 0 : hc_load64(source->base + source->layout->owner_pid);
}

/* ---- each pid once ------------------------------------------------------------------------------------- */

/* The pids of the slots chosen so far. Few are searched, many hashed; `buckets` stays untouched until then. */
typedef struct {
    unsigned count, bits;
    int32_t first[PAIRWISE];
    int32_t buckets[BUCKETS];
} pid_set;

/* Tenants choose pids: without a secret in the hash they could make every one of them collide. */
static uint32_t scatter(const pid_set *set, int32_t pid)
{
    uint32_t secret = (uint32_t)((uintptr_t)set >> 4) | 1;   /* the stack's place is random in every process */
    return (uint32_t)pid * 2654435761u * secret >> (32 - set->bits);
}

/* Add a pid that is not 0; 0 when it was there before. */
static int add_hashed(pid_set *set, int32_t pid)
{
    uint32_t mask = ((uint32_t)1 << set->bits) - 1;
    uint32_t place = scatter(set, pid);
    for (; set->buckets[place] != 0; place = (place + 1) & mask)
        if (set->buckets[place] == pid)
            return 0;
    set->buckets[place] = pid;
    return 1;
}

static int add_few(pid_set *set, int32_t pid)
{
    int there = 0;
    for (unsigned i = 0; i < set->count; i++)
        there |= set->first[i] == pid;
    if (!there)
        set->first[set->count++] = pid;
    return !there;
}

static void start_set(pid_set *set, unsigned slots)
{
    set->count = set->bits = 0;
    if (slots <= PAIRWISE)
        return;
    /* At most half full, so that every search ends. */
    for (set->bits = 1; (unsigned)1 << set->bits < 2 * slots; set->bits++)
        ;
    memset(set->buckets, 0, ((size_t)1 << set->bits) * sizeof *set->buckets);
}

static int add_pid(pid_set *set, int32_t pid)
{
    return pid == 0 || (set->bits ? add_hashed(set, pid) : add_few(set, pid));
}

/* ---- reading and reading again ------------------------------------------------------------------------- */

/* What tells a slot's process from the next one in it: its pid. An exited one (since v1-sem) has pid 0, as the next
 * that exits there will have; its host pid and its counter stay. */
static int32_t name_of(const hc_layout *lo, const uint8_t *slot)
{
    int32_t pid = hc_load32_acquire(slot + lo->pid); /* before the other two */
    if (pid != 0)
        return pid;
    uint32_t hostpid = (uint32_t)hc_load32(slot + lo->hostpid);
    uint32_t counter = lo->seqlock < 0 ? 0 : (uint32_t)hc_load64(slot + lo->seqlock);
    return (int32_t)((hostpid * 2654435761u + counter) | 1u << 31);
}

/* Count a slot by what it says; 1 when it is part of the sums. */
static int counts(const hc_source *source, hc_report *r, unsigned index, const uint8_t *slot, pid_set *seen)
{
    const hc_layout *lo = source->layout;
    int32_t status = hc_load32(slot + lo->status);
    if (status == 0) {
        r->exited++;
        return 0;
    }
    int32_t hostpid = hc_load32(slot + lo->hostpid);
    if (source->skip != NULL && source->skip[index] != 0 && source->skip[index] == hostpid) {
        r->skipped++;
        return 0;
    }
    int32_t pid = hc_load32(slot + lo->pid);
    if (!add_pid(seen, pid)) {
        r->duplicates++;
        return 0;
    }
    r->running += status == 1;
    r->suspended += status == 2;
    r->odd_status += status != 1 && status != 2;
    r->hostpid_unknown += hostpid == 0 || hostpid == pid;
    return 1;
}

void hc_read_table(const hc_source *source, hc_report *r, hc_table *table)
{
    const hc_layout *lo = source->layout;
    const uint8_t *slots = source->base + lo->procs;
    pid_set seen;
    r->proc_num = hc_load32(source->base + lo->proc_num);
    table->slots = r->proc_num < 0 ? 0 : hc_clamp((uint64_t)r->proc_num, lo->slot_count);
    for (unsigned i = 0; i < table->slots; i++)
        table->names[i] = name_of(lo, slots + (int64_t)i * lo->slot_size);
    hc_read_barrier();
    table->owner = owner(source);
    hc_read_barrier();
    /* Everything else behind that question: a status read before it may be one that a move had not reached yet. */
    table->count = 0;
    start_set(&seen, table->slots);
    for (unsigned i = 0; i < table->slots; i++)
        if (counts(source, r, i, slots + (int64_t)i * lo->slot_size, &seen))
            table->chosen[table->count++] = (uint16_t)i;
}

static int same_names(const hc_source *source, const hc_table *table)
{
    const hc_layout *lo = source->layout;
    const uint8_t *slot = source->base + lo->procs;
    int32_t number = hc_load32(source->base + lo->proc_num);
    if ((number < 0 ? 0 : hc_clamp((uint64_t)number, lo->slot_count)) != table->slots)
        return 0;
    for (unsigned i = 0; i < table->slots; i++, slot += lo->slot_size)
        if (name_of(lo, slot) != table->names[i])
            return 0;
    return 1;
}

hc_table_state hc_table_now(const hc_source *source, hc_table *table)
{
    hc_read_barrier();
    uint64_t owner_now = owner(source);
    hc_read_barrier();
    if (!same_names(source, table))
        return TABLE_CHANGED;
    if (owner_now != 0)
        table->owner = owner_now;
    return table->owner != 0 ? TABLE_HELD : TABLE_SAME;
}

int hc_pass_again(hc_table_state state, unsigned round, hc_wait *wait, hc_report *report)
{
    int again = state == TABLE_SAME ? report->duplicates != 0 && round < DUPLICATE_PASSES
                                    : !hc_time_is_up(wait) || round < LAST_PASSES;
    if (again) {
        report->retries++;
        hc_pause(round);
        return 1;
    }
    report->locked = state == TABLE_HELD;
    if (state == TABLE_CHANGED)
        report->status = STATUS_UNSETTLED;
    return 0;
}

void hc_clear_counts(hc_report *report)
{
    uint32_t retries = report->retries;
    memset(report, 0, sizeof *report);
    report->retries = retries;
}

void hc_count_verdict(hc_report *r, int verdict)
{
    r->stable += verdict == VERDICT_STABLE;
    r->torn += verdict == VERDICT_TORN;
    r->stuck += verdict == VERDICT_STUCK;
    r->unprotected += verdict == VERDICT_UNPROTECTED;
    r->unbalanced += verdict == VERDICT_UNBALANCED;
}
