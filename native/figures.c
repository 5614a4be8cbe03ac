/* The figures of many containers: sums over the slots that count, in one pass each. */
#include <string.h>

#include "slot.h"

enum { FLAG_UNDERFLOW = 1, FLAG_PART_UNDERFLOW = 2, FLAG_UNSTABLE = 4, FLAG_STUCK = 8, FLAG_UNBALANCED = 16,
       FLAG_OVERFLOW = 32, FLAG_SM_OVERFLOW = 64 };

/* Sums of up to HC_MAX_SLOTS values below this stay below bit 63, the sign of a counter below zero. */
static const uint64_t ROOMY = (uint64_t)1 << 51;
static const uint64_t SIGN = (uint64_t)1 << 63;

/* One container's pass. */
typedef struct {
    const hc_source *source;
    hc_wait wait;
    size_t rows;                /* devices in `out` and `flags` */
    uint64_t *out;
    uint32_t *flags;
    hc_report *report;
} job;

/* The sums so far, twice: a slot is added from one copy into the other, and counts once it proves settled. */
typedef struct {
    unsigned devices;
    int current;
    int unusual;                                /* `high` is in use: some slot was not the usual one */
    uint64_t sums[2][HC_MAX_DEVICES * HC_WORDS];
    uint64_t high[HC_MAX_DEVICES * HC_WORDS];   /* every bit ever seen, to notice signs and near-wraps */
} tally;

static void start_tally(tally *t, unsigned devices)
{
    t->devices = devices;
    t->current = t->unusual = 0;
    memset(t->sums[0], 0, devices * HC_WORDS * sizeof *t->sums[0]);
}

static uint32_t flag_of(int verdict)
{
    switch (verdict) {
    case VERDICT_TORN:
        return FLAG_UNSTABLE;
    case VERDICT_STUCK:
        return FLAG_STUCK;
    case VERDICT_UNBALANCED:
        return FLAG_UNBALANCED;
    default:
        return 0;
    }
}

static void flag_devices(const uint64_t *words, unsigned devices, int verdict, uint32_t *flags)
{
    uint32_t flag = flag_of(verdict);
    for (unsigned d = 0; d < devices; d++, words += HC_WORDS)
        /* The counter of an unbalanced slot did not move: its other devices are as good as stable. */
        if (verdict != VERDICT_UNBALANCED || !hc_balances(words, 1))
            flags[d] |= flag;
}

static void add_words(tally *t, const uint64_t *words)
{
    uint64_t *sums = t->sums[t->current];
    if (!t->unusual)
        memset(t->high, 0, t->devices * HC_WORDS * sizeof *t->high);
    t->unusual = 1;
    for (unsigned i = 0; i < t->devices * HC_WORDS; i++) {
        sums[i] += words[i];
        t->high[i] |= words[i];
    }
}

/* The usual slot: at rest, balanced, no counter that could wrap a sum. Reads and adds it in one go; 0, and nothing
 * added, when it is any other. The offsets come as a copy of our own: the stores could otherwise change them, for
 * all that the compiler knows. */
static inline __attribute__((always_inline)) int add_usual(const hc_layout lo, const uint8_t *slot, tally *t)
{
    static const uint64_t nothing = 0;
    const int64_t sm_step = lo.sm < 0 ? 0 : lo.util_size;
    const uint8_t *sm = lo.sm < 0 ? (const uint8_t *)&nothing : slot + lo.sm;
    const uint8_t *record = slot + lo.used;
    const uint64_t *restrict from = t->sums[t->current];
    uint64_t *restrict to = t->sums[!t->current];
    uint64_t wrong = 0, bits = 0;
    uint64_t before = lo.seqlock < 0 ? 0 : hc_load64_acquire(slot + lo.seqlock);
    if (before & 1)
        return 0;
    for (unsigned d = t->devices; d != 0; d--) {
        uint64_t whole = hc_load64(record + lo.total), first = hc_load64(record + lo.context);
        uint64_t second = hc_load64(record + lo.module), third = hc_load64(record + lo.data);
        uint64_t percent = hc_load64(sm);
        wrong |= whole - first - second - third;
        bits |= whole | first | second | third | percent;
        to[HC_TOTAL] = from[HC_TOTAL] + whole;
        to[HC_CONTEXT] = from[HC_CONTEXT] + first;
        to[HC_MODULE] = from[HC_MODULE] + second;
        to[HC_DATA] = from[HC_DATA] + third;
        to[HC_SM] = from[HC_SM] + percent;
        from += HC_WORDS;
        to += HC_WORDS;
        record += lo.used_size;
        sm += sm_step;
    }
    if (lo.seqlock >= 0) {
        hc_read_barrier();
        if (hc_load64(slot + lo.seqlock) != before)
            return 0;
    }
    if (wrong != 0 || bits >= ROOMY)
        return 0;
    t->current = !t->current;
    return 1;
}

/* What is known of the slots that were not usual; the first `count` are set. */
typedef struct {
    unsigned count;
    hc_trace of[HC_MAX_SLOTS];
} traces;

