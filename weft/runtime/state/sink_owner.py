"""The owner of a folder of answers: files are named by the cycle alone, so a folder has one writer.

The file `_owner` in the folder says which query of which project that is. Two queries of one project are refused when
they are created (W702); the file guards against other projects, and against folders that became one since then.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import SparkSession

from weft.algebra import Query
from weft.catalog import Catalog
from weft.runtime.failures.errors import SinkError, StorageError
from weft.runtime.state.storage import Storage
from weft.sql.paths import folder_of, sink_refusal

_FILE: Final = "_owner"


def take_folder(spark: SparkSession, catalog: Catalog, query: Query) -> None:
    """Make a query the owner of the folder that it writes to, if it writes files.

    Raises SinkError if another project owns it, or another query that is registered and still writes there. A query
    that was dropped leaves its folder, with the files in it, to the next one.
    """
    folder = folder_of(query.sink)
    if folder is None or query.sink is None:
        return
    refused = sink_refusal(query.sink, catalog.allowed_paths())
    if refused is not None:
        raise SinkError(refused)
    storage = Storage(spark, dict(query.sink.options)["path"])
    owner = {"project": catalog.project, "query": query.name}
    if storage.exists(_FILE):
        try:
            found = storage.read_json(_FILE)
        except StorageError:
            raise SinkError(
                f"{storage.path(_FILE)}, which names the query that writes there, is damaged; delete that file if no "
                "other query or project writes there"
            ) from None
        if found == owner:
            return
        other = catalog.find_query(found["query"])
        if found["project"] != owner["project"]:
            writer = f"query '{found['query']}' of another project"
        elif other is not None and other.name != query.name and folder_of(other.sink) == folder:
            writer = f"query '{found['query']}'"
        else:
            writer = None
        if writer is not None:
            raise SinkError(
                f"{storage.root} belongs to {writer}; give each query a folder of its own, or delete "
                f"{storage.path(_FILE)} if that one is gone"
            )
    storage.write_json(_FILE, owner)
