/* A libvgpu-like writer for tests and demos: real processes and threads that write into a cache file of any
 * layout, at full speed, under the real protocol. It checks nothing itself.
 *
 *     writer TABLE FILE [key=value ...]
 *
 * TABLE is a text of `name offset` lines (writers.py makes it from a layout); FILE is a cache that is initialised
 * already. Prints `ready PID ...` once every process has its slot, then obeys orders on stdin, one a line, and
 * answers `done` to each; the end of stdin ends it, with a clean exit of every process.
 *
 *     exit N        process N exits cleanly              cut BYTES   truncate or extend the file
 *     kill N        SIGKILL wherever it is               delete      unlink it
 *     die N         SIGKILL inside an update             replace     put a copy in its place
 *     odd N         one thread forgets to close an update, and goes on
 *
 * keys: processes threads mode devices exit pause_us watcher_ms population hostpid_above seed
 * modes: random  adds and removes sizes as a program would
 *        ring    every thread walks its own unit through all parts of all devices, one call each: at any moment
 *                the parts that hold it are neighbours
 *        joint   one section changes every part of every device: module is 2, data 3 times context, everywhere
 *        still   adds its unit to every context, then does nothing
 *        churn   plays `population` processes that exit and register in turn, so that slots move all the time
 * exit: move   the last slot moves into the free one (up to v1-seqlock)
 *       clear  pid and status become 0; whoever registers next moves slots (since)
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MAX_PROCESSES = 64, MAX_THREADS = 64, CHUNKS = 32, UNIT_BITS = 8, UNITS = 6, SPINS = 4096 };

#define OFFSETS(X)                                                                                            \
    X(region_size) X(proc_num) X(recent_kernel) X(last_kernel_time) X(owner_pid) X(sem) X(procs) X(slot_size)  \
    X(slot_count) X(pid) X(hostpid) X(status) X(seqlock) X(used) X(used_size) X(total) X(context) X(module)    \
    X(data) X(sm) X(util_size) X(monitorused)

static struct {
#define DECLARE(name) int64_t name;
    OFFSETS(DECLARE)
} at;

static struct {
    long processes, threads, devices, pause_us, watcher_ms, population, hostpid_above, seed;
    const char *mode, *exit;
} option = {1, 1, 1, 0, 0, 4, 100000, 1, "random", "move"};

typedef enum { GO_ON, EXIT, DIE, FORGET } order;

static _Atomic int *orders;     /* one for each process, shared with them */
static _Atomic int *registered; /* how many have their slot */
static uint8_t *region;

static void fail(const char *what)
{
    fprintf(stderr, "writer: %s: %s\n", what, errno ? strerror(errno) : "unusable");
    _exit(2);    /* exit() in a child would print its parent's output again */
}

/* ---- the region ---------------------------------------------------------------------------------------- */

static uint64_t *word(uint8_t *base, int64_t offset)
{
    return (uint64_t *)(void *)(base + offset);
}

static int32_t *half(uint8_t *base, int64_t offset)
{
    return (int32_t *)(void *)(base + offset);
}

static uint8_t *slot_at(int64_t index)
{
    return region + at.procs + index * at.slot_size;
}

static uint8_t *record(uint8_t *slot, long device)
{
    return slot + at.used + device * at.used_size;
}

static void add(uint64_t *place, uint64_t amount)
{
    __atomic_fetch_add(place, amount, __ATOMIC_RELEASE);
}

static void count_up(uint8_t *slot)
{
    if (at.seqlock >= 0)
        add(word(slot, at.seqlock), 1);
}

static int64_t part_at(long part)
{
    const int64_t parts[3] = {at.context, at.module, at.data};
    return parts[part];
}

