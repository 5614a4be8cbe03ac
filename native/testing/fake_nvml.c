/* A libnvidia-ml.so.1 that answers what a script tells it to.
 *
 * A test double that is a real shared library: nvidia-ml-py (or any other NVML client) loads it by name and calls it.
 * The script is the file named by HAMI_FAKE_NVML. It is looked at on every call and read again when it was replaced,
 * so a test changes the machine under a running process by renaming a new script over the old one.
 *
 *     # one directive per line; text runs to the end of the line, with %XX for awkward bytes
 *     return CALL CODE[:COUNT] ...   what CALL answers, one entry per call, the last repeats
 *     hang CALL                      CALL does not come back until the script is replaced; `<script>.hung` appears
 *                                    when somebody is caught in it
 *     device                         a GPU; the lines below it are about it
 *       uuid TEXT / name TEXT / memory TOTAL USED / utilization GPU MEMORY
 *       temperature C / power MILLIWATTS / ecc COUNT / mig MODE
 *       process PID BYTES            a row of the compute process list
 *       sample PID TIMESTAMP SM      a row of the utilization samples
 *       return and hang as above
 *       lost                         the GPU fell off the bus; it stays lost until NVML is initialised again
 *     slice                          a MIG device of the GPU above; takes the same lines, and
 *       null                         its handle is answered as NULL
 *
 * CALL is the exported symbol. With a code other than 0 nothing is written but COUNT; with `0:COUNT` a list call
 * claims COUNT rows whatever its buffer holds, and writes no more than fit (rows the script lacks get pids 1, 2, ...).
 * Without a script nvmlInit answers DRIVER_NOT_LOADED, as on a machine without the driver. While initialised,
 * `<script>.ctl` is held open as the real library holds /dev/nvidiactl; if `<script>.calls` exists, every call is
 * appended to it:
 *
 *     CALL DEVICE SLICE BUFFER COUNT CODE      (-1 where there is no device or slice; BUFFER is 0 for NULL)
 *
 * Variants, chosen when compiling: FAKE_WITHOUT_V3 and FAKE_WITHOUT_V2 leave those process lists out as old drivers
 * do; FAKE_WIDE_V3 is an early R535 driver, whose v3 rows are 32 bytes wide.
 */
#define _POSIX_C_SOURCE 200809L

#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

enum {
    SUCCESS = 0,
    UNINITIALIZED = 1,
    INVALID_ARGUMENT = 2,
    NOT_FOUND = 6,
    INSUFFICIENT_SIZE = 7,
    DRIVER_NOT_LOADED = 9,
    GPU_IS_LOST = 15,
};

enum { MAX_DEVICES = 512, MAX_SLICES = 64, MAX_TEXT = 256, MAX_CALL = 64, NATURAL = -1 };

typedef void *nvmlDevice_t;

typedef struct { unsigned long long total, free, used; } memory_v1;
typedef struct { unsigned version; unsigned long long total, reserved, free, used; } memory_v2;
typedef struct { unsigned gpu, memory; } utilization;
typedef struct { unsigned pid; unsigned long long bytes; } process_v1;
typedef struct { unsigned pid; unsigned long long bytes; unsigned gpu_instance, compute_instance; } process_v2;
typedef struct { unsigned pid; unsigned long long stamp; unsigned sm, memory, encoder, decoder; } sample;

/* ---- the machine a script describes ---- */

typedef struct { int code; long long count; } step;
typedef struct { char call[MAX_CALL]; step *steps; size_t length, position; } sequence;

typedef struct target {
    char uuid[MAX_TEXT], name[MAX_TEXT], hang[MAX_CALL];
    unsigned long long total, used, ecc;
    unsigned gpu, memory, temperature, power, mig;
    bool lost, null;
    process_v1 *processes;
    sample *samples;
    sequence *sequences;
    struct target *slices;
    size_t process_count, sample_count, sequence_count, slice_count;
} target;

static struct {
    pthread_mutex_t mutex;
    target root; /* its slices are the GPUs */
    struct stat script;
    unsigned users;
    int control;
    bool lost[MAX_DEVICES];
} machine = {.mutex = PTHREAD_MUTEX_INITIALIZER, .control = -1};

/* A handle is an address in here: it stays valid, and tells its device, whatever becomes of the script. */
static unsigned char handles[MAX_DEVICES][MAX_SLICES + 1];

