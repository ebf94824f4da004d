"""The child process of contestants: `python -m bench.network_measurements.contestants`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bench import contest
from bench.network_measurements import duckdb_again, spark_again, spark_each, weft_cycles
from bench.network_measurements.tasks import Task
from bench.network_workloads.query import WorkloadQuery

CONTESTANTS = {
    "weft_cycles": weft_cycles.contestant,
    "spark_again": spark_again.contestant,
    "duckdb_again": duckdb_again.contestant,
    "spark_each": spark_each.contestant,
}


def do(request: tuple[str, dict[str, Any]]) -> Mapping[str, Any]:
    contestant, fields = request
    queries = [WorkloadQuery(each["name"], each["select"]) for each in fields.pop("queries")]
    return CONTESTANTS[contestant](Task(**fields, queries=queries))


if __name__ == "__main__":
    contest.serve(do)