static void lock_region(int32_t pid)
{
    uint64_t *owner = word(region, at.owner_pid);
    for (unsigned spin = 0;; spin++) {
        uint64_t free = 0;
        if (__atomic_compare_exchange_n(owner, &free, (uint64_t)pid, 0, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
            break;
        if (spin % SPINS == 0 && kill((pid_t)free, 0) != 0 && errno == ESRCH)
            __atomic_compare_exchange_n(owner, &free, 0, 0, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);
        sched_yield();
    }
    if (at.sem >= 0)
        __atomic_store_n(half(region, at.sem), 0, __ATOMIC_SEQ_CST);
}

static void unlock_region(void)
{
    if (at.sem >= 0)
        __atomic_store_n(half(region, at.sem), 1, __ATOMIC_SEQ_CST);
    __atomic_store_n(word(region, at.owner_pid), 0, __ATOMIC_SEQ_CST);
}

static int32_t slots_in_use(void)
{
    return __atomic_load_n(half(region, at.proc_num), __ATOMIC_SEQ_CST);
}

static void set_slots_in_use(int32_t number)
{
    __atomic_store_n(half(region, at.proc_num), number, __ATOMIC_SEQ_CST);
}

/* Move the last slot into a free one. `manner` picks what nothing promises: whether the count comes first, and
 * whether the copy runs upwards or downwards (memcpy may do either, and glibc's stores the pid last). */
static void move_last_into(int64_t index, int32_t manner)
{
    int32_t last = slots_in_use() - 1;
    int64_t words = at.slot_size / 8;
    if (manner & 1)
        set_slots_in_use(last);
    for (int64_t k = 0; k < words; k++) {
        int64_t place = 8 * (manner & 2 ? k : words - 1 - k);
        __atomic_store_n(word(slot_at(index), place), *word(slot_at(last), place), __ATOMIC_RELAXED);
    }
    if (!(manner & 1))
        set_slots_in_use(last);
}

static int64_t find(int32_t pid)
{
    for (int64_t i = 0; i < slots_in_use(); i++)
        if (*half(slot_at(i), at.pid) == pid)
            return i;
    return -1;
}

static uint8_t *enter(int32_t pid, int32_t owner)
{
    lock_region(owner);
    for (int64_t i = 0; i < slots_in_use();)
        if (*half(slot_at(i), at.status) == 0)
            move_last_into(i, pid);
        else
            i++;
    int32_t index = slots_in_use();
    if (index >= at.slot_count)
        fail("no free slot");
    uint8_t *slot = slot_at(index);
    memset(slot, 0, (size_t)at.slot_size);
    *half(slot, at.pid) = pid;
    *half(slot, at.hostpid) = (int32_t)(pid + option.hostpid_above);
    *half(slot, at.status) = 1;
    set_slots_in_use(index + 1);
    unlock_region();
    return slot;
}

static void leave(int32_t pid, int32_t owner)
{
    lock_region(owner);
    int64_t index = find(pid);
    if (index >= 0 && strcmp(option.exit, "clear") == 0) {
        *half(slot_at(index), at.pid) = 0;
        *half(slot_at(index), at.status) = 0;
    } else if (index >= 0) {
        memset(record(slot_at(index), 0), 0, (size_t)(option.devices * at.used_size));
        move_last_into(index, pid);
    }
    unlock_region();
}

/* ---- one thread ---------------------------------------------------------------------------------------- */

typedef struct {
    long process, thread;
    uint8_t *slot;
    uint64_t random, unit;
    pthread_t id;
} worker;

static uint64_t draw(worker *w)
{
    w->random ^= w->random << 13;
    w->random ^= w->random >> 7;
    w->random ^= w->random << 17;
    return w->random;
}

static void rest(long us)
{
    if (us > 0)
        nanosleep(&(struct timespec){us / 1000000, us % 1000000 * 1000}, NULL);
}

/* Whether to go on. One thread obeys the orders that concern its slot. */
static int going_on(const worker *w)
{
    int now = atomic_load_explicit(&orders[w->process], memory_order_relaxed);
    if (w->thread == 0 && now == FORGET) {
        count_up(w->slot);
        atomic_store(&orders[w->process], GO_ON);
    }
    if (w->thread == 0 && now == DIE) {
        count_up(w->slot);
        add(word(record(w->slot, 0), at.total), w->unit);
        raise(SIGKILL);
    }
    return now != EXIT;
}

/* One call, as add_gpu_device_memory_usage and its twin make it: the total, then one part. */
static void call(const worker *w, long device, long part, uint64_t amount)
{
    uint8_t *memory = record(w->slot, device);
    count_up(w->slot);
    add(word(memory, at.total), amount);
    add(word(memory, part_at(part)), amount);
    count_up(w->slot);
    rest(option.pause_us);
}

static void work_random(worker *w)
{
    struct {
        long device, part;
        uint64_t amount;
    } chunks[CHUNKS] = {0};
    while (going_on(w)) {
        size_t k = draw(w) % CHUNKS;
        if (chunks[k].amount) {
            call(w, chunks[k].device, chunks[k].part, -chunks[k].amount);
            chunks[k].amount = 0;
        } else {
            chunks[k].device = (long)(draw(w) % (uint64_t)option.devices);
            chunks[k].part = (long)(draw(w) % 3);
            chunks[k].amount = (draw(w) % 128 + 1) << 21;
            call(w, chunks[k].device, chunks[k].part, chunks[k].amount);
        }
    }
}

static void work_ring(worker *w)
{
    long places = 3 * option.devices;
    for (long step = 0; going_on(w); step = (step + 1) % (2 * places)) {
        long place = step % places;
        call(w, place / 3, place % 3, step < places ? w->unit : -w->unit);
    }
}

static void work_joint(worker *w)
{
    uint64_t held = 0;
    while (going_on(w)) {
        uint64_t amount = held ? -held : (draw(w) % 1000 + 1) << 10;
        held += amount;
        count_up(w->slot);
        for (long d = 0; d < option.devices; d++) {
            uint8_t *memory = record(w->slot, d);
            add(word(memory, at.total), 6 * amount);
            for (long part = 0; part < 3; part++)
                add(word(memory, part_at(part)), (uint64_t)(part + 1) * amount);
        }
        count_up(w->slot);
        rest(option.pause_us);
    }
}

static void work_still(worker *w)
{
    for (long d = 0; d < option.devices; d++)
        call(w, d, 0, w->unit);
    while (going_on(w))
        rest(1000);
}

/* Several processes in one: they exit and register in turn, each with a unit of its own and ever new pids. */
static void work_churn(worker *w)
{
    int32_t owner = getpid(), next = (int32_t)(w->process + 1) << 20;
    int32_t pids[UNITS] = {0};
    long people = option.population < UNITS ? option.population : UNITS;
    for (long turn = 0, entered = 0; entered < people || going_on(w); turn = (turn + 1) % people) {
        if (entered == people)
            leave(pids[turn], owner);
        pids[turn] = next++;
        w->slot = enter(pids[turn], owner);
        w->unit = (uint64_t)1 << UNIT_BITS * turn;
        for (long d = 0; d < option.devices; d++)
            call(w, d, 0, w->unit);
        if (entered < people && ++entered == people)
            atomic_fetch_add(registered, 1);
    }
    for (long k = 0; k < people; k++)
        leave(pids[k], owner);
}

static void *work(void *argument)
{
    static const struct {
        const char *name;
        void (*work)(worker *);
    } modes[] = {{"random", work_random}, {"ring", work_ring}, {"joint", work_joint}, {"still", work_still},
                 {"churn", work_churn}};
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
        if (strcmp(option.mode, modes[i].name) == 0)
            modes[i].work(argument);
    return NULL;
}

/* As libvgpu's watcher: everything to zero, then what was measured; and the kernels that ran meanwhile. */
static void *watch(void *argument)
{
    worker *w = argument;
    while (going_on(w)) {
        for (int refill = 0; refill < 2; refill++)
            for (long d = 0; d < option.devices; d++) {
                uint64_t used = __atomic_load_n(word(record(w->slot, d), at.total), __ATOMIC_RELAXED);
                if (at.sm >= 0)
                    __atomic_store_n(word(w->slot, at.sm + d * at.util_size), refill ? draw(w) % 101 : 0,
                                     __ATOMIC_RELAXED);
                if (at.monitorused >= 0)
                    __atomic_store_n(word(w->slot, at.monitorused + 8 * d), refill ? used : 0, __ATOMIC_RELAXED);
            }
        if (at.last_kernel_time >= 0)
            __atomic_store_n(word(region, at.last_kernel_time), (uint64_t)time(NULL), __ATOMIC_RELAXED);
        if (__atomic_load_n(half(region, at.recent_kernel), __ATOMIC_RELAXED) >= 0)
            __atomic_store_n(half(region, at.recent_kernel), 2, __ATOMIC_RELAXED);
        rest(option.watcher_ms * 1000);
    }
    return NULL;
}

static void be_a_process(long process)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    int churns = strcmp(option.mode, "churn") == 0;
    uint8_t *slot = churns ? NULL : enter(getpid(), getpid());
    if (!churns)
        atomic_fetch_add(registered, 1);
    worker workers[MAX_THREADS], watcher = {process, -1, slot, (uint64_t)option.seed + 77, 0, 0};
    for (long t = 0; t < option.threads; t++) {
        uint64_t number = (uint64_t)(process * option.threads + t);
        workers[t] = (worker){process, t, slot, (uint64_t)option.seed * 0x9E3779B97F4A7C15u + number + 1,
                              (uint64_t)1 << UNIT_BITS * (number % UNITS), 0};
        if (pthread_create(&workers[t].id, NULL, work, &workers[t]))
            fail("thread");
    }
    if (option.watcher_ms > 0 && !churns)
        watch(&watcher);
    for (long t = 0; t < option.threads; t++)
        pthread_join(workers[t].id, NULL);
    if (!churns)
        leave(getpid(), getpid());
    _exit(0);
}

/* ---- the supervisor ------------------------------------------------------------------------------------ */

static void read_table(const char *path)
{
    static const struct {
        const char *name;
        int64_t *value;
    } known[] = {
#define KNOW(name) {#name, &at.name},
        OFFSETS(KNOW)
    };
    FILE *file = fopen(path, "r");
    char name[64];
    long long value;
    size_t found = 0;
    if (file == NULL)
        fail(path);
    while (fscanf(file, "%63s %lld", name, &value) == 2)
        for (size_t i = 0; i < sizeof known / sizeof *known; i++)
            if (strcmp(name, known[i].name) == 0) {
                *known[i].value = value;
                found++;
            }
    fclose(file);
    if (found != sizeof known / sizeof *known)
        fail("the table lacks offsets");
}

static void read_option(char *text)
{
    struct {
        const char *name;
        long *value;
    } numbers[] = {{"processes", &option.processes}, {"threads", &option.threads},
                   {"devices", &option.devices},     {"pause_us", &option.pause_us},
                   {"watcher_ms", &option.watcher_ms}, {"population", &option.population},
                   {"hostpid_above", &option.hostpid_above}, {"seed", &option.seed}};
    char *value = strchr(text, '=');
    if (value == NULL)
        fail(text);
    *value++ = '\0';
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (strcmp(text, numbers[i].name) == 0)
            *numbers[i].value = atol(value);
    if (strcmp(text, "mode") == 0)
        option.mode = value;
    if (strcmp(text, "exit") == 0)
        option.exit = value;
}

static void *shared(size_t length)
{
    void *memory = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        fail("shared memory");
    return memory;
}

/* As every libvgpu does when it opens a file: one byte behind the region, so that it is as long as it must be. */
static int open_region(const char *path)
{
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0 || pwrite(fd, "", 1, at.region_size) != 1)
        fail(path);
    region = mmap(NULL, (size_t)at.region_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (region == MAP_FAILED)
        fail(path);
    return fd;
}

static void replace(int fd, const char *path)
{
    char fresh[4096], block[65536];
    ssize_t length;
    snprintf(fresh, sizeof fresh, "%s.new", path);
    int copy = open(fresh, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (copy < 0)
        fail(fresh);
    for (off_t done = 0; (length = pread(fd, block, sizeof block, done)) > 0; done += length)
        if (write(copy, block, (size_t)length) != length)
            fail(fresh);
    close(copy);
    if (rename(fresh, path) != 0)
        fail(path);
}

/* Give an order to a process and see it carried out. */
static void command(pid_t *pids, long process, order what, int signal_number)
{
    if (process < 0 || process >= option.processes || pids[process] == 0)
        return;
    atomic_store(&orders[process], what);
    if (signal_number)
        kill(pids[process], signal_number);
    if (what == FORGET)
        while (atomic_load(&orders[process]) == FORGET && waitpid(pids[process], NULL, WNOHANG) == 0)
            rest(100);
    else if (waitpid(pids[process], NULL, 0) == pids[process])
        pids[process] = 0;
}

static void obey(char *line, pid_t *pids, int fd, const char *path)
{
    char verb[16] = "";
    long number = -1;
    sscanf(line, "%15s %ld", verb, &number);
    if (strcmp(verb, "exit") == 0)
        command(pids, number, EXIT, 0);
    else if (strcmp(verb, "kill") == 0)
        command(pids, number, GO_ON, SIGKILL);
    else if (strcmp(verb, "die") == 0)
        command(pids, number, DIE, 0);
    else if (strcmp(verb, "odd") == 0)
        command(pids, number, FORGET, 0);
    else if (strcmp(verb, "cut") == 0 && ftruncate(fd, number) != 0)
        fail("cut");
    else if (strcmp(verb, "delete") == 0 && unlink(path) != 0)
        fail("delete");
    else if (strcmp(verb, "replace") == 0)
        replace(fd, path);
}

int main(int argc, char **argv)
{
    if (argc < 3)
        fail("usage: writer TABLE FILE [key=value ...]");
    read_table(argv[1]);
    for (int i = 3; i < argc; i++)
        read_option(argv[i]);
    if (option.processes > MAX_PROCESSES || option.threads > MAX_THREADS)
        fail("too many processes or threads");
    int fd = open_region(argv[2]);
    orders = shared(MAX_PROCESSES * sizeof *orders);
    registered = shared(sizeof *registered);
    pid_t pids[MAX_PROCESSES] = {0};
    printf("ready");
    fflush(stdout);
    for (long i = 0; i < option.processes; i++) {
        if ((pids[i] = fork()) == 0)
            be_a_process(i);
        while (atomic_load(registered) <= i && waitpid(pids[i], NULL, WNOHANG) == 0)
            rest(100);
        printf(" %d", pids[i]);
    }
    printf("\n");
    fflush(stdout);
    char line[64];
    while (fgets(line, sizeof line, stdin)) {
        obey(line, pids, fd, argv[2]);
        printf("done\n");
        fflush(stdout);
    }
    for (long i = 0; i < option.processes; i++)
        command(pids, i, EXIT, 0);
    return 0;
}