static void *grow(void *array, size_t *length, size_t size) {
    char *grown = realloc(array, (*length + 1) * size);
    if (grown == NULL) abort();
    memset(grown + *length * size, 0, size);
    ++*length;
    return grown;
}

static void clear(target *t) {
    for (size_t i = 0; i < t->sequence_count; i++) free(t->sequences[i].steps);
    for (size_t i = 0; i < t->slice_count; i++) clear(&t->slices[i]);
    free(t->processes);
    free(t->samples);
    free(t->sequences);
    free(t->slices);
    memset(t, 0, sizeof *t);
}

static target *add_slice(target *parent) {
    parent->slices = grow(parent->slices, &parent->slice_count, sizeof *parent->slices);
    return &parent->slices[parent->slice_count - 1];
}

/* ---- reading the script ---- */

static void unescape(char *out, const char *text) {
    size_t length = 0;
    while (*text != '\0' && length < MAX_TEXT - 1) {
        unsigned byte;
        if (*text == '%' && sscanf(text + 1, "%2x", &byte) == 1) {
            out[length++] = (char)byte;
            text += 3;
        } else {
            out[length++] = *text++;
        }
    }
    out[length] = '\0';
}

static void add_sequence(target *t, char *words) {
    char *rest = NULL, *call = strtok_r(words, " ", &rest);
    if (call == NULL) return;
    t->sequences = grow(t->sequences, &t->sequence_count, sizeof *t->sequences);
    sequence *s = &t->sequences[t->sequence_count - 1];
    snprintf(s->call, sizeof s->call, "%s", call);
    for (char *word; (word = strtok_r(NULL, " ", &rest)) != NULL;) {
        step next = {.count = NATURAL};
        sscanf(word, "%d:%lld", &next.code, &next.count);
        s->steps = grow(s->steps, &s->length, sizeof *s->steps);
        s->steps[s->length - 1] = next;
    }
}

static void read_attribute(target *t, const char *word, char *rest) {
    if (strcmp(word, "uuid") == 0) unescape(t->uuid, rest);
    else if (strcmp(word, "name") == 0) unescape(t->name, rest);
    else if (strcmp(word, "hang") == 0) snprintf(t->hang, sizeof t->hang, "%s", rest);
    else if (strcmp(word, "return") == 0) add_sequence(t, rest);
    else if (strcmp(word, "memory") == 0) sscanf(rest, "%llu %llu", &t->total, &t->used);
    else if (strcmp(word, "utilization") == 0) sscanf(rest, "%u %u", &t->gpu, &t->memory);
    else if (strcmp(word, "temperature") == 0) sscanf(rest, "%u", &t->temperature);
    else if (strcmp(word, "power") == 0) sscanf(rest, "%u", &t->power);
    else if (strcmp(word, "ecc") == 0) sscanf(rest, "%llu", &t->ecc);
    else if (strcmp(word, "mig") == 0) sscanf(rest, "%u", &t->mig);
    else if (strcmp(word, "lost") == 0) t->lost = true;
    else if (strcmp(word, "null") == 0) t->null = true;
    else if (strcmp(word, "process") == 0) {
        t->processes = grow(t->processes, &t->process_count, sizeof *t->processes);
        process_v1 *p = &t->processes[t->process_count - 1];
        sscanf(rest, "%u %llu", &p->pid, &p->bytes);
    } else if (strcmp(word, "sample") == 0) {
        t->samples = grow(t->samples, &t->sample_count, sizeof *t->samples);
        sample *s = &t->samples[t->sample_count - 1];
        sscanf(rest, "%u %llu %u", &s->pid, &s->stamp, &s->sm);
    } else {
        fprintf(stderr, "fake_nvml: unknown directive: %s\n", word);
        abort(); /* a typing error in a test must not pass as a quiet GPU */
    }
}

static void parse(FILE *file) {
    char *line = NULL;
    size_t room = 0;
    target *current = &machine.root;
    clear(&machine.root);
    while (getline(&line, &room, file) != -1) {
        line[strcspn(line, "\n")] = '\0';
        char *word = line + strspn(line, " "), *rest = word + strcspn(word, " ");
        if (*rest != '\0') *rest++ = '\0';
        target *devices = machine.root.slices;
        size_t count = machine.root.slice_count;
        if (*word == '\0' || *word == '#') continue;
        if (strcmp(word, "device") == 0 && count < MAX_DEVICES) current = add_slice(&machine.root);
        else if (strcmp(word, "slice") == 0 && count > 0 && devices[count - 1].slice_count < MAX_SLICES)
            current = add_slice(&devices[count - 1]);
        else read_attribute(current, word, rest);
    }
    free(line);
    for (size_t i = 0; i < machine.root.slice_count; i++) machine.lost[i] |= machine.root.slices[i].lost;
}

