/* What Python sees. build_reader.py reads this file: keep it to plain declarations. */

/* A layout as offsets in bytes; -1 where the layout has no such field. */
typedef struct {
    int64_t region_size;
    int64_t magic_offset, magic;
    int64_t device_num, limit, sm_limit;
    int64_t proc_num, utilization_switch, recent_kernel, priority, last_kernel_time, owner_pid;
    int64_t procs, slot_size, slot_count, device_count;
    int64_t pid, hostpid, status, seqlock;                 /* inside a slot */
    int64_t used, used_size;                               /* the first record inside a slot, and the step */
    int64_t total, context, module, data, offset;          /* inside a memory record */
    int64_t sm, util_size;                                 /* the first value inside a slot, and the step */
    int64_t monitorused;                                   /* the first value inside a slot */
} hc_layout;

/* One mapped file. `skip` is NULL or a host pid for each slot (0: none): a slot that has it is left out of the sums.
 * Slots move, so an index alone would leave out somebody else. */
typedef struct {
    const uint8_t *base;
    uint64_t length;
    const hc_layout *layout;
    const int32_t *skip;
    int32_t fd;                                            /* -1: do not ask whether the file is still there */
} hc_source;

/* What a pass over one container found. */
typedef struct {
    int32_t status;                                        /* 0 read, 1 gone, 2 not initialised, 3 unsettled */
    int32_t proc_num;
    uint64_t device_num;
    int32_t utilization_switch, recent_kernel, priority;
    uint32_t running, suspended, odd_status, exited, skipped, duplicates, hostpid_unknown;
    uint32_t stable, torn, stuck, unprotected, unbalanced;
    uint32_t watched;                                      /* the utilization watcher has left a trace */
    uint32_t retries;
    uint32_t locked;                                       /* 1: read while a process held the region's lock */
    uint64_t last_kernel_time;
} hc_report;

/* Bounds of the waiting, in nanoseconds: for one container's slots together, and for a whole call. */
typedef struct {
    uint64_t slot_budget;
    uint64_t call_budget;
} hc_bounds;

/* The first member of a layout that the reader cannot use (see layout.c), or NULL: everything else may be called. */
const char *hc_layout_fault(const hc_layout *layout);

/* Map a file read-only or read-write; NULL on failure. Installs the SIGBUS guard. */
void *hc_map(int fd, uint64_t length, int writable);
int hc_unmap(void *base, uint64_t length);

/* Figures of many containers: out[count][devices][columns], flags[count][devices], reports[count]. */
void hc_figures(const hc_source *sources, size_t count, hc_bounds bounds, size_t devices,
                uint64_t *out, uint32_t *flags, hc_report *reports);

/* A consistent private copy of a whole region: slots one by one, `verdicts` one byte a slot. */
void hc_copy(const hc_source *source, hc_bounds bounds, uint8_t *out, uint8_t *verdicts, hc_report *report);

/* Aligned 32-bit access for the feedback loop; 1 on success, 0 when the file is gone. */
int hc_store32(void *base, uint64_t length, uint64_t offset, int32_t value);
int hc_load32_many(const void *base, uint64_t length, const uint64_t *offsets, size_t count, int32_t *out);

/* A piece of a region that is not protected by anything (uuids); 1 on success. */
int hc_read_bytes(const void *base, uint64_t length, uint64_t offset, uint64_t count, uint8_t *out);

/* (pid, hostpid, status) of every slot below proc_num, at most `room`; their number, or -1 when gone. */
int64_t hc_processes(const hc_source *source, int32_t *out, uint64_t room);

/* Let all threads allocate from one heap (glibc): for a process that has to stay small. */
void hc_one_heap(void);
