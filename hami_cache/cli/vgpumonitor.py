"""``vGPUmonitor``: the program's name in HAMi's DaemonSet, so that only the image has to change.

The chart's command line is ours, plus the switches of the Go logger, which mean nothing here.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable

from hami_cache.cli.main import main as run

_GO_LOGGER = re.compile(
    r"--?(v|vmodule|logtostderr|alsologtostderr|stderrthreshold|log_dir|log_file|log_file_max_size"
    r"|log_backtrace_at|add_dir_header|skip_headers|skip_log_headers|one_output)(=.*)?"
)
_TAKES_VALUE = frozenset(
    {
        "v", "vmodule", "stderrthreshold", "log_dir", "log_file", "log_file_max_size",
        "log_backtrace_at",
    }
)  # fmt: skip


def main() -> int:
    """Run the monitor with the arguments that mean something to it."""
    return run(["monitor", *without_go_logger(sys.argv[1:])])


def without_go_logger(arguments: Iterable[str]) -> list[str]:
    """Leave out the switches of the Go logger, with their values."""
    kept = []
    skip_value = False
    for argument in arguments:
        match = _GO_LOGGER.fullmatch(argument)
        if match is not None:
            skip_value = match[1] in _TAKES_VALUE and match[2] is None
        elif skip_value and not argument.startswith("-"):
            skip_value = False
        else:
            skip_value = False
            kept.append(argument)
    return kept
