"""The child process of contestants: reads tasks, does them, writes results."""

from __future__ import annotations

import json
import sys

from bench.network_measurements import duckdb_again, spark_again, spark_each, weft_cycles
from bench.network_measurements.contest import RESULT, Task
from bench.network_workloads.query import WorkloadQuery

CONTESTANTS = {
    "weft_cycles": weft_cycles.contestant,
    "spark_again": spark_again.contestant,
    "duckdb_again": duckdb_again.contestant,
    "spark_each": spark_each.contestant,
}


def main() -> None:
    for line in sys.stdin:
        contestant, fields = json.loads(line)
        queries = [WorkloadQuery(each["name"], each["select"]) for each in fields.pop("queries")]
        result = CONTESTANTS[contestant](Task(**fields, queries=queries))
        print(RESULT + json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
