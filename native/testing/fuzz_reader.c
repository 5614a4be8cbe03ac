/* Feeds the native reader hostile regions and hostile layout tables. Built with sanitizers: they see what it does
 * wrong in memory, the checks here what it does wrong in its answers.
 *
 *     fuzz_reader SECONDS SEED TABLE...      random inputs, then a storm; TABLE as writer.c reads it
 *
 * With -DLIBFUZZER it is a libFuzzer target instead, which takes its tables from HC_TABLES (separated by colons).
 *
 * An input is a region that starts out plausible and is changed at fields and bytes of the input's choosing, under
 * a table that may be changed too. Both live in memory of exactly their size, so that one byte too far is seen. The
 * storm has threads reading one real file while others scribble on it, cut it and grow it.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "../reader.h"

enum { MAX_TABLES = 32, INPUT = 512, ROWS = HC_MAX_DEVICES + 3, READERS = 2, SCRIBBLERS = 2, STORM_SLOTS = 64 };

#define TABLE(X)                                                                                              \
    X(region_size) X(magic_offset) X(magic) X(device_num) X(limit) X(sm_limit) X(proc_num)                    \
    X(utilization_switch) X(recent_kernel) X(priority) X(last_kernel_time) X(owner_pid) X(procs) X(slot_size) \
    X(slot_count) X(device_count) X(pid) X(hostpid) X(status) X(seqlock) X(used) X(used_size) X(total)        \
    X(context) X(module) X(data) X(offset) X(sm) X(util_size) X(monitorused)

static const struct {
    const char *name;
    size_t place;
} members[] = {
#define MEMBER(name) {#name, offsetof(hc_layout, name)},
    TABLE(MEMBER)
};
enum { MEMBERS = sizeof members / sizeof *members };

static hc_layout tables[MAX_TABLES];
static unsigned table_count;

#define CHECK(what) ((what) ? (void)0 : broken(#what, __LINE__))

static void broken(const char *what, int line)
{
    fprintf(stderr, "fuzz_reader.c:%d: the reader broke: %s\n", line, what);
    abort();
}

static int64_t *member(hc_layout *lo, size_t index)
{
    return (int64_t *)(void *)((uint8_t *)lo + members[index].place);
}

static void read_table(const char *path)
{
    FILE *file = fopen(path, "r");
    char name[64];
    long long value;
    if (file == NULL || table_count == MAX_TABLES) {
        perror(path);
        exit(2);
    }
    while (fscanf(file, "%63s %lld", name, &value) == 2)
        for (size_t i = 0; i < MEMBERS; i++)
            if (strcmp(name, members[i].name) == 0)
                *member(&tables[table_count], i) = value;
    fclose(file);
    CHECK(hc_layout_fault(&tables[table_count]) == NULL);
    table_count++;
}

/* ---- an input, taken apart ------------------------------------------------------------------------------ */

typedef struct {
    const uint8_t *data;
    size_t left;
} input;

static uint64_t take(input *in, size_t bytes)
{
    uint64_t value = 0;
    for (; bytes > 0 && in->left > 0; bytes--, in->left--)
        value = value << 8 | *in->data++;
    return value;
}

/* A number of the kind that hurts: small, huge, around zero, around powers of two. */
static uint64_t take_number(input *in)
{
    static const uint64_t edges[] = {0, 1, 2, UINT64_MAX, (uint64_t)1 << 63, INT64_MAX, INT32_MAX, UINT32_MAX,
                                     HC_MAX_SLOTS, HC_MAX_SLOTS + 1, HC_MAX_DEVICES, HC_MAX_DEVICES + 1, 16, 1024,
                                     (uint64_t)1 << 51, 4096};
    uint64_t kind = take(in, 1);
    if (kind & 1)
        return edges[kind / 2 % (sizeof edges / sizeof *edges)] + (kind & 128 ? take(in, 1) - 128 : 0);
    return take(in, kind & 2 ? 8 : kind & 4 ? 4 : 1);
}

static void put(uint8_t *region, const hc_layout *lo, int64_t place, uint64_t value, unsigned width)
{
    if (place >= 0 && place <= lo->region_size - (int64_t)width)
        memcpy(region + place, &value, width);
}

static int64_t some_slot(const hc_layout *lo, input *in)
{
    return lo->procs + (int64_t)(take(in, 2) % (uint64_t)lo->slot_count) * lo->slot_size;
}

