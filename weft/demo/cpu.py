"""CPU time of a process and all that it has started."""

from __future__ import annotations

import os
import time
from pathlib import Path


def cpu_seconds() -> float:
    """CPU seconds of this process and all its descendants, so Spark's included; of this process alone without /proc."""
    ticks = os.sysconf("SC_CLK_TCK")
    parents: dict[int, int] = {}
    used: dict[int, float] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = entry.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        pid = int(entry.parent.name)
        parents[pid] = int(fields[1])
        used[pid] = (int(fields[11]) + int(fields[12])) / ticks
    mine = {os.getpid()}
    while grown := {pid for pid, parent in parents.items() if parent in mine} - mine:
        mine |= grown
    return sum(used.get(pid, 0.0) for pid in mine) or time.process_time()
