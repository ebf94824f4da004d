"""Rounds: contestants take turns, and of each the best round counts.

A machine is never quiet. Whatever disturbs it (another process, a clock that sinks) only ever makes a round longer, so
the shortest one is nearest to what the code costs. That contestants take turns, and in another order in each round,
keeps a disturbance of some seconds from falling on one of them alone. Time is CPU time of this process.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import process_time_ns

#: Prepares a round, outside the measured time, and returns what is measured.
Contestant = Callable[[], Callable[[], object]]


def best_nanoseconds(contestants: Mapping[str, Contestant], rounds: int) -> dict[str, int]:
    """CPU nanoseconds of the best round of each contestant; one more round goes before, unmeasured, to warm up."""
    names = list(contestants)
    best: dict[str, int] = {}
    for turn in range(rounds + 1):
        shift = turn % len(names)
        for name in names[shift:] + names[:shift]:
            work = contestants[name]()
            begin = process_time_ns()
            work()
            spent = max(1, process_time_ns() - begin)
            if turn > 0:
                best[name] = min(best.get(name, spent), spent)
    return {name: best[name] for name in names}
