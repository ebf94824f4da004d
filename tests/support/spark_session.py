"""How a Spark session for tests is made: weft's own, with settings under which many tiny jobs cost little."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.runtime.spark import session as engine

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Settings under which many tiny jobs cost little.
SMALL_JOBS = {
    # Generating and compiling code takes longer than interpreting plans over a handful of rows.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.leafNodeDefaultParallelism": "1",
    # The second compiler and the parallel collector pay off after minutes, on machines with many cores.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


def session(master: str | None = None, **settings: str) -> SparkSession:
    """The session of this process; the first call starts it."""
    spark = engine.session(master or "local[2]", {**SMALL_JOBS, **settings})
    spark.sparkContext.setLogLevel("OFF")
    return spark
