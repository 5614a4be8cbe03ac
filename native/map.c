/* Mapping a file, the clock, and whether what is mapped can still be read. */
#define _GNU_SOURCE
#include <sched.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>

#include "reader.h"

enum { SPINS = 16 };

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

int hc_time_is_up(hc_wait *wait)
{
    uint64_t now = now_ns();
    if (wait->deadline == 0)
        wait->deadline = wait->budget < UINT64_MAX - now ? now + wait->budget : UINT64_MAX;
    return now >= wait->deadline;
}

void hc_pause(unsigned round)
{
    if (round >= SPINS) {
        sched_yield();
        return;
    }
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

uint64_t hc_fair_share(hc_bounds bounds, size_t count)
{
    uint64_t fair = count ? bounds.call_budget / count : bounds.call_budget;
    return fair < bounds.slot_budget ? fair : bounds.slot_budget;
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

static int still_there(const hc_source *source)
{
    struct stat now;
    if (source->fd < 0)
        return 1;
    return fstat(source->fd, &now) == 0 && now.st_nlink > 0
           && (uint64_t)now.st_size >= (uint64_t)source->layout->region_size;
}

int hc_usable(const hc_source *source)
{
    return source->base != NULL && source->length >= (uint64_t)source->layout->region_size
           && still_there(source);
}
