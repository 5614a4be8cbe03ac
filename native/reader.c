/* Consistent reading: the per-slot protocol, and one pass over a slot table.
 *
 * A slot is stable when its seqlock was even and equal before and after, AND every device's total is the sum of
 * its parts. The counter alone is not enough: each thread of a process adds to it on its own, so two writing
 * threads make it even between them (measured on the real writer, see docs/reading.md).
 */
#define _GNU_SOURCE
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>

#include "reader.h"

enum { STATUS_READ, STATUS_GONE, STATUS_NOT_INITIALISED, STATUS_UNSETTLED };
enum { VERDICT_NONE, VERDICT_STABLE, VERDICT_TORN, VERDICT_STUCK, VERDICT_UNPROTECTED, VERDICT_UNBALANCED };
enum { FLAG_UNDERFLOW = 1, FLAG_PART_UNDERFLOW = 2, FLAG_UNSTABLE = 4, FLAG_STUCK = 8, FLAG_UNBALANCED = 16,
       FLAG_OVERFLOW = 32 };
enum { MAX_SLOTS = 1024, MAX_DEVICES = 16, PASSES = 8, COLUMNS = HC_SM_LIMIT + 1, HASH = 4096 };

/* Sums of up to MAX_SLOTS values below this cannot wrap; bit 63 is the sign of a counter below zero. */
static const uint64_t ROOMY = (uint64_t)1 << 53;
static const uint64_t SIGN = (uint64_t)1 << 63;

void hc_install_guard(void);

uint64_t hc_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void hc_pause(unsigned round)
{
    if (round < 16) {
#if defined(__x86_64__)
        __builtin_ia32_pause();
#elif defined(__aarch64__)
        __asm__ volatile("yield");
#endif
    } else {
        sched_yield();
    }
}

void *hc_map(int fd, uint64_t length, int writable)
{
    hc_install_guard();
    void *base = mmap(NULL, length, PROT_READ | (writable ? PROT_WRITE : 0), MAP_SHARED, fd, 0);
    return base == MAP_FAILED ? NULL : base;
}

int hc_unmap(void *base, uint64_t length)
{
    return munmap(base, length);
}

int hc_slot_balances(const uint64_t *words, unsigned devices)
{
    uint64_t wrong = 0;
    for (unsigned d = 0; d < devices; d++, words += HC_WORDS)
        wrong |= words[HC_TOTAL] - words[HC_CONTEXT] - words[HC_MODULE] - words[HC_DATA];
    return wrong == 0;
}

/* ---- one slot ------------------------------------------------------------------------------------------ */

static inline void load_words(const hc_layout *lo, const uint8_t *slot, unsigned devices, uint64_t *words)
{
    const uint8_t *record = slot + lo->used;
    const uint8_t *util = slot + lo->sm;
    const uint8_t *monitor = slot + lo->monitorused;
    for (unsigned d = 0; d < devices; d++, words += HC_WORDS, record += lo->used_size) {
        words[HC_TOTAL] = hc_load64(record + lo->total);
        words[HC_CONTEXT] = hc_load64(record + lo->context);
        words[HC_MODULE] = hc_load64(record + lo->module);
        words[HC_DATA] = hc_load64(record + lo->data);
        words[HC_OFFSET] = hc_load64(record + lo->offset);
        words[HC_SM] = lo->sm < 0 ? 0 : hc_load64(util + d * (uint64_t)lo->util_size);
        words[HC_MONITOR] = lo->monitorused < 0 ? 0 : hc_load64(monitor + 8 * (uint64_t)d);
    }
}

/* What is known of one slot while it is being read. */
typedef struct {
    uint64_t counter;    /* the seqlock as first seen */
    int moved;           /* it was seen with another value since */
} trace;

