"""What the planner does, without rows and without Spark: the size of the network, and the time to register.

As many configurations are planned at a time as there are cores, each in a process of its own. A quick run leaves out
the one that no figure is for, registers no thousands of queries, and plans the others one after the other in a single
process, which reads the queries once: weft and Spark are busy beside it.
"""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from bench import report
from bench.network_measurements import network_size, registration
from bench.network_measurements.arena import Arena
from bench.network_measurements.found import Found
from bench.network_workloads.files import FED
from lab.join_sharing import CONFIGURATIONS


def measure(arena: Arena) -> Found:
    rows = arena.effort.history[FED.name]
    processes, tasks = (1, None) if arena.effort.quick else (report.cores(), 1)
    with ProcessPoolExecutor(processes, get_context("spawn"), max_tasks_per_child=tasks) as pool:
        # The longest first.
        count = arena.effort.registrations
        registering = pool.submit(registration.registered, count, rows) if count else None
        chosen = network_size.KEYS if arena.effort.quick else CONFIGURATIONS
        sizing = {name: pool.submit(network_size.sizes, name, rows) for name in chosen}
        sizes = network_size.found({name: each.result() for name, each in sizing.items()})
        times = registration.found(*registering.result()) if registering is not None else registration.left_out()
    return Found(
        {**sizes.ratios, **times.ratios},
        [*sizes.tables, *times.tables],
        {**sizes.charts, **times.charts},
        {**sizes.reasons, **times.reasons},
        {"size": sizes.details, "registration": times.details},
    )
