/* The protocol for one slot.
 *
 * What "stable" claims. A writer's call adds 1 to the slot's counter, changes `total` and then ONE part of one
 * device, and adds 1 again; every thread of the process does so on its own. An unmoved counter means that no call
 * began or ended while we read: whatever changed under us belongs to calls that were inside all the time. The
 * parts we read are then those of all finished calls plus some of the unfinished ones, each in full, because a
 * call changes one part only: a state that the slot could have been in. The total is a second word, so the
 * counter cannot vouch for it when an even number of threads is inside: that is why it has to be the sum of the
 * parts too. Both together hold for any number of threads; the counter alone does not (measured on the real
 * writer, see docs/reading.md), and neither does the sum alone, which parts read at different times can satisfy.
 */
#ifndef HC_SLOT_H
#define HC_SLOT_H

#include "reader.h"

/* What is known of a slot that did not settle: the odd counter that it has had since it was first seen. */
typedef uint64_t hc_trace;
#define HC_UNSEEN ((hc_trace)0)
#define HC_MOVED ((hc_trace)2)

static inline int hc_balances(const uint64_t *words, unsigned devices)
{
    uint64_t wrong = 0;
    for (unsigned d = 0; d < devices; d++, words += HC_WORDS)
        wrong |= words[HC_TOTAL] - words[HC_CONTEXT] - words[HC_MODULE] - words[HC_DATA];
    return wrong == 0;
}

static inline void hc_load_words(const hc_layout *lo, const uint8_t *slot, unsigned devices, uint64_t *words)
{
    const uint8_t *record = slot + lo->used;
    for (unsigned d = 0; d < devices; d++, words += HC_WORDS, record += lo->used_size) {
        words[HC_TOTAL] = hc_load64(record + lo->total);
        words[HC_CONTEXT] = hc_load64(record + lo->context);
        words[HC_MODULE] = hc_load64(record + lo->module);
        words[HC_DATA] = hc_load64(record + lo->data);
        words[HC_SM] = lo->sm < 0 ? 0 : hc_load64(slot + lo->sm + (int64_t)d * lo->util_size);
    }
}

/* The opening half: the counter before the words. Layouts without one read as an even counter that never moves. */
static inline uint64_t hc_slot_begin(const hc_layout *lo, const uint8_t *slot)
{
    return lo->seqlock < 0 ? 0 : hc_load64_acquire(slot + lo->seqlock);
}

/* The closing half: what the words read since hc_slot_begin are worth. TORN asks for another attempt. */
static inline int hc_slot_end(const hc_layout *lo, const uint8_t *slot, uint64_t before, const uint64_t *words,
                              unsigned devices, hc_trace *trace)
{
    if (lo->seqlock < 0)
        return hc_balances(words, devices) ? VERDICT_UNPROTECTED : VERDICT_UNBALANCED;
    hc_read_barrier();
    int unmoved = hc_load64(slot + lo->seqlock) == before;
    int odd = (int)(before & 1);
    if (*trace == HC_UNSEEN)
        *trace = unmoved && odd ? before : HC_MOVED;
    else if (*trace != before || !unmoved)
        *trace = HC_MOVED;
    if (!unmoved || odd)
        return VERDICT_TORN;
    return hc_balances(words, devices) ? VERDICT_STABLE : VERDICT_UNBALANCED;
}

static inline int hc_settled(int verdict)
{
    return verdict == VERDICT_STABLE || verdict == VERDICT_UNPROTECTED;
}

/* The final word on a slot that would not settle: odd, and never seen to move, is stuck. */
static inline int hc_final_verdict(int verdict, hc_trace trace)
{
    return verdict == VERDICT_TORN && trace != HC_MOVED ? VERDICT_STUCK : verdict;
}

#endif