/* One attempt at a slot. Fills `words` whatever comes of it; a verdict of TORN asks for another attempt. */
static int attempt(const hc_layout *lo, const uint8_t *slot, unsigned devices, uint64_t *words, trace *seen,
                   int first)
{
    if (lo->seqlock < 0) {
        load_words(lo, slot, devices, words);
        return hc_slot_balances(words, devices) ? VERDICT_UNPROTECTED : VERDICT_UNBALANCED;
    }
    uint64_t before = hc_load64_acquire(slot + lo->seqlock);
    if (first)
        seen->counter = before;
    else if (before != seen->counter)
        seen->moved = 1;
    load_words(lo, slot, devices, words);
    hc_read_barrier();
    uint64_t after = hc_load64(slot + lo->seqlock);
    if (after != before)
        seen->moved = 1;
    else if ((before & 1) == 0)
        return hc_slot_balances(words, devices) ? VERDICT_STABLE : VERDICT_UNBALANCED;
    return VERDICT_TORN;
}

static int settled(int verdict)
{
    return verdict == VERDICT_STABLE || verdict == VERDICT_UNPROTECTED;
}

/* The final word on a slot that would not settle. */
static int verdict_of(const hc_layout *lo, int verdict, const trace *seen)
{
    if (verdict == VERDICT_TORN && !seen->moved && lo->seqlock >= 0)
        return VERDICT_STUCK;
    return verdict;
}

/* ---- one table ----------------------------------------------------------------------------------------- */

typedef struct {
    const hc_source *source;
    uint64_t deadline_after;    /* how long this container may wait in all, ns */
    size_t devices;             /* rows of `out` */
    uint64_t *out;
    uint32_t *flags;
    hc_report *report;
    uint8_t *copy;              /* whole region, or NULL */
    uint8_t *verdicts;          /* with copy: one byte a slot */
} pass;

static unsigned clamp_devices(const hc_layout *lo, uint64_t number)
{
    uint64_t most = (uint64_t)lo->device_count < MAX_DEVICES ? (uint64_t)lo->device_count : MAX_DEVICES;
    return (unsigned)(number < most ? number : most);
}

static unsigned clamp_slots(const hc_layout *lo, int32_t number)
{
    int64_t most = lo->slot_count < MAX_SLOTS ? lo->slot_count : MAX_SLOTS;
    return (unsigned)(number < 0 ? 0 : number < most ? number : most);
}

static int read_header(const pass *p)
{
    const hc_layout *lo = p->source->layout;
    const uint8_t *base = p->source->base;
    hc_report *r = p->report;
    if (hc_load32(base + lo->magic_offset) != (int32_t)lo->magic)
        return STATUS_NOT_INITIALISED;
    r->device_num = hc_load64(base + lo->device_num);
    r->proc_num = hc_load32(base + lo->proc_num);
    r->utilization_switch = hc_load32(base + lo->utilization_switch);
    r->recent_kernel = hc_load32(base + lo->recent_kernel);
    r->priority = hc_load32(base + lo->priority);
    r->last_kernel_time = lo->last_kernel_time < 0 ? 0 : hc_load64(base + lo->last_kernel_time);
    return STATUS_READ;
}

/* Remember a pid; 1 when it was there before. */
static int seen_before(int32_t *table, int32_t pid)
{
    unsigned place = (unsigned)pid * 2654435761u >> 20;
    while (table[place] != 0) {
        if (table[place] == pid)
            return 1;
        place = (place + 1) % HASH;
    }
    table[place] = pid;
    return 0;
}

/* Which slots below proc_num count: status not 0, not left out, and each pid once. */
static unsigned choose_slots(const pass *p, unsigned slots, uint16_t *chosen, int32_t *pids)
{
    const hc_layout *lo = p->source->layout;
    const uint8_t *slot = p->source->base + lo->procs;
    hc_report *r = p->report;
    int32_t table[HASH];
    unsigned count = 0;
    if (slots > 1)
        memset(table, 0, sizeof table);
    for (unsigned i = 0; i < slots; i++, slot += lo->slot_size) {
        int32_t status = hc_load32(slot + lo->status);
        int32_t pid = pids[i] = hc_load32(slot + lo->pid);
        if (status == 0) {
            r->exited++;
            continue;
        }
        if (p->source->skip != NULL && p->source->skip[i]) {
            r->skipped++;
            continue;
        }
        if (slots > 1 && pid != 0 && seen_before(table, pid)) {
            r->duplicates++;
            continue;
        }
        r->running += status == 1;
        r->suspended += status == 2;
        r->odd_status += status != 1 && status != 2;
        int32_t hostpid = hc_load32(slot + lo->hostpid);
        r->hostpid_unknown += hostpid == 0 || hostpid == pid;
        chosen[count++] = (uint16_t)i;
    }
    return count;
}

