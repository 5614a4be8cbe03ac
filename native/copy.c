/* A private copy of one whole region, as consistent as its writers allow, with a verdict for every slot. */
#include <string.h>

#include "slot.h"

typedef struct {
    const hc_source *source;
    hc_wait wait;
    hc_report *report;
    uint8_t *copy;
    uint8_t *verdicts;      /* one byte a slot */
} job;

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

/* Copy one slot between the two halves of the protocol, until it settles or the time is up. */
static int copy_slot(job *j, unsigned index, unsigned devices, hc_trace *trace)
{
    const hc_layout *lo = j->source->layout;
    int64_t place = lo->procs + (int64_t)index * lo->slot_size;
    const uint8_t *slot = j->source->base + place;
    uint8_t *mine = j->copy + place;
    uint64_t words[HC_MAX_DEVICES * HC_WORDS];
    for (unsigned spin = 0;; spin++) {
        int last = spin > 0 && hc_time_is_up(&j->wait);
        uint64_t before = hc_slot_begin(lo, slot);
        copy_words(mine, slot, (uint64_t)lo->slot_size);
        hc_load_words(lo, mine, devices, words);
        int verdict = hc_slot_end(lo, slot, before, words, devices, trace);
        if (lo->seqlock >= 0)
            memcpy(mine + lo->seqlock, &before, sizeof before);
        if (hc_settled(verdict))
            return verdict;
        if (last)
            return hc_final_verdict(verdict, *trace);
        j->report->retries++;
        hc_pause(spin);
    }
}

static void copy_slots(job *j, unsigned first, unsigned end)
{
    const hc_layout *lo = j->source->layout;
    int64_t from = lo->procs + (int64_t)first * lo->slot_size;
    copy_words(j->copy + from, j->source->base + from, (uint64_t)(end - first) * (uint64_t)lo->slot_size);
}

/* Everything but the slots. */
static void copy_header(job *j)
{
    const hc_layout *lo = j->source->layout;
    int64_t behind = lo->procs + lo->slot_count * lo->slot_size;
    copy_words(j->copy, j->source->base, (uint64_t)lo->procs);
    copy_words(j->copy + behind, j->source->base + behind, (uint64_t)(lo->region_size - behind));
}

/* What the pass went by is what the copy says, whatever was stored in between. */
static void settle_header(job *j, const hc_table *table)
{
    const hc_layout *lo = j->source->layout;
    memcpy(j->copy + lo->proc_num, &j->report->proc_num, sizeof j->report->proc_num);
    if (j->report->locked)
        memcpy(j->copy + lo->owner_pid, &table->owner, sizeof table->owner);
}

static void copy_pass(void *argument)
{
    job *j = argument;
    const hc_layout *lo = j->source->layout;
    unsigned devices = (unsigned)lo->device_count;
    hc_table table;
    hc_trace traces[HC_MAX_SLOTS];
    unsigned traced = 0;
    for (unsigned round = 0;; round++) {
        hc_clear_counts(j->report);
        j->report->status = hc_read_header(j->source, j->report);
        hc_read_table(j->source, j->report, &table);
        for (; traced < table.slots; traced++)
            traces[traced] = HC_UNSEEN;
        for (unsigned i = 0; i < table.slots; i++) {
            j->verdicts[i] = (uint8_t)copy_slot(j, i, devices, &traces[i]);
            hc_count_verdict(j->report, j->verdicts[i]);
        }
        copy_header(j);
        if (!hc_pass_again(hc_table_now(j->source, &table), round, &j->wait, j->report))
            break;
    }
    settle_header(j, &table);
    /* Slots beyond proc_num are protected by nothing, so they can wait until the others are right. */
    copy_slots(j, table.slots, (unsigned)lo->slot_count);
    memset(j->verdicts + table.slots, VERDICT_NONE, (size_t)lo->slot_count - table.slots);
}

void hc_copy(const hc_source *source, hc_bounds bounds, uint8_t *out, uint8_t *verdicts, hc_report *report)
{
    job j = {source, {hc_fair_share(bounds, 1), 0}, report, out, verdicts};
    memset(report, 0, sizeof *report);
    hc_install_guard();
    if (!hc_usable(source) || !hc_guarded(copy_pass, &j, source->base, source->length)) {
        memset(report, 0, sizeof *report);
        report->status = STATUS_GONE;
    }
}