static bool same_file(const struct stat *a, const struct stat *b) {
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/* Read the script again if it was replaced. A script that has gone leaves the machine as it was. */
static bool refresh(void) {
    const char *path = getenv("HAMI_FAKE_NVML");
    FILE *file = path == NULL ? NULL : fopen(path, "re");
    struct stat now;
    if (file == NULL) return false;
    if (fstat(fileno(file), &now) == 0 && !same_file(&now, &machine.script)) {
        machine.script = now;
        parse(file);
    }
    fclose(file);
    return true;
}

static int open_beside_script(const char *suffix, int flags) {
    const char *path = getenv("HAMI_FAKE_NVML");
    char name[4096];
    if (path == NULL) return -1;
    snprintf(name, sizeof name, "%s%s", path, suffix);
    return open(name, flags | O_CLOEXEC, 0600);
}

/* ---- one call ---- */

typedef struct {
    const char *name;
    target *on;
    int device, slice, code;
    long long count; /* what a list call shall claim, or NATURAL */
    unsigned buffer, count_in;
} call;

static void locate(call *c, nvmlDevice_t handle) {
    uintptr_t start = (uintptr_t)handles, at = (uintptr_t)handle;
    c->on = NULL;
    if (at < start || at >= start + sizeof handles) {
        c->code = INVALID_ARGUMENT;
        return;
    }
    size_t offset = at - start;
    c->device = (int)(offset / sizeof handles[0]);
    c->slice = (int)(offset % sizeof handles[0]) - 1;
    c->code = GPU_IS_LOST;
    if ((size_t)c->device >= machine.root.slice_count || machine.lost[c->device]) return;
    target *device = &machine.root.slices[c->device];
    if (c->slice >= (int)device->slice_count) return;
    c->on = c->slice < 0 ? device : &device->slices[c->slice];
    c->code = SUCCESS;
}

static void follow_script(call *c, target *t) {
    for (size_t i = 0; i < t->sequence_count; i++) {
        sequence *s = &t->sequences[i];
        if (strcmp(s->call, c->name) != 0 || s->length == 0) continue;
        step now = s->steps[s->position];
        if (s->position + 1 < s->length) s->position++;
        c->code = now.code;
        c->count = now.count;
    }
}

static void wait_for_another_script(void) {
    const struct stat hung = machine.script;
    const struct timespec pause = {.tv_nsec = 2000000};
    int mark = open_beside_script(".hung", O_WRONLY | O_CREAT);
    if (mark >= 0) close(mark);
    while (refresh() && same_file(&hung, &machine.script)) {
        pthread_mutex_unlock(&machine.mutex);
        nanosleep(&pause, NULL);
        pthread_mutex_lock(&machine.mutex);
    }
}

static call begin(const char *name, nvmlDevice_t handle) {
    call c = {.name = name, .device = -1, .slice = -1, .count = NATURAL};
    pthread_mutex_lock(&machine.mutex);
    refresh();
    if (machine.users == 0) {
        c.code = UNINITIALIZED;
        return c;
    }
    locate(&c, handle);
    if (c.on != NULL && strcmp(c.on->hang, name) == 0) {
        wait_for_another_script();
        locate(&c, handle);
    }
    if (c.on != NULL) follow_script(&c, c.on);
    return c;
}

static call begin_global(const char *name) {
    call c = {.name = name, .device = -1, .slice = -1, .count = NATURAL};
    pthread_mutex_lock(&machine.mutex);
    bool script = refresh();
    if (strcmp(machine.root.hang, name) == 0) wait_for_another_script();
    if (strncmp(name, "nvmlInit", 8) == 0) c.code = script ? SUCCESS : DRIVER_NOT_LOADED;
    else c.code = machine.users > 0 ? SUCCESS : UNINITIALIZED;
    if (c.code == SUCCESS) follow_script(&c, &machine.root);
    return c;
}

static int end(call c) {
    int log = open_beside_script(".calls", O_WRONLY | O_APPEND);
    if (log >= 0) {
        dprintf(log, "%s %d %d %u %u %d\n", c.name, c.device, c.slice, c.buffer, c.count_in, c.code);
        close(log);
    }
    pthread_mutex_unlock(&machine.mutex);
    return c.code;
}

static int copy_text(call c, char *out, unsigned room, const char *text) {
    if (c.code == SUCCESS && strlen(text) >= room) c.code = INSUFFICIENT_SIZE;
    if (c.code == SUCCESS) memcpy(out, text, strlen(text) + 1);
    return end(c);
}

static int number(call c, unsigned *out, unsigned value) {
    if (c.code == SUCCESS) *out = value;
    return end(c);
}

/* ---- the library ---- */

EXPORT int nvmlInitWithFlags(unsigned flags) {
    call c = begin_global(__func__);
    (void)flags;
    if (c.code == SUCCESS && machine.users++ == 0) {
        machine.control = open_beside_script(".ctl", O_RDWR | O_CREAT);
        memset(machine.lost, 0, sizeof machine.lost);
        for (size_t i = 0; i < machine.root.slice_count; i++) machine.lost[i] = machine.root.slices[i].lost;
    }
    return end(c);
}

EXPORT int nvmlShutdown(void) {
    call c = begin_global(__func__);
    if (c.code == SUCCESS && --machine.users == 0) {
        close(machine.control);
        machine.control = -1;
    }
    return end(c);
}

EXPORT const char *nvmlErrorString(int code) {
    return code == SUCCESS ? "Success" : "an error of the fake NVML";
}

EXPORT int nvmlDeviceGetCount_v2(unsigned *count) {
    call c = begin_global(__func__);
    return number(c, count, c.count == NATURAL ? (unsigned)machine.root.slice_count : (unsigned)c.count);
}

EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *device) {
    if (index >= MAX_DEVICES) return INVALID_ARGUMENT;
    call c = begin(__func__, &handles[index][0]);
    if (c.code == SUCCESS) *device = &handles[index][0];
    return end(c);
}