static int table_unchanged(const pass *p, unsigned slots, const int32_t *pids)
{
    const hc_layout *lo = p->source->layout;
    const uint8_t *slot = p->source->base + lo->procs;
    hc_read_barrier();
    if (clamp_slots(lo, hc_load32(p->source->base + lo->proc_num)) != slots)
        return 0;
    for (unsigned i = 0; i < slots; i++, slot += lo->slot_size)
        if (hc_load32(slot + lo->pid) != pids[i])
            return 0;
    return 1;
}

static void count_verdict(hc_report *r, int verdict)
{
    r->stable += verdict == VERDICT_STABLE;
    r->torn += verdict == VERDICT_TORN;
    r->stuck += verdict == VERDICT_STUCK;
    r->unprotected += verdict == VERDICT_UNPROTECTED;
    r->unbalanced += verdict == VERDICT_UNBALANCED;
}

static uint32_t flags_of(int verdict)
{
    return verdict == VERDICT_TORN         ? FLAG_UNSTABLE
           : verdict == VERDICT_STUCK      ? FLAG_STUCK
           : verdict == VERDICT_UNBALANCED ? FLAG_UNBALANCED
                                           : 0;
}

/* Add one slot's words to the sums. `high` collects every bit ever seen, to notice signs and near-wraps. */
static void add_words(const uint64_t *words, unsigned devices, uint64_t *sums, uint64_t *high)
{
    for (unsigned d = 0; d < devices; d++, words += HC_WORDS, sums += COLUMNS, high += HC_WORDS)
        for (unsigned w = 0; w < HC_WORDS; w++) {
            sums[w] += words[w];
            high[w] |= words[w];
        }
}

static void slot_flags(const uint64_t *words, unsigned devices, int verdict, uint32_t *flags)
{
    uint32_t flag = flags_of(verdict);
    for (unsigned d = 0; d < devices; d++, words += HC_WORDS) {
        /* An unbalanced slot taints only the devices that do not balance. */
        int balanced = hc_slot_balances(words, 1);
        if (flag != FLAG_UNBALANCED || !balanced)
            flags[d] |= flag;
    }
}

/* Read the chosen slots once; those that did not settle stay in `chosen`. Returns how many. */
static unsigned read_slots(const pass *p, unsigned devices, uint16_t *chosen, unsigned count, trace *traces,
                           int first, int last, uint64_t *high)
{
    const hc_layout *lo = p->source->layout;
    const uint8_t *procs = p->source->base + lo->procs;
    uint64_t words[MAX_DEVICES * HC_WORDS];
    unsigned pending = 0;
    for (unsigned k = 0; k < count; k++) {
        unsigned i = chosen[k];
        trace seen = first ? (trace){0, 0} : traces[k];
        int verdict = attempt(lo, procs + (uint64_t)i * (uint64_t)lo->slot_size, devices, words, &seen, first);
        if (!settled(verdict) && !last) {
            chosen[pending] = (uint16_t)i;
            traces[pending++] = seen;
            continue;
        }
        if (!settled(verdict)) {
            verdict = verdict_of(lo, verdict, &seen);
            slot_flags(words, devices, verdict, p->flags);
        }
        count_verdict(p->report, verdict);
        add_words(words, devices, p->out, high);
    }
    return pending;
}

static void clear_counts(hc_report *r)
{
    uint32_t retries = r->retries;
    memset(r, 0, sizeof *r);
    r->retries = retries;
}

static void finish_figures(const pass *p, unsigned devices, const uint64_t *high)
{
    const hc_layout *lo = p->source->layout;
    const uint8_t *base = p->source->base;
    for (unsigned d = 0; d < devices; d++) {
        uint64_t *row = p->out + (size_t)d * COLUMNS;
        const uint64_t *bits = high + (size_t)d * HC_WORDS;
        row[HC_LIMIT] = hc_load64(base + lo->limit + 8 * d);
        row[HC_SM_LIMIT] = hc_load64(base + lo->sm_limit + 8 * d);
        uint64_t parts = bits[HC_CONTEXT] | bits[HC_MODULE] | bits[HC_DATA];
        if (bits[HC_TOTAL] & SIGN)
            p->flags[d] |= FLAG_UNDERFLOW;
        if (parts & SIGN)
            p->flags[d] |= FLAG_PART_UNDERFLOW;
        if (((bits[HC_TOTAL] | bits[HC_SM] | parts) & ~SIGN) >= ROOMY)
            p->flags[d] |= FLAG_OVERFLOW;
    }
}

