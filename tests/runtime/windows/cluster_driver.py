"""Runs a few dashboards on a cluster of several processes and prints how the engine differs from the oracle.

python -m tests.runtime.windows.cluster_driver local-cluster[2,1,1024]
"""

from __future__ import annotations

import sys

from tests.runtime.windows.dashboards import disagreement, story
from tests.support.spark_session import session

HOSTS = ("driver", "executors")
STORIES = (0, 3, 5)

if __name__ == "__main__":
    spark = session(sys.argv[1])
    for seed in STORIES:
        for host in HOSTS:
            differs = disagreement(spark, story(seed, most_queries=12), [f"SET kernels = {host}"])
            print(differs or f"story {seed}, kernels in the {host}: no difference", flush=True)
    executors = spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size() - 1
    print(f"{executors} executors")