/* Read the chosen slots once and add up those that settled; the others stay chosen, unless this is the last time. */
static void read_slots(const job *j, hc_table *table, tally *t, traces *seen, int last)
{
    const hc_layout *lo = j->source->layout;
    const hc_layout places = *lo;
    const uint8_t *procs = j->source->base + lo->procs;
    const unsigned devices = t->devices;
    const int usual = lo->seqlock < 0 ? VERDICT_UNPROTECTED : VERDICT_STABLE;
    uint64_t words[HC_MAX_DEVICES * HC_WORDS];
    unsigned pending = 0, settled = 0;
    for (unsigned k = 0; k < table->count; k++) {
        unsigned i = table->chosen[k];
        const uint8_t *slot = procs + (int64_t)i * lo->slot_size;
        if (add_usual(places, slot, t)) {
            settled++;
            continue;
        }
        uint64_t before = hc_slot_begin(lo, slot);
        hc_load_words(lo, slot, devices, words);
        for (; seen->count <= i; seen->count++)
            seen->of[seen->count] = HC_UNSEEN;
        int verdict = hc_slot_end(lo, slot, before, words, devices, &seen->of[i]);
        if (!hc_settled(verdict)) {
            if (!last) {
                table->chosen[pending++] = (uint16_t)i;
                continue;
            }
            verdict = hc_final_verdict(verdict, seen->of[i]);
            flag_devices(words, devices, verdict, j->flags);
        }
        hc_count_verdict(j->report, verdict);
        add_words(t, words);
    }
    *(usual == VERDICT_STABLE ? &j->report->stable : &j->report->unprotected) += settled;
    table->count = pending;
}

/* Whether the utilization watcher of any process has left a trace. It fills sm_util and monitorused together, so
 * the second is only asked where the first is silent. */
static uint32_t watched(const job *j, const tally *t, unsigned slots)
{
    const hc_layout *lo = j->source->layout;
    const uint8_t *slot = j->source->base + lo->procs;
    uint64_t seen = 0;
    for (unsigned d = 0; d < t->devices; d++)
        seen |= t->sums[t->current][d * HC_WORDS + HC_SM];
    for (unsigned i = 0; seen == 0 && lo->monitorused >= 0 && i < slots; i++, slot += lo->slot_size)
        for (unsigned d = 0; d < t->devices && hc_load32(slot + lo->status) != 0; d++)
            seen |= hc_load64(slot + lo->monitorused + 8 * (int64_t)d);
    return seen != 0;
}

static void finish(const job *j, const tally *t)
{
    const hc_layout *lo = j->source->layout;
    const uint8_t *base = j->source->base;
    const uint64_t *high = t->high;
    for (unsigned d = 0; d < t->devices; d++, high += HC_WORDS) {
        uint64_t *row = j->out + (size_t)d * HC_COLUMNS;
        memcpy(row, t->sums[t->current] + d * HC_WORDS, HC_WORDS * sizeof *row);
        row[HC_LIMIT] = hc_load64(base + lo->limit + 8 * (int64_t)d);
        row[HC_SM_LIMIT] = hc_load64(base + lo->sm_limit + 8 * (int64_t)d);
        if (!t->unusual)
            continue;
        if ((high[HC_CONTEXT] | high[HC_MODULE] | high[HC_DATA]) & SIGN)
            j->flags[d] |= FLAG_PART_UNDERFLOW;
        if (high[HC_TOTAL] & SIGN)
            j->flags[d] |= FLAG_UNDERFLOW;
        /* So much that sums might wrap. A part beyond it is below zero or unbalances its slot, as long as the total
         * is not beyond it too. */
        else if (high[HC_TOTAL] >= ROOMY)
            j->flags[d] |= FLAG_OVERFLOW;
        if (high[HC_SM] >= ROOMY)
            j->flags[d] |= FLAG_SM_OVERFLOW;
    }
    size_t filled = (size_t)t->devices * HC_COLUMNS;
    memset(j->out + filled, 0, (j->rows * HC_COLUMNS - filled) * sizeof *j->out);
}

/* One pass over one container, repeated while the table changes under it. */
static void figures_pass(void *argument)
{
    job *j = argument;
    const hc_layout *lo = j->source->layout;
    hc_table table;
    traces seen;
    tally t;
    seen.count = 0;
    for (unsigned round = 0;; round++) {
        hc_clear_counts(j->report);
        memset(j->flags, 0, j->rows * sizeof *j->flags);
        if ((j->report->status = hc_read_header(j->source, j->report)) != STATUS_READ)
            return;
        unsigned devices = hc_clamp(j->report->device_num, lo->device_count);
        if (devices > j->rows)
            devices = (unsigned)j->rows;
        start_tally(&t, devices);
        hc_read_table(j->source, j->report, &table);
        read_slots(j, &table, &t, &seen, 0);
        for (unsigned spin = 0; table.count != 0; spin++) {
            int last = hc_time_is_up(&j->wait);
            j->report->retries += table.count;
            hc_pause(spin);
            read_slots(j, &table, &t, &seen, last);
        }
        finish(j, &t);
        j->report->watched = watched(j, &t, table.slots);
        if (!hc_pass_again(hc_table_now(j->source, &table), round, &j->wait, j->report))
            return;
    }
}

static void read_one(job *j)
{
    j->report->retries = 0;
    if (!hc_usable(j->source)
        || !hc_guarded(figures_pass, j, j->source->base, j->source->length)) {
        memset(j->report, 0, sizeof *j->report);
        j->report->status = STATUS_GONE;
    }
    if (j->report->status != STATUS_READ) {
        memset(j->out, 0, j->rows * HC_COLUMNS * sizeof *j->out);
        memset(j->flags, 0, j->rows * sizeof *j->flags);
    }
}

void hc_figures(const hc_source *sources, size_t count, hc_bounds bounds, size_t devices,
                uint64_t *out, uint32_t *flags, hc_report *reports)
{
    hc_install_guard();
    for (size_t i = 0; i < count; i++) {
        job j = {&sources[i], {hc_fair_share(bounds, count), 0}, devices, out + i * devices * HC_COLUMNS,
                 flags + i * devices, &reports[i]};
        read_one(&j);
    }
}
