"""Runs a few dashboards on a cluster of several processes and prints how the engine differs from the oracle.

python -m tests.engine.woven.cluster_driver local-cluster[2,1,1024]
"""

from __future__ import annotations

import sys

from tests.engine.woven.dashboards import disagreement, story
from tests.spark_session import session

if __name__ == "__main__":
    spark = session(sys.argv[1])
    for seed in range(3):
        print(disagreement(spark, story(seed, most_queries=12)) or f"story {seed}: no difference", flush=True)
    executors = spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size() - 1
    print(f"{executors} executors")
