"""A second process takes over a project: how long until it has done its first cycle.

Options: `project`, the folder that the first process has left, and `since`, the time at which the parent started this
process: what the interpreter takes to start and to import counts as well.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from bench.aggregate_measurements.jobs import Job, serve
from weft.loom import Loom

if TYPE_CHECKING:
    from weft.runtime.recorder import Progress


def contestant(job: Job) -> dict[str, Any]:
    instants = {"imported": time.time()}
    cycles: list[float] = []

    def seen(cycle: Progress) -> None:
        instants.setdefault("first_cycle", time.time())
        cycles.append(cycle.seconds)

    with Loom.open(job.options["project"]) as loom:
        instants["opened"] = time.time()
        loom.start(until_idle=True, on_progress=seen)
        loom.wait()
        live = sum(each.rows for segments in _segments(loom) for each in segments)
    since = float(job.options["since"])
    return {
        "seconds": {name: instant - since for name, instant in instants.items()},
        "cycles": cycles,
        "partials": live,
    }


def _segments(loom: Loom) -> list[Any]:
    from weft.runtime.state.commits import last_commit

    commit = last_commit(loom.directory)
    return [] if commit is None else list(commit.logs.values())


if __name__ == "__main__":
    serve(contestant)
