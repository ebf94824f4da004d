"""What it is worth to infer selections from joins: examples Q1 and Q3, with and without, all else the same.

Without inference, every transfer of the last weeks is joined; with it, those alone whose amount can matter.
"""

from __future__ import annotations

from dataclasses import asdict

from bench.network_measurements.arena import COLD, Arena
from bench.network_measurements.contest import per_cycle
from bench.network_measurements.found import Found, Printed
from bench.network_workloads.fed_examples import fed_examples
from bench.network_workloads.files import FED

_CHOSEN = ("q1", "q3")


def measure(arena: Arena) -> Found:
    queries = {query.name: query for query in fed_examples()}
    tasks = [
        arena.task(f"{name}, {'without' if without else 'with'} inference", FED, [queries[name]],
                   options={"without_inference": without})
        for name in _CHOSEN for without in (False, True)
    ]  # fmt: skip
    results = [per_cycle(result["marks"], COLD) for result in arena.run("weft_cycles", tasks)]
    pairs = dict(zip(_CHOSEN, zip(results[::2], results[1::2], strict=True), strict=True))
    table = Printed(
        "Conditions inferred from others, one query alone",
        ["query", "CPU s per cycle", "without", "times", "wall s per cycle", "without"],
        [[name, on.cpu, off.cpu, off.cpu / on.cpu, on.wall, off.wall] for name, (on, off) in pairs.items()],
    )
    return Found(
        {f"ti_over_noti_{name}": off.cpu / on.cpu for name, (on, off) in pairs.items()},
        [table],
        details={name: {"with": asdict(on), "without": asdict(off)} for name, (on, off) in pairs.items()},
    )