/* One pass over one container, repeated while the table changes under it. */
static void figures_pass(void *argument)
{
    const pass *p = argument;
    const hc_layout *lo = p->source->layout;
    uint16_t chosen[MAX_SLOTS];
    trace traces[MAX_SLOTS];
    int32_t pids[MAX_SLOTS];
    uint64_t high[MAX_DEVICES * HC_WORDS];
    uint64_t deadline = 0;
    for (unsigned round = 0;; round++) {
        clear_counts(p->report);
        memset(p->out, 0, p->devices * COLUMNS * sizeof *p->out);
        memset(p->flags, 0, p->devices * sizeof *p->flags);
        memset(high, 0, sizeof high);
        if ((p->report->status = read_header(p)) != STATUS_READ)
            return;
        unsigned devices = clamp_devices(lo, p->report->device_num);
        if (devices > p->devices)
            devices = (unsigned)p->devices;
        unsigned slots = clamp_slots(lo, p->report->proc_num);
        unsigned pending = choose_slots(p, slots, chosen, pids);
        pending = read_slots(p, devices, chosen, pending, traces, 1, 0, high);
        for (unsigned spin = 0; pending != 0; spin++) {
            if (deadline == 0)
                deadline = hc_now() + p->deadline_after;
            int last = hc_now() >= deadline;
            hc_pause(spin);
            p->report->retries += pending;
            pending = read_slots(p, devices, chosen, pending, traces, 0, last, high);
        }
        finish_figures(p, devices, high);
        if (table_unchanged(p, slots, pids) && p->report->duplicates == 0)
            return;
        if (deadline == 0)
            deadline = hc_now() + p->deadline_after;
        if (round >= PASSES || hc_now() >= deadline) {
            /* A pid that stands twice for good was counted once; a table that moves all the time is not read. */
            if (!table_unchanged(p, slots, pids))
                p->report->status = STATUS_UNSETTLED;
            return;
        }
        p->report->retries++;
        hc_pause(round);
    }
}

/* Whether the file behind a mapping still has a name and its length. */
static int still_there(const hc_source *source)
{
    struct stat now;
    if (source->fd < 0)
        return 1;
    return fstat(source->fd, &now) == 0 && now.st_nlink > 0
           && (uint64_t)now.st_size >= (uint64_t)source->layout->region_size;
}

static int usable(const hc_source *source)
{
    return source->base != NULL && source->length >= (uint64_t)source->layout->region_size
           && still_there(source);
}

static uint64_t share(hc_bounds bounds, size_t count)
{
    uint64_t fair = count ? bounds.call_budget / count : bounds.call_budget;
    return fair < bounds.slot_budget ? fair : bounds.slot_budget;
}

void hc_figures(const hc_source *sources, size_t count, hc_bounds bounds, size_t devices,
                uint64_t *out, uint32_t *flags, hc_report *reports)
{
    for (size_t i = 0; i < count; i++) {
        pass p = {&sources[i], share(bounds, count), devices, out + i * devices * COLUMNS,
                  flags + i * devices, &reports[i], NULL, NULL};
        reports[i].retries = 0;
        if (!usable(p.source) || !hc_guarded(figures_pass, &p, sources[i].base, sources[i].length)) {
            memset(p.report, 0, sizeof *p.report);
            p.report->status = STATUS_GONE;
        }
        if (p.report->status != STATUS_READ) {
            memset(p.out, 0, devices * COLUMNS * sizeof *out);
            memset(p.flags, 0, devices * sizeof *flags);
        }
    }
}

/* ---- a whole region ------------------------------------------------------------------------------------ */

