/* The only place that writes into a cache: aligned 32-bit stores, for the feedback loop. */
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
