"""The process that is watched: the project of the workload, running until it is interrupted.

    python -m bench.endurance_process.watched DIRECTORY EVERY

It prints one JSON object per cycle. Every thirty seconds it adds what only the process itself can measure: the objects
that Python's collector follows, what Arrow and malloc have allocated, and how full Java's heap is.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa

from bench.endurance_process.workload import statements
from weft.loom import Loom
from weft.runtime.recorder import Progress
from weft.runtime.spark.session import session

INSIDE_EVERY = 30.0

#: What is measured inside: objects, and megabytes of Arrow, of malloc (used, and taken from the system), and of Java's
#: heap, with the garbage in it.
INSIDE = ("objects", "arrow_mb", "malloc_used_mb", "malloc_taken_mb", "heap_mb")

_COUNTED = ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks")


class _Malloc(ctypes.Structure):
    """What mallinfo2 of glibc returns."""

    _fields_ = tuple((name, ctypes.c_size_t) for name in (*_COUNTED, "uordblks", "fordblks", "keepcost"))


def _inside(java: Any) -> dict[str, float]:
    runtime = java.lang.Runtime.getRuntime()
    library = ctypes.CDLL(None)
    library.mallinfo2.restype = _Malloc
    malloc: Any = library.mallinfo2()
    found = (
        len(gc.get_objects()),
        pa.total_allocated_bytes() / 1e6,
        (malloc.uordblks + malloc.hblkhd) / 1e6,
        (malloc.arena + malloc.hblkhd) / 1e6,
        (runtime.totalMemory() - runtime.freeMemory()) / 1e6,
    )
    return dict(zip(INSIDE, found, strict=True))


def main(directory: Path, every: str) -> None:
    spark = session("local[2]")
    java: Any = spark.sparkContext._jvm
    print(json.dumps({"java": int(java.java.lang.ProcessHandle.current().pid()), "python": os.getpid()}), flush=True)
    looked = 0.0
    with Loom.open(directory) as loom:
        for statement in statements(directory.parent / "data"):
            loom.execute(statement)

        def told(progress: Progress) -> None:
            nonlocal looked
            line: dict[str, float] = {"cycle": progress.cycle, "seconds": progress.seconds, "rows": progress.rows}
            if time.monotonic() - looked >= INSIDE_EVERY:
                looked = time.monotonic()
                line |= _inside(java.java)
            print(json.dumps(line), flush=True)

        signal.signal(signal.SIGINT, lambda number, frame: loom.stop())
        loom.start(interval=every, on_progress=told)
        loom.wait()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