static void change_region(uint8_t *region, const hc_layout *lo, input *in)
{
    int64_t slot = some_slot(lo, in);
    int64_t record = slot + lo->used + (int64_t)(take(in, 1) % (uint64_t)lo->device_count) * lo->used_size;
    switch (take(in, 1) % 12) {
    case 0:
        put(region, lo, lo->proc_num, take_number(in), 4);
        break;
    case 1:
        put(region, lo, lo->device_num, take_number(in), 8);
        break;
    case 2:
        put(region, lo, slot + lo->pid, take_number(in), 4);
        break;
    case 3:
        put(region, lo, slot + lo->status, take_number(in), 4);
        break;
    case 4:
        put(region, lo, lo->seqlock < 0 ? -1 : slot + lo->seqlock, take_number(in), 8);
        break;
    case 5:
        put(region, lo, record + lo->total, take_number(in), 8);
        break;
    case 6:
        put(region, lo, record + lo->data, take_number(in), 8);
        break;
    case 7:
        put(region, lo, lo->owner_pid, take_number(in), 8);
        break;
    case 8:
        put(region, lo, lo->magic_offset, take_number(in), 4);
        break;
    default:
        put(region, lo, (int64_t)(take(in, 4) % (uint64_t)lo->region_size), take_number(in), 1);
    }
}

static void make_region(uint8_t *region, const hc_layout *lo, input *in)
{
    memset(region, 0, (size_t)lo->region_size);
    put(region, lo, lo->magic_offset, (uint64_t)lo->magic, 4);
    put(region, lo, lo->device_num, (uint64_t)lo->device_count, 8);
    uint64_t people = take(in, 1) % 40;
    put(region, lo, lo->proc_num, people, 4);
    for (uint64_t i = 0; i < people && i < (uint64_t)lo->slot_count; i++) {
        int64_t slot = lo->procs + (int64_t)i * lo->slot_size;
        put(region, lo, slot + lo->pid, i + 1, 4);
        put(region, lo, slot + lo->status, 1, 4);
    }
    while (in->left > 0)
        change_region(region, lo, in);
}

/* ---- what must hold of every answer ---------------------------------------------------------------------- */

static void check_report(const hc_report *r, const hc_layout *lo)
{
    uint32_t counted = r->running + r->suspended + r->odd_status;
    CHECK(r->status >= STATUS_READ && r->status <= STATUS_UNSETTLED);
    if (r->status != STATUS_READ)
        return;
    CHECK(counted == r->stable + r->torn + r->stuck + r->unprotected + r->unbalanced);
    CHECK(counted + r->exited + r->skipped + r->duplicates <= (uint32_t)lo->slot_count);
    CHECK(r->hostpid_unknown <= counted);
    CHECK(r->locked <= 1);
}

static void check_figures(const hc_source *source, size_t rows, hc_bounds bounds)
{
    enum { COUNT = 2 };
    const hc_source sources[COUNT] = {*source, *source};
    uint64_t *out = malloc(COUNT * rows * HC_COLUMNS * sizeof *out);
    uint32_t *flags = malloc(COUNT * rows * sizeof *flags);
    hc_report *reports = malloc(COUNT * sizeof *reports);
    hc_figures(sources, COUNT, bounds, rows, out, flags, reports);
    for (size_t i = 0; i < COUNT; i++) {
        check_report(&reports[i], source->layout);
        for (size_t d = 0; d < rows; d++) {
            const uint64_t *row = out + (i * rows + d) * HC_COLUMNS;
            uint32_t flag = flags[i * rows + d];
            CHECK(flag < 128);
            if (reports[i].status != STATUS_READ || d >= reports[i].device_num)
                for (size_t c = 0; c < HC_COLUMNS; c++)
                    CHECK(row[c] == 0 && flag == 0);
            else if (flag == 0)
                CHECK(row[HC_TOTAL] == row[HC_CONTEXT] + row[HC_MODULE] + row[HC_DATA]);
        }
    }
    free(reports);
    free(flags);
    free(out);
}

static void check_copy(const hc_source *source, hc_bounds bounds, int at_rest)
{
    const hc_layout *lo = source->layout;
    uint8_t *out = malloc((size_t)lo->region_size);
    uint8_t *verdicts = malloc((size_t)lo->slot_count);
    hc_report report;
    hc_copy(source, bounds, out, verdicts, &report);
    CHECK(report.status >= STATUS_READ && report.status <= STATUS_UNSETTLED);
    for (int64_t i = 0; i < lo->slot_count && report.status != STATUS_GONE; i++) {
        uint64_t counter = 0;
        CHECK(verdicts[i] <= VERDICT_UNBALANCED);
        CHECK((verdicts[i] != VERDICT_NONE) == (i < report.proc_num));
        if (lo->seqlock >= 0)
            memcpy(&counter, out + lo->procs + i * lo->slot_size + lo->seqlock, sizeof counter);
        if (verdicts[i] == VERDICT_STABLE)
            CHECK(lo->seqlock >= 0 && counter % 2 == 0);
    }
    if (at_rest)
        CHECK(memcmp(out, source->base, (size_t)lo->region_size) == 0);
    free(verdicts);
    free(out);
}

