"""A driver process on a small cluster of its own, for the tests of the probe.

    python -m tests.faults.cluster_driver <work> <state>

Probes a state directory, and prints the sentence that refuses it, or `shared`. Executors run in `work`.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pyspark


def spark_home(work: Path) -> Path:
    """A home of Spark that is the installed one, but for the directory `work`, in which executors run."""
    home = work / "spark"
    home.mkdir(parents=True)
    for each in Path(pyspark.__file__).parent.iterdir():
        (home / each.name).symlink_to(each)
    return home


def main(work: Path, state: str) -> None:
    os.environ["SPARK_HOME"] = str(spark_home(work))
    from tests.support.spark_session import session
    from weft.runtime.cluster_checks import StorageProbe
    from weft.runtime.spark.engine_errors import StorageError
    from weft.runtime.state.storage import Storage

    spark = session("local-cluster[2,1,512]", **{"spark.executor.memory": "512m"})
    try:
        StorageProbe(spark, Storage.at(spark, state)).check()
        print("shared")
    except StorageError as error:
        print(error)
    finally:
        spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
