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

static int reachable(uint64_t length, uint64_t offset)
{
    return offset % sizeof(int32_t) == 0 && length >= sizeof(int32_t) && offset <= length - sizeof(int32_t);
}

int hc_store32(void *base, uint64_t length, uint64_t offset, int32_t value)
{
    if (!reachable(length, offset))
        return 0;
    hc_install_guard();
    access what = {(uint8_t *)base + offset, value};
    return hc_guarded(store, &what, base, length);
}

typedef struct {
    const uint8_t *base;
    const uint64_t *offsets;
    size_t count;
    int32_t *out;
} words;

static void load_words(void *argument)
{
    const words *what = argument;
    for (size_t i = 0; i < what->count; i++) {
        const uint8_t *place = what->base + what->offsets[i];
        what->out[i] = __atomic_load_n((const int32_t *)(const void *)place, __ATOMIC_ACQUIRE);
    }
}

int hc_load32_many(const void *base, uint64_t length, const uint64_t *offsets, size_t count, int32_t *out)
{
    for (size_t i = 0; i < count; i++)
        if (!reachable(length, offsets[i]))
            return 0;
    hc_install_guard();
    words what = {base, offsets, count, out};
    return hc_guarded(load_words, &what, base, length);
}

typedef struct {
    const uint8_t *from;
    uint8_t *to;
    uint64_t count;
} piece;

static void copy_piece(void *argument)
{
    const piece *what = argument;
    uint64_t i = 0;
    if ((uintptr_t)what->from % sizeof(uint64_t) == 0) {
        for (; what->count - i >= sizeof(uint64_t); i += sizeof(uint64_t)) {
            uint64_t word = hc_load64(what->from + i);
            memcpy(what->to + i, &word, sizeof word);
        }
    }
    for (; i < what->count; i++)
        what->to[i] = __atomic_load_n(what->from + i, __ATOMIC_RELAXED);
}

int hc_read_bytes(const void *base, uint64_t length, uint64_t offset, uint64_t count, uint8_t *out)
{
    if (offset > length || count > length - offset)
        return 0;
    hc_install_guard();
    piece what = {(const uint8_t *)base + offset, out, count};
    return hc_guarded(copy_piece, &what, base, length);
}

typedef struct {
    const hc_source *source;
    int32_t *out;
    uint64_t room, count;
} roll;

static void call_roll(void *argument)
{
    roll *what = argument;
    const hc_layout *lo = what->source->layout;
    const uint8_t *slot = what->source->base + lo->procs;
    int32_t number = hc_load32(what->source->base + lo->proc_num);
    uint64_t slots = number < 0 ? 0 : hc_clamp((uint64_t)number, lo->slot_count);
    what->count = slots < what->room ? slots : what->room;
    int32_t *out = what->out;
    for (uint64_t i = 0; i < what->count; i++, slot += lo->slot_size) {
        *out++ = hc_load32(slot + lo->pid);
        *out++ = hc_load32(slot + lo->hostpid);
        *out++ = hc_load32(slot + lo->status);
    }
}

int64_t hc_processes(const hc_source *source, int32_t *out, uint64_t room)
{
    roll what = {source, out, room, 0};
    hc_install_guard();
    if (!hc_usable(source) || !hc_guarded(call_roll, &what, source->base, source->length))
        return -1;
    return (int64_t)what.count;
}