static void check_small_reads(const hc_source *source, uint64_t first, uint64_t second)
{
    const hc_layout *lo = source->layout;
    int32_t *out = malloc(3 * sizeof *out * (size_t)lo->slot_count);
    int64_t number = hc_processes(source, out, (uint64_t)lo->slot_count);
    CHECK(number >= -1 && number <= lo->slot_count);
    CHECK(hc_processes(source, out, 1) <= 1);
    free(out);
    uint8_t bytes[64];
    int32_t words[2];
    const uint64_t offsets[2] = {first, second};
    int inside = first <= source->length && second % sizeof bytes <= source->length - first;
    CHECK(hc_read_bytes(source->base, source->length, first, second % sizeof bytes, bytes) <= inside);
    (void)hc_load32_many(source->base, source->length, offsets, 2, words);
}

/* The same with fewer slots: what lies behind them moves up. Small regions make many inputs. */
static hc_layout with_slots(hc_layout lo, int64_t slots)
{
    int64_t *const behind[] = {&lo.magic_offset, &lo.device_num, &lo.limit, &lo.sm_limit, &lo.proc_num,
                               &lo.utilization_switch, &lo.recent_kernel, &lo.priority, &lo.last_kernel_time,
                               &lo.owner_pid, &lo.region_size};
    for (size_t i = 0; i < sizeof behind / sizeof *behind; i++)
        if (*behind[i] > lo.procs)
            *behind[i] -= (lo.slot_count - slots) * lo.slot_size;
    lo.slot_count = slots;
    return lo;
}

static hc_layout some_table(input *in)
{
    hc_layout lo = tables[take(in, 1) % table_count];
    uint64_t size = take(in, 1);
    if (size != 0)
        lo = with_slots(lo, (int64_t)(size % 48 + 1));
    for (uint64_t changes = take(in, 1) % 4; changes > 0 && take(in, 1) % 4 == 0; changes--)
        *member(&lo, take(in, 1) % MEMBERS) = (int64_t)take_number(in);
    return lo;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    input in = {data, size};
    hc_layout lo = some_table(&in);
    if (hc_layout_fault(&lo) != NULL || lo.region_size > 1 << 24)
        return 0;
    hc_bounds bounds = {take(&in, 1) % 8 * 1000, take(&in, 1) % 8 * 1000};
    size_t rows = take(&in, 1) % ROWS;
    uint64_t first = take_number(&in), second = take_number(&in);
    int32_t *skip = take(&in, 1) % 4 ? NULL : calloc((size_t)lo.slot_count, sizeof *skip);
    if (skip != NULL)
        skip[take(&in, 2) % (uint64_t)lo.slot_count] = (int32_t)take_number(&in);
    uint8_t *region = malloc((size_t)lo.region_size);
    make_region(region, &lo, &in);
    hc_source source = {region, (uint64_t)lo.region_size, &lo, skip, -1};
    check_figures(&source, rows, bounds);
    check_copy(&source, bounds, 1);
    check_small_reads(&source, first, second);
    source.length--;
    hc_report gone;
    hc_copy(&source, bounds, NULL, NULL, &gone);
    CHECK(gone.status == STATUS_GONE);
    free(region);
    free(skip);
    return 0;
}

#ifdef LIBFUZZER

int LLVMFuzzerInitialize(int *argc, char ***argv);

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    char *list = strdup(getenv("HC_TABLES") ? getenv("HC_TABLES") : "");
    for (char *path = strtok(list, ":"); path != NULL; path = strtok(NULL, ":"))
        read_table(path);
    free(list);
    return 0;
}