EXPORT int nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned length) {
    call c = begin(__func__, device);
    return copy_text(c, name, length, c.on == NULL ? "" : c.on->name);
}

EXPORT int nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned length) {
    call c = begin(__func__, device);
    return copy_text(c, uuid, length, c.on == NULL ? "" : c.on->uuid);
}

EXPORT int nvmlDeviceGetMemoryInfo(nvmlDevice_t device, memory_v1 *memory) {
    call c = begin(__func__, device);
    if (c.code == SUCCESS) *memory = (memory_v1){c.on->total, c.on->total - c.on->used, c.on->used};
    return end(c);
}

EXPORT int nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, memory_v2 *memory) {
    call c = begin(__func__, device);
    if (c.code == SUCCESS && memory->version != (sizeof *memory | 2u << 24)) c.code = INVALID_ARGUMENT;
    if (c.code == SUCCESS) {
        *memory = (memory_v2){memory->version, c.on->total, 0, c.on->total - c.on->used, c.on->used};
    }
    return end(c);
}

EXPORT int nvmlDeviceGetUtilizationRates(nvmlDevice_t device, utilization *rates) {
    call c = begin(__func__, device);
    if (c.code == SUCCESS) *rates = (utilization){c.on->gpu, c.on->memory};
    return end(c);
}

EXPORT int nvmlDeviceGetTemperature(nvmlDevice_t device, int sensor, unsigned *celsius) {
    call c = begin(__func__, device);
    (void)sensor;
    return number(c, celsius, c.on == NULL ? 0 : c.on->temperature);
}

EXPORT int nvmlDeviceGetPowerUsage(nvmlDevice_t device, unsigned *milliwatts) {
    call c = begin(__func__, device);
    return number(c, milliwatts, c.on == NULL ? 0 : c.on->power);
}

EXPORT int nvmlDeviceGetTotalEccErrors(nvmlDevice_t device, int type, int counter, unsigned long long *errors) {
    call c = begin(__func__, device);
    (void)type;
    (void)counter;
    if (c.code == SUCCESS) *errors = c.on->ecc;
    return end(c);
}

EXPORT int nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned *current, unsigned *pending) {
    call c = begin(__func__, device);
    if (c.code == SUCCESS) *current = *pending = c.on->mig;
    return end(c);
}

