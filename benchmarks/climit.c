/* The limit in C: one plain pass over a v1.2 slot table, without and with a look at each slot's seqlock.
 *
 * Not our reader: no retries, no second witness, no clamping, nothing hostile. The offsets come as arguments. */
#include <stdint.h>

typedef struct {
    int64_t procs, slot_size, status, seqlock, used, used_size, total, context, module, data, sm, util_size;
} climit_table;

/* sums[device][5]: total, context, module, data, sm. */
void climit(const uint8_t *base, const climit_table *t, int slots, int devices, int seqlock, uint64_t *sums)
{
    for (int i = 0; i < devices * 5; i++)
        sums[i] = 0;
    for (int s = 0; s < slots; s++) {
        const uint8_t *slot = base + t->procs + s * t->slot_size;
        if (*(const volatile int32_t *)(slot + t->status) == 0)
            continue;
        uint64_t before = 0;
        if (seqlock) {
            before = __atomic_load_n((const uint64_t *)(slot + t->seqlock), __ATOMIC_ACQUIRE);
            if (before & 1)
                continue;
        }
        uint64_t own[16 * 5];
        for (int d = 0; d < devices; d++) {
            const uint8_t *record = slot + t->used + d * t->used_size;
            own[d * 5 + 0] = *(const uint64_t *)(record + t->total);
            own[d * 5 + 1] = *(const uint64_t *)(record + t->context);
            own[d * 5 + 2] = *(const uint64_t *)(record + t->module);
            own[d * 5 + 3] = *(const uint64_t *)(record + t->data);
            own[d * 5 + 4] = *(const uint64_t *)(slot + t->sm + d * t->util_size);
        }
        if (seqlock) {
            __atomic_thread_fence(__ATOMIC_ACQUIRE);
            if (__atomic_load_n((const uint64_t *)(slot + t->seqlock), __ATOMIC_RELAXED) != before)
                continue;
        }
        for (int i = 0; i < devices * 5; i++)
            sums[i] += own[i];
    }
}

void climit_many(const uint8_t *const *bases, int count, const climit_table *t, int slots, int devices,
                 int seqlock, uint64_t *sums)
{
    for (int i = 0; i < count; i++)
        climit(bases[i], t, slots, devices, seqlock, sums + (int64_t)i * devices * 5);
}