#else

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static uint64_t draw(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static unsigned long fuzz(double until, uint64_t *random)
{
    unsigned long inputs = 0;
    do {
        /* Exactly as long as it is, so that reading beyond the input is seen as well. */
        size_t size = draw(random) % INPUT;
        uint8_t *data = malloc(size + 1);
        for (size_t i = 0; i < size; i++)
            data[i] = (uint8_t)(draw(random) >> 32);
        LLVMFuzzerTestOneInput(data, size);
        free(data);
        inputs++;
    } while (now() < until);
    return inputs;
}

/* ---- the storm ------------------------------------------------------------------------------------------- */

typedef struct {
    hc_source source;
    int fd;
    uint8_t *base;
    double until;
    uint64_t seed;
    atomic_ulong passes;
} storm;

static void *read_on(void *argument)
{
    storm *s = argument;
    const hc_bounds bounds = {20000, 40000};
    do {
        check_figures(&s->source, HC_MAX_DEVICES, bounds);
        check_copy(&s->source, bounds, 0);
        check_small_reads(&s->source, (uint64_t)s->source.layout->limit, 8);
        atomic_fetch_add(&s->passes, 1);
    } while (now() < s->until);
    return NULL;
}

typedef struct {
    uint8_t *place;
    uint64_t value;
} scribble;

static void scribble_once(void *argument)
{
    const scribble *what = argument;
    __atomic_store_n((uint64_t *)(void *)what->place, what->value, __ATOMIC_RELAXED);
}

/* Any word of the region to anything, surviving the cuts as the reader does. */
static void *scribble_on(void *argument)
{
    storm *s = argument;
    const hc_layout *lo = s->source.layout;
    uint64_t random = s->seed ^ (uint64_t)(uintptr_t)&random;
    while (now() < s->until)
        for (int i = 0; i < 64; i++) {
            uint64_t words = (uint64_t)(draw(&random) & 1 ? lo->procs + 4 * lo->slot_size : lo->region_size) / 8;
            scribble what = {s->base + draw(&random) % words * 8, draw(&random) >> draw(&random) % 64};
            hc_guarded(scribble_once, &what, s->base, s->source.length);
        }
    return NULL;
}

static void cut_and_restore(const storm *s, uint64_t *random)
{
    const hc_layout *lo = s->source.layout;
    const off_t sizes[] = {0, 4096, lo->region_size - 1, lo->region_size + 1, lo->region_size + 8192};
    int32_t magic = (int32_t)lo->magic, people = (int32_t)(draw(random) % 8);
    uint64_t devices = (uint64_t)lo->device_count;
    int done = ftruncate(s->fd, sizes[draw(random) % 5]) == 0 && ftruncate(s->fd, lo->region_size + 1) == 0
               && pwrite(s->fd, &devices, sizeof devices, lo->device_num) == sizeof devices
               && pwrite(s->fd, &people, sizeof people, lo->proc_num) == sizeof people
               && pwrite(s->fd, &magic, sizeof magic, lo->magic_offset) == sizeof magic;
    CHECK(done);
}

static unsigned long brew(const hc_layout *lo, double until, uint64_t *random)
{
    storm s = {.fd = memfd_create("storm", MFD_CLOEXEC), .until = until, .seed = draw(random)};
    CHECK(s.fd >= 0);
    cut_and_restore(&s, (s.source.layout = lo, random));
    s.base = hc_map(s.fd, (uint64_t)lo->region_size, 1);
    CHECK(s.base != NULL);
    s.source.base = s.base;
    s.source.length = (uint64_t)lo->region_size;
    s.source.fd = -1;
    pthread_t threads[READERS + SCRIBBLERS];
    for (int i = 0; i < READERS + SCRIBBLERS; i++)
        CHECK(pthread_create(&threads[i], NULL, i < READERS ? read_on : scribble_on, &s) == 0);
    while (now() < until) {
        cut_and_restore(&s, random);
        nanosleep(&(struct timespec){0, (long)(draw(random) % 300000)}, NULL);
    }
    for (int i = 0; i < READERS + SCRIBBLERS; i++)
        pthread_join(threads[i], NULL);
    hc_unmap(s.base, s.source.length);
    close(s.fd);
    return atomic_load(&s.passes);
}

int main(int argc, char **argv)
{
    if (argc < 4) {
        fprintf(stderr, "usage: fuzz_reader SECONDS SEED TABLE...\n");
        return 2;
    }
    double seconds = atof(argv[1]), start = now();
    uint64_t random = strtoull(argv[2], NULL, 0) * 0x9E3779B97F4A7C15u + 1;
    for (int i = 3; i < argc; i++)
        read_table(argv[i]);
    unsigned long inputs = fuzz(start + seconds / 2, &random), passes = 0;
    for (unsigned i = 0; i < table_count; i++) {
        hc_layout small = with_slots(tables[i], STORM_SLOTS);
        passes += brew(&small, start + seconds / 2 * (1 + (i + 1.0) / table_count), &random);
    }
    printf("%lu inputs, %lu stormy passes\n", inputs, passes);
    return 0;
}

#endif