EXPORT int nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t device, unsigned *count) {
    call c = begin(__func__, device);
    unsigned slices = c.on == NULL ? 0 : (unsigned)c.on->slice_count;
    return number(c, count, c.count == NATURAL ? slices : (unsigned)c.count);
}

EXPORT int nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned index, nvmlDevice_t *slice) {
    size_t offset = (size_t)((unsigned char *)device - &handles[0][0]);
    if (offset >= sizeof handles || offset % sizeof handles[0] != 0 || index >= MAX_SLICES) return INVALID_ARGUMENT;
    unsigned char *handle = (unsigned char *)device + index + 1;
    call c = begin(__func__, handle);
    if (c.code == SUCCESS) *slice = c.on->null ? NULL : handle;
    return end(c);
}

/* The count-then-fill protocol: how many rows to write into `room`, and the answer in `c.code` and `*count`. */
static size_t rows_to_write(call *c, size_t there, const void *buffer, unsigned *count) {
    c->count_in = *count;
    c->buffer = buffer == NULL ? 0 : *count;
    size_t room = c->buffer;
    if (c->on == NULL) return 0;
    if (c->count != NATURAL || c->code != SUCCESS) {
        if (c->count != NATURAL) *count = (unsigned)c->count;
        return c->code == SUCCESS && room > 0 ? (*count < room ? *count : room) : 0;
    }
    *count = (unsigned)there;
    if (there > room) {
        c->code = INSUFFICIENT_SIZE;
        return 0;
    }
    return there;
}

static process_v1 process_at(const target *t, size_t i) {
    return i < t->process_count ? t->processes[i] : (process_v1){.pid = (unsigned)i + 1};
}

EXPORT int nvmlDeviceGetComputeRunningProcesses(nvmlDevice_t device, unsigned *count, process_v1 *rows) {
    call c = begin(__func__, device);
    size_t n = rows_to_write(&c, c.on == NULL ? 0 : c.on->process_count, rows, count);
    for (size_t i = 0; i < n; i++) rows[i] = process_at(c.on, i);
    return end(c);
}

#ifndef FAKE_WITHOUT_V2
EXPORT int nvmlDeviceGetComputeRunningProcesses_v2(nvmlDevice_t device, unsigned *count, process_v2 *rows) {
    call c = begin(__func__, device);
    size_t n = rows_to_write(&c, c.on == NULL ? 0 : c.on->process_count, rows, count);
    for (size_t i = 0; i < n; i++) {
        process_v1 row = process_at(c.on, i);
        rows[i] = (process_v2){row.pid, row.bytes, UINT32_MAX, UINT32_MAX};
    }
    return end(c);
}
#endif

#ifndef FAKE_WITHOUT_V3
#ifdef FAKE_WIDE_V3
typedef struct { process_v2 narrow; unsigned long long protected_bytes; } process_v3;
EXPORT int nvmlDeviceGetConfComputeMemSizeInfo(nvmlDevice_t device, void *sizes) {
    (void)device;
    (void)sizes;
    return INVALID_ARGUMENT;
}
#else
typedef struct { process_v2 narrow; } process_v3;
#endif

EXPORT int nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned *count, process_v3 *rows) {
    call c = begin(__func__, device);
    size_t n = rows_to_write(&c, c.on == NULL ? 0 : c.on->process_count, rows, count);
    for (size_t i = 0; i < n; i++) {
        process_v1 row = process_at(c.on, i);
        rows[i] = (process_v3){.narrow = {row.pid, row.bytes, UINT32_MAX, UINT32_MAX}};
    }
    return end(c);
}
#endif

EXPORT int nvmlDeviceGetProcessUtilization(nvmlDevice_t device, sample *rows, unsigned *count, unsigned long long since) {
    call c = begin(__func__, device);
    size_t fresh = 0;
    for (size_t i = 0; c.on != NULL && i < c.on->sample_count; i++) fresh += since == 0 || c.on->samples[i].stamp > since;
    bool scripted = c.count != NATURAL || c.code != SUCCESS;
    size_t n = rows_to_write(&c, fresh, rows, count);
    if (!scripted && c.code == SUCCESS && fresh == 0) c.code = NOT_FOUND;
    size_t written = 0;
    for (size_t i = 0; written < n; i++) {
        bool there = i < c.on->sample_count;
        if (there && since != 0 && c.on->samples[i].stamp <= since) continue;
        rows[written++] = there ? c.on->samples[i] : (sample){.pid = (unsigned)i + 1};
    }
    return end(c);
}
