"""Files of a cycle that were gone when it read them: Spark passes over them, so they are counted and said.

Spark writes down the files of a cycle before it reads them. A file that stopped the stream may be taken away before the
next attempt; one that goes for any other reason takes its rows with it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from urllib.parse import unquote, urlsplit

from pyspark.sql import SparkSession


def vanished(spark: SparkSession, files: Mapping[str, Sequence[str]], *, everywhere: bool) -> dict[str, list[str]]:
    """Return the files that do not exist, by source; sources without such files are left out.

    Files of other machines are looked for only if asked: each takes a request.
    """
    found = {}
    for source, paths in files.items():
        gone = [path for path in paths if _is_gone(spark, path, everywhere)]
        if gone:
            found[source] = gone
    return found


def _is_gone(spark: SparkSession, path: str, everywhere: bool) -> bool:
    parts = urlsplit(path)
    if parts.scheme in ("", "file"):
        return not os.path.exists(unquote(parts.path))
    if not everywhere:
        return False
    java = spark.sparkContext._jvm
    place = java.org.apache.hadoop.fs.Path(java.java.net.URI(path))
    return not place.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration()).exists(place)


def gone(stream: str, cycle: int, files: Sequence[str]) -> str:
    """Return the sentence that says which files of a stream are gone."""
    more = f" and {len(files) - 3} more" if len(files) > 3 else ""
    return (
        f"stream '{stream}' lacks the rows of {len(files)} file{'s' * (len(files) != 1)} of cycle {cycle}, which "
        f"{'were' if len(files) != 1 else 'was'} gone before the cycle was over: {', '.join(files[:3])}{more}"
    )
