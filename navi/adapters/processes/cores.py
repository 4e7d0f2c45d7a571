"""How many cores this process may use."""

import math
import os
from pathlib import Path

CGROUP_LIMIT = Path("/sys/fs/cgroup/cpu.max")  # cgroup v2: "QUOTA PERIOD", or "max PERIOD"


def usable_cores(limit: Path = CGROUP_LIMIT) -> int:
    """The cores of the machine, less those that an affinity or a container keeps it from."""
    if hasattr(os, "sched_getaffinity"):
        cores = len(os.sched_getaffinity(0))
    else:
        cores = os.cpu_count() or 1
    try:
        quota, period = limit.read_text().split()
        allowed = math.ceil(int(quota) / int(period))
    except (OSError, ValueError):  # none, or "max"
        return cores
    return max(1, min(cores, allowed))
