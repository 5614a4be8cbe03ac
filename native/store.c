/* Small guarded accesses. hc_store32 is the only place that writes into a cache: for the feedback loop. */
#include <string.h>

#include "reader.h"

typedef struct {
    uint8_t *place;
    int32_t value;
} access;

static void store(void *argument)
{
    access *what = argument;
    __atomic_store_n((int32_t *)(void *)what->place, what->value, __ATOMIC_RELEASE);
}

static void load(void *argument)
{
    access *what = argument;
    what->value = __atomic_load_n((const int32_t *)(const void *)what->place, __ATOMIC_ACQUIRE);
}

static int reachable(uint64_t length, uint64_t offset)
{
    return offset % sizeof(int32_t) == 0 && length >= sizeof(int32_t) && offset <= length - sizeof(int32_t);
}

int hc_store32(void *base, uint64_t length, uint64_t offset, int32_t value)
{
    access what = {(uint8_t *)base + offset, value};
    return reachable(length, offset) && hc_guarded(store, &what, base, length);
}

int hc_load32_checked(const void *base, uint64_t length, uint64_t offset, int32_t *value)
{
    /* The cast only lets one struct serve both directions; load() does not write. */
    access what = {(uint8_t *)(uintptr_t)base + offset, 0};
    if (!reachable(length, offset) || !hc_guarded(load, &what, base, length))
        return 0;
    *value = what.value;
    return 1;
}

typedef struct {
    const uint8_t *from;
    uint8_t *to;
    uint64_t count;
} piece;

static void copy_piece(void *argument)
{
    const piece *what = argument;
    memcpy(what->to, what->from, what->count);
}

int hc_read_bytes(const void *base, uint64_t length, uint64_t offset, uint64_t count, uint8_t *out)
{
    piece what = {(const uint8_t *)base + offset, out, count};
    return offset <= length && count <= length - offset && hc_guarded(copy_piece, &what, base, length);
}

int64_t hc_processes(const hc_source *source, int32_t *out, uint64_t room)
{
    const hc_layout *lo = source->layout;
    int32_t count = 0;
    if (!hc_load32_checked(source->base, source->length, (uint64_t)lo->proc_num, &count))
        return -1;
    uint64_t slots = count < 0 ? 0 : (uint64_t)count;
    if (slots > (uint64_t)lo->slot_count)
        slots = (uint64_t)lo->slot_count;
    if (slots > room)
        slots = room;
    for (uint64_t i = 0; i < slots; i++) {
        uint64_t slot = (uint64_t)lo->procs + i * (uint64_t)lo->slot_size;
        const int64_t fields[3] = {lo->pid, lo->hostpid, lo->status};
        for (int k = 0; k < 3; k++)
            if (!hc_load32_checked(source->base, source->length, slot + (uint64_t)fields[k], &out[3 * i + k]))
                return -1;
    }
    return (int64_t)slots;
}
