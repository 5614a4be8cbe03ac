/* The figures of many containers: sums over the slots that count, in one pass each. */
#include <string.h>

#include "slot.h"

enum { FLAG_UNDERFLOW = 1, FLAG_PART_UNDERFLOW = 2, FLAG_UNSTABLE = 4, FLAG_STUCK = 8, FLAG_UNBALANCED = 16,
       FLAG_OVERFLOW = 32 };

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

/* Add one slot's words to the sums. `high` collects every bit ever seen, to notice signs and near-wraps. */
static void add_words(const uint64_t *words, unsigned devices, uint64_t *sums, uint64_t *high)
{
    for (unsigned d = 0; d < devices; d++, words += HC_WORDS, sums += HC_COLUMNS, high += HC_WORDS)
        for (unsigned w = 0; w < HC_WORDS; w++) {
            sums[w] += words[w];
            high[w] |= words[w];
        }
}

/* Read the chosen slots once and add up those that settled; the others stay chosen, unless this is the last time. */
static void read_slots(const job *j, hc_table *table, unsigned devices, hc_trace *traces, int last, uint64_t *high)
{
    const hc_layout *lo = j->source->layout;
    const uint8_t *procs = j->source->base + lo->procs;
    uint64_t words[HC_MAX_DEVICES * HC_WORDS];
    unsigned pending = 0;
    for (unsigned k = 0; k < table->count; k++) {
        unsigned i = table->chosen[k];
        const uint8_t *slot = procs + (int64_t)i * lo->slot_size;
        uint64_t before = hc_slot_begin(lo, slot);
        hc_load_words(lo, slot, devices, words);
        int verdict = hc_slot_end(lo, slot, before, words, devices, &traces[i]);
        if (!hc_settled(verdict)) {
            if (!last) {
                table->chosen[pending++] = (uint16_t)i;
                continue;
            }
            verdict = hc_final_verdict(verdict, traces[i]);
            flag_devices(words, devices, verdict, j->flags);
        }
        hc_count_verdict(j->report, verdict);
        add_words(words, devices, j->out, high);
    }
    table->count = pending;
}

/* Counters that nobody could have: their sums might wrap. Those below zero are another matter. */
static int absurd(uint64_t bits)
{
    return bits < SIGN && bits >= ROOMY;
}

static void finish(const job *j, unsigned devices, const uint64_t *high)
{
    const hc_layout *lo = j->source->layout;
    const uint8_t *base = j->source->base;
    for (unsigned d = 0; d < devices; d++, high += HC_WORDS) {
        uint64_t *row = j->out + (size_t)d * HC_COLUMNS;
        row[HC_LIMIT] = hc_load64(base + lo->limit + 8 * (int64_t)d);
        row[HC_SM_LIMIT] = hc_load64(base + lo->sm_limit + 8 * (int64_t)d);
        if (high[HC_TOTAL] & SIGN)
            j->flags[d] |= FLAG_UNDERFLOW;
        if ((high[HC_CONTEXT] | high[HC_MODULE] | high[HC_DATA]) & SIGN)
            j->flags[d] |= FLAG_PART_UNDERFLOW;
        if (absurd(high[HC_TOTAL]) || absurd(high[HC_CONTEXT]) || absurd(high[HC_MODULE])
            || absurd(high[HC_DATA]) || high[HC_SM] >= ROOMY)
            j->flags[d] |= FLAG_OVERFLOW;
    }
}

/* One pass over one container, repeated while the table changes under it. */
static void figures_pass(void *argument)
{
    job *j = argument;
    const hc_layout *lo = j->source->layout;
    hc_table table;
    hc_trace traces[HC_MAX_SLOTS];
    unsigned traced = 0;
    uint64_t high[HC_MAX_DEVICES * HC_WORDS];
    for (unsigned round = 0;; round++) {
        hc_clear_counts(j->report);
        memset(j->out, 0, j->rows * HC_COLUMNS * sizeof *j->out);
        memset(j->flags, 0, j->rows * sizeof *j->flags);
        if ((j->report->status = hc_read_header(j->source, j->report)) != STATUS_READ)
            return;
        unsigned devices = hc_clamp(j->report->device_num, lo->device_count);
        if (devices > j->rows)
            devices = (unsigned)j->rows;
        memset(high, 0, devices * HC_WORDS * sizeof *high);
        hc_read_table(j->source, j->report, &table);
        for (; traced < table.slots; traced++)
            traces[traced] = HC_UNSEEN;
        read_slots(j, &table, devices, traces, 0, high);
        for (unsigned spin = 0; table.count != 0; spin++) {
            int last = hc_time_is_up(&j->wait);
            j->report->retries += table.count;
            hc_pause(spin);
            read_slots(j, &table, devices, traces, last, high);
        }
        finish(j, devices, high);
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