static void copy_words(uint8_t *to, const uint8_t *from, uint64_t length)
{
    uint64_t done = 0;
    for (; done + 8 <= length; done += 8) {
        uint64_t word = hc_load64(from + done);
        memcpy(to + done, &word, 8);
    }
    for (; done < length; done++)
        to[done] = __atomic_load_n(from + done, __ATOMIC_RELAXED);
}

/* Copy one slot under its seqlock, waiting until the deadline for it to settle. */
static int copy_slot(const pass *p, unsigned index, unsigned devices, uint64_t *deadline)
{
    const hc_layout *lo = p->source->layout;
    uint64_t place = (uint64_t)lo->procs + index * (uint64_t)lo->slot_size;
    const uint8_t *slot = p->source->base + place;
    uint64_t words[MAX_DEVICES * HC_WORDS];
    trace seen = {0, 0};
    for (unsigned round = 0;; round++) {
        int verdict = attempt(lo, slot, devices, words, &seen, round == 0);
        copy_words(p->copy + place, slot, (uint64_t)lo->slot_size);
        if (settled(verdict)) {
            /* The copy was made behind the words: it is as stable as they are if nothing moved since. */
            uint64_t again[MAX_DEVICES * HC_WORDS];
            load_words(lo, p->copy + place, devices, again);
            hc_read_barrier();
            int same = lo->seqlock < 0 || hc_load64(slot + lo->seqlock) == hc_load64(p->copy + place + lo->seqlock);
            if (same && hc_slot_balances(again, devices)
                && (lo->seqlock < 0 || (hc_load64(p->copy + place + lo->seqlock) & 1) == 0))
                return verdict;
            verdict = VERDICT_TORN;
            seen.moved = 1;
        }
        uint64_t now = hc_now();
        if (*deadline == 0)
            *deadline = now + p->deadline_after;
        if (now >= *deadline)
            return verdict_of(lo, verdict, &seen);
        p->report->retries++;
        hc_pause(round);
    }
}

static void copy_pass(void *argument)
{
    const pass *p = argument;
    const hc_layout *lo = p->source->layout;
    uint64_t table = (uint64_t)lo->slot_count * (uint64_t)lo->slot_size;
    uint64_t behind = (uint64_t)lo->procs + table;
    int32_t pids[MAX_SLOTS];
    uint16_t chosen[MAX_SLOTS];
    uint64_t deadline = 0;
    for (unsigned round = 0;; round++) {
        clear_counts(p->report);
        p->report->status = read_header(p);
        copy_words(p->copy, p->source->base, (uint64_t)lo->procs);
        copy_words(p->copy + behind, p->source->base + behind, (uint64_t)lo->region_size - behind);
        unsigned slots = clamp_slots(lo, p->report->proc_num);
        unsigned most = clamp_devices(lo, MAX_DEVICES);
        choose_slots(p, slots, chosen, pids);
        for (unsigned i = 0; i < (unsigned)lo->slot_count; i++) {
            uint64_t place = (uint64_t)lo->procs + i * (uint64_t)lo->slot_size;
            if (i < slots) {
                p->verdicts[i] = (uint8_t)copy_slot(p, i, most, &deadline);
                count_verdict(p->report, p->verdicts[i]);
            } else {
                copy_words(p->copy + place, p->source->base + place, (uint64_t)lo->slot_size);
                p->verdicts[i] = VERDICT_NONE;
            }
        }
        if (table_unchanged(p, slots, pids))
            return;
        if (deadline == 0)
            deadline = hc_now() + p->deadline_after;
        if (round >= PASSES || hc_now() >= deadline) {
            p->report->status = STATUS_UNSETTLED;
            return;
        }
        p->report->retries++;
        hc_pause(round);
    }
}

void hc_copy(const hc_source *source, hc_bounds bounds, uint8_t *out, uint8_t *verdicts, hc_report *report)
{
    pass p = {source, share(bounds, 1), 0, NULL, NULL, report, out, verdicts};
    memset(report, 0, sizeof *report);
    if (!usable(source) || source->layout->slot_count > MAX_SLOTS
        || !hc_guarded(copy_pass, &p, source->base, source->length)) {
        memset(report, 0, sizeof *report);
        report->status = STATUS_GONE;
    }
}
