/* Whether a layout may be used: its table comes from a file that a user wrote.
 *
 * Everything that the reader loads has to lie inside the region, at its natural alignment (a misaligned load is
 * not atomic, and faults on some machines), and the counts within what the reader keeps on its stack.
 */
#include "reader.h"

enum { MAX_REGION = 1 << 30 };

static int number(int64_t place, int64_t width, int64_t room)
{
    return place >= 0 && place % width == 0 && place <= room - width;
}

static int optional(int64_t place, int64_t width, int64_t room)
{
    return place == -1 || number(place, width, room);
}

/* `count` records, `step` apart, of which `width` bytes are read. Nothing overflows: all are below MAX_REGION. */
static int array(int64_t place, int64_t count, int64_t step, int64_t width, int64_t room)
{
    return width > 0 && step >= width && step <= room && step % 8 == 0 && place >= 0 && place % 8 == 0
           && place <= room - (count - 1) * step - width;
}

static int counts(int64_t count, int64_t most)
{
    return count >= 1 && count <= most;
}

static const char *slot_fault(const hc_layout *lo)
{
    const int64_t room = lo->slot_size, devices = lo->device_count;
    if (!number(lo->pid, 4, room))
        return "pid";
    if (!number(lo->hostpid, 4, room))
        return "hostpid";
    if (!number(lo->status, 4, room))
        return "status";
    if (!optional(lo->seqlock, 8, room))
        return "seqlock";
    if (!array(lo->used, devices, lo->used_size, lo->used_size, room))
        return "used";
    if (lo->sm != -1 && !array(lo->sm, devices, lo->util_size, 8, room))
        return "device_util";
    if (lo->monitorused != -1 && !array(lo->monitorused, devices, 8, 8, room))
        return "monitorused";
    if (!number(lo->total, 8, lo->used_size))
        return "total";
    if (!number(lo->context, 8, lo->used_size))
        return "context";
    if (!number(lo->module, 8, lo->used_size))
        return "module";
    if (!number(lo->data, 8, lo->used_size))
        return "data";
    if (!number(lo->offset, 8, lo->used_size))
        return "offset";
    return NULL;
}

const char *hc_layout_fault(const hc_layout *lo)
{
    const int64_t room = lo->region_size;
    if (!counts(room, MAX_REGION))
        return "region_size";
    if (!counts(lo->device_count, HC_MAX_DEVICES))
        return "device_count";
    if (!counts(lo->slot_count, HC_MAX_SLOTS))
        return "slot_count";
    if (!number(lo->magic_offset, 4, room))
        return "magic_offset";
    if (!number(lo->device_num, 8, room))
        return "device_num";
    if (!array(lo->limit, lo->device_count, 8, 8, room))
        return "limit";
    if (!array(lo->sm_limit, lo->device_count, 8, 8, room))
        return "sm_limit";
    if (!number(lo->proc_num, 4, room))
        return "proc_num";
    if (!number(lo->utilization_switch, 4, room))
        return "utilization_switch";
    if (!number(lo->recent_kernel, 4, room))
        return "recent_kernel";
    if (!number(lo->priority, 4, room))
        return "priority";
    if (!optional(lo->last_kernel_time, 8, room))
        return "last_kernel_time";
    if (!optional(lo->owner_pid, 8, room))
        return "owner_pid";
    if (!array(lo->procs, lo->slot_count, lo->slot_size, lo->slot_size, room))
        return "procs";
    return slot_fault(lo);
}
