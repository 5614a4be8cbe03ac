"""What each kind of anomaly means, and what to do about it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from hami_cache.model import AnomalyKind


class Explanation(NamedTuple):
    """One sentence of meaning and one of advice."""

    meaning: str
    advice: str


EXPLANATIONS: Mapping[AnomalyKind, Explanation] = {
    "not_initialised": Explanation(
        "The writer has not finished initialising the file.",
        "Read it again once CUDA has started in the container; if that never happens, see why.",
    ),
    "layout_ambiguous": Explanation(
        "Several layouts explain the file equally well.",
        "Nothing to do while no slot is in use; else force one with --layout and compare.",
    ),
    "layout_mixed": Explanation(
        "Two versions of libvgpu wrote the file, each under its own layout.",
        "Trust only the figures marked as recovered; restart the container to get a clean file.",
    ),
    "layout_unverified": Explanation(
        "The file says a version that no known layout has, or is no cache at all.",
        "Check that it is a cache; if libvgpu is newer than this tool, add its layout.",
    ),
    "size_mismatch": Explanation(
        "The file's length is not the one that its layout's writer leaves.",
        "Look for a copy that was cut or padded, or for a second libvgpu version in the container.",
    ),
    "truncated": Explanation(
        "The file is shorter than any layout.",
        "Copy it again, whole; on a node, look for a full disk.",
    ),
    "counter_underflow": Explanation(
        "A memory counter was decreased below zero.",
        "Trust no sum with this slot; the counter is right again once its process has restarted.",
    ),
    "sum_mismatch": Explanation(
        "A slot's total is not context + module + data.",
        "If the file is live, read it again; at rest, a writer was killed between two additions.",
    ),
    "over_limit": Explanation(
        "The processes together use more than the device's limit.",
        "Look for slots of dead processes first (--host-proc), then for a limit that was lowered.",
    ),
    "limit_unset": Explanation(
        "Memory is in use on a device without a limit.",
        "Compare with the pod's allocation: the limit did not reach the container.",
    ),
    "stale_slot": Explanation(
        "A slot beyond proc_num still holds a process.",
        "Nothing to do for a leftover; if its process lives, its counted figures are frozen.",
    ),
    "exited_slot": Explanation(
        "A process exited cleanly and its slot was not re-used yet.",
        "Nothing to do: the slot is not counted.",
    ),
    "dead_process": Explanation(
        "A counted slot belongs to a process that no longer exists on the host.",
        "Its memory is still charged to the container until libvgpu cleans up: start or restart a "
        "process in the container.",
    ),
    "duplicate_pid": Explanation(
        "One process stands in two counted slots.",
        "It is counted once; figures per process are doubtful, so restart it when that matters.",
    ),
    "hostpid_unknown": Explanation(
        "libvgpu did not find out the process's pid on the host.",
        "Expect no utilization for it; see whether the container can ask NVML, and sem_postinit.",
    ),
    "stuck_seqlock": Explanation(
        "A slot's sequence lock is odd and stands still.",
        "Use its totals, not its parts; restart the process if the sums do not balance.",
    ),
    "lock_held": Explanation(
        "The region's lock, or the one for detecting host pids, was taken when the file was read.",
        "Read again; if it stays taken, check the owner with --host-proc.",
    ),
    "lock_owner_dead": Explanation(
        "A process died while it held the region's lock.",
        "Other processes of the container wait for it: restart the container.",
    ),
    "device_num_out_of_range": Explanation(
        "The file names more devices than it has room for.",
        "Distrust uuids, limits and devices; the writer does not clamp the number NVML gave it.",
    ),
    "proc_num_out_of_range": Explanation(
        "The file counts more processes than it has slots for, or fewer than none.",
        "Distrust all sums; keep a copy and restart the container.",
    ),
    "uuid_unreadable": Explanation(
        "A device's uuid is empty or no text.",
        "Read again if the container is just starting; if it lasts, suspect another layout.",
    ),
    "priority_out_of_range": Explanation(
        "The task priority is negative, or absurdly high.",
        "Correct CUDA_TASK_PRIORITY in the container's environment.",
    ),
    "status_out_of_range": Explanation(
        "A slot's status is none that libvgpu writes (0, 1, 2).",
        "Suspect another layout, or foreign bytes in the file.",
    ),
    "monitorused_running_sum": Explanation(
        "monitorused adds up from process to process instead of giving each one's own memory.",
        "Use the difference to the next smaller value; HAMi-core's pull request 34 repairs it.",
    ),
    "utilization_not_measured": Explanation(
        "The utilization is 0 because nobody measured it, not because the process was idle.",
        "Take it as unknown; ask NVML for the process, or set an SM limit below 100 %.",
    ),
    "utilization_over_100": Explanation(
        "The utilizations of the processes on one device add up to more than 100 %.",
        "Read it as a sum of samples, which may be of different moments or of dead processes.",
    ),
    "last_kernel_in_future": Explanation(
        "The last kernel launch lies later than now.",
        "Compare the clocks of the node and this machine, or give the time of the copy with --now.",
    ),
    "cache_ignored": Explanation(
        "A cache file of a container is not read. Said by the monitor, not by doctor.",
        "Remove the leftover file, or see why it cannot be read.",
    ),
    "source_disagreement": Explanation(
        "Two sources give different figures. Said by the monitor, not by doctor.",
        "Keep both: memory outside libvgpu's view is in one and not in the other.",
    ),
}
"""For every kind there is; a test keeps it complete."""
